from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st
from strategies import NUMERIC, SHAPES, same, sparse_tensors

import tensorferry as ferry
from tensorferry import frameworks
from tensorferry.errors import UnsupportedError
from tensorferry.tensors.values import SparseTensor

torch = pytest.importorskip("torch")

ROWS = [
    row
    for row in NUMERIC
    if row.bits >= 8
    and not row.name.startswith(("q", "float8_e4m3b11"))
    and hasattr(torch, row.name)
]
LAYOUTS = ("contiguous", "transposed", "strided", "expanded", "parameter")


def to_bytes(tensor) -> bytes:
    """The bytes of a dense tensor in C order, as PyTorch sees them."""
    plain = torch.empty(tensor.numel(), dtype=tensor.dtype)
    plain.copy_(tensor.detach().reshape(-1))
    return plain.view(torch.uint8).numpy().tobytes()


@st.composite
def tensors(draw):
    """PyTorch's tensors of any dtype, shape, layout and bits, with their bytes in C order."""
    row = draw(st.sampled_from(ROWS))
    shape = draw(SHAPES)
    size = math.prod(shape) * row.numpy.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    if row.name == "bool":
        data = bytes(byte & 1 for byte in data)
    flat = torch.tensor(list(data), dtype=torch.uint8).view(getattr(torch, row.name))
    tensor = flat.reshape(shape)
    layout = draw(st.sampled_from(LAYOUTS))
    if layout == "transposed":
        tensor = tensor.permute(tuple(reversed(range(tensor.ndim))))
    elif layout == "strided" and tensor.ndim:
        tensor = tensor[..., ::2]
    elif layout == "expanded":
        tensor = tensor.expand(2, *tensor.shape)
    elif layout == "parameter" and tensor.dtype.is_floating_point:
        tensor = torch.nn.Parameter(tensor)
    return row, tensor, to_bytes(tensor)


@given(tensors())
def test_accepts_every_layout(example):
    """A tensor comes with its dtype, shape and every bit, however it lies in memory."""
    row, tensor, data = example

    value = frameworks.accept(tensor)

    assert value.dtype == row.numpy
    assert value.shape == tuple(tensor.shape)
    assert value.tobytes() == data


@given(tensors())
def test_through_bytes(example):
    """A tensor is the same after it was bytes."""
    _, tensor, data = example

    result = ferry.loads(ferry.dumps(tensor), to="torch")

    assert result.dtype == tensor.dtype
    assert result.shape == tensor.shape
    assert to_bytes(result) == data


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_shares_memory_both_ways(row):
    """Neither direction copies an array that is writable and aligned."""
    value = np.zeros((4, 6), row.numpy)[::2, 1:].T

    tensor = frameworks.give(value, "torch")

    assert tensor.data_ptr() == value.__array_interface__["data"][0]
    assert np.shares_memory(frameworks.accept(tensor), value)


def record_field() -> np.ndarray:
    """A field of packed records, with steps that are no multiple of its size."""
    return np.zeros(4, [("a", "f8"), ("b", "i4")])["a"]


@pytest.mark.parametrize(
    "value",
    [
        np.frombuffer(bytes(16)),
        np.zeros(4)[::-1],
        record_field(),
        np.zeros(33, np.int8)[1:].view("f8"),
    ],
    ids=["read-only", "reversed", "record", "unaligned"],
)
def test_copies_what_it_cannot_hold(value):
    """Other arrays are copied, without a warning: a write into the tensor stays there."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = frameworks.give(value, "torch")

    tensor += 1

    assert not value.any()


def test_lazy_bits():
    """Conjugates, negatives and zeros that PyTorch has not computed yet come computed."""
    tensor = torch.tensor([1 + 2j, 3 - 4j])

    assert frameworks.accept(tensor.conj()).tolist() == [1 - 2j, 3 + 4j]
    assert frameworks.accept(tensor.conj().imag).tolist() == [-2, 4]
    assert frameworks.accept(torch._efficientzerotensor(2)).tolist() == [0, 0]


def test_requires_grad():
    """A tensor with a gradient comes as its values."""
    tensor = torch.ones(3, requires_grad=True) * 2

    assert same(frameworks.accept({"loss": tensor}), {"loss": np.full(3, 2, np.float32)})


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch was built without it")
def test_mkldnn():
    """A tensor in oneDNN's layout comes in the plain one."""
    tensor = torch.arange(6.0).reshape(2, 3)

    assert same(frameworks.accept(tensor.to_mkldnn()), tensor.numpy())


def test_sparse_is_not_coalesced():
    """Repeated places of a sparse tensor stay repeated."""
    tensor = torch.sparse_coo_tensor(
        [[0, 0, 1], [2, 2, 0]], [1.0, 2.0, 3.0], (2, 3), check_invariants=True, requires_grad=True
    )

    value = frameworks.accept(tensor)

    assert value.indices.tolist() == [[0, 2], [0, 2], [1, 0]]
    assert same(value.values, np.array([1, 2, 3], np.float32))
    assert value.shape == (2, 3)


@given(sparse_tensors())
def test_sparse_is_torchs(value):
    """A sparse tensor we give is PyTorch's, with valid parts."""
    value = SparseTensor(value.indices % 1000, np.ones(len(value.indices), "f4"), value.dense_shape)
    if math.prod(value.shape) < 2**63:
        tensor = frameworks.give(value, "torch")

        assert tensor.is_sparse
        assert torch.sparse.sum(tensor).item() == len(value.indices)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_compressed_sparse(layout, dtype):
    """Compressed layouts come as their entries."""
    dense = torch.tensor([[0, 1, 0, 2], [3, 0, 0, 4]], dtype=dtype)
    block = {"blocksize": (1, 2)} if layout.startswith("b") else {}

    value = frameworks.accept(getattr(dense, f"to_sparse_{layout}")(**block))

    assert same(value.to_dense(), frameworks.accept(dense))


@pytest.mark.filterwarnings("ignore:Sparse")
def test_compressed_sparse_keeps_zeros():
    """A stored zero is an entry."""
    tensor = torch.sparse_csr_tensor([0, 1, 2], [1, 0], [0.0, 5.0], (2, 2))

    assert frameworks.accept(tensor).values.tolist() == [0, 5]


def meta():
    return torch.empty(3, device="meta")


def nested():
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)


def nested_strided():
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


def quantized():
    return torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)


def hybrid():
    return torch.eye(3).to_sparse(1)


def masked():
    return torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False]))


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(3)


def uninitialized():
    return torch.nn.LazyLinear(3).weight


def complex_half():
    return torch.zeros(2, dtype=torch.complex32)


def exponents():
    return torch.zeros(2, dtype=torch.float8_e8m0fnu)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (meta, "meta device has a shape but no values\nhint: load"),
        (nested, r"nested tensor has no counterpart\nhint: pass list\(tensor.unbind"),
        (nested_strided, r"nested tensor has no counterpart\nhint: pass list\(tensor.unbind"),
        (quantized, "quantized tensor has a scale .*\nhint: pass tensor.int_repr"),
        (hybrid, r"have 1 dimensions, expected scalars\nhint: tensor.to_dense\(\).to_sparse"),
        (masked, "does not give the values of this MaskedTensor: .*\nhint: "),
        (fake, "does not give the values of this FakeTensor: .*\nhint: "),
        (uninitialized, "does not give the values of this UninitializedParameter: .*\nhint: "),
        (complex_half, "torch.complex32 has no counterpart\nhint: convert"),
        (exponents, "torch.float8_e8m0fnu has no counterpart\nhint: convert"),
    ],
)
def test_refused(make, message):
    """A tensor without values, or with more than values, is refused with a way out."""
    with pytest.raises(UnsupportedError, match=message):
        frameworks.accept(make())


def test_refused_inside_transforms():
    """A tensor that stands for many, or for its gradient, has no values to take."""

    def function(tensor):
        with pytest.raises(UnsupportedError, match=r"outside of torch\.compile, torch\.func"):
            frameworks.accept(tensor)
        return tensor.sum()

    torch.vmap(function)(torch.ones(2, 3))
    torch.func.grad(function)(torch.ones(3))


@pytest.mark.parametrize("archive", [True, False])
def test_files_of_torch_are_named(archive, tmp_path):
    """What torch.save wrote is a pickle, which is not opened, and the error says so."""
    path = tmp_path / "model.pt"
    torch.save({"a": torch.ones(3)}, path, _use_new_zipfile_serialization=archive)

    with pytest.raises(ferry.UnknownFormatError, match="a PyTorch"):
        ferry.open(path)


def test_a_model_of_torchscript_is_called_so(tmp_path):
    """What torch.jit.save wrote is a program, and the error says what has its tensors."""
    path = tmp_path / "model.pt"
    torch.jit.script(torch.nn.Linear(2, 2)).save(path)
    with pytest.raises(ferry.FormatError, match="a TorchScript model") as caught:
        ferry.load(path)
    assert "state_dict" in caught.value.hint


@pytest.mark.parametrize("name", ["x.safetensors", "x.npz", "x.json", "x.arrow", "x.ckpt"])
def test_the_state_of_an_optimizer(name, tmp_path):
    """Optimizers number their state: a training loop continues as if it had not stopped."""

    def made():
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        return model, torch.optim.Adam(model.parameters(), 0.1)

    def step(model, optimizer):
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    model, optimizer = made()
    step(model, optimizer)
    ferry.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / name)
    step(model, optimizer)

    again, resumed = made()
    state = ferry.load(tmp_path / name, to="torch")
    again.load_state_dict(state["model"])
    resumed.load_state_dict(state["optimizer"])
    step(again, resumed)

    assert all(map(torch.equal, model.parameters(), again.parameters()))
    with pytest.raises(UnsupportedError, match="hint: json, npz and safetensors keep integers"):
        ferry.dumps(optimizer.state_dict())


def test_a_model_is_no_value():
    """`save(model)` names what saves a model of PyTorch, and not of Keras."""
    with pytest.raises(UnsupportedError, match=r"save_weights\(model.*state_dict"):
        ferry.dumps(torch.nn.Linear(2, 2))
