"""Weights that do not fit: the report names them, and a load that fails changes nothing."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from weights.conftest import values

import tensorferry as ferry
from tensorferry.frameworks.variables import list_variables


def broken(kind, tensors):
    """A file with one thing wrong, and what the error says."""
    name = next(name for name in tensors if name.endswith("kernel"))
    if kind == "missing":
        del tensors[name]
        return "missing .*kernel"
    if kind == "shape":
        tensors[name] = tensors[name][:, :2]
        return r"mismatched .*kernel.*expected float32 \[4, 4\], .* is float32 \[4, 2\]"
    if kind == "dtype":
        tensors[name] = tensors[name].astype(np.complex64)
        return "mismatched .*complex64 .*another dtype"
    if kind == "range":
        tensors[name] = tensors[name].astype(np.float64) * 1e300
        return "mismatched .*16 values are beyond the range of float32"
    tensors[name] = ferry.SparseTensor([[0, 0]], np.float32([1]), [4, 4])
    return "no dense tensor"


@pytest.mark.parametrize("kind", ["missing", "shape", "dtype", "range", "sparse"])
def test_strict_changes_nothing(makers, tmp_path, kind):
    """A load that fails leaves every variable as it was; without strict, the others are loaded."""
    (model, _), (fresh, _) = makers["sequential"](), makers["sequential"]()
    tensors = {one.name: one.read() for one in list_variables(model)}
    message = broken(kind, tensors)
    ferry.save(tensors, tmp_path / "model.npz")
    before = values(fresh)

    with pytest.raises(ferry.MismatchError, match=message) as caught:
        ferry.load_weights(fresh, tmp_path / "model.npz", structure=False)

    assert values(fresh) == before
    report = caught.value.report
    assert not report.ok
    assert not report.applied
    assert len(report.loaded) == len(before) - 1
    assert "strict=False" in str(caught.value)
    assert "map=" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value)).report) == str(report)

    report = ferry.load_weights(fresh, tmp_path / "model.npz", strict=False, structure=False)
    assert not report.ok
    assert report.applied
    after = values(fresh)
    assert sum(after[name] != before[name] for name in before) == len(before) - 1


def test_damaged_file_changes_nothing(makers, tmp_path):
    """An error while the values are read leaves every variable as it was."""
    (model, _), (fresh, _) = makers["sequential"](), makers["sequential"]()
    path = tmp_path / "model.npz"
    ferry.save_weights(model, path)
    data = bytearray(path.read_bytes())
    place = bytes(data).rindex(model.weights[-1].numpy().tobytes())
    data[place] ^= 1
    path.write_bytes(data)
    before = values(fresh)

    with pytest.raises(ferry.ChecksumError):
        ferry.load_weights(fresh, path, strict=False)

    assert values(fresh) == before


def test_report():
    """The report names what is missing and left over, with what comes nearest."""
    model = {
        "encoder": {"kernel": np.zeros((2, 3)), "bias": np.zeros(3)},
        "step": np.zeros((), "i4"),
    }
    file = {
        "encoder/kernel": np.ones((2, 3), np.float32),
        "encodr/bias": np.ones(4),
        "step": np.array(7, np.int64),
        "optimizer/vars/0": np.array(1),
    }

    report = ferry.load_weights(model, file, strict=False)

    assert report.loaded == {"encoder/kernel": "encoder/kernel", "step": "step"}
    assert report.cast == {"encoder/kernel": ("float32", "float64"), "step": ("int64", "int32")}
    assert report.missing[0].nearest == "encodr/bias"
    assert report.unexpected[0].nearest == "encoder/bias"
    assert report.optimizer == ("optimizer/vars/0",)
    assert str(report) == (
        "the given tensors: 2 loaded, 1 missing, 1 unexpected, 1 of an optimizer left out\n"
        "missing:\n"
        "  encoder/bias (float64 [3]): nearest is encodr/bias\n"
        "unexpected:\n"
        "  encodr/bias (float64 [4]): nearest is encoder/bias\n"
        "loaded:\n"
        "  encoder/kernel <- encoder/kernel  (float32 as float64)\n"
        "  step           <- step  (int64 as int32)"
    )
    assert model["step"] == 7


@pytest.mark.parametrize(
    ("found", "wanted", "good"),
    [
        (np.float32(1.5), np.float64, True),
        (np.float64(1.1), np.float32, True),
        (np.float64(1e39), np.float32, False),
        (np.float32("inf"), np.float16, True),
        (np.int64(5), np.int32, True),
        (np.int64(2**40), np.int32, False),
        (np.int8(-1), np.uint8, False),
        (np.uint32(2**32 - 1), np.int32, False),
        (np.int32(1), np.float32, False),
        (np.float32(1), np.int32, False),
        (np.bool_(True), np.int32, False),
    ],
)
def test_cast(found, wanted, good):
    """Floats become floats, integers integers, if the values have a place there."""
    model = {"a": np.zeros((), wanted)}

    report = ferry.load_weights(model, {"a": found}, strict=False)

    assert report.ok is good
    assert not good or model["a"] == wanted(found)
    assert not ferry.load_weights(model, {"a": found}, strict=False, cast=False).ok


def test_conventions_of_torch_are_not_guessed():
    """A square weight fits a kernel in shape, and is not taken for it."""
    model = {"dense": {"kernel": np.zeros((3, 3)), "bias": np.zeros(3)}}

    with pytest.raises(ferry.MismatchError, match=r"dense/kernel.*could be fc.weight"):
        ferry.load_weights(model, {"fc.weight": np.ones((3, 3)), "fc.bias": np.ones(3)})
