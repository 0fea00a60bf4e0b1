"""npy: one array, as `numpy.save` writes it.

    93 "NUMPY" | version | length of the header | header | the values

The header is a Python dict with "descr" (the dtype), "fortran_order" and "shape", padded so that
the values start at a multiple of 64. Versions 2.0 and 3.0 have a longer length, and 3.0 UTF-8.

bfloat16 and float8 are stored as "V2" and "V1", as NumPy itself stores them. The format has no
place for metadata: `tensorferry.files.sidecars` keeps a JSON file beside it. A record array is one
tensor for each field. An object array is a pickle: it is listed, and refused when asked for.
"""

from __future__ import annotations

import ast
import math
import re
import struct
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tensorferry import dtypes
from tensorferry.classes import replace
from tensorferry.dtypes import DType
from tensorferry.errors import FormatError, LimitError, TruncatedError, UnsupportedError
from tensorferry.formats.arrays import ArrayReader, Contents
from tensorferry.formats.contract import Format, Plain, TensorOptions, WriteOptions, Written
from tensorferry.storage import Sink
from tensorferry.storage.place import Place, Target, size_of
from tensorferry.tensors.content import Content
from tensorferry.tensors.entries import Entries, Entry, write_array
from tensorferry.tensors.layout import ROOT, WHOLE
from tensorferry.tensors.stored import Unreadable, plain_storage
from tensorferry.tensors.values import MAX_RANK, Array

NAME = "npy"

MAGIC = b"\x93NUMPY"
ALIGNMENT = 64
GROWTH = 21
# NumPy's own limit, above which its reader asks to be told that the file can be trusted.
MAX_HEADER = 10_000


def storage(row: DType) -> np.dtype[Any] | None:
    """What values of a dtype are stored as, if not as themselves."""
    assert row.numpy is not None
    if row.name == "complex128" or row.numpy.isbuiltin == 1:
        return None
    stored = plain_storage(row)
    return np.dtype(f"V{stored.itemsize}") if "float" in row.name else stored


def write(array: Array, sink: Sink) -> None:
    """Writes an array, without a copy of its values; Fortran order is kept."""
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    sink.write(encode_header(array.dtype, array.shape, fortran=fortran))
    write_array(array.T if fortran else array, sink)


@lru_cache(maxsize=1024)
def encode_header(dtype: np.dtype[Any], shape: tuple[int, ...], *, fortran: bool = False) -> bytes:
    """All that stands before the values."""
    described = f"{{'descr': {dtype.str!r}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}"
    if shape:  # room for the array to grow, as NumPy leaves it
        described += " " * (GROWTH - len(repr(shape[-1 if fortran else 0])))
    before = len(MAGIC) + 4
    size = -(-(before + len(described) + 1) // ALIGNMENT) * ALIGNMENT - before
    return (
        MAGIC + b"\x01\x00" + struct.pack("<H", size) + described.ljust(size - 1).encode() + b"\n"
    )


# A text, which stays, or a number with an L behind it.
# The dict as NumPy writes it, for dtypes without fields.
_NUMBER = r"(?:0|[1-9]\d{0,18})"
_AS_WRITTEN = re.compile(
    r"\{'descr': '(?P<dtype>[<>|=][a-zA-Z]\d{1,4})', 'fortran_order': (?P<fortran>True|False), "
    rf"'shape': \((?P<shape>|{_NUMBER},|{_NUMBER}(?:, {_NUMBER})+)\), \}}"
)
_LONG = re.compile(r"""('[^']*'|"[^"]*")|\b(\d+)L\b""")


def entries(entry: Entry, stored: int) -> dict[str, Entry | Unreadable]:
    """The tensors of an array: itself, or the fields of its records.

    Args:
        entry: The array.
        stored: Number of bytes it takes in the file.
    """
    if entry.dtype.hasobject:
        return {ROOT: Unreadable(pickled(), "object", entry.shape, stored)}
    if entry.dtype.names is None:
        if not entry.dtype.shape:
            return {ROOT: entry}
        shape = entry.shape + entry.dtype.shape
        return {ROOT: replace(entry, dtype=entry.dtype.base, shape=shape)}
    fields: dict[str, Entry | Unreadable] = {}
    for names, dtype, shape in _members(entry.dtype, ()):
        load = partial(_field, entry, names)
        whole = entry.shape + shape
        fields["/".join(names)] = Entry(dtype, whole, entry.source, None, load=load)
    return fields


def _members(
    dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Iterator[tuple[tuple[str, ...], np.dtype[Any], tuple[int, ...]]]:
    """The fields of a record with their dtypes and shapes, those of records inside it included."""
    for name in dtype.names or ():
        inner = dtype[name]
        whole = shape + inner.shape
        if inner.base.names is None:
            yield (name,), inner.base, whole
        else:
            for names, kind, size in _members(inner.base, whole):
                yield (name, *names), kind, size


def _field(entry: Entry, names: tuple[str, ...]) -> Array:
    values = entry.read()
    for name in names:
        values = values[name]
    return np.ascontiguousarray(values)


def decode_header(head: Any) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """The dtype, the shape, whether in Fortran order, and where the values start.

    Args:
        head: The start of the file, or all of it.
    """
    head = bytes(head[: MAX_HEADER + 12])
    if not head.startswith(MAGIC):
        what = "ends too early" if MAGIC.startswith(head) else "is no npy file"
        kind = TruncatedError if MAGIC.startswith(head) else FormatError
        raise kind(f"{what}: found bytes {head[:6].hex(' ')}, expected 93 NUMPY", offset=0)
    if len(head) < 8:
        raise TruncatedError("the file ends inside its version", offset=len(head))
    version = tuple(head[6:8])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise FormatError(f"npy version is {version}, expected 1.0, 2.0 or 3.0", offset=6)
    start = 10 if version == (1, 0) else 12
    if len(head) < start:
        raise TruncatedError("the file ends inside the length of its header", offset=len(head))
    length = int.from_bytes(head[8:start], "little")
    if length > MAX_HEADER:
        raise LimitError(
            f"the header takes {length} bytes, expected at most {MAX_HEADER}", offset=8
        )
    if len(head) < start + length:
        raise TruncatedError(
            f"the header takes {length} bytes, {len(head) - start} are there", offset=len(head)
        )
    try:
        text = head[start : start + length].decode("utf-8" if version == (3, 0) else "latin-1")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"the header of version 3.0 is no UTF-8: {error.reason}", offset=start + error.start
        ) from None
    dtype, shape, fortran = _parse(text, start)
    return dtype, shape, fortran, start + length


@lru_cache(maxsize=64)
def _parse(text: str, offset: int) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """The dtype, the shape and the order in a header; many files have the same one."""
    try:
        header = _evaluate(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise FormatError(f"the header is no dict: {text[:60]!r}", offset=offset) from None
    if not isinstance(header, dict) or header.keys() != {"descr", "fortran_order", "shape"}:
        raise FormatError(
            "the header has other keys than descr, fortran_order and shape", offset=offset
        )
    shape, fortran = header["shape"], header["fortran_order"]
    if not isinstance(shape, tuple) or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise FormatError(
            f"shape is {str(shape)[:60]}, expected numbers of 0 or more", offset=offset
        )
    if len(shape) > MAX_RANK:
        raise FormatError(f"{len(shape)} dimensions, expected at most {MAX_RANK}", offset=offset)
    if type(fortran) is not bool:
        raise FormatError(f"fortran_order is {str(fortran)[:60]}, expected a bool", offset=offset)
    return _dtype(header["descr"], offset), shape, fortran


def _evaluate(text: str) -> Any:
    """The value of a literal; Python 2 wrote long numbers with an L, as in (3L, 4L)."""
    if (plain := _AS_WRITTEN.fullmatch(text)) is not None:  # Python's parser takes most of a load
        sizes = plain["shape"].replace(",", " ").split()
        return {
            "descr": plain["dtype"],
            "fortran_order": plain["fortran"] == "True",
            "shape": tuple(map(int, sizes)),
        }
    try:
        return ast.literal_eval(text)
    except SyntaxError:
        if not _LONG.search(text):
            raise
        return ast.literal_eval(_LONG.sub(lambda found: found[1] or found[2], text))


def _dtype(described: Any, offset: int) -> np.dtype[Any]:
    try:
        dtype = np.lib.format.descr_to_dtype(described)
    except (TypeError, ValueError, LookupError, SyntaxError, RecursionError, MemoryError) as error:
        raise FormatError(
            f"NumPy has no dtype {str(described)[:60]}: {error}", offset=offset
        ) from None
    return dtype


def pickled() -> UnsupportedError:
    """The error for an array of Python objects."""
    return UnsupportedError(
        "an array of Python objects is a pickle, which runs code when it is read",
        hint="if you trust it, numpy.load(path, allow_pickle=True) reads it; save it as strings",
    )


class Reader(ArrayReader[TensorOptions]):
    """Reads npy files."""

    name = NAME
    options = TensorOptions

    def contents(self, place: Place, how: TensorOptions) -> Contents:
        """The array of a file, or one for each field of a record array."""
        source = place.open()
        size = len(source.everything()) if source.size is None else source.size
        dtype, shape, fortran, start = decode_header(source.range(0, min(size, MAX_HEADER + 12)))
        end = start + math.prod(shape) * dtype.itemsize
        if end != size and not dtype.hasobject:
            kind = TruncatedError if end > size else FormatError
            raise kind(
                f"{size - start} bytes of values, expected {end - start} "
                f"for {dtype} of shape {list(shape)}",
                offset=min(size, end),
            )
        version = ".".join(map(str, bytes(source.range(6, 8))))
        if dtype.kind in "biufc" and dtype in dtypes.BY_NUMPY and not fortran:
            plain = Entries(source, {ROOT: (dtype, shape, start)})
            return Contents(plain, layout=WHOLE, version=version)
        found = entries(Entry(dtype, shape, source, start, fortran), size - start)
        return Contents(found, layout=WHOLE if list(found) == [ROOT] else None, version=version)

    def plain(self, data: memoryview) -> Plain | None:
        """The array of a file, if it is one of numbers in C order."""
        try:
            dtype, shape, fortran, start = decode_header(data)
        except FormatError:
            return None
        is_usual = dtype.kind in "biufc" and dtype in dtypes.BY_NUMPY and not fortran
        if not is_usual or start + math.prod(shape) * dtype.itemsize != len(data):
            return None
        return Plain({ROOT: (dtype, shape, start)}, None, WHOLE, f"{data[6]}.{data[7]}")


class Writer:
    """Writes npy files."""

    options = WriteOptions

    def write(self, content: Content, target: Target, how: WriteOptions) -> Written:
        """Writes the one array that the value is."""
        if content.tensor() is None:
            raise refused()
        parts = list(content.parts(storage))
        content.note.layout = None
        if [name for name, _ in parts] != [ROOT]:
            raise refused()
        with target.sink() as sink:
            write(parts[0][1], sink)
            return Written(size_of(sink), (target.path,))


def refused() -> UnsupportedError:
    """The error for a value that is not one array of numbers."""
    return UnsupportedError(
        "npy holds one array of numbers",
        hint="npz, safetensors, structure and json carry strings, sparse, ragged and nested values",
    )


FORMAT = Format(reads=Reader(), writes=Writer(), reads_plain=Reader())
