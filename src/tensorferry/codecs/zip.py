"""Zip archives: named members in one file, read lazily and strictly.

    local header | name | extra | data [| descriptor]     for each member
    directory entry | name | extra | comment              for each member again
    [zip64 end | its locator |] end of the directory | comment

The directory at the end says what is there; the local headers say most of it again. Both must
agree, members must not overlap, and the archive must fill its file from the first byte to the
last: bytes in front of it (as in self-extracting archives) and behind it are refused, because
readers differ in what they make of them. Members are stored (their bytes are given as they lie
there) or deflated, with a CRC-32 each. Deflate and checksums run in isal, which releases the GIL.

Where the bytes come from is `tensorferry.storage`, archives are written by
`tensorferry.codecs.zip_writer`, and what is in a member is for the formats.
"""

from __future__ import annotations

import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from isal import igzip_lib, isal_zlib

from tensorferry import limits
from tensorferry.codecs.compression import BLOCK, CHUNK
from tensorferry.errors import (
    ChecksumError,
    FerryError,
    FormatError,
    LimitError,
    TruncatedError,
    UnsupportedError,
)

STORED, DEFLATED = 0, 8
METHODS = {1: "shrink", 6: "implode", 9: "deflate64", 12: "bzip2", 14: "lzma", 93: "zstd", 95: "xz"}

FETCH = 8 << 20
"""How much of a deflated member is asked for at a time when it is streamed."""

RATIO = 100
"""A member larger than `limits.memory` may be so many times as large as what is stored of it."""

HIGHEST_RATIO = 1032
"""Deflate's shortest code is two bits, for 258 bytes."""

LOCAL = struct.Struct("<4s5H3I2H")
ENTRY = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR = struct.Struct("<4sIQI")

LOCAL_SIGNATURE = b"PK\x03\x04"
ENTRY_SIGNATURE = b"PK\x01\x02"
END_SIGNATURE = b"PK\x05\x06"
END64_SIGNATURE = b"PK\x06\x06"
LOCATOR_SIGNATURE = b"PK\x06\x07"
DESCRIPTOR_SIGNATURE = b"PK\x07\x08"

# The end, its longest comment, and what zip64 puts in front of it.
_TAIL = END.size + 0xFFFF + LOCATOR.size + END64.size

DESCRIPTOR, UTF8 = 1 << 3, 1 << 11
# Encryption, strong encryption, and masked headers; patches are as foreign.
_REFUSED = {1 << 0: "encrypted", 1 << 5: "a patch", 1 << 6: "encrypted", 1 << 13: "encrypted"}
_COMPARED = DESCRIPTOR | UTF8 | sum(_REFUSED)

ZIP64_FIELD = 0x0001
_INFLATE_ERROR: Any = igzip_lib.IsalError
_LONGEST_EXTRA = 1024  # of a local header, for a first try


class Source(Protocol):
    """What an archive is read from: `tensorferry.storage.Source`, or anything alike."""

    @property
    def path(self) -> str:
        """Names it in errors."""

    @property
    def size(self) -> int | None:
        """How many bytes there are."""

    def range(self, start: int, stop: int, /) -> bytes | memoryview:
        """The bytes from `start` to before `stop`."""


@dataclass(frozen=True, slots=True)
class Member:
    """What the directory says of a member.

    Attributes:
        name: Its path, with `/` between the parts.
        size: How many bytes it has.
        stored_size: How many bytes the archive holds of it.
        method: `STORED` or `DEFLATED`.
        checksum: The CRC-32 of its bytes.
        header_offset: Where its local header begins in the file.
        flags: As in its header.
        raw_name: The bytes of its name.
    """

    name: str
    size: int
    stored_size: int
    method: int
    checksum: int
    header_offset: int
    flags: int = field(repr=False)
    raw_name: bytes = field(repr=False)


class Archive:
    """An open archive; made by `open_archive`.

    It can be read from several threads. Directories are left out: names say where a member is.

    Attributes:
        members: By name, in the order of the directory.
    """

    def __init__(self, source: Source, members: dict[str, Member], ends: dict[str, int]) -> None:
        self.members = members
        self._source = source
        self._ends = ends  # where something else begins
        self._offsets: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.members

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def offset(self, name: str) -> int:
        """Where a member's data begins in the file; looks at its local header the first time.

        Raises:
            FormatError: The local header does not say what the directory says.
        """
        offset = self._offsets.get(name)
        if offset is None:
            try:
                offset = _data_offset(self._source, self.members[name], self._ends[name])
            except FerryError as error:
                raise error.located(path=self._source.path) from None
            self._offsets[name] = offset
        return offset

    def read(self, name: str, *, verify: bool = True) -> memoryview:
        """All bytes of a member, read-only: where they lie if it is stored.

        Args:
            name: The member.
            verify: Compares the checksum.

        Raises:
            KeyError: There is no such member.
            ChecksumError: It was changed since it was written.
            LimitError: It is far larger than what is stored of it, and than `limits.memory`.
            FormatError: It is not what the archive says it is.
        """
        member = self.members[name]
        offset = self.offset(name)
        if member.method == STORED:
            data = memoryview(_take(self._source, offset, offset + member.size)).toreadonly()
            if verify:
                self._check(member, isal_zlib.crc32(data))
            return data
        self._check_budget(member)
        data, position = np.empty(member.size, np.uint8).data, 0
        for block in self._inflated(member, BLOCK, member.stored_size):
            data[position : position + len(block)] = block
            position += len(block)
        if verify:
            self._check(member, isal_zlib.crc32(data))
        return data.toreadonly()

    def blocks(
        self, name: str, *, size: int = BLOCK, verify: bool = True
    ) -> Iterator[bytes | memoryview]:
        """A member's bytes in blocks of at most `size`, in bounded memory.

        The checksum speaks for the whole member: blocks have been given out when it does not fit.

        Raises:
            KeyError, ChecksumError, LimitError, FormatError: As in `read`.
        """
        member = self.members[name]
        if member.method == STORED:
            blocks = self._stored(member, size)
        else:
            self._check_budget(member)
            blocks = self._inflated(member, size, FETCH)
        checksum = 0
        for block in blocks:
            if verify:
                checksum = isal_zlib.crc32(block, checksum)
            yield block
        if verify:
            self._check(member, checksum)

    def head(self, name: str, size: int) -> bytes:
        """The first bytes of a member, not verified; fewer than `size` only if it has no more."""
        member = self.members[name]
        blocks: Iterator[bytes | memoryview]
        if member.method == STORED:
            blocks = self._stored(member, size)
        else:
            blocks = self._inflated(member, size, CHUNK)
        pieces, missing = [], min(size, member.size)
        while missing:
            pieces.append(next(blocks)[:missing])
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def _stored(self, member: Member, size: int) -> Iterator[bytes | memoryview]:
        start = self.offset(member.name)
        stop = start + member.size
        for position in range(start, stop, size):
            yield _take(self._source, position, min(position + size, stop))

    def _inflated(self, member: Member, size: int, fetch: int) -> Iterator[bytes]:
        """Blocks of at most `size`, of which `fetch` bytes are asked for at a time."""
        position = self.offset(member.name)
        stop = position + member.stored_size
        fetched = memoryview(b"")
        inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
        missing = member.size
        while not inflater.eof:
            chunk: bytes | memoryview = b""
            if inflater.needs_input:
                if not fetched:
                    following = _take(self._source, position, min(position + fetch, stop))
                    fetched = memoryview(following)
                chunk, fetched = fetched[:CHUNK], fetched[CHUNK:]
                position += len(chunk)
            try:
                # One byte more than is missing tells a stream that is too long.
                block = inflater.decompress(chunk, min(size, missing + 1))
            except _INFLATE_ERROR as error:
                raise self._wrong(member, f"corrupt deflate stream: {error}", position) from None
            missing -= len(block)
            if missing < 0:
                raise self._wrong(member, f"holds more than the {member.size} bytes it declares")
            if block:
                yield block
            elif position == stop and inflater.needs_input and not inflater.eof:
                # isal may hold output back when it has taken all input: only now there is no more.
                raise self._wrong(member, "its deflate stream does not end", position)
        if missing:
            raise self._wrong(
                member, f"holds {member.size - missing} bytes, declared are {member.size}"
            )
        rest = len(inflater.unused_data) + stop - position
        if rest:
            raise self._wrong(member, f"{rest} bytes follow its deflate stream", stop - rest)

    def _check(self, member: Member, checksum: int) -> None:
        if checksum != member.checksum:
            raise ChecksumError(
                f"member {member.name!r} is corrupt: its checksum is {checksum:#010x}, "
                f"stored {member.checksum:#010x}",
                path=self._source.path,
                offset=self._offsets[member.name],
                hint="the file was damaged: copy or write it again",
            )

    def _check_budget(self, member: Member) -> None:
        """Refuses to inflate what neither the file nor `limits.memory` justifies."""
        if member.size > max(limits.memory, RATIO * member.stored_size):
            raise LimitError(
                f"member {member.name!r} takes {member.size} bytes, {limits.memory} are allowed, "
                f"or {RATIO} times the {member.stored_size} that are stored",
                path=self._source.path,
                offset=member.header_offset,
                hint="raise tensorferry.limits.memory if the file is to be trusted",
            )
        if member.size > HIGHEST_RATIO * member.stored_size:
            raise self._wrong(
                member,
                f"declares {member.size} bytes, which {member.stored_size} deflated ones cannot be",
            )

    def _wrong(self, member: Member, what: str, offset: int | None = None) -> FormatError:
        return FormatError(
            f"member {member.name!r}: {what}",
            path=self._source.path,
            offset=member.header_offset if offset is None else offset,
        )


def open_archive(source: Source, *, lazy: bool = False) -> Archive:
    """Reads an archive's directory.

    Args:
        source: The bytes; it must stay open as long as members are read.
        lazy: Leaves each local header to the first look at its member. In a mapped file they cost
            next to nothing; over a network they cost one request each.

    Raises:
        TruncatedError: The end is missing.
        UnsupportedError: Members are encrypted or compressed by other means than deflate, there
            are several disks, or the source has no size, even when it was asked for bytes.
        FormatError: It is no zip archive, or one that contradicts itself or has names that lead
            elsewhere.
    """
    try:
        if source.size is None:
            source.range(0, 0)  # brings a stream into memory, and then its size is known
        size = source.size
        if size is None:
            raise UnsupportedError(
                "a zip archive is read from its end, which a stream does not have at hand",
                hint="copy it to a file first",
            )
        directory, stop, count = _find_directory(source, size)
        members, ends = _read_directory(_take(source, directory, stop), directory, count)
        archive = Archive(source, members, ends)
    except FerryError as error:
        raise error.located(path=source.path) from None
    if not lazy:
        for name in members:
            archive.offset(name)
    return archive


def _take(source: Source, start: int, stop: int) -> bytes | memoryview:
    data = source.range(start, stop)
    if len(data) != stop - start:
        raise TruncatedError(
            f"the file ends after {len(data)} of {stop - start} bytes",
            path=source.path,
            offset=start,
        )
    return data


def _find_directory(source: Source, size: int) -> tuple[int, int, int]:
    """Where the directory begins and ends, and how many entries it has."""
    start = max(0, size - _TAIL)
    tail = bytes(_take(source, start, size))
    place = _find_end(tail, start, bytes(_take(source, 0, min(size, 4))))
    _, disk, first_disk, here, count, length, offset, _ = END.unpack_from(tail, place)
    position = start + place
    stop = position
    locator = place - LOCATOR.size
    if locator >= 0 and tail.startswith(LOCATOR_SIGNATURE, locator):
        stop, numbers = _read_end64(source, tail[locator:place], position - LOCATOR.size)
        for short, saturated, long in zip(
            (disk, first_disk, here, count, length, offset),
            (0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
            numbers,
            strict=True,
        ):
            if short not in (long, saturated):
                raise FormatError(
                    f"the end of the directory says {short} where its zip64 form says {long}",
                    offset=position,
                )
        disk, first_disk, here, count, length, offset = numbers
    if disk or first_disk or here != count:
        raise UnsupportedError(
            "the archive spans several disks, expected one file", offset=position
        )
    if offset + length != stop or count * ENTRY.size > length:
        raise FormatError(
            f"the directory of {count} members lies at byte {offset} and is {length} bytes long, "
            f"expected to end at byte {stop}",
            offset=position,
            hint="bytes in front of an archive (a self-extracting one, say) are not read",
        )
    return offset, stop, count


def _find_end(tail: bytes, start: int, head: bytes) -> int:
    """The place in the tail of the one end record whose comment reaches the end of the file."""
    places, trailing = [], None
    place = tail.find(END_SIGNATURE)
    while 0 <= place <= len(tail) - END.size:
        end = place + END.size + int.from_bytes(tail[place + 20 : place + 22], "little")
        if end == len(tail):
            places.append(place)
        elif end < len(tail):
            trailing = end
        place = tail.find(END_SIGNATURE, place + 1)
    if len(places) == 1:
        return places[0]
    if places:
        raise FormatError(
            "the archive has two ends, one in the comment of the other", offset=start + places[0]
        )
    if head not in (LOCAL_SIGNATURE, END_SIGNATURE):
        raise FormatError(
            f"not a zip archive: starts with bytes {head.hex(' ')}, expected 50 4b 03 04", offset=0
        )
    if trailing is not None:
        raise FormatError(
            f"{len(tail) - trailing} bytes follow the end of the archive", offset=start + trailing
        )
    raise TruncatedError(
        "the zip archive has no end of its directory",
        offset=start + len(tail),
        hint="the file was cut or its writer died: copy or write it again",
    )


def _read_end64(source: Source, locator: bytes, position: int) -> tuple[int, tuple[int, ...]]:
    """Where the zip64 end record begins, and its numbers in the order of the other record."""
    _, disk, start, disks = LOCATOR.unpack(locator)
    if disk or disks > 1:
        raise UnsupportedError(
            f"the archive spans {disks} disks, expected one file", offset=position
        )
    if start + END64.size > position:
        raise FormatError(
            f"the zip64 end is said to lie at byte {start}, expected {position - END64.size}",
            offset=position,
        )
    signature, length, _, _, *numbers = END64.unpack(_take(source, start, start + END64.size))
    if signature != END64_SIGNATURE or start + 12 + length != position:
        raise FormatError(
            f"the zip64 end has signature {signature.hex(' ')} and length {length}, "
            f"expected 50 4b 06 06 and {position - start - 12}",
            offset=start,
        )
    return start, tuple(numbers)


def _read_directory(
    data: bytes | memoryview, start: int, count: int
) -> tuple[dict[str, Member], dict[str, int]]:
    """The members that are files, and where each must have ended; all entries are checked."""
    data = bytes(data)
    members: dict[str, Member] = {}
    folders: set[str] = set()
    extents: list[tuple[int, int, str]] = []
    position = 0
    for _ in range(count):
        member, position = _read_entry(data, position, start)
        if member.name in members or member.name in folders:
            raise FormatError(f"two members are named {member.name!r}", offset=start + position)
        # What its local header takes at least; the exact end is known when that is read.
        end = member.header_offset + LOCAL.size + len(member.raw_name) + member.stored_size
        extents.append((member.header_offset, end, member.name))
        if not member.name.endswith("/"):
            members[member.name] = member
        elif member.size:
            raise FormatError(
                f"the directory {member.name!r} has {member.size} bytes, expected none",
                offset=member.header_offset,
            )
        else:
            folders.add(member.name)
    if position != len(data):
        raise FormatError(
            f"{len(data) - position} bytes follow the {count} entries of the directory",
            offset=start + position,
        )
    return members, _check_extents(sorted(extents), start)


def _check_extents(extents: list[tuple[int, int, str]], directory: int) -> dict[str, int]:
    """Where what follows each member begins."""
    starts = [start for start, _, _ in extents]
    first = [*starts, directory][0]
    if first:
        raise FormatError(
            f"the archive begins at byte {first}, expected 0",
            offset=0,
            hint="bytes in front of an archive (a self-extracting one, say) are not read",
        )
    ends = {}
    for (start, end, name), limit in zip(extents, [*starts[1:], directory], strict=False):
        if end > limit:
            raise FormatError(
                f"member {name!r} reaches to byte {end}, into what begins at byte {limit}",
                offset=start,
            )
        ends[name] = limit
    return ends


def _read_entry(data: bytes, position: int, start: int) -> tuple[Member, int]:
    """An entry of the directory, and where the next one begins."""
    offset = start + position
    if position + ENTRY.size > len(data):
        raise FormatError("the directory ends inside an entry", offset=offset)
    entry = ENTRY.unpack_from(data, position)
    signature, _, _, flags, method, _, _, checksum, stored_size, size = entry[:10]
    name_length, extra_length, comment_length, disk, _, attributes, header_offset = entry[10:]
    if signature != ENTRY_SIGNATURE:
        raise FormatError(
            f"an entry of the directory begins with {signature.hex(' ')}, expected 50 4b 01 02",
            offset=offset,
        )
    name_start = position + ENTRY.size
    extra_start = name_start + name_length
    end = extra_start + extra_length + comment_length
    if end > len(data):
        raise FormatError("the directory ends inside an entry", offset=offset)
    raw_name = data[name_start:extra_start]
    name = _decode_name(raw_name, flags, offset)
    _check_kind(name, flags, method, attributes >> 16, offset)
    size, stored_size, header_offset = _widen(
        data[extra_start : extra_start + extra_length], (size, stored_size, header_offset), offset
    )
    if disk:
        raise UnsupportedError(f"member {name!r} is on disk {disk}, expected 0", offset=offset)
    if method == STORED and size != stored_size:
        raise FormatError(
            f"member {name!r} is stored, but has {size} bytes and {stored_size} stored ones",
            offset=offset,
        )
    member = Member(name, size, stored_size, method, checksum, header_offset, flags, raw_name)
    return member, end


def _decode_name(raw: bytes, flags: int, offset: int) -> str:
    try:
        name = raw.decode("utf-8" if flags & UTF8 else "cp437")
    except UnicodeDecodeError:
        raise FormatError(f"the name {raw!r} is not UTF-8", offset=offset) from None
    fault = name_fault(name)
    if fault:
        raise FormatError(f"the name {name!r} {fault}", offset=offset)
    return name


def name_fault(name: str) -> str | None:
    """What is wrong with a member's name."""
    if not name:
        return "is empty"
    if "\0" in name or "\\" in name:
        return "has a NUL or a backslash"
    # A drive needs the slash: "w:0" is how TensorFlow names a variable's value.
    if name.startswith("/") or re.match("[A-Za-z]:/", name):
        return "is absolute"
    if ".." in name.split("/"):
        return "leads out of the archive"
    return None


def _check_kind(name: str, flags: int, method: int, mode: int, offset: int) -> None:
    for bit, what in _REFUSED.items():
        if flags & bit:
            raise UnsupportedError(f"member {name!r} is {what}", offset=offset)
    if method not in (STORED, DEFLATED):
        known = METHODS.get(method, "unknown")
        raise UnsupportedError(
            f"member {name!r} is compressed by method {method} ({known}), "
            "expected 0 (stored) or 8 (deflated)",
            offset=offset,
        )
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        what = "a link" if stat.S_ISLNK(mode) else f"of file type {stat.S_IFMT(mode):#o}"
        raise FormatError(f"member {name!r} is {what}, expected a file", offset=offset)


def _widen(extra: bytes, numbers: tuple[int, ...], offset: int) -> tuple[int, ...]:
    """The numbers, those that are full replaced by the zip64 field's."""
    if 0xFFFFFFFF not in numbers:
        return numbers
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        position += 4
        if kind == ZIP64_FIELD:
            wide = [number == 0xFFFFFFFF for number in numbers]
            if not 8 * sum(wide) <= length <= len(extra) - position:
                break
            long = iter(struct.unpack_from(f"<{sum(wide)}Q", extra, position))
            return tuple(
                next(long) if use else number for use, number in zip(wide, numbers, strict=True)
            )
        position += length
    raise FormatError("sizes or offsets lack the zip64 field they refer to", offset=offset)


def _data_offset(source: Source, member: Member, limit: int) -> int:
    """Where a member's data begins, after its local header was held against the directory.

    Args:
        source: The archive's bytes.
        member: What the directory says.
        limit: Where something else begins.
    """
    start = member.header_offset
    least = start + LOCAL.size + len(member.raw_name)
    header = bytes(_take(source, start, min(least + _LONGEST_EXTRA, limit)))
    local = LOCAL.unpack_from(header)
    signature, _, flags, method, _, _, checksum, stored_size, size, name_length, extra_length = (
        local
    )
    if signature != LOCAL_SIGNATURE:
        raise FormatError(
            f"member {member.name!r} begins with {signature.hex(' ')}, expected 50 4b 03 04",
            offset=start,
        )
    data = start + LOCAL.size + name_length + extra_length
    if data + member.stored_size > limit:
        raise FormatError(
            f"member {member.name!r} reaches to byte {data + member.stored_size}, "
            f"into what begins at byte {limit}",
            offset=start,
        )
    if data > start + len(header):
        header = bytes(_take(source, start, data))
    extra = header[least - start : data - start]
    size, stored_size = _widen(extra, (size, stored_size), start)
    found = [flags & _COMPARED, method, header[LOCAL.size : LOCAL.size + name_length]]
    expected = [member.flags & _COMPARED, member.method, member.raw_name]
    # Its writer did not know them yet if they follow in a descriptor.
    if not flags & DESCRIPTOR or (checksum, stored_size, size) != (0, 0, 0):
        found += [checksum, stored_size, size]
        expected += [member.checksum, member.stored_size, member.size]
    for what, local_value, value in zip(
        ("flags", "method", "name", "checksum", "stored size", "size"),
        found,
        expected,
        strict=False,
    ):
        if local_value != value:
            raise FormatError(
                f"the {what} of member {member.name!r} is {local_value!r} in its header "
                f"and {value!r} in the directory",
                offset=start,
            )
    if flags & DESCRIPTOR:
        _check_descriptor(source, member, data + member.stored_size, limit)
    return int(data)


def _check_descriptor(source: Source, member: Member, start: int, limit: int) -> None:
    """A descriptor has a signature or not, and sizes of four or eight bytes; nothing says which."""
    found = bytes(_take(source, start, min(start + 24, limit)))
    numbers = (member.checksum, member.stored_size, member.size)
    forms = [struct.pack("<I2Q", *numbers)]
    if max(numbers) <= 0xFFFFFFFF:
        forms.append(struct.pack("<3I", *numbers))
    if not found.startswith((*forms, *(DESCRIPTOR_SIGNATURE + form for form in forms))):
        raise FormatError(
            f"member {member.name!r} is not followed by a descriptor that says what the directory "
            f"says: found {found.hex(' ')}",
            offset=start,
        )
