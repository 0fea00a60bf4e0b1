"""HDF5: the files in which Keras keeps weights, and others their data.

    superblock | objects, wherever the writer put them

The superblock points to the root group. An object (a group or a dataset) is a header of messages,
as for its type, its shape and the place of its values. A group's members are in a B-tree of names
(the form that h5py writes), in messages of their own, or, if they are many, in a heap. Numbers are
little-endian, addresses and lengths have eight bytes.

Only the file itself is read: soft and external links are listed and not followed, and values in
other files are refused. Each tree is walked once, each group has one name, and the bytes that are
read for this are counted, so that a damaged file gives an error and no endless walk. Values are not
verified, because files of this kind have no checksums.

The messages of a dataset are parsed by `tensorferry.codecs.hdf5.types`, and its values are read by
`tensorferry.formats.keras.values`; which of them are weights is for the formats.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NoReturn

from tensorferry import limits
from tensorferry.codecs.hdf5.headers import Message, check_extension, read_messages
from tensorferry.codecs.hdf5.heaps import Heap
from tensorferry.codecs.hdf5.trees import ATTRIBUTE_NAMES, LINK_NAMES, walk_records, walk_tree
from tensorferry.codecs.hdf5.types import UNDEFINED, Datatype, read_datatype, read_shape
from tensorferry.errors import FerryError, FormatError, LimitError, TruncatedError, UnsupportedError
from tensorferry.storage import Source

SIGNATURE = b"\x89HDF\r\n\x1a\n"

# How many bytes and reads a walk over all objects may take: real files take a tenth of that.
SPARE_BYTES, BYTES_FACTOR = 1 << 20, 8
SPARE_READS, MOST_READS = 1 << 12, 1 << 24

PART = 1 << 14
"""Number of bytes that a member of a group, or a name in a list, counts for."""

# How many bytes of a remote file are fetched at a time: its objects lie close to each other.
PAGE = 1 << 18
# Of a local file, these are read as they are needed, and not kept for long.
LOCAL_PAGE, MOST_PAGES = 1 << 13, 64

# Messages of an object's header.
DATASPACE, LINK_INFO, DATATYPE, FILL_VALUE, LINK, EXTERNAL_FILES = 0x01, 0x02, 0x03, 0x05, 0x06, 7
LAYOUT, FILTERS, ATTRIBUTE, SYMBOL_TABLE, ATTRIBUTE_INFO = 8, 11, 12, 17, 21
GROUPS = (LINK_INFO, SYMBOL_TABLE)  # an object with one of them is a group
SHARED = 2  # a flag: the message is kept elsewhere

_SYMBOL = struct.Struct("<QQI4x16s")
_PLACE = struct.Struct("<Q")


class Bytes:
    """The bytes of a file inside a source; it counts how many are read.

    Args:
        source: Holds the file.
        start: Where the file starts in the source.
        size: Number of bytes of the file.
    """

    def __init__(self, source: Source, start: int, size: int) -> None:
        self.source = source
        self.start = start
        self.size = size
        self._bytes_left = BYTES_FACTOR * size + SPARE_BYTES
        self._reads_left = SPARE_READS + min(size, MOST_READS)
        self._pages: dict[int, bytes] = {}
        self._step = PAGE if source.buffer is None else LOCAL_PAGE

    def take(self, offset: int, length: int) -> bytes:
        """Bytes of the file.

        Raises:
            TruncatedError: They lie beyond the end of the file.
            LimitError: More was read than any sound file needs.
        """
        if not 0 <= offset <= offset + length <= self.size:
            raise self.beyond(offset, length)
        self.count(offset, length)
        number, first = divmod(self.start + offset, self._step)
        page = self._pages.get(number)
        if page is None:
            page = self._fetch(number)
        found = page[first : first + length]
        while len(found) < length:
            number += 1
            page = self._pages.get(number)
            if page is None:
                page = self._fetch(number)
            found += page[: length - len(found)]
        return found

    def count(self, offset: int, length: int) -> None:
        """Counts bytes that are read, or made of some that others are made of, too.

        Raises:
            LimitError: They are more than any sound file needs.
        """
        self._bytes_left -= length
        self._reads_left -= 1
        if self._bytes_left < 0 or self._reads_left < 0:
            raise LimitError(
                "the objects of the file refer to each other without end",
                path=self.source.path,
                offset=self.start + offset,
            )

    def beyond(self, offset: int, length: int) -> TruncatedError:
        """The error for bytes beyond the end of the file."""
        return TruncatedError(
            f"{length} bytes are said to lie at byte {offset}, of {self.size} that are there",
            path=self.source.path,
            offset=self.start + min(max(offset, 0), self.size),
            hint="the file was cut or damaged: copy or write it again",
        )

    def _fetch(self, number: int) -> bytes:
        first = max(number * self._step, self.start)
        end = min((number + 1) * self._step, self.start + self.size)
        is_local = self.source.buffer is not None
        if is_local and len(self._pages) == MOST_PAGES:
            self._pages.clear()
        found = self.source.copy(first, end) if is_local else bytes(self.source.range(first, end))
        page = self._pages[number] = bytes(first - number * self._step) + found
        return page


class _Parsing:
    """A block in which something is parsed: see `File.parsing`."""

    __slots__ = ("_file", "_offset", "_what")

    def __init__(self, file: File, offset: int, what: str) -> None:
        self._file = file
        self._offset = offset
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        wrong = (struct.error, IndexError, ValueError, OverflowError)
        if isinstance(error, wrong) and not isinstance(error, FerryError):
            self._file.fail(self._offset, f"{self._what} cannot be read: {error}")


class File:
    """An HDF5 file; `root` is its outermost group.

    Args:
        source: Holds the file.
        start: Where the file starts in the source, which may be an archive.
        size: Number of bytes of the file; by default up to the end of the source.

    Raises:
        FormatError: It is no HDF5 file.
        UnsupportedError: The file is of a version that is not read here.
    """

    def __init__(self, source: Source, start: int = 0, size: int | None = None) -> None:
        if source.size is None:
            source.everything()
        whole = source.size
        assert whole is not None
        self.path = source.path
        self.bytes = Bytes(source, start, whole - start if size is None else size)
        self._heaps: dict[int, dict[int, bytes]] = {}
        self._groups: set[int] = set()
        self._headers: dict[int, list[Message]] = {}
        with self.parsing(0, "the superblock"):
            address = self._superblock()
        self.root = Node(self, "", address)
        self.enter(self.root)

    def fail(self, offset: int, what: str) -> NoReturn:
        """Raises the error for damage at a place."""
        raise FormatError(what, path=self.path, offset=self.bytes.start + offset)

    def parsing(self, offset: int, what: str) -> _Parsing:
        """Turns the errors that Python raises for short or undecodable bytes into ours."""
        return _Parsing(self, offset, what)

    def refuse(self, offset: int, what: str, *, tensor: str | None = None) -> NoReturn:
        """Raises the error for a feature of HDF5 that is not read here."""
        raise self.refusal(offset, what, tensor=tensor)

    def refusal(self, offset: int, what: str, *, tensor: str | None = None) -> UnsupportedError:
        """The error for a feature of HDF5 that is not read here."""
        return UnsupportedError(
            what,
            path=self.path,
            offset=self.bytes.start + offset,
            tensor=tensor,
            hint='hdf5="h5py" reads it with the HDF5 library, if you trust the file',
        )

    def enter(self, node: Node) -> bool:
        """Whether a group is met for the first time. A second would make paths without end."""
        is_new = node.address not in self._groups
        self._groups.add(node.address)
        return is_new

    def header(self, address: int) -> list[Message]:
        """The messages of an object's header, read once, however many names the object has."""
        found = self._headers.get(address)
        if found is None:
            with self.parsing(address, "an object's header"):
                found = self._headers[address] = list(read_messages(self, address))
        return found

    def count(self, number: int, what: str, address: int) -> None:
        """Counts what stands for parts of an object, of each of which the file holds a few bytes.

        Raises:
            LimitError: They take more than the file may.
        """
        self.bytes.source.budget.take(
            number * PART,
            what=f"what stands for {number} {what}",
            key=(what, self.bytes.start + address),
            offset=self.bytes.start + address,
            path=self.path,
        )

    def heap_object(self, address: int, index: int) -> bytes:
        """An object of a global heap, which holds strings of variable length."""
        if address not in self._heaps:
            with self.parsing(address, "a heap"):
                self._heaps[address] = self._read_heap(address)
        if index not in self._heaps[address]:
            self.fail(address, f"the heap has no object {index}")
        return self._heaps[address][index]

    def _superblock(self) -> int:
        """The address of the root group."""
        head = self.bytes.take(0, min(self.bytes.size, 96))
        if not head.startswith(SIGNATURE):
            self.fail(0, f"no HDF5 file: starts with {head[:8].hex(' ')}, expected 89 48 44 46")
        version = head[8]
        if version in (0, 1):
            sizes, start = head[13:15], 24 + 4 * version
            base, _, end, _, _, root = struct.unpack_from("<6Q", head, start)
        elif version in (2, 3):
            sizes = head[9:11]
            base, extension, end, root = struct.unpack_from("<4Q", head, 12)
            check_extension(self, extension)
        else:
            self.refuse(8, f"the superblock is of version {version}, expected 0 to 3")
        if sizes != b"\x08\x08" or base:
            self.refuse(
                0,
                f"addresses and lengths take {sizes[0]} and {sizes[1]} bytes from byte {base} on, "
                "expected 8 and 8 from byte 0 on",
            )
        if end > self.bytes.size:
            raise TruncatedError(
                f"{self.bytes.size} bytes, the superblock says {end}",
                path=self.path,
                offset=self.bytes.start + self.bytes.size,
                hint="the file was cut or its writer died: copy or write it again",
            )
        return int(root)

    def _read_heap(self, address: int) -> dict[int, bytes]:
        signature, version, size = struct.unpack("<4sB3xQ", self.bytes.take(address, 16))
        if signature != b"GCOL" or version != 1 or size < 16:
            self.fail(address, "no global heap, expected one")
        data = self.bytes.take(address, size)
        found: dict[int, bytes] = {}
        position = 16
        while position + 16 <= size:
            index, length = struct.unpack_from("<H6xQ", data, position)
            if index == 0:
                break
            position += 16
            if length > size - position:
                self.fail(address + position, f"object {index} of a heap reaches beyond it")
            found[index] = data[position : position + length]
            position += -(-length // 8) * 8
        return found


class Node:
    """A group or a dataset.

    Attributes:
        file: The file that it is a part of.
        path: The names from the root to it, with "/" between them.
        address: Where its header starts in the file.
        messages: Those of its header.
        is_dataset: Whether it is a dataset, which has values, rather than a group.
    """

    def __init__(self, file: File, path: str, address: int) -> None:
        self.file = file
        self.path = path
        self.address = address
        self.messages = file.header(address)
        kinds = {message.kind for message in self.messages}
        self.is_dataset = LAYOUT in kinds
        if self.is_dataset and not kinds.isdisjoint(GROUPS):  # whose members nobody would look at
            file.fail(address, "an object is a group and a dataset at once")

    def find(self, kind: int) -> Message | None:
        """The first message of a kind; None if there is none.

        Raises:
            UnsupportedError: The message is kept in a heap of the file.
        """
        for found in self.messages:
            if found.kind == kind:
                return self._shared(found) if found.flags & SHARED else found
        return None

    def _shared(self, message: Message) -> Message:
        """The message of another object, such as a type with a name."""
        version, kind = struct.unpack_from("<BB", message.data)
        if version not in (1, 2, 3) or (version == 3 and kind != 2):
            self.file.refuse(message.offset, "a part of the header is kept elsewhere")
        (address,) = struct.unpack_from("<Q", message.data, 8 if version == 1 else 2)
        other = Node(self.file, self.path, address)
        found = next((each for each in other.messages if each.kind == message.kind), None)
        if found is None or found.flags & SHARED:
            self.file.fail(address, "a part of a header is said to be here, and is not")
        return found

    @property
    def members(self) -> dict[str, Node]:
        """The members of a group, in the order of the file; empty for a dataset."""
        return self._inside[0]

    @property
    def links(self) -> dict[str, UnsupportedError]:
        """The members of a group that are links: the error that says why one is not followed."""
        return self._inside[1]

    @cached_property
    def _inside(self) -> tuple[dict[str, Node], dict[str, UnsupportedError]]:
        if self.is_dataset:
            return {}, {}
        if self.path.count("/") + 1 > limits.depth:
            raise LimitError(
                f"groups nest deeper than {limits.depth}", path=self.file.path, offset=self.address
            )
        with self.file.parsing(self.address, "a group"):
            found = dict(self._links())
        prefix = f"{self.path}/" if self.path else ""
        members, links = {}, {}
        for name, target in found.items():
            if isinstance(target, UnsupportedError):
                links[name] = target
                continue
            member = Node(self.file, prefix + name, target)
            if not member.is_dataset and not self.file.enter(member):
                links[name] = self._refusal(target, name, "another name of a group")
            else:
                members[name] = member
        return members, links

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes by name: strings and lists of strings; None for those of other types."""
        with self.file.parsing(self.address, "the attributes of an object"):
            found = dict(self._attribute(each) for each in self.messages if each.kind == ATTRIBUTE)
            info = self.find(ATTRIBUTE_INFO)
            if info is not None:
                place = 4 if info.data[1] & 1 else 2
                heap, tree = struct.unpack_from("<QQ", info.data, place)
                if heap != UNDEFINED:
                    for data in self._dense(heap, tree, ATTRIBUTE_NAMES):
                        key, value = self._attribute(Message(ATTRIBUTE, 0, data, info.offset))
                        found[key] = value
            return found

    def _dense(self, heap: int, tree: int, kind: int) -> Iterator[bytes]:
        """The messages of links or attributes that are too many for the object's header."""
        messages = Heap(self.file, heap)
        for record in walk_records(self.file, tree, kind):
            if kind == LINK_NAMES:
                yield messages.take(record[4:])
            elif not record[8] & SHARED:
                yield messages.take(record[:8])

    def _links(self) -> Iterator[tuple[str, int | UnsupportedError]]:
        """The members: where each lies, or why it is not followed there."""
        seen: set[str] = set()
        for name, target in self._all_links():
            # Names may be parts of each other, and each is kept with the path that leads to it.
            self.file.bytes.count(self.address, len(self.path) + len(name))
            if name in seen or not name or name in (".", "..") or "/" in name or "\0" in name:
                self.file.fail(self.address, f"a member of a group is called {name[:60]!r}")
            seen.add(name)
            self.file.count(len(seen), "members of a group", self.address)
            yield name, target

    def _all_links(self) -> Iterator[tuple[str, int | UnsupportedError]]:
        for message in self.messages:
            if message.kind == SYMBOL_TABLE:
                yield from self._symbols(*struct.unpack_from("<QQ", message.data))
            elif message.kind == LINK:
                yield self._link(message)
            elif message.kind == LINK_INFO:
                flags = message.data[1]
                place = 10 if flags & 1 else 2
                heap, tree = struct.unpack_from("<QQ", message.data, place)
                if heap != UNDEFINED:
                    for data in self._dense(heap, tree, LINK_NAMES):
                        yield self._link(Message(LINK, 0, data, message.offset))

    def _symbols(self, tree: int, heap: int) -> Iterator[tuple[str, int | UnsupportedError]]:
        """The members of a group in a B-tree: their names are in a heap beside it."""
        data = self.file.bytes
        signature, _, size, _, start = struct.unpack("<4sIQQQ", data.take(heap, 32))
        if signature != b"HEAP":
            self.file.fail(heap, "no heap of names, expected one")
        names = data.take(start, size)
        for table in walk_tree(self.file, tree, 0, _PLACE):
            signature, _, count = struct.unpack("<4sHH", data.take(table.child, 8))
            if signature != b"SNOD":
                self.file.fail(table.child, "no table of a group's members, expected one")
            symbols = data.take(table.child + 8, count * _SYMBOL.size)
            for place, address, kind, _ in _SYMBOL.iter_unpack(symbols):
                end = names.find(b"\0", place)
                if end < 0:
                    self.file.fail(start + place, "the name of a group's member does not end")
                name = names[place:end].decode()
                is_soft = kind == 2
                yield name, self._refusal(table.child, name, "a soft link") if is_soft else address

    def _link(self, message: Message) -> tuple[str, int | UnsupportedError]:
        version, flags = message.data[:2]
        if version != 1:
            self.file.refuse(message.offset, f"a link is of version {version}, expected 1")
        position, kind = 2, 0
        if flags & 8:
            kind, position = message.data[2], 3
        position += 8 * bool(flags & 4) + bool(flags & 16)
        width = 1 << (flags & 3)
        length = int.from_bytes(message.data[position : position + width], "little")
        position += width
        name = message.data[position : position + length].decode()
        if kind:
            what = {1: "a soft link", 64: "a link to another file"}.get(kind, "no hard link")
            return name, self._refusal(message.offset, name, what)
        return name, struct.unpack_from("<Q", message.data, position + length)[0]

    def _refusal(self, offset: int, name: str, what: str) -> UnsupportedError:
        path = f"{self.path}/{name}".lstrip("/")
        return self.file.refusal(offset, f"{name[:60]!r} is {what}", tensor=path[:200])

    def _attribute(self, message: Message) -> tuple[str, Any]:
        data = message.data
        version, flags, *sizes = struct.unpack_from("<BBHHH", data)
        if version not in (1, 2, 3):
            self.file.refuse(message.offset, f"an attribute is of version {version}")
        position, parts = (9 if version == 3 else 8), []
        for size in sizes:
            parts.append(data[position : position + size])
            position += -(-size // 8) * 8 if version == 1 else size
        name = parts[0].split(b"\0")[0].decode()
        if flags & 3 and version > 1:  # its type or shape is kept elsewhere
            return name, None
        datatype = read_datatype(parts[1])
        shape = read_shape(parts[2])
        if datatype is None or shape is None or len(shape) > 1:
            return name, None
        count = shape[0] if shape else 1
        values = data[position : position + count * datatype.size]
        if not datatype.is_text or not datatype.size:
            return name, None
        if len(values) != count * datatype.size:
            self.file.fail(message.offset, f"attribute {name[:60]!r} has fewer values than said")
        texts = []
        for place in range(0, len(values), datatype.size):
            text = self.text(values[place : place + datatype.size], datatype)
            if datatype.is_variable:  # many attributes may have the same text
                self.file.bytes.count(message.offset, len(text))
            texts.append(text.decode())
        return name, texts if shape else texts[0]

    def text(self, value: bytes, datatype: Datatype) -> bytes:
        """A string of fixed or variable length."""
        if not datatype.is_variable:
            return value.rstrip(b"\0 ") if datatype.is_padded else value.split(b"\0")[0]
        length, address, index = struct.unpack("<IQI", value)
        if not length or not address:
            return b""
        found = self.file.heap_object(address, index)
        if len(found) < length:
            self.file.fail(address, f"{len(found)} bytes of a string, expected {length}")
        return found[:length]
