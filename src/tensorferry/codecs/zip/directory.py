"""The directory of a zip archive: what it says of the members, and whether that can be true.

The directory is at the end of the file, followed by a record that says where the directory starts:

    directory entry | name | extra | comment     for each member
    [zip64 end | its locator |] end of the directory | comment

The local header in front of each member repeats most of its entry, and both must agree. Members
must not overlap, and the archive must fill the file from its first byte to its last. Members are
read by `tensorferry.codecs.zip.archive`.

The standard library's `zipfile` reads directories, too, but is made to read as much as it can. It
accepts bytes in front of an archive and behind it, a second end inside the comment, a number of
entries that is not the number of entries, several disks, two members of one name, overlapping
members, a name that it cuts at a NUL, a second name in Unicode, and a zip64 end that contradicts
the other; it compares nothing but the name with the local header; and it raises `struct.error` and
`UnicodeDecodeError` for some damage, and never says where. It does not give out the end record,
from which most of this can be checked: that would have to be found and parsed here all the same,
which leaves one function of this module, `_read_entry`, to replace.
"""

from __future__ import annotations

import re
import stat
import struct
from collections.abc import Iterator
from typing import Protocol

from tensorferry.classes import dataclass, field
from tensorferry.errors import (
    FormatError,
    TruncatedError,
    UnsupportedError,
)

STORED, DEFLATED = 0, 8
METHODS = {1: "shrink", 6: "implode", 9: "deflate64", 12: "bzip2", 14: "lzma", 93: "zstd", 95: "xz"}

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

ZIP64_FIELD, NAME_FIELD = 0x0001, 0x7075
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
    """A member, as the directory describes it.

    Attributes:
        name: Its path, with `/` between the parts.
        size: How many bytes it has.
        stored_size: How many bytes the archive holds of it.
        method: `STORED` or `DEFLATED`.
        checksum: The CRC-32 of its bytes.
        header_offset: Where its local header starts in the file.
        flags: The flags of its header.
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


def take(source: Source, start: int, stop: int) -> bytes | memoryview:
    """Exactly these bytes.

    Raises:
        TruncatedError: The source has fewer.
    """
    data = source.range(start, stop)
    if len(data) != stop - start:
        raise TruncatedError(
            f"the file ends after {len(data)} of {stop - start} bytes",
            path=source.path,
            offset=start,
        )
    return data


def find_directory(source: Source, size: int) -> tuple[int, int, int]:
    """Where the directory starts and ends, and how many entries it has."""
    start = max(0, size - _TAIL)
    tail = bytes(take(source, start, size))
    place = _find_end(tail, start, bytes(take(source, 0, min(size, 4))))
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
    """Where the zip64 end record starts, and its numbers in the order of the other record."""
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
    signature, length, _, _, *numbers = END64.unpack(take(source, start, start + END64.size))
    if signature != END64_SIGNATURE or start + 12 + length != position:
        raise FormatError(
            f"the zip64 end has signature {signature.hex(' ')} and length {length}, "
            f"expected 50 4b 06 06 and {position - start - 12}",
            offset=start,
        )
    return start, tuple(numbers)


def read_directory(
    data: bytes | memoryview, start: int, count: int
) -> tuple[dict[str, Member], dict[str, int]]:
    """The members that are files, and by when each must have ended; all entries are checked."""
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
    """Where the thing behind each member starts, by the member's name."""
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
    """An entry of the directory, and where the next one starts."""
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
    extra = data[extra_start : extra_start + extra_length]
    _check_second_name(extra, name, offset)
    size, stored_size, header_offset = _widen(extra, (size, stored_size, header_offset), offset)
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
    """What is wrong with a member's name; None if nothing is."""
    if not name:
        return "is empty"
    if "\0" in name or "\\" in name:
        return "has a NUL or a backslash"
    # A drive needs the slash: "w:0" is how TensorFlow names a variable's value.
    if name.startswith("/") or (":/" in name and re.match("[A-Za-z]:/", name)):
        return "is absolute"
    if ".." in name and ".." in name.split("/"):
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


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a member that only some readers know, each with its kind."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        position += 4 + length
        if position > len(extra):
            return
        yield kind, extra[position - length : position]


def _check_second_name(extra: bytes, name: str, offset: int) -> None:
    """Refuses a second name, in Unicode: for newer versions of `zipfile` it is the only one."""
    if b"up" not in extra:  # the kind of such a field
        return
    for kind, content in _fields(extra):
        if kind == NAME_FIELD and content[5:] != name.encode():
            raise FormatError(f"member {name!r} is also named {content[5:105]!r}", offset=offset)


def _widen(extra: bytes, numbers: tuple[int, ...], offset: int) -> tuple[int, ...]:
    """The numbers; those with all bits set are replaced by the numbers of the zip64 field."""
    if 0xFFFFFFFF not in numbers:
        return numbers
    for kind, content in _fields(extra):
        if kind == ZIP64_FIELD:
            wide = [number == 0xFFFFFFFF for number in numbers]
            if len(content) < 8 * sum(wide):
                break
            long = iter(struct.unpack_from(f"<{sum(wide)}Q", content))
            return tuple(
                next(long) if use else number for use, number in zip(wide, numbers, strict=True)
            )
    raise FormatError("sizes or offsets lack the zip64 field they refer to", offset=offset)


def data_offset(source: Source, member: Member, limit: int) -> int:
    """Where a member's data starts.

    Args:
        source: The archive's bytes.
        member: The member, as the directory describes it.
        limit: Where the next thing in the archive starts.

    Raises:
        FormatError: The local header contradicts the directory, or the data reaches `limit`.
    """
    start = member.header_offset
    least = start + LOCAL.size + len(member.raw_name)
    header = bytes(take(source, start, min(least + _LONGEST_EXTRA, limit)))
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
        header = bytes(take(source, start, data))
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
    found = bytes(take(source, start, min(start + 24, limit)))
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
