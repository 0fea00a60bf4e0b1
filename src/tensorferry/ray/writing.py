"""Writing from Ray: a file for each write task, and one set of shards in the end.

A task writes its blocks into a part (`tensorferry.storage.staging`), whose name is the number of
the task: however often Ray runs the task, there is one part, and it is whole. When all tasks are
done, the driver gives the parts the names of a set of shards. A job that fails leaves nothing
behind, and the files that were there before stay as they were.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Unpack

import pyarrow as pa
from ray.data import Datasink
from ray.data.block import Block, BlockAccessor

from tensorferry import storage
from tensorferry.classes import dataclass
from tensorferry.codecs.compression import split_suffix
from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.writer import chosen_for, open_writer
from tensorferry.formats import table
from tensorferry.formats.contract import RowWriter
from tensorferry.ray.blocks import from_ray
from tensorferry.storage import shards
from tensorferry.storage.place import Target
from tensorferry.storage.staging import Stage

RECORD = "record"
"""The column that holds the bytes of records, as `read(raw=True)` gives them."""


@dataclass(frozen=True)
class Written:
    """What a write task did.

    Attributes:
        number: The number of the task.
        rows: Number of rows in its part; a task without rows has no part.
    """

    number: int
    rows: int


class Sink(Datasink[Written]):
    """Writes a dataset to a set of shards: `ds.write_datasink(Sink(path))`.

        from tensorferry import ray

        ds.write_datasink(ray.Sink("s3://bucket/out/train.tfrecord"))
        # train.tfrecord-00000-of-00017 and so on; "train@*.tfrecord" puts the suffix at the end

    Each write task writes one shard. When all shards are written, they replace an existing set of
    this name, whatever its number of shards.

    Args:
        path: The name of the set. The suffix decides the format: TFRecord, Parquet, Arrow, CSV or
            JSON Lines; TFRecord if the suffix is unknown. A local path must exist on every node.
        format: By default the suffix of the path decides.
        compression: As in `tensorferry.writer`.
        raw: TFRecords: the column "record" holds the bytes of each record.
        metadata: Metadata to store with each file, if the format has a place for it.
        min_rows_per_file: Ray bundles blocks until a task has this many rows.
        durable: Wait until the bytes are on disk.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.WritingRows`.

    Attributes:
        paths: The files, once they are written.
        count: Number of rows in them.

    Raises:
        UnsupportedError: The format cannot be written row by row.
        OptionError: The format has no such option.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        compression: str | None = None,
        raw: bool = False,
        metadata: Mapping[str, Any] | None = None,
        min_rows_per_file: int | None = None,
        durable: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        **options: Unpack[keywords.WritingRows],
    ) -> None:
        name = storage.localize(path)
        self._path = name if storage.is_url(name) else os.path.abspath(name)
        self._format, self._chosen = chosen_for(name, format, compression, options)
        self._raw = raw
        self._metadata = dict(metadata or {})
        self._rows_per_file = min_rows_per_file
        self._durable = durable
        self._options = storage_options
        self._check()
        first = shards.shard_names(self._path, 1)[0]
        self._stage = Stage.anew(first, options=storage_options, durable=durable)
        self._schema: pa.Schema | None = None
        self.paths: list[str] = []
        self.count = 0

    def _check(self) -> None:
        """Refuses here and now what every task would refuse."""
        if self._chosen.pop("append", None):
            raise UnsupportedError("several tasks cannot append to one file", path=self._path)
        facts = table.facts_of(self._format)
        if self._raw and not facts.records:
            raise UnsupportedError(
                f"{self._format} has no records of bytes", path=self._path, hint="leave out raw="
            )
        packed = split_suffix(self._path)[1]
        if packed is not None and facts.decompresses:
            self._chosen.setdefault("compression", packed)
        if shards.count_of(self._path) is not None:
            raise UnsupportedError(
                "the number of shards is that of the write tasks, which Ray decides",
                path=self._path,
                hint='write "name@*.parquet" for it, and use ds.repartition(10) for ten shards',
            )
        # Opened as every task opens it, and given up.
        self._writer(Target("<bytes>", into=storage.Buffers())).__exit__(GeneratorExit, None, None)

    def _writer(self, target: Target) -> RowWriter:
        return open_writer(self._format, target, self._chosen, shards=None, metadata=self._metadata)

    # What Ray calls

    @property
    def min_rows_per_write(self) -> int | None:
        """The number of rows that Ray bundles for a task, at least."""
        return self._rows_per_file

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Is told the schema of the first block."""
        self._schema = schema if isinstance(schema, pa.Schema) else None

    def write(self, blocks: Iterable[Block], ctx: Any) -> Written:
        """Writes the part of one task; run again, it writes the same part."""
        path = self._stage.path(_part(ctx.task_idx))
        target = Target(path, options=self._options, durable=self._durable)
        rows = 0
        with ExitStack() as stack:
            out: RowWriter | None = None
            for block in blocks:
                found = BlockAccessor.for_block(block).to_arrow()
                if not found.num_rows:
                    continue
                if out is None:
                    out = stack.enter_context(self._writer(target))
                self._write_block(found, out)
                rows += found.num_rows
        return Written(ctx.task_idx, rows)

    def _write_block(self, block: pa.Table, out: RowWriter) -> None:
        if not self._raw:
            out.write_batch(from_ray(block))
            return
        if RECORD not in block.schema.names:
            raise UnsupportedError(
                f"raw records are in the column {RECORD!r}, found {block.schema.names}"
            )
        for record in block.column(RECORD).to_pylist():
            out.write(record)

    def on_write_complete(self, write_result: Any) -> None:
        """Gives the parts their names."""
        written = {one.number: one for one in write_result.write_returns if one.rows}
        numbers = sorted(written)
        names = shards.shard_names(self._path, max(len(numbers), 1))
        if numbers:
            self._stage.publish(dict(zip(map(_part, numbers), names, strict=True)))
        else:
            self._write_nothing(names[0])
            self._stage.clear()
        self.paths, self.count = names, sum(one.rows for one in written.values())
        for path in shards.other_sets(names[0], options=self._options):
            storage.remove(path, options=self._options)

    def _write_nothing(self, name: str) -> None:
        """A file without rows: the dataset had none."""
        with self._writer(Target(name, options=self._options, durable=self._durable)) as out:
            if self._schema is not None and not table.facts_of(self._format).records:
                out.write_batch(from_ray(self._schema.empty_table()))

    def on_write_failed(self, error: Exception) -> None:
        """Removes what the tasks have written."""
        self._stage.clear()


def _part(number: int) -> str:
    """The name of the part of a task."""
    return f"{number:05}"
