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
from functools import cache, partial
from typing import Any, Literal

import numpy as np
from isal import isal_zlib

from tensorferry import _native, dtypes
from tensorferry.classes import dataclass
from tensorferry.codecs import json_text as json
from tensorferry.codecs.zip.archive import Archive, open_archive
from tensorferry.codecs.zip.directory import DEFLATED, STORED, find_directory
from tensorferry.codecs.zip.writer import GATHERED, SMALL, Writer as ArchiveWriter
from tensorferry.errors import FormatError, TruncatedError, UnsupportedError
from tensorferry.formats import npy
from tensorferry.formats.arrays import ArrayReader, Contents
from tensorferry.formats.contract import Format, TensorOptions, WriteOptions, Written
from tensorferry.storage.place import Place, Target, size_of
from tensorferry.storage.source import Source
from tensorferry.tensors.content import Content
from tensorferry.tensors.entries import Entries, Entry, chunks
from tensorferry.tensors.note import FILE as METADATA, parse_texts
from tensorferry.tensors.stored import Unreadable
from tensorferry.tensors.values import Array

NAME = "npz"

SUFFIX = ".npy"


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
            small: list[tuple[str, bytes, Array]] = []
            held = 0
            for name, array in content.parts(npy.storage):
                fortran = array.flags.f_contiguous and not array.flags.c_contiguous
                header = npy.encode_header(array.dtype, array.shape, fortran=fortran)
                values, member = array.T if fortran else array, name + SUFFIX
                is_whole = values.flags.c_contiguous
                is_small = is_whole and not deflate and values.nbytes < SMALL
                if small and (not is_small or held > GATHERED):
                    archive.write_small(small)
                    small, held = [], 0
                if is_small:
                    small.append((member, header, values))
                    held += values.nbytes
                elif is_whole:
                    archive.write(member, header, values)
                else:
                    archive.write_blocks(member, itertools.chain([header], chunks(values)))
            archive.write_small(small)
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
        if (usual := _usual(source, how.verify)) is not None:
            return usual
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


def _usual(source: Source, verify: bool) -> Contents | None:
    """The contents of an archive as `numpy.savez` writes it; None if it has another form.

    All other archives are walked member by member, which takes longer and says what is wrong.
    """
    if source.buffer is None or source.size is None:
        return None
    try:
        members = _native.npz_arrays(source.buffer, *find_directory(source, source.size))
    except FormatError:
        return None
    known = _dtypes()
    places: dict[str, tuple[Any, ...]] = {}
    spans: dict[str, tuple[bool, int, int, int]] = {}
    metadata: dict[str, str] = {}
    for name, dtype, shape, fortran, offset, begin, end, checksum in members or ():
        if name == METADATA:
            if isal_zlib.crc32(source.buffer[begin:end]) != checksum:
                return None
            metadata = parse_texts(source.buffer[begin:end], METADATA)
        elif dtype not in known:
            return None
        else:
            stem = name.removesuffix(SUFFIX)
            places[stem] = known[dtype], shape, offset
            spans[stem] = fortran, begin, end, checksum
    return Contents(_Members(source, places, spans, verify), metadata) if places else None


@cache
def _dtypes() -> dict[str, np.dtype[Any]]:
    """NumPy's dtypes of numbers, by the texts that npy files have for them."""
    return {dtype.str: dtype for dtype in dtypes.BY_NUMPY if dtype.kind in "biufc"}


class _Members(Entries):
    """The arrays of an archive of the usual form, each verified when it is first read."""

    def __init__(
        self,
        source: Source,
        places: dict[str, tuple[Any, ...]],
        spans: dict[str, tuple[bool, int, int, int]],
        verify: bool,
    ) -> None:
        super().__init__(source, places)
        self._spans = spans
        self._verify = verify
        self._sound: set[str] = set()
        self._archive: Archive | None = None

    def __getitem__(self, name: str) -> Entry:
        if self._archive is None:
            self._archive = open_archive(self.source)
            self._archive.sound = self._sound
        return _entry(self._archive, name + SUFFIX, self.source, self._verify)

    def read(self, name: str) -> Array | None:
        """A verified view; None if the file is not in memory, or the array not sound."""
        if self._verify and name + SUFFIX not in self._sound:
            self.source.check(self._spans[name][2])
        return self._view(name, *self.places[name])

    def read_all(self) -> dict[str, Array] | None:
        """Verified views of all arrays; None if one is not sound: who reads it alone says why."""
        self.source.check(max(end for _, _, end, _ in self._spans.values()))
        found = {}
        for name, place in self.places.items():
            array = self._view(name, *place)
            if array is None:
                return None
            found[name] = array
        return found

    def views(self) -> dict[str, Array] | None:
        """None if members have to be verified: that reads them, each when it is wanted."""
        return None if self._verify else self.read_all()

    def _view(
        self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int
    ) -> Array | None:
        fortran, begin, end, checksum = self._spans[name]
        buffer = self.source.buffer
        if buffer is None:
            return None
        member = name + SUFFIX
        if self._verify and member not in self._sound:
            if isal_zlib.crc32(buffer[begin:end]) != checksum:
                return None
            self._sound.add(member)
        return np.ndarray(shape, dtype, buffer, offset, order="F" if fortran else "C")


def _foreign(archive: Archive) -> FormatError:
    """The error for an archive without an array; that of another program is named."""
    first = next(iter(archive))
    hint = None
    if any(name.endswith("/constants.pkl") for name in archive):
        return FormatError(
            "a TorchScript model, which is a program of PyTorch",
            hint="take torch.jit.load(path).state_dict(), and keep it with tensorferry.save",
        )
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
    load = partial(_load, archive, name, start, verify)
    span = (begin, begin + member.stored_size)
    if member.method == STORED:
        return Entry(dtype, shape, source, begin + start, fortran, load, span=span)
    return Entry(dtype, shape, source, None, fortran, load, member.stored_size, span)


def _load(archive: Archive, name: str, start: int, verify: bool) -> memoryview:
    return archive.read(name, verify=verify)[start:]


def _metadata(archive: Archive) -> dict[str, str]:
    return parse_texts(archive.read(METADATA), METADATA)


FORMAT = Format(reads=Reader(), writes=Writer())
