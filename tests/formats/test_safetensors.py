"""safetensors: the package's own bytes, read and written, and headers that lie."""

from __future__ import annotations

import contextlib
import json

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from conftest import CORPUS
from hypothesis import given, strategies as st
from strategies import NUMERIC, numeric_arrays, same

import tensorferry as ferry
from tensorferry.formats.safetensors.file import GATHERED, ORDER

OWN = tuple(row for row in NUMERIC if row.safetensors is not None and row.numpy.isbuiltin == 1)
CARRIED = tuple(row for row in NUMERIC if row.safetensors is not None)

names = st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__")


def package_bytes(tensors: dict[str, np.ndarray], metadata=None) -> bytes:
    """What the package writes, also for dtypes that its NumPy side does not know."""
    kept = {
        name: np.ascontiguousarray(tensor, tensor.dtype.newbyteorder("="))
        for name, tensor in tensors.items()
    }
    specs = {
        name: safetensors.TensorSpec(
            dtype=tensor.dtype.name,
            shape=tensors[name].shape,
            data_ptr=tensor.ctypes.data,
            data_len=tensor.nbytes,
        )
        for name, tensor in kept.items()
    }
    return bytes(safetensors.serialize(specs, metadata=metadata))


@given(st.dictionaries(names, numeric_arrays(OWN), max_size=5))
def test_bytes_are_the_packages(tensors):
    """A dict of arrays gives the package's bytes, and comes back with every bit."""
    data = ferry.dumps(tensors, format="safetensors")

    assert data == package_bytes(tensors)
    found = ferry.loads(data)
    assert found.keys() == tensors.keys()
    assert all(same(found[name], tensors[name]) for name in tensors)
    theirs = safetensors.numpy.load(data)
    assert all(same(theirs[name], tensors[name]) for name in tensors)


def test_small_dtypes_are_its_own():
    """bfloat16 and float8 are BF16 and F8, which the package's NumPy side cannot read."""
    tensors = {row.name: np.arange(3).astype(row.numpy) for row in CARRIED}

    data = ferry.dumps(tensors, format="safetensors")

    found = ferry.loads(data)
    assert all(same(found[name], tensors[name]) for name in tensors)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header["bfloat16"]["dtype"] == "BF16"
    for name, description in safetensors.deserialize(data):
        assert bytes(description["data"]) == tensors[name].tobytes()


@pytest.mark.parametrize("row", [row for row in CARRIED if row.safetensors != "C64"])
def test_order_is_the_packages(row):
    """The table of dtypes is in the package's order: any two of them lie as it lays them."""
    for other in CARRIED:
        tensors = {"a": np.zeros(2, row.numpy), "b": np.zeros(2, other.numpy)}
        try:
            expected = package_bytes(tensors)
        except Exception:  # it has no name for the dtype in Python
            continue
        assert ferry.dumps(tensors, format="safetensors") == expected
    assert row.safetensors in ORDER


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), min_size=1, max_size=3))
def test_metadata(metadata):
    """Strings stay strings that the package sees; ours comes back."""
    metadata.pop("tensorferry", None)
    data = ferry.dumps({"x": np.ones(2)}, format="safetensors", metadata=metadata)

    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])

    assert header.get("__metadata__", {}) == metadata
    assert safetensors.numpy.load(data)["x"].tolist() == [1, 1]


def test_strings_sparse_and_ragged_are_parts():
    """The package sees the parts of what the format has no place for."""
    value = {
        "text": np.array([b"ab", b"", b"c"], object),
        "ragged": ferry.RaggedTensor.from_rows([[1, 2], [], [3]]),
        "sparse": ferry.SparseTensor([[0, 1]], [2.5], [3, 4]),
        "wide": np.array([1 + 2j]),
    }

    data = ferry.dumps(value, format="safetensors")
    parts = safetensors.numpy.load(data)

    assert parts["text/bytes"].tobytes() == b"abc"
    assert parts["text/offsets"].tolist() == [0, 2, 2, 3]
    assert parts["ragged/flat_values"].tolist() == [1, 2, 3]
    assert parts["ragged/row_splits_0"].tolist() == [0, 2, 2, 3]
    assert parts["sparse/indices"].tolist() == [[0, 1]]
    assert parts["wide"].tolist() == [[1, 2]]
    assert same(dict(sorted(ferry.loads(data).items())), dict(sorted(value.items())))


def test_a_stream_larger_than_memory(tmp_path):
    """A generator is written tensor by tensor, behind a header that is filled in at the end."""
    size = GATHERED // 4

    def tensors():
        for index in range(8):
            yield f"t{index}", np.full(size, index, np.uint8)

    ferry.save(tensors(), tmp_path / "x.safetensors", metadata={"n": 8}, durable=False)

    with safetensors.safe_open(tmp_path / "x.safetensors", "np") as file:
        assert file.get_tensor("t7")[0] == 7
    with ferry.open(tmp_path / "x.safetensors") as bundle:
        assert bundle.metadata == {"n": 8}
        assert [int(bundle[name][-1]) for name in bundle] == list(range(8))


def test_a_short_stream_is_as_a_dict(tmp_path):
    """Few tensors of a generator give the file that a dict gives."""
    tensors = {"b": np.ones(3), "a": np.zeros(2, np.float32)}
    ferry.save(iter(tensors.items()), tmp_path / "x.safetensors", durable=False)

    assert (tmp_path / "x.safetensors").read_bytes() == package_bytes(tensors)


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
@pytest.mark.parametrize("name", ["float16", "float32", "int8", "vocab-quantized"])
def test_models_of_others(name):
    """Real models: every tensor as the package reads it."""
    path = CORPUS / f"model2vec/test-model-{name}/model.safetensors"
    with ferry.open(path) as bundle, safetensors.safe_open(path, "np") as file:
        assert set(bundle) == set(file.keys())
        for tensor in bundle:
            assert same(bundle[tensor], file.get_tensor(tensor))


def file(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def tensor(begin: int, end: int, shape=(1,), dtype="F32") -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "expected 8"),
        (b"\0" * 8, "JSON"),
        (file({}, length=0), "JSON"),
        (file({}, length=100_000_001), "at most"),
        (file({}, length=50), "are there"),
        (file("[]"), "no JSON object"),
        (file({"a": tensor(0, 4), "b": tensor(0, 4)}, b"1234"), "overlaps"),
        (file({"a": tensor(0, 4), "b": tensor(8, 12)}, b"1" * 12), "hole"),
        (file({"a": tensor(4, 0)}, b"1234"), "begin"),
        (file({"a": tensor(0, 4)}, b"12345"), "tensors have 4"),
        (file({"a": tensor(0, 4)}, b"123"), "tensors have 4"),
        (file({"a": tensor(0, 4, (2,))}, b"1234"), "expected 8"),
        (file({"a": tensor(0, 4, (2**62, 2**62))}, b"1234"), "expected"),
        (file({"a": tensor(0, 0, (0, 2**70))}), "shape"),
        (file({"a": tensor(0, 0, (0,) * 65)}), "shape"),
        (file({"a": tensor(0, 4, dtype="F33")}, b"1234"), "F33"),
        (file({"a": {**tensor(0, 4), "extra": 1}}, b"1234"), "described"),
        (file({"a": 5}, b"1234"), "described"),
        (file('{"a":{"dtype":"F32","shape":[1e3],"data_offsets":[0,4]}}', b"1234"), "shape"),
        (file('{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}', b"1234"), "shape"),
        (file('{"a":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}}', b"1234"), "shape"),
        (file('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0.0,4]}}', b"1234"), "offsets"),
        (
            file(f'{{"a":{json.dumps(tensor(0, 0, (0,)))},"a":{json.dumps(tensor(0, 0, (0,)))}}}'),
            "once",
        ),
        (file('{"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}}', b"1"), "once"),
        (file('{"__metadata__":{"a":"1","a":"2"}}'), "more than once"),
        (file('{"__metadata__":{},"__metadata__":{}}'), "more than once"),
        (file('{"__metadata__":{"a":"\\ud800"}}'), "half a character"),
        (file('{"__metadata__":{"a":"\\x00"}}'), "escape"),
        (file('{"__metadata__":{"a":"\x01"}}'), "control character"),
        (file('{"__metadata__":{"a":"b"},}'), "JSON"),
        (file("{} x"), "JSON"),
        (file("\ufeff{}"), "JSON"),
        (file('{"a":{"dtype":"F32","shape":[01],"data_offsets":[0,4]}}', b"1234"), "shape"),
        (file('{"a":{"dtype":"F32","shape":[1,],"data_offsets":[0,4]}}', b"1234"), "shape"),
        (file('{"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}}', b"1234"), "dtype"),
        (file('{"a":{"dtype":"F32","data_offsets":[0,4]}}', b"1234"), "described"),
        (file({"__metadata__": {"a": 1}}), "strings"),
        (file({"__metadata__": 1}), "strings"),
        (file("[" * 10_000), "JSON|deep"),
        (file('{"__metadata__":{"tensorferry":"{"}}'), "JSON"),
        (file('{"__metadata__":{"tensorferry":"{\\"version\\":2}"}}'), "version"),
        (file('{"__metadata__":{"tensorferry":"{\\"version\\":1,\\"x\\":1}"}}'), "unknown"),
        (file('{"__metadata__":{"tensorferry":"{\\"version\\":1,\\"dtypes\\":1}"}}'), "dtypes"),
    ],
)
def test_lies(data, match):
    """Each lie of a header is a typed error, before anything is allocated."""
    with pytest.raises((ferry.FormatError, ferry.UnsupportedError), match=match):
        ferry.loads(data, format="safetensors")


def noted(parts: dict[str, np.ndarray], **note) -> bytes:
    """Parts with a note of anybody's."""
    metadata = {"tensorferry": json.dumps({"version": 1, **note})}
    return package_bytes(parts, metadata)


@pytest.mark.parametrize(
    ("note", "match"),
    [
        ({"dtypes": {"y": "int4"}}, "lacks"),
        ({"dtypes": {"x": "int4"}}, "range"),
        ({"dtypes": {"x": "float64"}}, "cannot be"),
        ({"dtypes": {"x": "string"}}, "dtype"),
        ({"dtypes": {"x": "no"}}, "dtype"),
        ({"tensors": {"y": {"kind": "string", "shape": [1]}}}, "lacks"),
        ({"tensors": {"s": {"kind": "string", "shape": [2]}}}, "offsets"),
        ({"tensors": {"s": {"kind": "string", "shape": [-1]}}}, "shape"),
        ({"tensors": {"s": {"kind": "string", "shape": "x"}}}, "shape"),
        ({"tensors": {"x": {"kind": "other"}}}, "kind"),
        ({"tensors": {"r": {"kind": "ragged", "levels": 10**9}}}, "levels"),
        ({"tensors": {"r": {"kind": "ragged", "levels": 0}}}, "levels"),
        ({"tensors": {"x": 5}}, "object"),
        ({"layout": {"value": {"$type": "tensor", "name": "y"}}}, "lacks"),
        ({"layout": {"value": {"$type": "tensor", "name": "x"}}}, "nothing of"),
        ({"layout": {"value": {"$type": "tensor", "name": 5}}}, "fields"),
        ({"layout": {"value": {"$type": "other"}}}, "type"),
        ({"layout": {}}, "one field"),
        ({"layout": [1]}, "layout"),
        ({"quantized": {"x": {"kind": "int8"}}}, "recipe|scheme"),
        ({"quantized": {"y": {}}}, "not there"),
        ({"encoded": ["k"], "dtypes": {"x": 5}}, "string"),
    ],
)
def test_notes_that_lie(note, match):
    """A note that does not fit the parts is refused, whoever wrote it."""
    parts = {
        "x": np.array([100], np.int8),
        "s/bytes": np.zeros(3, np.uint8),
        "s/offsets": np.array([0, 3], np.int64),
    }
    with pytest.raises(ferry.FormatError, match=match):
        ferry.loads(noted(parts, **note))


def test_metadata_that_is_listed_twice():
    """A key of metadata that a note lists twice is decoded once."""
    metadata = {"tensorferry": json.dumps({"version": 1, "encoded": ["k", "k"]}), "k": '{"a": 1}'}
    with ferry.open(package_bytes({"x": np.zeros(1)}, metadata)) as file:
        assert file.metadata == {"k": {"a": 1}}


def test_offsets_of_strings_that_lie():
    """Offsets outside the bytes are refused."""
    for offsets in ([0, 4], [1, 3], [0, -1, 3], [0, 5, 3], [0, 2]):
        parts = {"s/bytes": np.zeros(3, np.uint8), "s/offsets": np.array(offsets, np.int64)}
        with pytest.raises(ferry.FormatError, match="offsets"):
            note = {"s": {"kind": "string", "shape": [len(offsets) - 1]}}
            ferry.loads(noted(parts, tensors=note))


SAMPLE = ferry.dumps(
    {"a": np.arange(3, dtype=np.float32), "r": ferry.RaggedTensor.from_rows([[b"x"], []])},
    format="safetensors",
    metadata={"k": "v"},
)


def test_cut_at_every_offset():
    """Any part of a file is refused."""
    for end in range(len(SAMPLE)):
        with pytest.raises(ferry.FormatError):
            ferry.loads(SAMPLE[:end], format="safetensors")


def test_every_bit_flipped():
    """A typed error, or a value."""
    for bit in range(8 * len(SAMPLE)):
        data = bytearray(SAMPLE)
        data[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(ferry.FerryError):
            ferry.loads(bytes(data), format="safetensors")


def test_bfloat16_of_the_package():
    """What a framework wrote as BF16 is bfloat16."""
    array = np.array([1.5, -2], ml_dtypes.bfloat16)

    assert same(ferry.loads(package_bytes({"x": array}))["x"], array)


@pytest.mark.parametrize(
    ("name", "dtype"), [("F8_E8M0", "float8_e8m0fnu"), ("F4", "float4_e2m1fn")]
)
def test_dtypes_of_ml_dtypes(tmp_path, name, dtype):
    """E8M0 is a power of two a byte, F4 two values a byte, the first in the lower half."""
    codes = np.arange(16, dtype=np.uint8)
    stored = codes[::2] | codes[1::2] << 4 if name == "F4" else codes
    header = {"a": {"dtype": name, "shape": [2, 8], "data_offsets": [0, len(stored)]}}
    text = json.dumps(header).encode()
    data = len(text).to_bytes(8, "little") + text + stored.tobytes()
    expected = codes.view(getattr(ml_dtypes, dtype)).reshape(2, 8)
    with ferry.open(data) as bundle:
        assert bundle.info["a"].dtype == dtype
        assert bundle.info["a"].unreadable is None
        assert bundle["a"].dtype == expected.dtype
        assert bundle["a"].tobytes() == expected.tobytes()
        assert bundle.slice("a", np.s_[1, 2:]).tobytes() == expected[1, 2:].tobytes()
    assert ferry.verify(data).sound
    assert ferry.inspect(data).count == 1
    for suffix in ("safetensors", "npz", "json"):
        ferry.save({"a": expected}, tmp_path / f"x.{suffix}")
        found = ferry.load(tmp_path / f"x.{suffix}")["a"]
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()
    if name == "F8_E8M0":
        for suffix in ("tensorproto", "index"):
            with pytest.raises(ferry.UnsupportedError, match="TensorFlow has no dtype"):
                value = expected if suffix == "tensorproto" else {"a": expected}
                kind = "checkpoint" if suffix == "index" else "tensorproto"
                ferry.save(value, tmp_path / f"x.{suffix}", format=kind)
