"""The quick way into npz archives: it takes those of the usual form, and agrees with the other."""

from __future__ import annotations

import io

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.formats import npz

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "folder/b": np.array(True),
    "f": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "e": np.zeros((0, 2), np.complex64),
}


def numpys() -> bytes:
    file = io.BytesIO()
    np.savez(file, **ARRAYS)
    return file.getvalue()


def outcome(data: bytes) -> object:
    """What reading gives: the values, or that it fails."""
    try:
        return {name: array.tolist() for name, array in ferry.loads(data, format="npz").items()}
    except ferry.FerryError:
        return None


@pytest.fixture
def slowly(monkeypatch):
    """Reads member by member."""

    def read(data: bytes) -> object:
        with monkeypatch.context() as patch:
            patch.setattr(npz, "_usual", lambda *arguments: None)
            return outcome(data)

    return read


@pytest.mark.parametrize("data", [numpys(), ferry.dumps(ARRAYS, format="npz", metadata={"k": "v"})])
def test_usual_archives(data):
    """Archives of NumPy and of ours are taken, and the arrays are those."""
    with ferry.open(data) as bundle:
        assert isinstance(bundle["a"], np.ndarray)
        assert npz._usual(bundle.place.open(), True) is not None
        infos = bundle.infos()
    found = ferry.loads(data)

    assert list(found) == list(infos) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("length", [1, 2])
def test_every_bit_flipped(length, slowly):
    """Whatever is changed, both ways give the same values, or both refuse the archive."""
    file = io.BytesIO()
    np.savez(file, **{name: ARRAYS[name] for name in ("a", "f")[:length]})
    data = bytearray(file.getvalue())
    for place in range(0, 8 * len(data), length * 3):
        data[place // 8] ^= 1 << place % 8
        changed = bytes(data)
        assert outcome(changed) == slowly(changed), place
        data[place // 8] ^= 1 << place % 8


def test_cut_at_every_offset(slowly):
    """A part of an archive is refused."""
    data = numpys()
    for end in range(0, len(data), 7):
        assert outcome(data[:end]) is None
