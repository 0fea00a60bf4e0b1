"""TFRecord as a format: files that are opened as rows, and rows or bytes that are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorferry.errors import UnsupportedError
from tensorferry.formats.contract import Format, Written
from tensorferry.formats.table import TABLE
from tensorferry.formats.tfrecord.frames import NAME
from tensorferry.formats.tfrecord.options import RecordOptions, RecordWriting
from tensorferry.formats.tfrecord.records import Records
from tensorferry.formats.tfrecord.writer import RecordWriter
from tensorferry.rows.splits import Part
from tensorferry.storage.place import Place, Target
from tensorferry.tensors.content import Content


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
    """Writes TFRecord files: a whole value, or rows one by one."""

    options = RecordWriting

    def write(self, content: Content, target: Target, how: RecordWriting) -> Written:
        """Writes a list of bytes, a record each, or a dict of columns, an Example each row.

        Raises:
            UnsupportedError: The value is something else, or more than TFRecords can hold.
        """
        if content.metadata or content.is_quantized or content.is_stream:
            raise _too_much()
        value = content.value()
        with self.writer(target, how, shards=None, metadata={}) as out:
            if isinstance(value, list | tuple) and all(isinstance(one, bytes) for one in value):
                for record in value:
                    out.write(record)
            elif isinstance(value, Mapping):
                out.write_batch(value)
            else:
                raise UnsupportedError(
                    "a TFRecord holds records of bytes, expected a list of them, or columns",
                    hint="tensorferry.writer(path) takes rows one by one",
                )
        return Written(out.nbytes, tuple(out.paths))

    def writer(
        self, target: Target, how: RecordWriting, *, shards: int | None, metadata: Mapping[str, Any]
    ) -> RecordWriter:
        """Opens a writer of rows.

        Raises:
            UnsupportedError: There is metadata, which TFRecords cannot hold.
        """
        if metadata:
            raise _too_much()
        return RecordWriter(
            target,
            shards=shards,
            compression=how.compression,
            level=how.level,
            schema=how.schema,
            append=how.append,
        )


def _too_much() -> UnsupportedError:
    return UnsupportedError(
        "TFRecords hold columns or records of bytes, without metadata and quantizing",
        hint="npz, safetensors, arrow and parquet have metadata",
    )


_READER, _WRITER = Reader(), Writer()

FORMAT = Format(reads=_READER, writes=_WRITER, reads_rows=_READER, writes_rows=_WRITER)
