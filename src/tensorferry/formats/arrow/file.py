"""Arrow: columns of tensors in Arrow's IPC file and stream formats; Feather V2 is the first.

    file      "ARROW1" 00 00 | schema | dictionaries | record batches | footer | length | "ARROW1"
    stream    schema | dictionaries and record batches | end

Each message is a flatbuffer and the buffers of its arrays, which lie there as they do in memory:
reading maps them, writing sends the caller's own. Arrow has no checksums.

PyArrow (the extra "arrow") does the work. The lengths of messages are checked before it reads them
(`tensorferry.formats.arrow.messages`). What is in columns is `tensorferry.formats.tables.columns`
and `tensorferry.formats.tables.values`; rows are `tensorferry.formats.tables.table`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tensorferry import _native
from tensorferry.errors import FormatError, TruncatedError, UnsupportedError
from tensorferry.formats.arrow import messages as arrow_messages
from tensorferry.formats.arrow.messages import MAGIC
from tensorferry.formats.tables import metadata as marks, pieces
from tensorferry.formats.tables.lending import lend
from tensorferry.formats.tables.plain import Plain
from tensorferry.storage import Sink
from tensorferry.storage.source import Span

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.columns import Leaf
    from tensorferry.formats.tables.outline import Outline

FEATHER_V1 = b"FEA1"

GATHERED = 1 << 14
"""So many bytes of columns are written at once: PyArrow writes a file in a dozen small parts."""

Compression = Literal["lz4", "zstd"]


def write(
    leaves: Mapping[str, Leaf],
    sink: Sink,
    *,
    metadata: Mapping[str, str] | None = None,
    rows: bool | None = None,
    compression: Compression | None = None,
    batch_rows: int | None = None,
    stream: bool = False,
) -> None:
    """Writes named tensors as columns.

    Args:
        leaves: Arrays, SparseTensors, RaggedTensors or lists of arrays, by name.
        sink: Takes the bytes; contiguous numbers are the arrays' own memory, unless they are few.
        metadata: Texts that stand beside the schema.
        rows: Whether each step of the first dimension is a row. False puts each leaf whole into the
            only row. By default they are rows if all leaves have the same first dimension.
        compression: Of the buffers: "lz4" or "zstd". What is compressed cannot be mapped.
        batch_rows: Number of rows in a record batch; by default all are in one, and read without a
            copy.
        stream: Write the stream format, which needs no footer.

    Raises:
        UnsupportedError: A leaf has no place in Arrow.
        MissingExtraError: PyArrow is not installed.
    """
    pa = pieces.require_pyarrow()
    from tensorferry.formats.tables import columns as arrow_columns

    batch = arrow_columns.to_batch(leaves, metadata=metadata or {}, rows=rows)
    is_small = batch.get_total_buffer_size() <= GATHERED
    gathered = pa.BufferOutputStream() if is_small else None
    file = pa.PythonFile(pieces.SinkFile(sink), "w") if gathered is None else gathered
    with _writer(file, batch.schema, compression=compression, stream=stream) as writer:
        for part in pieces.pieces(batch, batch_rows):
            writer.write_batch(part)
    if gathered is not None:
        sink.write(memoryview(gathered.getvalue()))


def begin(sink: Sink, schema: pa.Schema, *, compression: Compression | None, stream: bool) -> Any:
    """A writer of PyArrow's that takes record batches of a schema.

    Raises:
        UnsupportedError: Arrow has no such compression.
    """
    import pyarrow as pa

    file = pa.PythonFile(pieces.SinkFile(sink), "w")
    return _writer(file, schema, compression=compression, stream=stream)


def _writer(
    file: pa.NativeFile, schema: pa.Schema, *, compression: Compression | None, stream: bool
) -> Any:
    from pyarrow import ipc

    if compression not in (None, "lz4", "zstd"):
        raise UnsupportedError(f"compression is {compression!r}, expected lz4, zstd or None")
    options = ipc.IpcWriteOptions(compression=compression, allow_64bit=True)
    return (ipc.new_stream if stream else ipc.new_file)(file, schema, options=options)


class Reader:
    """The record batches of a file or stream: see `tensorferry.formats.tables.pieces.Reader`.

    Args:
        data: All bytes.
        verify: Check all that arrays hold: offsets, indices, text. Without it, only sizes are, and
            bytes that lie can end the process.

    Raises:
        FormatError: The bytes are damaged.
        MissingExtraError: PyArrow is not installed.
    """

    is_parsed = False
    outlines = None

    def __init__(self, data: bytes | memoryview, *, verify: bool = True) -> None:
        pieces.require_pyarrow()
        view = memoryview(data)
        if bytes(view[:4]) == FEATHER_V1:
            raise UnsupportedError(
                "a Feather file of version 1, expected version 2, which is Arrow",
                offset=0,
                hint="pyarrow.feather.read_table reads it, and write_feather writes version 2",
            )
        self._is_file = bytes(view[: len(MAGIC)]) == MAGIC
        self._view = view[:]
        self._verify = verify
        self._columns: tuple[str, ...] | None = None
        self.size = len(view)
        found = _native.arrow_columns(view) if self._is_file else None
        self.plain = None if found is None else Plain(*found, self._view)
        if self.plain is not None:  # all of it was checked: PyArrow reads it when it is needed
            self.rows = self.plain.rows
            return
        self.rows = [message.rows for message in self._messages.batches]
        if any(message.codec for message in self._messages.batches):  # unpacked in threads
            lend(self._view, self)
        with pieces.translated():
            self._open(())
            pieces.check_names(self.schema)
        if not self._messages.ended and marks.is_ours(self.schema.metadata):
            raise TruncatedError(
                "the stream has no mark of its end", offset=len(view), hint="copy it again"
            )

    @functools.cached_property
    def _messages(self) -> arrow_messages.Messages:
        scan = arrow_messages.scan_file if self._is_file else arrow_messages.scan_stream
        return scan(self._view)

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """The schema."""
        return self._reader.schema if self.plain is None else self.plain.schema()

    def _open(self, columns: tuple[str, ...]) -> None:
        """Begins to read some columns; all of them if none is named."""
        import pyarrow as pa
        from pyarrow import ipc

        fields = [self.schema.get_field_index(name) for name in columns]
        options = ipc.IpcReadOptions(included_fields=fields)
        opener = ipc.open_file if self._is_file else ipc.open_stream
        self._reader: Any = opener(pa.py_buffer(self._view), options=options)
        self._columns, self._next = columns, 0

    def release(self) -> None:
        """Lets go of the file: nothing is read any more."""
        for name in ("_reader", "_view"):
            vars(self).pop(name, None)
        self.plain = None

    def batches(self, index: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """One record batch."""
        pieces.check_memory(self.memory(index, columns), held=self.size)
        with pieces.translated(offset=self._messages.batches[index].offset):
            # Reading some fields copies them: it pays only where the others would be unpacked.
            packed = self._messages.batches[index].codec is not None
            batch = self._read(index, tuple(columns) if packed else ()).select(list(columns))
            batch.validate(full=self._verify)
            return [batch]

    def stream(
        self, index: int, columns: Sequence[str], rows: int
    ) -> Iterator[pa.RecordBatch] | None:
        """A record batch is read as a whole: it is a view of the file."""
        return None

    def memory(self, index: int, columns: Sequence[str]) -> int:
        """Number of bytes that the buffers unpack to, those of other columns among them."""
        return self._messages.batches[index].unpacked

    def spans(self, index: int, columns: Sequence[str]) -> list[Span]:
        """The message of the record batch."""
        message = self._messages.batches[index]
        return [(message.offset, message.end)]

    def optional(self, leaves: Sequence[Outline]) -> set[str]:
        """The leaves that are null in some row, as the batches' metadata say."""
        nulls = [message.nulls for message in self._messages.batches]
        leaves = [leaf for leaf in leaves if leaf.nodes]
        last = max((leaf.nodes[-1] for leaf in leaves), default=0)
        for message in self._messages.batches:
            if leaves and len(message.nulls) <= last:
                raise FormatError(
                    f"a batch has {len(message.nulls)} arrays, expected more than {last}",
                    offset=message.offset,
                )
        nulls = [counts for counts in nulls if counts.any()]
        return {
            leaf.name for leaf in leaves if any(counts[list(leaf.nodes)].any() for counts in nulls)
        }

    def sizes(self) -> dict[str, int]:
        """Nothing says how much of a batch belongs to a column."""
        return {}

    def version(self) -> str | None:
        """The version of the metadata, and whether it is a stream."""
        found = max((message.version for message in self._messages.batches), default=0)
        named = f"V{found}" if found else ""
        return (named if self._is_file else f"{named} stream".strip()) or None

    def compressions(self) -> set[str]:
        """Those of the record batches."""
        return {message.codec for message in self._messages.batches if message.codec}

    def offset(self, index: int, column: str) -> int:
        """Where a record batch starts."""
        return int(self._messages.batches[index].offset)

    def _read(self, index: int, columns: tuple[str, ...]) -> Any:
        import pyarrow as pa
        from pyarrow import ipc

        if columns != self._columns:
            self._open(columns)
        if self._is_file:
            return self._reader.get_batch(index)
        if index != self._next and not self._messages.has_dictionaries:
            message = self._messages.batches[index]
            part = pa.py_buffer(self._view[message.offset : message.end])
            return ipc.read_record_batch(ipc.read_message(part), self.schema)
        if index < self._next:
            self._open(columns)
        while self._next < index:
            self._reader.read_next_batch()
            self._next += 1
        self._next += 1
        return self._reader.read_next_batch()
