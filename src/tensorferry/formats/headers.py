"""Headers: what a plain npy, npz, safetensors or HDF5 file holds, without NumPy.

Importing NumPy takes longer than reading a header. Nothing is judged here: a file that is unusual
or damaged, or has a file beside it, has no outline, and is to be opened.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping
from typing import Any

from tensorferry import _native, dtypes
from tensorferry.classes import dataclass, field, replace
from tensorferry.codecs import compression
from tensorferry.errors import FerryError
from tensorferry.expressions import expression
from tensorferry.formats.contract import HEAD, Glimpse
from tensorferry.formats.detect import recognise
from tensorferry.storage.source import Source, open_local
from tensorferry.tensors.infos import MAX_RANK, ROOT, TensorInfo, with_origins
from tensorferry.tensors.note import FILE as METADATA, Note, parse_texts

NPY = "npy"
NPZ = "npz"
SAFETENSORS = "safetensors"
KERAS = "keras"
# Beside weights of this name there may be the config of their model.
_OF_A_MODEL = "model.weights.h5"

# The dict of an npy header as NumPy writes it, for the dtypes that it has itself.
_NPY = expression(
    rb"(?s)\x93NUMPY\x01\x00(?P<length>..)\{'descr': '(?P<dtype>[<|][a-z]\d+)', 'fortran_order': "
    rb"(?:True|False), 'shape': \((?P<shape>[0-9, ]*)\), \} *\n",
)
_DESCRIBED = {
    **{f"<{kind}{size}": f"{name}{8 * size}" for size in (2, 4, 8) for kind, name in
       (("i", "int"), ("u", "uint"), ("f", "float"))},
    "|i1": "int8",
    "|u1": "uint8",
    "|b1": "bool",
    "<c8": "complex64",
    "<c16": "complex128",
}  # fmt: skip
# Other keys of ours say how a table is laid out.
_OURS = "tensorferry."
# How JSON writes half of a character beyond 16 bits.
_SURROGATE = expression(rb"\\u[dD][89a-fA-F]")
# A larger header takes longer to read than NumPy takes to import.
_MOST = 1 << 20
_MOST_NPY = 4096


@dataclass(frozen=True, slots=True)
class Header:
    """The content of a header.

    Attributes:
        format: The name of the format.
        tensors: In their order in the file.
        nbytes: Number of bytes of the file.
        version: The version of the format, if the file has one.
        metadata: The user's metadata.
    """

    format: str
    tensors: tuple[TensorInfo, ...]
    nbytes: int
    version: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read(path: str) -> Header | None:
    """Reads the header of a local file; None unless it is a plain file.

    Raises:
        OSError: The system's own error.
    """
    try:
        return _read(path)
    except FerryError:
        return None


def _read(path: str) -> Header | None:
    if not os.path.isfile(path) or os.path.exists(f"{path}.json"):
        return None
    with open_local(path) as source:
        size = source.size
        if size is None:
            return None
        head = bytes(source.range(0, min(HEAD, size)))
        if compression.detect(head) is not None:
            return None

        def tail(count: int) -> bytes:
            return bytes(source.range(max(0, size - count), size))

        name = recognise(Glimpse(path, head, tail))
        if name == NPY:
            return _npy(bytes(source.range(0, min(_MOST_NPY, size))), size)
        if name == NPZ:
            return _npz(source, size)
        if name == KERAS:
            return None if os.path.basename(path) == _OF_A_MODEL else _keras(source, size)
        length = int.from_bytes(head[:8], "little")
        if name != SAFETENSORS or not 2 <= length <= min(_MOST, size - 8):
            return None
        return _safetensors(bytes(source.range(8, 8 + length)), size)


def _npy(head: bytes, size: int) -> Header | None:
    match = _NPY.match(head)
    if match is None or 10 + int.from_bytes(match["length"], "little") != match.end():
        return None
    dtype = _DESCRIBED.get(match["dtype"].decode())
    numbers = match["shape"].decode().replace(" ", "").removesuffix(",")
    try:
        shape = tuple(map(int, numbers.split(","))) if numbers else ()
    except ValueError:
        return None
    values = size - match.end()
    if dtype is None or len(shape) > MAX_RANK or _bytes_of(dtype, shape) != values:
        return None
    return Header(NPY, (TensorInfo(ROOT, dtype, shape, values),), size, "1.0")


def _npz(source: Source, size: int) -> Header | None:
    from tensorferry.codecs.zip.directory import find_directory

    if source.buffer is None:
        return None
    tensors, texts = [], {}
    members = _native.npz_arrays(source.buffer, *find_directory(source, size))
    for name, descr, shape, _, _, begin, end, checksum in members or ():
        if name == METADATA:
            data = source.buffer[begin:end]
            if zlib.crc32(data) != checksum:
                return None
            texts = parse_texts(data, METADATA)
        elif descr not in _DESCRIBED:
            return None
        else:
            stem, dtype = name.removesuffix(f".{NPY}"), _DESCRIBED[descr]
            tensors.append(TensorInfo(stem, dtype, shape, _bytes_of(dtype, shape)))
    return _noted(Header(NPZ, tuple(tensors), size, metadata=texts)) if tensors else None


def _noted(header: Header) -> Header | None:
    """The same with what its metadata says of the tensors; None if that is unusual."""
    note, metadata = Note.from_metadata(header.metadata)
    if not note.leaves_arrays:
        return None
    tensors = tuple(with_origins(header.tensors, note.origins))
    return replace(header, tensors=tensors, metadata=metadata)


def _keras(source: Source, size: int) -> Header | None:
    from tensorferry.formats.keras import usual

    found = usual.find(source, 0, size, known=usual.NAMES)
    if found is None or found.foreign:
        return None
    return Header(KERAS, tuple(usual.infos(found).values()), size)


def _bytes_of(dtype: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * dtypes.BY_NAME[dtype].bits // 8


def _safetensors(text: bytes, size: int) -> Header | None:
    from tensorferry.codecs import json_text  # imported late: other headers are no JSON

    if _SURROGATE.search(text):  # half a character is refused
        return None
    names = {row.safetensors: row.name for row in dtypes.TABLE if row.safetensors and row.bits >= 8}
    header = json_text.parse(text)
    if not isinstance(header, dict):
        return None
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(
        isinstance(value, str) and not key.startswith(_OURS) for key, value in metadata.items()
    ):
        return None
    tensors, spans = [], []
    for name, entry in header.items():
        found = _tensor(name, entry, names)
        if found is None:
            return None
        tensors.append(found[0])
        spans.append(found[1])
    end = 0
    for start, stop in sorted(spans):
        if start != end:
            return None
        end = stop
    if end != size - 8 - len(text):
        return None
    return _noted(Header(SAFETENSORS, tuple(tensors), size, metadata=metadata))


def _tensor(
    name: str, entry: Any, names: Mapping[str, str]
) -> tuple[TensorInfo, tuple[int, int]] | None:
    """A tensor, and where its values are; None if there is anything unusual about it."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        return None
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            return None
    if not isinstance(dtype, str) or dtype not in names or len(shape) > MAX_RANK:
        return None
    if len(offsets) != 2 or offsets[1] - offsets[0] != _bytes_of(names[dtype], tuple(shape)):
        return None
    nbytes = offsets[1] - offsets[0]
    return TensorInfo(name, names[dtype], tuple(shape), nbytes), (offsets[0], offsets[1])
