"""npz: named arrays, as `numpy.savez` writes them: a zip archive with an npy file for each.

The name of an array is that of its member without ".npy". Metadata is one more member,
"tensorferry.json", an object of strings. Members are stored, so that arrays are views of the file,
or deflated; each has a checksum, which is compared when the array is read. A member that is no
array is listed, and refused when it is asked for.

Archives are `tensorferry.codecs.zip`, the npy files in them `tensorferry.formats.npy`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

from tensorferry.codecs import json_text as json
from tensorferry.codecs.zip.archive import Archive, open_archive
from tensorferry.codecs.zip.directory import DEFLATED, STORED
from tensorferry.codecs.zip.writer import Writer as ArchiveWriter
from tensorferry.errors import FormatError, TruncatedError, UnsupportedError
from tensorferry.formats import npy
from tensorferry.formats.arrays import ArrayReader, Contents
from tensorferry.formats.contract import Format, TensorOptions, WriteOptions, Written
from tensorferry.storage.place import Place, Target, size_of
from tensorferry.storage.source import Source
from tensorferry.tensors.content import Content
from tensorferry.tensors.entries import Entry, chunks
from tensorferry.tensors.stored import Unreadable

NAME = "npz"

SUFFIX = ".npy"
METADATA = "tensorferry.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Writing(WriteOptions):
    """How npz files are written.

    Attributes:
        compression: Whether to deflate the arrays.
        level: Of that: see `tensorferry.codecs.compression.compressor`.
    """

    compression: Literal["deflate"] | None = None
    level: int | None = None


class Writer:
    """Writes npz files."""

    options = Writing

    def write(self, content: Content, target: Target, how: Writing) -> Written:
        """Writes arrays one by one, and the metadata last."""
        deflate = how.compression is not None
        with (
            target.sink() as sink,
            ArchiveWriter(sink, deflate=deflate, level=how.level, align=npy.ALIGNMENT) as archive,
        ):
            for name, array in content.parts(npy.storage):
                fortran = array.flags.f_contiguous and not array.flags.c_contiguous
                header = npy.encode_header(array.dtype, array.shape, fortran=fortran)
                values = array.T if fortran else array
                if values.flags.c_contiguous:
                    archive.write(name + SUFFIX, header, values)
                else:
                    archive.write_blocks(name + SUFFIX, itertools.chain([header], chunks(values)))
            if kept := content.texts():
                archive.write(METADATA, json.to_text(kept))
        return Written(size_of(sink), (target.path,))


class Reader(ArrayReader[TensorOptions]):
    """Reads npz files."""

    name = NAME
    options = TensorOptions

    def contents(self, place: Place, how: TensorOptions) -> Contents:
        """The arrays of an archive, and its metadata."""
        source = place.open()
        if source.size is None:
            source.everything()
        archive = open_archive(source, lazy=place.is_url)
        found = Contents({})
        entries: dict[str, Entry | Unreadable] = {}
        if len(archive) and not any(name.endswith((SUFFIX, METADATA)) for name in archive):
            raise _foreign(archive)
        for name in archive:
            if name == METADATA:
                found.metadata = _metadata(archive)
                continue
            stem, member = name.removesuffix(SUFFIX), archive.members[name]
            if not name.endswith(SUFFIX):
                error = UnsupportedError("this member is no array: npz archives hold .npy files")
                entries[name] = Unreadable(error, "file", (member.size,), member.stored_size)
                continue
            entry = _entry(archive, name, source, how.verify)
            for field, part in npy.entries(entry, member.stored_size).items():
                entries[f"{stem}/{field}" if entry.dtype.names else stem] = part
        found.entries = entries
        is_deflated = any(member.method == DEFLATED for member in archive.members.values())
        found.compression = "deflate" if is_deflated else None
        return found


def _foreign(archive: Archive) -> FormatError:
    """The error for an archive without an array; that of another program is named."""
    first = next(iter(archive))
    hint = None
    if any(name.endswith("data.pkl") for name in archive):
        hint = (
            "this is a file of PyTorch: torch.load reads it, and safetensors can keep its tensors"
        )
    return FormatError(
        f"a zip archive without arrays: none of the {len(archive)} members is one; "
        f"the first is {first[:60]!r}",
        hint=hint,
    )


def _entry(archive: Archive, name: str, source: Source, verify: bool) -> Entry:
    member = archive.members[name]
    try:
        dtype, shape, fortran, start = npy.decode_header(archive.head(name, npy.MAX_HEADER + 12))
        found, expected = member.size - start, math.prod(shape) * dtype.itemsize
        if found != expected and not dtype.hasobject:
            raise (TruncatedError if found < expected else FormatError)(
                f"{found} bytes of values, expected {expected} for {dtype} of shape {list(shape)}"
            )
    except FormatError as error:
        raise error.located(tensor=name.removesuffix(SUFFIX)) from None
    begin = archive.offset(name)
    offset = begin + start if member.method == STORED else None
    load = partial(_load, archive, name, start, verify)
    span = (begin, begin + member.stored_size)
    return Entry(dtype, shape, source, offset, fortran, load, member.stored_size, span)


def _load(archive: Archive, name: str, start: int, verify: bool) -> memoryview:
    return archive.read(name, verify=verify)[start:]


def _metadata(archive: Archive) -> dict[str, str]:
    try:
        tree = json.parse(archive.read(METADATA))
    except FormatError as error:
        raise error.located(tensor=METADATA) from None
    if not isinstance(tree, dict) or not all(isinstance(value, str) for value in tree.values()):
        raise FormatError(f"{METADATA} is no object of strings")
    return tree


FORMAT = Format(reads=Reader(), writes=Writer())
