"""npy: what NumPy writes is read, and what we write NumPy reads, to the byte."""

from __future__ import annotations

import contextlib
import io

import ml_dtypes
import numpy as np
import pytest
from conftest import CORPUS
from hypothesis import given, strategies as st
from strategies import NUMERIC, numeric_arrays, same

import tensorferry as ferry
from tensorferry.operations.list import list_tensors

OWN = tuple(row for row in NUMERIC if row.numpy.isbuiltin == 1)


def numpy_bytes(array: np.ndarray, **options) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **options)
    return out.getvalue()


@given(numeric_arrays(OWN))
def test_bytes_are_numpys(array):
    """An array gives the very bytes of `numpy.save`, and comes back with every bit."""
    data = ferry.dumps(array, format="npy")

    assert data == numpy_bytes(np.asarray(array, array.dtype.newbyteorder("=")))
    assert same(ferry.loads(data), array)
    assert same(np.load(io.BytesIO(data)), array)


@given(numeric_arrays(OWN), st.sampled_from([(1, 0), (2, 0), (3, 0)]))
def test_numpys_versions_are_read(array, version):
    """Every version of the header, Fortran order and the other byte order."""
    assert same(ferry.loads(numpy_bytes(array, version=version)), array)


@given(array=numeric_arrays())
def test_every_dtype_survives_a_file(array, tmp_path_factory):
    """Small dtypes come back through the sidecar; NumPy opens the file."""
    path = tmp_path_factory.mktemp("npy") / "x.npy"

    ferry.save(array, path, durable=False)

    assert same(ferry.load(path), array)
    assert np.load(path).shape == array.shape


def test_bfloat16_is_numpys_void(tmp_path):
    """bfloat16 and float8 are stored as NumPy itself does, one by one byte."""
    for dtype, void in ((ml_dtypes.bfloat16, "V2"), (ml_dtypes.float8_e5m2, "V1")):
        array = np.arange(4).astype(dtype)
        ferry.save(array, tmp_path / "x.npy", durable=False)

        found = np.load(tmp_path / "x.npy")

        assert found.dtype == void
        assert (found.view(dtype) == array).all()


def test_int4_is_readable_numbers(tmp_path):
    """int4 is stored as the int8 of the same value."""
    ferry.save(np.array([-8, 7], ml_dtypes.int4), tmp_path / "x.npy", durable=False)

    assert np.load(tmp_path / "x.npy").tolist() == [-8, 7]


def test_a_view_of_the_file(tmp_path):
    """Nothing is read before it is used, aligned, and writable without changing the file."""
    np.save(tmp_path / "x.npy", np.arange(10_000))

    array = ferry.load(tmp_path / "x.npy")

    assert array.base is not None
    assert array.flags.writeable
    assert array.ctypes.data % 64 == 0


def test_strings_of_numpy_are_read():
    """Fixed-width bytes and text become strings."""
    assert ferry.loads(numpy_bytes(np.array([b"ab", b"c"]))).tolist() == [b"ab", b"c"]
    assert ferry.loads(numpy_bytes(np.array(["ä"]))).tolist() == ["ä".encode()]


def test_records_are_tensors_by_field():
    """A record array is a dict of its fields."""
    records = np.zeros(3, [("x", "<f4"), ("y", ">i2", (2,))])
    records["y"][1] = [5, 6]

    fields = ferry.loads(numpy_bytes(records))

    assert fields["x"].dtype == np.float32
    assert fields["y"].tolist() == [[0, 0], [5, 6], [0, 0]]


def test_what_it_cannot_carry():
    """Strings, structures and the like name the formats that can."""
    for value in (np.array([b"x"], object), {"a": np.ones(2)}, [1, "a"], None):
        with pytest.raises(ferry.UnsupportedError, match=r"npz|numbers"):
            ferry.dumps(value, format="npy")
    with pytest.raises(ferry.UnsupportedError, match="no place"):
        ferry.dumps(np.ones(2, ml_dtypes.bfloat16), format="npy")


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
@pytest.mark.parametrize("name", ["py2-objarr.npy", "py2-np0-objarr.npy", "py3-objarr.npy"])
def test_pickles_are_refused(name):
    """Object arrays are pickles, which run code."""
    with pytest.raises(ferry.UnsupportedError, match="pickle"):
        ferry.load(CORPUS / "numpy" / name)


GOOD = numpy_bytes(np.arange(6, dtype=np.float32).reshape(2, 3))


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    size = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + text.encode()


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"), "pickle"),
        (header("{'descr': '<f4', 'shape': (1,)}"), "keys"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "shape"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}"), "shape"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': [1]}"), "shape"),
        (header("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}"), "fortran"),
        (header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**63},)}}"), "shape"),
        (
            header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**40}, {2**40})}}"),
            "expected",
        ),
        (header("{'descr': '<q9', 'fortran_order': False, 'shape': (1,)}"), "dtype"),
        (header("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}"), "pickle"),
        (header("__import__('os').system('true')"), "no dict"),
        (header("{" * 5000), "no dict"),
        (header("(" * 9000), "no dict"),
        (header(" " * 20_000), "at most"),
        (header(" ", b"\x04\x00"), "version"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "at most"),
        (b"\x93NUMPY\x03\x00\x02\x00\x00\x00\xff{", "no UTF-8"),
    ],
)
def test_lies(data, match):
    """Each lie of a header is a typed error, before anything is allocated."""
    with pytest.raises((ferry.FormatError, ferry.UnsupportedError), match=match):
        ferry.loads(data, format="npy")


def test_cut_at_every_offset():
    """Any part of a file is a truncated file."""
    for end in range(len(GOOD)):
        with pytest.raises(ferry.FormatError):
            ferry.loads(GOOD[:end], format="npy")
    with pytest.raises(ferry.FormatError, match="bytes of values"):
        ferry.loads(GOOD + b"x", format="npy")


def test_every_bit_flipped():
    """A typed error, or an array."""
    for bit in range(8 * len(GOOD)):
        data = bytearray(GOOD)
        data[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(ferry.FerryError):
            ferry.loads(bytes(data), format="npy")


def header_of(text: str, values: bytes) -> bytes:
    """A file of version 1 with a header written by hand."""
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text.encode() + values


def test_headers_of_python_2():
    """Python 2 wrote long numbers with an L; an L inside a text stays."""
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 1L), }\n"
    data = header_of(text, np.arange(3, dtype="<f4").tobytes())
    assert same(ferry.load(data), np.arange(3, dtype="<f4").reshape(3, 1))
    assert same(np.load(io.BytesIO(data)), ferry.load(data))
    text = (
        "{'descr': [('3L', '<i2'), ('b', '<i2', (2L,))], 'fortran_order': False, 'shape': (1L,), }"
    )
    found = ferry.load(header_of(text, np.arange(3, dtype="<i2").tobytes()))
    assert found["3L"].tolist() == [0]
    assert found["b"].tolist() == [[1, 2]]
    with pytest.raises(ferry.FormatError, match="no dict"):
        ferry.load(header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (L3,), }", b""))


@pytest.mark.parametrize(
    ("dtype", "readable", "listed"),
    [
        ("M8[D]", {}, {"tensor"}),
        ("m8[s]", {}, {"tensor"}),
        ("V3", {}, {"tensor"}),
        (np.longdouble, {}, {"tensor"}),
        ([("a", "i4"), ("t", "M8[s]")], {"a": (2,)}, {"t"}),
        ([("a", [("b", "i4", (3,)), ("c", "M8[s]")], (2,)), ("d", "f4")],
         {"a/b": (2, 2, 3), "d": (2,)}, {"a/c"}),
    ],
    ids=["datetime", "timedelta", "void", "longdouble", "record", "nested"],
)  # fmt: skip
def test_open_and_info_agree(dtype, readable, listed):
    """Records are read field by field; a field without a dtype of ours is listed by both."""
    out = io.BytesIO()
    array = np.zeros(2, dtype)
    np.save(out, array)
    archive = io.BytesIO()
    np.savez(archive, x=array, sound=np.arange(2))
    for data, prefix in ((out.getvalue(), ""), (archive.getvalue(), "x/")):
        with ferry.open(data) as bundle:
            infos = bundle.infos()
            names = {name: info.unreadable for name, info in infos.items() if name != "sound"}
            wanted = {f"{prefix}{name}" if name != "tensor" else prefix[:-1] or name: name
                      for name in (*readable, *listed)}  # fmt: skip
            assert set(names) == set(wanted)
            for name, reason in names.items():
                assert (reason is None) == (wanted[name] in readable)
                if reason is None:
                    assert bundle[name].shape == readable[wanted[name]] == infos[name].shape
                else:
                    with pytest.raises(ferry.UnsupportedError):
                        bundle[name]
        assert ferry.inspect(data).count == len(infos)
        assert {info.name: info.unreadable for info in list_tensors(data).tensors} == {
            name: info.unreadable for name, info in infos.items()
        }
        assert ferry.verify(data).sound
