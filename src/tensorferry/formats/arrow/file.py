"""Arrow: columns of tensors in Arrow's IPC file and stream formats, which Feather V2 is, too.

    file      "ARROW1" 00 00 | schema | dictionaries | record batches | footer | length | "ARROW1"
    stream    schema | dictionaries and record batches | end

Each message is a flatbuffer and the buffers of its arrays, which lie there as they do in memory:
reading maps them, writing sends the caller's own. Arrow has no checksums.

PyArrow (the extra "arrow") does the work. The messages' lengths are checked before it reads them
(`tensorferry.formats.arrow.messages`); what is in columns is `tensorferry.formats.tables.columns`
and `arrow_values`. Opening a file piece by piece is `tensorferry.formats.tables.table`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tensorferry.errors import FormatError, TruncatedError, UnsupportedError
from tensorferry.formats.arrow import messages as arrow_messages
from tensorferry.formats.arrow.messages import CONTINUATION, MAGIC
from tensorferry.formats.tables import pieces as arrow_files
from tensorferry.storage import Sink

if TYPE_CHECKING:
    from tensorferry.formats.tables.columns import Leaf

NAME = "arrow"

FEATHER_V1 = b"FEA1"

Compression = Literal["lz4", "zstd"]


def sniff(head: bytes) -> bool:
    """A file's magic word, or the begin of a stream: a mark, a length, and what can follow it."""
    if head.startswith((MAGIC + b"\0\0", FEATHER_V1)):
        return True
    if not head.startswith(CONTINUATION) or len(head) < 16:
        return False
    length, root = struct.unpack_from("<iI", head, 4)
    return bool(length > 0 and length % 8 == 0 and 4 <= root < length)


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
        sink: Takes the bytes; contiguous numbers are the arrays' own memory.
        metadata: Texts that stand beside the schema.
        rows: Whether each step of the first dimension is a row. False puts each leaf whole into the
            only row. By default they are rows if all leaves have the same first dimension.
        compression: Of the buffers: "lz4" or "zstd". What is compressed cannot be mapped.
        batch_rows: Rows in a record batch; by default all are in one, and read without a copy.
        stream: Write the stream format, which needs no footer.

    Raises:
        UnsupportedError: A leaf has no place in Arrow.
        MissingExtraError: PyArrow is not installed.
    """
    pa = arrow_files.require_pyarrow()
    from tensorferry.formats.tables import columns as arrow_columns

    if compression not in (None, "lz4", "zstd"):
        raise UnsupportedError(f"compression is {compression!r}, expected lz4, zstd or None")
    batch = arrow_columns.to_batch(leaves, metadata=metadata or {}, rows=rows)

    from pyarrow import ipc

    options = ipc.IpcWriteOptions(compression=compression, allow_64bit=True)
    file = pa.PythonFile(arrow_files.SinkFile(sink), "w")
    make = ipc.new_stream if stream else ipc.new_file
    with make(file, batch.schema, options=options) as writer:
        for part in arrow_files.pieces(batch, batch_rows):
            writer.write_batch(part)


def read(
    source: bytes | memoryview, *, columns: Sequence[str] | None = None, verify: bool = True
) -> tuple[dict[str, Leaf], dict[str, str]]:
    """The leaves and the metadata of a file or stream.

    Arrays of one batch that is not compressed are read-only views of the source, except bools,
    strings and int64 row splits.

    Args:
        source: The bytes.
        columns: The columns wanted; by default all.
        verify: Check all that arrays hold: offsets, indices, text. Without it, only sizes are, and
            bytes that lie can end the process.

    Raises:
        FormatError: The bytes are damaged.
        UnsupportedError: A column has no counterpart.
        MissingExtraError: PyArrow is not installed.
    """
    return arrow_files.read_all(Reader(source, columns=columns, verify=verify))


class Reader:
    """The record batches of a file or stream, each read when it is asked for.

    See `arrow_files.Reader`.
    """

    def __init__(
        self,
        source: bytes | memoryview,
        *,
        columns: Sequence[str] | None = None,
        verify: bool = True,
    ) -> None:
        pa = arrow_files.require_pyarrow()
        from tensorferry.formats.tables import values as arrow_values

        view = memoryview(source)
        if bytes(view[:4]) == FEATHER_V1:
            raise UnsupportedError(
                "a Feather file of version 1, expected version 2, which is Arrow",
                offset=0,
                hint="pyarrow.feather.read_table reads it, and write_feather writes version 2",
            )
        self._is_file = bytes(view[: len(MAGIC)]) == MAGIC
        scan = arrow_messages.scan_file if self._is_file else arrow_messages.scan_stream
        self._messages = scan(view)
        self._view = view
        self._verify = verify
        self._columns: list[str] | None = None
        with arrow_files.translated():
            self._open([])
            self._whole = self.schema = self._reader.schema
            names = arrow_files.select(self._whole, columns)
            if columns is not None:
                self._columns = names
                self._open([self._whole.get_field_index(name) for name in names])
                fields = [self._whole.field(name) for name in names]
                self.schema = pa.schema(fields, self._whole.metadata)
        self.rows = [message.rows for message in self._messages.batches]
        if not self._messages.ended and arrow_values.is_ours(self._whole):
            raise TruncatedError(
                "the stream has no mark of its end", offset=len(view), hint="copy it again"
            )

    def _open(self, fields: list[int]) -> None:
        import pyarrow as pa
        from pyarrow import ipc

        self._fields, self._next = fields, 0
        options = ipc.IpcReadOptions(included_fields=fields)
        opener = ipc.open_file if self._is_file else ipc.open_stream
        self._reader = opener(pa.py_buffer(self._view), options=options)

    def check_memory(self, indexes: Sequence[int]) -> None:
        """Refuses batches that unpack to more than the file or `limits.memory` justifies."""
        messages = [self._messages.batches[index] for index in indexes]
        arrow_messages.check_memory(messages, held=len(self._view))

    def batches(self, index: int) -> list[Any]:
        """One record batch of the columns wanted."""
        self.check_memory([index])
        with arrow_files.translated(offset=self._messages.batches[index].offset):
            batch = self._read(index)
            batch.validate(full=self._verify)
            return [batch if self._columns is None else batch.select(self._columns)]

    def optional(self) -> set[str]:
        """The leaves that are null in some row, as the batches' metadata say."""
        from tensorferry.formats.tables import outline as arrow_outline

        nulls = [message.nulls for message in self._messages.batches]
        leaves = [leaf for leaf in arrow_outline.outline(self._whole) if not leaf.listed]
        last = max((leaf.nodes[-1] for leaf in leaves), default=0)
        for message in self._messages.batches:
            if leaves and len(message.nulls) <= last:
                raise FormatError(
                    f"a batch has {len(message.nulls)} arrays, expected more than {last}",
                    offset=message.offset,
                )
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

    def _read(self, index: int) -> Any:
        import pyarrow as pa
        from pyarrow import ipc

        if self._is_file:
            return self._reader.get_batch(index)
        if index != self._next and not self._messages.has_dictionaries:
            message = self._messages.batches[index]
            part = pa.py_buffer(self._view[message.offset : message.end])
            return ipc.read_record_batch(ipc.read_message(part), self._whole)
        if index < self._next:
            self._open(self._fields)
        while self._next < index:
            self._reader.read_next_batch()
            self._next += 1
        self._next += 1
        return self._reader.read_next_batch()
