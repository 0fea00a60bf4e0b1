"""Reading into Ray: the splits of rows as the read tasks of a dataset.

The driver decides everything that has to be decided once: the files, the schema, the splits, the
number of rows of a batch. A task opens its split, decodes it in one thread, and
gives blocks of at most `DataContext.target_max_block_size` bytes. The same split gives the same
blocks, so that Ray can rebuild one that was lost.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
import ray
from ray.data import DataContext, Dataset
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.open import Reading
from tensorferry.formats import table
from tensorferry.ray.blocks import Layout
from tensorferry.ray.sampling import Sample, sample
from tensorferry.rows.rows import Rows
from tensorferry.rows.splits import Split

Path = str | os.PathLike[str]

BATCH_BYTES = 4 << 20
"""About so many bytes are decoded at a time: more than that leaves the processor's caches."""

MOST_ROWS = 1 << 14

UNSEEN = "__rows"
"""The column of nulls that stands for rows of which no column is wanted: Ray counts them."""


def read(
    paths: Path | Sequence[Path],
    *,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    schema: Any = None,
    infer: Literal["first", "all"] | None = None,
    raw: bool = False,
    on_error: Literal["raise", "skip", "keep"] = "raise",
    verify: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> Dataset:
    """Reads files of rows into a `ray.data.Dataset`: TFRecord, Parquet, Arrow, CSV, JSON Lines.

        from tensorferry import ray

        ds = ray.read("s3://bucket/train-*.tfrecord", columns=["image", "label"])
        ds.take_batch(32)["image"].shape

    The schema is inferred once, on the driver. Uncompressed TFRecord files are divided where a
    record ends, Parquet and Arrow files by row group and record batch. Columns of tensors come as
    arrays in `take_batch`, `iter_batches` and `map_batches`.

    Args:
        paths: A file, a folder or a glob, "name@10" for a set of shards, or a list of those; local
            paths must exist on every node.
        format: By default detected from the bytes, or else from the suffix of the path.
        columns: The columns to read; the others are not decoded. `ds.select_columns` has the same
            effect.
        schema: TFRecords: the schema. By default it comes from a file beside the data, or else is
            inferred.
        infer: TFRecords: infer the schema from the "first" records or from "all", on the driver.
        raw: TFRecords: read the bytes of each record as the only column, "record".
        on_error: "raise" on damage, "skip" it, or "keep" TFRecords with a wrong data checksum.
        verify: Verify checksums, if the format has them.
        storage_options: Options for the store of a URL.
        concurrency: The maximum number of read tasks at a time.
        override_num_blocks: Number of read tasks; by default Ray decides it by the size of the
            rows in memory, which is estimated from a decoded sample.
        ray_remote_args: Arguments for `ray.remote` of the read tasks.

    Raises:
        FormatError: The first file is damaged, or its format is unknown.
        UnsupportedError: The files hold named tensors and no rows.
    """
    chosen = keywords.given(
        {"columns": columns, "schema": schema, "infer": infer, "raw": raw or None}
    )
    if on_error != "raise":
        chosen["on_error"] = on_error
    source = Source(
        paths, format=format, verify=verify, storage_options=storage_options, given=chosen
    )
    return ray.data.read_datasource(
        source,
        concurrency=concurrency,
        override_num_blocks=override_num_blocks,
        ray_remote_args=None if ray_remote_args is None else dict(ray_remote_args),
    )


class Source(Datasource):
    """Files of rows for `ray.data.read_datasource`; `read` is the shorter way.

    Args:
        paths: See `read`.
        format: See `read`.
        verify: See `read`.
        storage_options: See `read`.
        given: Options of the format.
    """

    def __init__(
        self,
        paths: Path | Sequence[Path],
        *,
        format: str | None = None,
        verify: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        # A task has one processor.
        reading = Reading(format, verify=verify, given=given or {}, preferred={"threads": 1})
        opened = reading.open(paths, storage_options)
        if not isinstance(opened, Rows):
            opened.close()
            raise UnsupportedError(
                f"{opened.facts.name} holds tensors by name, and a dataset is made of rows",
                path=opened.place.shown,
                hint=f"rows are in {', '.join(table.streamable())}",
            )
        self._rows = opened

    @cached_property
    def _whole(self) -> Split:
        """All rows as one split: the schema is settled in its options."""
        return self._rows.splits(1)[0]

    @cached_property
    def _sized(self) -> Rows:
        """The same rows, of files whose sizes are known: each is asked for once."""
        return self._whole.open() if self._rows.facts.records else self._rows

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self._rows)

    @cached_property
    def _sample(self) -> Sample:
        return sample(self._whole, self._layout, compressed=self._rows.packed is not None)

    def estimate_inmemory_data_size(self) -> int | None:
        """Number of bytes that all rows take in memory, estimated from a decoded sample."""
        return self._sample.memory_of(self._whole)

    def get_name(self) -> str:
        """The name of the read tasks, as Ray's progress shows it."""
        return f"Ferry{self._rows.facts.name.capitalize()}"

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """The read tasks, as many as Ray asks for where the files allow it."""
        context = data_context or DataContext.get_current()
        job = Job(
            self._layout,
            _batch_rows(self._sample),
            context.target_max_block_size,
            per_task_row_limit,
        )
        schema = self._layout.empty(self._rows.arrow_schema).schema
        return [
            ReadTask(
                _reader(split, job),
                BlockMetadata(
                    num_rows=_least(split.rows, per_task_row_limit),
                    size_bytes=self._sample.memory_of(split),
                    input_files=tuple(split.files),
                    exec_stats=None,
                ),
                schema=schema,
            )
            for split in self._sized.splits(parallelism)
        ]

    # What Ray asks when `select_columns` follows.

    def supports_projection_pushdown(self) -> bool:
        """Whether columns that nobody needs can be left out when reading."""
        return not self._rows.raw

    def get_projection_map(self) -> dict[str, str] | None:
        """The columns that are read."""
        return {name: name for name in self._rows.columns}

    def apply_projection(self, projection_map: Mapping[str, str] | None) -> Source:
        """The same files with some of their columns."""
        clone = copy.copy(self)
        if projection_map is not None:
            for name in ("_whole", "_sized", "_layout", "_sample"):
                clone.__dict__.pop(name, None)
            clone._rows = self._rows.select(list(projection_map))
        return clone


def _least(rows: int | None, limit: int | None) -> int | None:
    return rows if limit is None or rows is None else min(rows, limit)


def _batch_rows(found: Sample) -> int:
    """Number of rows that are decoded at a time."""
    return max(1, min(MOST_ROWS, int(BATCH_BYTES / max(found.per_row, 1.0))))


@dataclass(frozen=True)
class Job:
    """What all read tasks of a dataset have in common.

    Attributes:
        layout: How Ray gets the columns.
        batch_rows: Number of rows that are decoded at a time.
        block_bytes: The most bytes of a block; None for one block a task.
        limit: The most rows of a task.
    """

    layout: Layout
    batch_rows: int
    block_bytes: int | None
    limit: int | None


def _reader(split: Split, job: Job) -> Callable[[], Iterator[pa.Table]]:
    """A function, which Ray asks for its name, and no object that can be called."""

    def read_split() -> Iterator[pa.Table]:
        return blocks(split, job)

    return read_split


def blocks(split: Split, job: Job) -> Iterator[pa.Table]:
    """The rows of a split as tables of at most so many bytes, the same ones at every call."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    with split.open() as rows:
        if not rows.columns:
            yield pa.table({UNSEEN: pa.nulls(len(rows))})
            return
        for batch in _batches(rows, job):
            for part in _parts(batch, job.block_bytes):
                if waiting and job.block_bytes is not None and size + part.nbytes > job.block_bytes:
                    yield pa.Table.from_batches(waiting)
                    waiting, size = [], 0
                waiting.append(part)
                size += part.nbytes
        if waiting:
            yield pa.Table.from_batches(waiting)
        else:
            yield pa.Table.from_batches([job.layout.empty(rows.arrow_schema)])


def _batches(rows: Rows, job: Job) -> Iterator[pa.RecordBatch]:
    """Batches in Ray's types, up to the limit."""
    left = job.limit
    for found in _decoded(rows, job.batch_rows):
        batch = job.layout.apply(found if left is None else found.slice(0, left))
        yield batch
        if left is not None:
            left -= batch.num_rows
            if left <= 0:
                return


def _decoded(rows: Rows, size: int) -> Iterator[pa.RecordBatch]:
    if rows.raw:
        yield from rows.arrow_batches()
    else:
        yield from rows.batches(size, to="arrow")


def _parts(batch: pa.RecordBatch, most: int | None) -> Iterator[pa.RecordBatch]:
    """A batch, in halves as long as it takes more than so many bytes."""
    if most is None or batch.num_rows < 2 or batch.nbytes <= most:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _parts(batch.slice(0, half), most)
    yield from _parts(batch.slice(half), most)
