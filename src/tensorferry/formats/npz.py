"""npz: named arrays, as `numpy.savez` writes them: a zip archive with an npy file for each.

The name of an array is that of its member without ".npy". Metadata is one more member,
"tensorferry.json", an object of strings. Members are stored, so that arrays are views of the file,
or deflated; each has a checksum, which is compared when the array is read.

Archives are `tensorferry.codecs.zip.archive`, the npy files in them `tensorferry.formats.npy`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

from tensorferry.codecs import json_text as json
from tensorferry.codecs.zip.archive import Archive, open_archive
from tensorferry.codecs.zip.directory import STORED
from tensorferry.codecs.zip.writer import Writer
from tensorferry.errors import FormatError, TruncatedError
from tensorferry.formats import npy
from tensorferry.storage import Source, is_url
from tensorferry.tensors.entries import Contents, Entry, chunks
from tensorferry.tensors.values import Array

NAME = "npz"

SUFFIX = ".npy"
METADATA = "tensorferry.json"
storage = npy.storage


def sniff(head: bytes) -> bool:
    """The local header of an archive's first member, or the end of an empty one."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def write_parts(
    parts: Iterable[tuple[str, Array]],
    sink: Any,
    metadata: Callable[[], dict[str, str]],
    *,
    compression: Literal["deflate"] | None = None,
    level: int | None = None,
) -> None:
    """Writes arrays.

    Args:
        parts: Names and arrays; they are taken and written one by one.
        sink: Takes the bytes.
        metadata: Gives the metadata, when all parts were taken.
        compression: Whether to deflate them.
        level: Of that: see `tensorferry.codecs.compression.compressor`.
    """
    with Writer(sink, deflate=compression is not None, level=level, align=npy.ALIGNMENT) as archive:
        for name, array in parts:
            fortran = array.flags.f_contiguous and not array.flags.c_contiguous
            header = npy.encode_header(array.dtype, array.shape, fortran=fortran)
            values = array.T if fortran else array
            if values.flags.c_contiguous:
                archive.write(name + SUFFIX, header, values)
            else:
                archive.write_blocks(name + SUFFIX, itertools.chain([header], chunks(values)))
        if kept := metadata():
            archive.write(METADATA, json.to_text(kept))


def read_parts(source: Source, *, verify: bool = True) -> Contents:
    """The arrays of a file, and its metadata.

    Args:
        source: The file.
        verify: Compare the checksum of what is read as a whole.
    """
    if source.size is None:
        source.everything()
    archive = open_archive(source, lazy=is_url(source.path))
    metadata: dict[str, str] = {}
    entries: dict[str, Entry] = {}
    for name in archive:
        if name == METADATA:
            metadata = _metadata(archive, source.path)
        elif name.endswith(SUFFIX):
            entry = _entry(archive, name, source, verify)
            for field, part in npy.entries(entry).items():
                stem = name.removesuffix(SUFFIX)
                entries[f"{stem}/{field}" if entry.dtype.names else stem] = part
        else:
            raise FormatError(
                f"member {name[:60]!r} is no array: npz files hold .npy files", path=source.path
            )
    return Contents(entries, metadata)


def _entry(archive: Archive, name: str, source: Source, verify: bool) -> Entry:
    member = archive.members[name]
    try:
        dtype, shape, fortran, start = npy.decode_header(archive.head(name, npy.MAX_HEADER + 12))
        found, expected = member.size - start, math.prod(shape) * dtype.itemsize
        if found != expected:
            raise (TruncatedError if found < expected else FormatError)(
                f"{found} bytes of values, expected {expected} for {dtype} of shape {list(shape)}"
            )
    except FormatError as error:
        raise error.located(path=source.path, tensor=name.removesuffix(SUFFIX)) from None
    offset = archive.offset(name) + start if member.method == STORED else None
    load = partial(_load, archive, name, start, verify)
    return Entry(dtype, shape, source, offset, fortran, load, member.stored_size)


def _load(archive: Archive, name: str, start: int, verify: bool) -> memoryview:
    return archive.read(name, verify=verify)[start:]


def _metadata(archive: Archive, path: str) -> dict[str, str]:
    try:
        tree = json.parse(archive.read(METADATA))
    except FormatError as error:
        raise error.located(path=path, tensor=METADATA) from None
    if not isinstance(tree, dict) or not all(isinstance(value, str) for value in tree.values()):
        raise FormatError(f"{METADATA} is no object of strings", path=path)
    return tree
