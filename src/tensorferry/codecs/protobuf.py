"""Protobuf: a reader and a writer of messages, both driven by a table of their fields.

A message is a sequence of fields, each with a tag before its value:

    tag      varint: number of the field << 3 | wire type
    value    0 varint | 1 eight bytes | 2 varint length, then so many bytes | 5 four bytes

A varint has seven bits a byte, the lowest first; all bytes but the last have their highest bit set.
A table is a text with a line for each message: the number, the name and the kind of each field.

    Dim: 1 size int, 2 name text
    TensorShapeProto: 2 dim *Dim, 3 unknown_rank bool

    int uint bool zigzag dtype spec     varints: signed, unsigned, ...; the last two are enums
    float double | fixed32 fixed64      numbers of four and eight bytes; their bits
    text bytes                          UTF-8 as str; bytes
    Dim                                 a kind with a capital letter is another message

`*` marks the kind of a repeated field; an entry of a map is a message with a key and a value. `?`
marks the kind of a field that is written even if it is zero or empty, such as the members of a
oneof and the keys of a map; other fields are then left out. Fields that are not in the table are
skipped.

Nothing is copied: the reader returns a message or bytes as a span of the buffer, which may be a
mapped file, and the writer collects buffers. `tensorferry._native.MessageTable` reads a message by
its line of the table, `MessageFields` splits one into its fields. The formats own the tables and
the meaning of the fields. Protobuf's text format is `tensorferry.codecs.textproto`.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from tensorferry._native import MessageFields, MessageTable
from tensorferry.budget import Budget, allowed, check_size
from tensorferry.classes import NamedTuple
from tensorferry.errors import FerryError, FormatError, UnsupportedError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_VARINT = 10
"""The most bytes that a number of 64 bits takes."""

_WIRES = {
    "double": FIXED64,
    "fixed64": FIXED64,
    "float": FIXED32,
    "fixed32": FIXED32,
    "text": BYTES,
    "bytes": BYTES,
}
_SIGN, _WRAP, _MASK = 1 << 63, 1 << 64, (1 << 64) - 1


def varint(number: int) -> bytes:
    """A number of 0 or more as a varint."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: Any, position: int, end: int) -> tuple[int, int]:
    """The number at a position, and where its bytes end.

    Raises:
        FormatError: The number does not end before `end`, or takes more than 64 bits.
    """
    number = shift = 0
    start = position
    while position < end:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >= 1 << 64:
                break
            return number, position
        shift += 7
        if shift >= 7 * MAX_VARINT:
            break
    raise FormatError("a varint that does not end where it should", offset=start)


def utf8(text: str) -> bytes:
    """The bytes of a text.

    Raises:
        UnsupportedError: The text holds half a surrogate pair.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UnsupportedError(f"{text[:60]!r} is no text that UTF-8 can carry") from None


# Tables


# How to interpret the bits of a number, if they are not the number itself.
_DECODE: dict[str, Callable[[int], Any]] = {
    "int": lambda bits: bits if bits < _SIGN else bits - _WRAP,
    "bool": bool,
    "zigzag": lambda bits: bits >> 1 ^ -(bits & 1),
    "float": lambda bits: struct.unpack("<f", struct.pack("<I", bits))[0],
    "double": lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0],
}


class Field(NamedTuple):
    """A field of a message.

    Attributes:
        name: Its name.
        kind: The kind of its value: see the head of this module.
        repeated: Whether it may come more than once.
        wire: The wire type of its value.
        number: Its number.
        kept: Whether it is written even if it is zero or empty.
        decode: Interprets its bits; None if they are the number itself, or not a number.
    """

    name: str
    kind: str
    repeated: bool
    wire: int
    number: int
    kept: bool
    decode: Callable[[int], Any] | None


Tables = Mapping[str, Mapping[int, Field]]
"""The fields of messages, by the messages' names and the fields' numbers."""


class _Schema(Mapping[str, Mapping[int, Field]]):
    """Tables of which each is made when it is asked for: a file has few of the messages."""

    def __init__(self, described: dict[str, str]) -> None:
        self._described = described
        self._tables: dict[str, dict[int, Field]] = {}

    def __getitem__(self, message: str) -> Mapping[int, Field]:
        found = self._tables.get(message)
        if found is None:
            found = self._tables[message] = _parse_fields(self._described[message])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._described)

    def __len__(self) -> int:
        return len(self._described)

    def __contains__(self, message: object) -> bool:
        return message in self._described


def parse_schema(*texts: str) -> Tables:
    """The tables that texts describe."""
    lines = "\n".join(texts).replace("\n    ", " ").splitlines()
    messages = (line.partition(":") for line in lines)
    return _Schema({message: described for message, _, described in messages if message})


def _parse_fields(described: str) -> dict[int, Field]:
    table = {}
    for part in filter(None, described.strip().split(", ")):
        number, name, kind = part.split()
        name, bare = sys.intern(name), sys.intern(kind.lstrip("*?"))
        wire = BYTES if bare[0].isupper() else _WIRES.get(bare, VARINT)
        repeated, kept = kind[0] == "*", kind[0] == "?"
        decode = _DECODE.get(bare)
        table[int(number)] = Field(name, bare, repeated, wire, int(number), kept, decode)
    return table


def find_field(tables: Tables, message: str, name: str) -> Field:
    """A field by its name.

    Raises:
        KeyError: The message has no such field in the tables.
    """
    for field in tables[message].values():
        if field.name == name:
            return field
    raise KeyError(f"{message} has no field {name}")


# Reading


class Span(NamedTuple):
    """The position of a message or bytes in its buffer."""

    start: int
    end: int


# The same as `Span(...)`, in a third of the time.
_new: Any = tuple.__new__


class Reader:
    """Reads the messages of one buffer.

    A subclass for each format has its tables.

    Attributes:
        tables: The messages that are known.
        data: The buffer.
        path: Names the buffer in errors.
    """

    tables: ClassVar[Tables] = {}
    _compiled: ClassVar[dict[str, MessageTable]] = {}

    _budget: Budget | None = None  # most messages need none

    def __init_subclass__(cls) -> None:
        cls._compiled = {}

    def __init__(self, data: bytes | memoryview, path: str = "") -> None:
        self.data = data
        self.path = path

    @property
    def budget(self) -> Budget:
        """Counts what the tensors of the buffer take in memory beside it."""
        if self._budget is None:
            self._budget = Budget(len(self.data))
        return self._budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        self._budget = budget

    def read(self, message: str, span: tuple[int, int], *, without: str = "") -> dict[str, Any]:
        """The fields of a message by name: numbers, texts, spans, or lists of those.

        Fields that are not there are not in the dict.

        Args:
            message: Its name in the table.
            span: Its position.
            without: A repeated field to leave out; `each` yields its items one by one.

        Raises:
            FormatError: The bytes are not such a message, or repeat a single field.
        """
        table = self._compiled.get(message) or self._compile(message)
        return table.read(self.data, span[0], span[1], without or None)

    def counted(
        self, message: str, name: str, span: tuple[int, int], *, size: int, what: str
    ) -> list[Span]:
        """The messages in a repeated field, if they are no more than the buffer justifies.

        Two bytes may be one.

        Args:
            message: The name of the message that has the field.
            name: The field.
            span: The position of the message.
            size: As so many bytes each of them counts.
            what: Names them in the error.

        Raises:
            FormatError: A value of the field is a number.
            LimitError: Together they take more than the buffer may.
        """
        table = self._compiled.get(message) or self._compile(message)
        found: list[Span] = table.spans(self.data, *span, name, self._most(size))
        self.check_count(len(found), size=size, what=what)
        return found

    def check_count(self, count: int, *, size: int, what: str) -> None:
        """Refuses more messages than the buffer justifies.

        Args:
            count: Their number.
            size: As so many bytes each of them counts.
            what: Names them in the error.

        Raises:
            LimitError: Together they take more than the buffer may.
        """
        count = min(count, self._most(size))
        check_size(count * size, what=f"what stands for {count} {what}", held=len(self.data))

    def _most(self, size: int) -> int:
        """One more than the number of messages that the buffer justifies."""
        return min(allowed(len(self.data)) // size + 1, sys.maxsize)

    def rows(self, message: str, spans: list[Span]) -> list[Any]:
        """Messages, each as a tuple of its fields in the table's order.

        A number that is not there is 0, a text is empty, a span is None, and what is repeated is an
        empty tuple. Repeated messages without repeated fields of their own are rows as well.

        Raises:
            FormatError: One of them is not such a message, or repeats a single field.
        """
        table = self._compiled.get(message) or self._compile(message)
        return table.rows(self.data, spans)

    @classmethod
    def _compile(cls, message: str) -> MessageTable:
        fields = [
            (field.number, field.name, field.kind, field.wire, field.repeated, cls._inner(field))
            for field in cls.tables[message].values()
        ]
        compiled = cls._compiled[message] = MessageTable(message, fields, Span)
        return compiled

    @classmethod
    def _inner(cls, field: Field) -> MessageTable | None:
        """By which table the values of a field are rows themselves; None if they are spans."""
        inner = cls.tables.get(field.kind)
        if not field.repeated or inner is None or any(each.repeated for each in inner.values()):
            return None
        return cls._compiled.get(field.kind) or cls._compile(field.kind)

    def whole(self, message: str) -> dict[str, Any]:
        """The fields of the message that all of the buffer is."""
        return self.read(message, (0, len(self.data)))

    def part(self, fields: Mapping[str, Any], name: str, message: str) -> dict[str, Any]:
        """The fields of a message inside another; none if it is not there.

        Args:
            fields: The fields of the outer message.
            name: The field that the inner message is.
            message: The name of the inner message in the table.
        """
        return self.read(message, fields[name]) if name in fields else {}

    def each(self, message: str, name: str, span: tuple[int, int]) -> Iterator[Span]:
        """The spans of a repeated field, without a list of them: there may be very many.

        Raises:
            FormatError: A value of the field is a number.
        """
        number = find_field(self.tables, message, name).number
        for found, wire, first, last in MessageFields(self.data, *span):
            if found == number:
                if wire != BYTES:
                    raise _wrong_wire(f"{name} of {message}", wire, BYTES, first, last)
                yield _new(Span, (first, last))

    def first(self) -> tuple[int, int] | None:
        """The number and the wire type of the buffer's first field; None if there is none."""
        found = next(iter(MessageFields(self.data, 0, len(self.data))), None)
        return None if found is None else found[:2]

    def text(self, start: int, end: int) -> str:
        """A UTF-8 string."""
        try:
            return bytes(self.data[start:end]).decode()
        except UnicodeDecodeError:
            raise FormatError("a text is not UTF-8", offset=start) from None

    def bytes(self, span: tuple[int, int]) -> bytes:
        """A copy of some of the buffer."""
        return bytes(self.data[slice(*span)])

    def entries(self, message: str, spans: Iterable[Span]) -> dict[str, Span]:
        """The values of a map with texts as keys.

        Raises:
            FormatError: A key comes twice.
        """
        found: dict[str, Span] = {}
        spans = list(spans)
        for span, (key, value) in zip(spans, self.rows(message, spans), strict=True):
            if key in found:
                raise self.twice(f"the key {key[:60]!r} of {message}", span[0])
            # A writer may leave out a value that is all zeros.
            found[key] = Span(span[1], span[1]) if value is None else value
        return found

    def entry(self, message: str, span: tuple[int, int]) -> tuple[str, Span | None]:
        """The key of a map entry, and the position of its value; None if there is no value."""
        fields = self.read(message, span)
        return fields.get("key", ""), fields.get("value")

    @staticmethod
    def twice(what: str, offset: int) -> FormatError:
        """The error for what may come only once."""
        return FormatError(f"{what} comes twice, expected once", offset=offset)

    def located(self, error: FerryError) -> FerryError:
        """The same error, with the path of the buffer."""
        return error.located(path=self.path)


def _wrong_wire(what: str, wire: int, expected: int, first: int, last: int) -> FormatError:
    # For a number, `first` is the number itself and `last` the position of its tag.
    return FormatError(
        f"{what} has wire type {wire}, expected {expected}", offset=first if wire == BYTES else last
    )


# Writing


class Message(NamedTuple):
    """The buffers of an encoded message, and the sum of their sizes in bytes."""

    buffers: list[Any]
    size: int

    @classmethod
    def of(cls, data: bytes) -> Message:
        """A message that is in one piece."""
        return cls([data], len(data))


_ENCODE: dict[str, Callable[[Any], bytes]] = {
    "zigzag": lambda value: varint(value << 1 if value >= 0 else (-value << 1) - 1),
    "float": struct.Struct("<f").pack,
    "fixed32": struct.Struct("<I").pack,
    "double": struct.Struct("<d").pack,
    "fixed64": struct.Struct("<Q").pack,
}


def encode_number(kind: str, value: float) -> bytes:
    """A number without its tag; a negative one of kind "int" takes ten bytes.

    Raises:
        struct.error, OverflowError: Four or eight bytes cannot hold it.
    """
    encode = _ENCODE.get(kind)
    return varint(int(value) & _MASK) if encode is None else encode(value)


class Writer:
    """Writes messages of some tables.

    Values are given by the names of their fields: numbers, texts, bytes, a message as a dict of its
    own fields or as bytes, and lists of those. None is left out.

        Writer(TABLES).encode("TensorShapeProto", dim=[{"size": 2}, {"size": 3}])

    Messages with large buffers are assembled from `tag`, `frame` and `join`, without a copy.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._fields: dict[str, list[tuple[Field, bytes]]] = {}

    def _fields_of(self, message: str) -> list[tuple[Field, bytes]]:
        """The fields of a message with their tags, in the order in which they are written."""
        found = self._fields.get(message)
        if found is None:
            # As protobuf's own writers do: in the order of the fields' numbers.
            found = self._fields[message] = [
                (field, varint(number << 3 | field.wire))
                for number, field in sorted(self._tables[message].items())
            ]
        return found

    def tag(self, message: str, name: str) -> bytes:
        """The tag of a field.

        Raises:
            KeyError: The table has no such field.
        """
        field = find_field(self._tables, message, name)
        return varint(field.number << 3 | field.wire)

    def encode(self, message: str, /, **fields: Any) -> bytes:
        """A message as bytes.

        Raises:
            KeyError: The table has no such field.
            UnsupportedError: A text holds half a surrogate pair.
        """
        return self._encode(message, fields)

    def _encode(self, message: str, fields: Mapping[str, Any]) -> bytes:
        out: list[bytes] = []
        left = len(fields)
        for field, tag in self._fields_of(message):
            if field.name not in fields:
                continue
            left -= 1
            value = fields[field.name]
            if value is None:
                continue
            if field.wire != BYTES:
                out.append(_number(field, tag, value))
                continue
            kind = field.kind
            for each in value if field.repeated else (value,):
                if kind == "text":
                    data = utf8(each)
                else:
                    data = self._encode(kind, each) if isinstance(each, dict) else each
                if data or field.repeated or field.kept or kind[0].isupper():
                    out += (tag, varint(len(data)), data)
            if not left:
                break
        if left:
            raise KeyError(f"{message} has not all fields of {', '.join(fields)}")
        return b"".join(out)


def _number(field: Field, tag: bytes, value: Any) -> bytes:
    if field.repeated:  # all of them stand in one run of bytes
        data = b"".join(encode_number(field.kind, each) for each in value)
        return varint(field.number << 3 | BYTES) + varint(len(data)) + data if data else b""
    data = encode_number(field.kind, value)
    return tag + data if field.kept or any(data) else b""


def join(messages: Iterable[Message]) -> Message:
    """The fields of several messages, or several fields, as one message."""
    buffers: list[Any] = []
    size = 0
    for message in messages:
        buffers += message.buffers
        size += message.size
    return Message(buffers, size)


def frame(tag: bytes, message: Message) -> Message:
    """A message as a field of another."""
    prefix = tag + varint(message.size)
    return Message([prefix, *message.buffers], len(prefix) + message.size)
