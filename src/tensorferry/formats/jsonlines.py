r"""JSON Lines: a JSON object a line, which is a row.

    {"id": 1, "text": "one", "tokens": [4, 5]}
    {"id": 2, "text": null, "tokens": []}

The names of an object are columns; a value that is missing is null. Values are numbers, texts,
bools, lists of any depth and objects in objects. The first rows tell the types, or `schema=` does;
a name that only comes later is refused. Numbers come back as int64 and float64. Times and decimals
are written as texts, and come back as such.

PyArrow (the extra "arrow") parses; blocks are `tensorferry.formats.tables.text`. How deep lines
nest is held against `limits.depth` before it does: its types nest as the values do.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry import limits
from tensorferry.budget import check_spread
from tensorferry.errors import LimitError, UnsupportedError
from tensorferry.formats.contract import Format, WriteOptions
from tensorferry.formats.tables import pieces, text
from tensorferry.formats.tables.contract import TableOptions
from tensorferry.formats.tables.text import TextOptions
from tensorferry.formats.tables.writer import BatchWriter
from tensorferry.storage.sink import Sink
from tensorferry.storage.source import Source
from tensorferry.tensors.values import Array

if TYPE_CHECKING:
    import pyarrow as pa

PART = 1 << 14
"""Number of bytes of a part of which the keys are counted: at most 30 MB of values."""

CELL = 64
"""As so many bytes each key counts in each row: a missing one takes time, too."""

# One that does not end reaches to the end: each quote in it would else be tried as a start.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NAME = re.compile(b"(" + _STRING.pattern + rb")(\s*+:)?", re.DOTALL)


class Reader(text.TextReader):
    """The blocks of a file of JSON Lines."""

    def __init__(self, source: Source, how: TextOptions, like: Any) -> None:
        pieces.require_pyarrow()
        view = memoryview(source.everything())
        super().__init__(source, view, text.cut(view, 0, quotes=False), how, like)

    def _find_schema(self, given: dict[str, Any], whole: bool) -> Any:
        import pyarrow as pa

        self._known = pa.schema(list(given.items()))
        self._is_whole = whole or not self._blocks
        if not self._is_whole:
            with self._located(self._blocks[0]):
                self._check_keys(self._blocks[0])
                found = self._parse(self._text(0), (), self._blocks[0].rows).schema
                pieces.check_names(found)
                pieces.check_parts(len(list(_keys(found))), held=self.size)
                kinds = {field.name: text.as_text(field.type) for field in found}
            self._known = pa.schema(list({**kinds, **given}.items()))
            self._is_whole = True
        return self._known

    def _check_keys(self, block: text.Block) -> None:
        """Refuses rows of ever other keys: each key takes a value in each row of a block.

        The keys are counted in parts, which are too small to take much memory whatever they hold.
        """
        import pyarrow as pa

        data = memoryview(self._source.copy(block.start, block.stop))
        if len(data) <= PART:
            return
        keys: set[str] = set()
        for part in text.cut(data, 0, quotes=False, usual=PART):
            given = data[part.start : part.stop]
            if len(given) > PART:  # a long line
                named = _names(given)
                pieces.check_parts(len(named), held=self.size)
                check_spread(named)
            found = self._parse(pa.py_buffer(given), (), part.rows).schema
            pieces.check_names(found)
            keys.update(_keys(found))
            pieces.check_parts(len(keys), held=self.size)
            check_spread({key.rpartition("/")[2] for key in keys})
            # After each part: to read the others takes seconds, and gives more keys, not fewer.
            what = f"each of at least {len(keys)} keys in each of {block.rows} rows"
            pieces.check_memory(CELL * block.rows * len(keys), held=self.size, what=what)

    def _parse(self, given: Any, columns: Sequence[str], rows: int) -> Any:
        import pyarrow as pa
        from pyarrow import json as arrow_json

        check_depth(np.frombuffer(given, np.uint8))
        table = arrow_json.read_json(
            pa.BufferReader(given),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=given.size + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=self._known,
                unexpected_field_behavior="error" if self._is_whole else "infer",
            ),
        )
        table.validate(full=True)
        return table

    @staticmethod
    def _written(kind: pa.DataType) -> Any:
        """The type that PyArrow reads where a type was written."""
        import pyarrow as pa

        types = pa.types
        if types.is_dictionary(kind):
            return Reader._written(kind.value_type)
        if types.is_fixed_size_binary(kind):
            return pa.string()
        if types.is_float16(kind):
            return pa.float32()
        if types.is_large_list(kind):
            return pa.list_(Reader._written(kind.value_type))
        return text.as_text(kind)


def _keys(schema: pa.Schema) -> Iterator[str]:
    """The keys of rows and of what is in them, each with those before it."""
    import pyarrow as pa

    left = [(field.name, field.type) for field in schema]
    while left:
        name, kind = left.pop()
        yield name
        if pa.types.is_struct(kind):
            left += [(f"{name}/{member.name}", member.type) for member in kind]


def _names(line: memoryview) -> set[bytes]:
    """The different names that the objects of a line have."""
    found = {match[1] for match in _NAME.finditer(line) if match[2] is not None}
    return {_unescaped(name) if b"\\" in name else name[1:-1] for name in found}


def _unescaped(name: bytes) -> bytes:
    try:
        text: str = json.loads(name, strict=False)
    except ValueError:  # PyArrow says what is wrong with it
        return name
    return text.encode(errors="surrogatepass")


def check_depth(given: Array) -> None:
    """Refuses lines that nest deeper than `limits.depth`.

    Raises:
        LimitError: A line does.
    """
    if _depth(given) <= limits.depth:
        return
    # Brackets in texts may have been counted.
    without = _STRING.sub(b'""', given.tobytes())
    for line in without.split(b"\n"):
        if _depth(np.frombuffer(line, np.uint8)) > limits.depth:
            raise LimitError(f"a line nests deeper than limits.depth, {limits.depth}")


def _depth(given: Array) -> int:
    opening = (given == ord("[")) | (given == ord("{"))
    closing = (given == ord("]")) | (given == ord("}"))
    steps = np.subtract(opening, closing, dtype=np.int8)
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))


class Reads(text.TextReads):
    """Reads files of JSON Lines."""

    name = "jsonlines"

    def pieces(self, source: Source, how: TableOptions, like: Any) -> pieces.Reader:
        """Opens a file; one that cannot be mapped is read into memory."""
        assert isinstance(how, TextOptions)
        return Reader(source, how, like)


class Writer:
    """Writes JSON Lines: see `tensorferry.formats.tables.writer.BatchWriter`.

    Args:
        sink: Takes the bytes.
        schema: Of the batches.

    Raises:
        UnsupportedError: A column holds what JSON has not.
    """

    def __init__(self, sink: Sink, schema: pa.Schema) -> None:
        from tensorferry.formats.tables.columns import Note

        self._sink = sink
        self._names = schema.names
        for field in schema:
            note = Note.of(field)
            if note.dtype is not None or note.sparse or note.shape is not None:
                raise UnsupportedError(
                    f"a column of {field.type} with the note {note.metadata()} has no place in "
                    "JSON Lines",
                    tensor=field.name,
                    hint="write Parquet or Arrow",
                )

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Takes a record batch."""
        columns = []
        for name, array in zip(self._names, batch.columns, strict=True):
            try:
                columns.append([_plain(value) for value in _listed(array)])
            except (ValueError, TypeError) as error:
                raise UnsupportedError(
                    f"a value has no place in JSON: {error}", tensor=name
                ) from None
        lines = []
        for row in zip(*columns, strict=True):
            try:
                pairs = dict(zip(self._names, row, strict=True))
                lines.append(json.dumps(pairs, ensure_ascii=False, allow_nan=False))
            except (ValueError, TypeError) as error:
                raise UnsupportedError(
                    f"a row has no place in JSON: {error}", hint="write Parquet or Arrow"
                ) from None
        self._sink.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Nothing ends the file."""


def _listed(array: pa.Array) -> list[Any]:
    """The values of a column as Python's; tensors of fixed shape as lists in lists."""
    import pyarrow as pa

    if isinstance(array.type, pa.FixedShapeTensorType):
        shape = tuple(array.type.shape)
        rows = array.storage.to_pylist()
        return [None if row is None else np.reshape(row, shape).tolist() for row in rows]
    if isinstance(array.type, pa.BaseExtensionType):
        raise TypeError(f"{array.type} is none of JSON's types")
    if pa.types.is_timestamp(array.type):  # Python's own have no nanoseconds
        array = array.cast(pa.string())
    return list(array.to_pylist())


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


class Writes(text.TextWrites):
    """Writes rows of columns."""

    def begin(self, sink: Sink, schema: pa.Schema, *, beside: bool) -> BatchWriter:
        """Begins a file."""
        return Writer(sink, schema)


_READS = Reads()
FORMAT: Format[TextOptions, WriteOptions] = Format(
    reads=_READS, reads_rows=_READS, writes_rows=Writes()
)
