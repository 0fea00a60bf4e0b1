"""TFRecord as a format: files that are opened as rows, and rows or bytes that are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorferry.errors import UnsupportedError
from tensorferry.formats.contract import Format
from tensorferry.formats.table import TABLE
from tensorferry.formats.tfrecord.frames import NAME
from tensorferry.formats.tfrecord.options import RecordOptions, RecordWriting
from tensorferry.formats.tfrecord.quantizing import QuantizingWriter, specs_of
from tensorferry.formats.tfrecord.records import Records
from tensorferry.formats.tfrecord.writer import RecordWriter
from tensorferry.rows.splits import Part
from tensorferry.storage.place import Place, Target


class Reader:
    """Reads TFRecord files, one or many."""

    options = RecordOptions

    def find(self, place: Place) -> Place | None:
        """None: a TFRecord file is recognised by its bytes."""
        return None

    def open(self, place: Place, how: RecordOptions) -> Records:
        """Opens one file."""
        return self.open_all([place], how)

    def open_all(self, places: Sequence[Place], how: RecordOptions) -> Records:
        """Opens files as one ordered set of records."""
        return Records.of_parts([Part(place) for place in places], how, facts=TABLE[NAME])


class Writer:
    """Writes TFRecord files: rows, columns, or the bytes of any messages."""

    options = RecordWriting

    def writer(
        self, target: Target, how: RecordWriting, *, shards: int | None, metadata: Mapping[str, Any]
    ) -> RecordWriter | QuantizingWriter:
        """Opens a writer of rows."""
        if how.quantize is not None:
            if how.append:
                raise UnsupportedError(
                    "records with quantized columns have one scale, and are not appended to",
                    path=target.path,
                    hint="write a new shard",
                )
            return QuantizingWriter(
                target,
                specs_of(how.quantize),
                shards=shards,
                compression=how.compression,
                level=how.level,
                schema=how.schema,
            )
        return RecordWriter(
            target,
            shards=shards,
            compression=how.compression,
            level=how.level,
            schema=how.schema,
            append=how.append,
        )


_READER, _WRITER = Reader(), Writer()

FORMAT: Format[RecordOptions, RecordWriting] = Format(
    reads=_READER, reads_rows=_READER, writes_rows=_WRITER
)
