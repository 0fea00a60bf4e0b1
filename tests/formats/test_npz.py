"""npz: archives of arrays that NumPy reads, and those that NumPy writes."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from conftest import CORPUS
from hypothesis import given, strategies as st
from strategies import NUMERIC, numeric_arrays, same

import tensorferry as ferry

OWN = tuple(row for row in NUMERIC if row.numpy.isbuiltin == 1)

names = st.from_regex(r"[a-zA-Zé_][a-zA-Z0-9_/.]{0,6}[a-z]", fullmatch=True).filter(
    lambda name: ".." not in name and "//" not in name and "/." not in name
)
arrays = st.dictionaries(names, numeric_arrays(OWN), max_size=4)


@given(arrays, st.sampled_from([None, "deflate"]))
def test_numpy_reads_ours(tensors, compression):
    """Every array under its name, stored or deflated."""
    data = ferry.dumps(tensors, format="npz", compression=compression)

    assert same(ferry.loads(data), tensors)
    with np.load(io.BytesIO(data)) as found:
        assert set(found.files) == set(tensors)
        assert all(same(found[name], tensors[name]) for name in tensors)


@given(arrays, st.booleans())
def test_ours_reads_numpys(tensors, compressed):
    """What savez and savez_compressed write."""
    tensors.pop("file", None)
    out = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(out, **tensors)

    assert same(ferry.loads(out.getvalue()), tensors)


@given(numeric_arrays())
def test_every_dtype_survives(array):
    """Small dtypes come back through the extra member."""
    assert same(ferry.loads(ferry.dumps({"x": array}, format="npz"))["x"], array)


def test_stored_members_are_views_of_the_file(tmp_path):
    """An array of a stored member is mapped, and aligned."""
    ferry.save({"a": np.arange(3), "b": np.arange(10_000.0)}, tmp_path / "x.npz", durable=False)

    with ferry.open(tmp_path / "x.npz") as bundle:
        array = bundle["b"]

    assert array.ctypes.data % 64 == 0
    assert not array.flags.owndata
    assert array.sum() == 49_995_000


def test_metadata_is_a_member():
    """NumPy's reader shows the member; all other members are arrays."""
    data = ferry.dumps({"x": np.ones(2)}, format="npz", metadata={"model": "en-de", "epoch": 3})

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == ["tensorferry.json", "x.npy"]


def test_damage_is_found():
    """A flipped bit of an array's values is a checksum that does not fit."""
    for compression in (None, "deflate"):
        data = bytearray(ferry.dumps({"x": np.zeros(100)}, format="npz", compression=compression))
        place = data.find(b"PK\x01\x02") - 20
        data[place] ^= 1

        with pytest.raises(ferry.FormatError):
            ferry.loads(bytes(data))


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_every_bit_flipped(compression):
    """The same values, or a typed error: never other ones."""
    value = {"x": np.arange(3), "t": np.array([b"ab"], object)}
    good = ferry.dumps(value, format="npz", compression=compression)
    for bit in range(8 * len(good)):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        try:
            found = ferry.loads(bytes(data), format="npz")
        except ferry.FerryError:
            continue
        assert same(found, value)


def test_cut_at_every_offset():
    """An archive without its end is refused."""
    good = ferry.dumps({"x": np.arange(3)}, format="npz")
    for end in range(len(good)):
        with pytest.raises(ferry.FormatError):
            ferry.loads(good[:end], format="npz")


def archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return out.getvalue()


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ({"x.txt": b"hello"}, "without arrays"),
        ({"../x.npy": npy(np.ones(2))}, r"\.\."),
        ({"/x.npy": npy(np.ones(2))}, "/x"),
        ({"x.npy": npy(np.ones(2)) + b"x"}, "bytes of values"),
        ({"x.npy": npy(np.ones(2))[:-1]}, "bytes of values"),
        ({"x.npy": b""}, "npy|NUMPY"),
        ({"tensorferry.json": b"[]"}, "strings"),
        ({"tensorferry.json": b"{"}, "JSON"),
        ({"tensorferry.json": b'{"a": 1}'}, "strings"),
    ],
)
def test_members_that_lie(members, match):
    """Each is a typed error."""
    with pytest.raises(ferry.FormatError, match=match):
        ferry.loads(archive(members), format="npz")


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
@pytest.mark.parametrize("name", ["py2-objarr.npz", "py3-objarr.npz"])
def test_pickles_are_refused(name):
    """Object arrays are pickles, which run code."""
    with pytest.raises(ferry.UnsupportedError, match="pickle"):
        ferry.load(CORPUS / "numpy" / name)


def test_names_that_an_archive_cannot_have():
    """A name that leads out of the archive is refused when it is written."""
    for name in ("../x", "/x", "a\\b"):
        with pytest.raises(ferry.UnsupportedError):
            ferry.dumps({name: np.ones(1)}, format="npz")
