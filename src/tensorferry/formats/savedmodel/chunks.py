"""A SavedModel in chunks (saved_model.cpb): the parts of a message that is beyond 2 GiB.

The file is one of records (`tensorferry.codecs.riegeli`). The last of them, a ChunkMetadata, says
where each chunk is and what it is of:

    2 chunks: 1 type (1 message, 2 bytes) | 2 size | 3 position of the record
    3 message: 1 number of a chunk | 2 fields, each with
        1 the way to it, as field numbers, indices and keys | 3 message, as above

A chunk is merged into the message, or into the field that the way leads to. What a way passes is
taken apart, all else stays the bytes that it is; at the end they are one message again, which is
read like any other. No chunk and no record is used twice, so the result is never longer than they
are; what they are decompressed to is counted (`tensorferry.budget`).
"""

from __future__ import annotations

import struct
from typing import Any

from tensorferry import _native, limits
from tensorferry.budget import Budget
from tensorferry.classes import NamedTuple, dataclass, field
from tensorferry.codecs import riegeli
from tensorferry.codecs.protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Field,
    Message,
    Span,
    frame,
    join,
    varint,
)
from tensorferry.errors import FerryError, FormatError, LimitError
from tensorferry.formats.savedmodel.messages import TABLES, Reader

MESSAGE, RAW = 1, 2

PARSED = 64
"""A byte of a message that is taken apart takes so many in memory: a field may have two bytes."""


def merge(
    source: bytes | memoryview,
    message: str,
    *,
    verify: bool = True,
    path: str = "",
    budget: Budget | None = None,
) -> bytes:
    """The bytes of the message that a file has in chunks.

    Args:
        source: The whole file.
        message: Its name in `tensorferry.formats.savedmodel.messages`.
        verify: Check the hashes of data.
        path: Names the file in errors.
        budget: Counts what the chunks take in memory; by default the file has its own.

    Raises:
        FormatError: The file is damaged, or a chunk is not there, or used twice.
        LimitError: The chunks take far more memory than the file.
    """
    budget = Budget(len(source)) if budget is None else budget
    records = list(riegeli.read_records(source, verify=verify, budget=budget))
    if not records:
        raise FormatError("a file without records, expected at least one", path=path)
    try:
        return _Merger(records, path, budget).merge(message)
    except FerryError as error:
        error.offset = None  # inside a chunk, which was compressed
        raise


class _Step(NamedTuple):
    """A field on the way, and which of its elements: by number, or by key."""

    number: int
    element: int | None = None
    key: bytes | None = None


class _Merger:
    def __init__(self, records: list[riegeli.Record], path: str, budget: Budget) -> None:
        self.metadata = Reader(records[-1].data, path)
        self.records = {record.position: record.data for record in records[:-1]}
        self.used: set[int] = set()
        self.budget = budget

    def merge(self, message: str) -> bytes:
        reader = self.metadata
        self.budget.take(PARSED * len(reader.data), what="the list of chunks")
        fields = reader.whole("ChunkMetadata")
        count = len(fields.get("chunks", []))
        if count > len(self.records):
            raise FormatError(f"{count} chunks are listed, there are {len(self.records)} records")
        self.room = _Room(count)
        self.chunks = [reader.read("ChunkInfo", place) for place in fields.get("chunks", [])]
        root = _Tree(message, limits.depth)
        if "message" in fields:
            self.fill(root, fields["message"], limits.depth)
        return b"".join(root.encode().buffers)

    def fill(self, tree: _Tree, span: Span, depth: int) -> None:
        """Merges what a ChunkedMessage says."""
        if depth < 0:
            raise LimitError(f"chunks nest deeper than {limits.depth} messages")
        fields = self.metadata.read("ChunkedMessage", span)
        if "chunk_index" in fields:
            data = self.chunk(fields["chunk_index"], MESSAGE)
            self.budget.take(PARSED * len(data), what=f"chunk {fields['chunk_index']}")
            tree.merge(data)
        parts = []
        for place in fields.get("chunked_fields", []):
            part = self.metadata.read("ChunkedField", place)
            way = self.read_way(part.get("field_tag", []))
            inner = part.get("message", Span(place.end, place.end))
            index = self.metadata.read("ChunkedMessage", inner).get("chunk_index", 0)
            # A field comes before what is in it, and elements come in order.
            order = [number for step in way for number in (step.number, step.element or 0)]
            parts.append((order, index, way, inner))
        parts.sort(key=lambda part: part[:2])
        for _, index, way, inner in parts:
            target, last = tree.follow(way, self.room)
            if last is None:
                if target is not None:
                    self.fill(target, inner, depth - 2)
            elif target is not None:
                target.put(last, self.chunk(index, RAW))

    def read_way(self, spans: list[Span]) -> list[_Step]:
        """The fields that lead to one, each with its index or key."""
        steps: list[_Step] = []
        for place in spans:
            tag = self.metadata.read("FieldIndex", place)
            if "field" in tag:
                steps.append(_Step(tag["field"]))
                continue
            if not steps or steps[-1][1:] != (None, None):
                raise FormatError("the way to a chunk has an index without a field")
            number = steps.pop().number
            if "index" in tag:
                steps.append(_Step(number, element=tag["index"]))
            elif "map_key" in tag:
                key = self.metadata.read("MapKey", tag["map_key"])
                steps.append(_Step(number, key=_encode_key(key)))
            else:
                raise FormatError("the way to a chunk has a step that is nothing")
        if len(steps) > limits.depth:
            raise LimitError(f"the way to a chunk passes more than {limits.depth} messages")
        return steps

    def chunk(self, index: int, kind: int) -> memoryview:
        """A chunk, which is then used."""
        if index >= len(self.chunks):
            raise FormatError(f"chunk {index} is asked for, there are {len(self.chunks)}")
        if index in self.used:
            raise FormatError(f"chunk {index} is used twice, expected once")
        self.used.add(index)
        info = self.chunks[index]
        record = self.records.pop(info.get("offset", 0), None)
        if record is None:
            raise FormatError(
                f"chunk {index} is at {info.get('offset', 0)}, where no record is, "
                "or one that another chunk has"
            )
        if info.get("size", 0) != len(record):
            raise FormatError(
                f"chunk {index} has {len(record)} bytes, expected {info.get('size', 0)}"
            )
        # Older writers leave the type away.
        if info.get("type", 0) not in (0, kind):
            raise FormatError(f"chunk {index} is of type {info['type']}, expected {kind}")
        return record


def _encode_key(key: dict[str, Any]) -> bytes:
    """A map's key as it stands in an entry."""
    if len(key) != 1:
        raise FormatError(f"a key of {len(key)} values, expected one")
    ((_, value),) = key.items()
    if isinstance(value, str):
        return value.encode()
    return varint(value)


@dataclass(slots=True)
class _Room:
    """How many elements may still be added in front of those that chunks are for."""

    left: int


@dataclass(slots=True)
class _Part:
    """A field of a message, as its bytes, as a list of them, or taken apart."""

    number: int
    wire: int
    value: Any
    tree: _Tree | None = None


@dataclass(slots=True)
class _Tree:
    """A message that is taken apart into its fields.

    Attributes:
        message: Its name in the table.
        depth: How many messages deep it may still be taken apart.
        parts: Its fields in order.
        places: Of each field that comes, the parts.
        keys: Of maps that were looked into, the parts by key.
    """

    message: str
    depth: int
    parts: list[_Part] = field(default_factory=list)
    places: dict[int, list[_Part]] = field(default_factory=dict)
    keys: dict[int, dict[bytes, _Part]] = field(default_factory=dict)

    def add(self, number: int, wire: int, value: Any) -> _Part:
        part = _Part(number, wire, value)
        self.parts.append(part)
        self.places.setdefault(number, []).append(part)
        return part

    def merge(self, data: Any) -> None:
        """Merges a serialized message, as protobuf does."""
        table = TABLES[self.message]
        for number, wire, first, last in _native.MessageFields(data, 0, len(data)):
            value = data[first:last] if wire == BYTES else first
            known = table.get(number)
            before = self.places.get(number)
            if known is None or known.repeated or not before:
                part = self.add(number, wire, value)
                if number in self.keys and known is not None:
                    self.keys[number][self.key_of(part, known.kind)] = part
            elif known.kind in TABLES and wire == BYTES:
                self.expand(before[0], known.kind).merge(value)
            else:
                before[0].wire, before[0].value, before[0].tree = wire, value, None

    def expand(self, part: _Part, message: str) -> _Tree:
        """Takes a field apart."""
        if part.tree is None:
            if part.wire != BYTES:
                raise FormatError(f"the way to a chunk passes field {part.number}, a number")
            if not self.depth:
                raise LimitError(f"chunks nest deeper than {limits.depth} messages")
            part.tree = _Tree(message, self.depth - 1)
            part.tree.merge(part.value)
        return part.tree

    def follow(self, way: list[_Step], room: _Room) -> tuple[_Tree | None, _Step | None]:
        """The message that a way ends in, and the step that is left if it ends in a value.

        A way through fields that nobody here looks into ends nowhere.
        """
        tree = self
        for place, step in enumerate(way):
            known = TABLES[tree.message].get(step.number)
            if known is None:
                return None, None
            if known.kind not in TABLES:
                if place != len(way) - 1:
                    raise FormatError(
                        f"the way to a chunk passes {known.name}, which is no message"
                    )
                return tree, step
            tree = tree.enter(step, known, room)
        return tree, None

    def enter(self, step: _Step, known: Field, room: _Room) -> _Tree:
        """The message in a field, made if it is not there."""
        if step.key is not None:
            entries = self.entries(step.number, known.kind)
            part = entries.get(step.key)
            if part is None:
                part = self.add(step.number, BYTES, b"")
                key = TABLES[known.kind][1]
                self.expand(part, known.kind).add(1, key.wire, step.key)
                entries[step.key] = part
            value = TABLES[known.kind][2]
            return self.expand(part, known.kind).enter(_Step(2), value, room)
        index = step.element or 0
        parts = self.places.setdefault(step.number, [])
        missing = index - len(parts)  # in front of the element
        if missing > room.left or (index and not known.repeated):
            raise FormatError(f"{known.name}[{index}] of a chunk, there are {len(parts)}")
        room.left -= max(missing, 0)
        while index >= len(parts):
            self.add(step.number, BYTES, b"")
        return self.expand(parts[index], known.kind)

    def entries(self, number: int, message: str) -> dict[bytes, _Part]:
        """The entries of a map by key."""
        if number not in self.keys:
            if set(TABLES[message]) != {1, 2} or TABLES[message][1].name != "key":
                raise FormatError("the way to a chunk has a key of what is no map")
            found = self.keys[number] = {}
            for part in self.places.get(number, []):
                found[self.key_of(part, message)] = part
        return self.keys[number]

    def key_of(self, part: _Part, message: str) -> bytes:
        """The key of an entry of a map."""
        keys = self.expand(part, message).places.get(1)
        key = keys[0].value if keys else b""
        return varint(key) if isinstance(key, int) else bytes(key)

    def put(self, step: _Step, chunk: memoryview) -> None:
        """Makes a chunk the value of a field; several are one behind the other."""
        known = TABLES[self.message][step.number]
        if known.wire != BYTES:
            raise FormatError(f"a chunk for {known.name}, which is {known.kind}")
        parts = self.places.get(step.number, [])
        if any(part.wire != BYTES for part in parts):
            raise FormatError(f"a chunk for {known.name}, which is a number so far")
        if known.repeated:
            if step.element is not None and step.element < len(parts):
                parts[step.element].value = chunk
            else:
                self.add(step.number, BYTES, chunk)
        elif parts:
            before = parts[0].value
            if not isinstance(before, list):
                before = parts[0].value = [before]
            before.append(chunk)
        else:
            self.add(step.number, BYTES, chunk)

    def encode(self) -> Message:
        """The bytes of the message, as buffers."""
        return join(_encode(part) for part in self.parts)


def _encode(part: _Part) -> Message:
    tag = varint(part.number << 3 | part.wire)
    if part.wire == BYTES:
        if part.tree is not None:
            return frame(tag, part.tree.encode())
        buffers = part.value if isinstance(part.value, list) else [part.value]
        return frame(tag, Message(buffers, sum(map(len, buffers))))
    if part.wire == VARINT:
        return Message.of(tag + varint(part.value))
    if part.wire in (FIXED32, FIXED64):
        return Message.of(tag + struct.pack("<I" if part.wire == FIXED32 else "<Q", part.value))
    raise FormatError(f"field {part.number} has wire type {part.wire}")
