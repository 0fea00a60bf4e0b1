"""Feeds for PyTorch.

    loader = feeds.torch.loader("train-*.tfrecord", batch=256, shuffle=True, seed=7, workers=2)
    for batch in loader:                        # a dict of torch tensors
        ...
        state = loader.state_dict()             # goes on with any number of workers

    dataset = feeds.torch.dataset(...)          # an IterableDataset, for a DataLoader of your own
    dataset = feeds.torch.rows(...)             # a map-style dataset, for samplers of your own

Under `torch.distributed`, each process gets its own share of the rows. Columns are tensors that
share the memory of the batch; strings stay arrays of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from tensorferry import frameworks
from tensorferry.errors import UnsupportedError
from tensorferry.feeds.chunks import Mark
from tensorferry.feeds.data import seekable_rows
from tensorferry.feeds.feed import Feed
from tensorferry.feeds.options import FeedOptions, feed_of
from tensorferry.files import keywords
from tensorferry.formats.contract import refuse
from tensorferry.rows.rows import Rows
from tensorferry.tensors.values import RaggedTensor

_SHARED = frozenset(map(np.dtype, ("float32", "int64", "int32", "float64", "uint8", "bool")))
"""The dtypes whose memory PyTorch shares as it is."""


def dataset(data: Any, **options: Unpack[FeedOptions]) -> FeedDataset:
    """An `IterableDataset` of batches: `DataLoader(dataset, batch_size=None, num_workers=4)`.

    Args:
        data: Anything that `tensorferry.open` takes, or a `Feed`.
        **options: Options of `tensorferry.feeds.Feed`. `shard` defaults to the rank of this process
            in `torch.distributed`.
    """
    return FeedDataset(_feed(data, options))


def loader(
    data: Any,
    *,
    workers: int = 0,
    pin_memory: bool = False,
    **options: Unpack[FeedOptions],
) -> Loader:
    """Returns an iterable of batches, prepared by worker processes or by threads of this process.

    Args:
        data: Anything that `tensorferry.open` takes, or a `Feed`.
        workers: Number of processes; 0 uses threads, which is faster unless `transform` is slow
            Python.
        pin_memory: Put tensors into pinned memory, for fast copies to a GPU.
        **options: Options of `tensorferry.feeds.Feed`. `shard` defaults to the rank of this process
            in `torch.distributed`.
    """
    if "num_workers" in options:  # as DataLoader calls it
        raise refuse("num_workers", ["workers", "pin_memory"], who="a loader of a feed")
    return Loader(_feed(data, options), workers, pin_memory)


def rows(data: Any, **options: Unpack[keywords.Reading]) -> RowsDataset:
    """Returns a map-style dataset.

        dataset = feeds.torch.rows("train.tfrecord")
        DataLoader(dataset, batch_size=256, shuffle=True, collate_fn=dataset.collate)

    With its `collate`, a batch stays the columns that were decoded together. PyTorch's own, which
    takes them apart and stacks them again, works as well.

    Args:
        data: Anything that `tensorferry.open` takes: rows that can be read one by one.
        **options: Options of `tensorferry.open`, such as `columns`.
    """
    return RowsDataset(seekable_rows(data, options, instead="feeds.torch.dataset"))


class FeedDataset(IterableDataset[Any]):
    """The batches of a feed, of which each worker of a `DataLoader` yields its share.

    A `DataLoader` that restarts its workers for each epoch copies this dataset to them, so call
    `set_epoch` before each epoch, as with `DistributedSampler`. `feeds.torch.loader` does that for
    you.
    """

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self._given = 0
        self._marked = False

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch at its first batch."""
        self.feed.set_epoch(epoch)
        self._given = 0

    def marks(self, marked: bool) -> FeedDataset:
        """Whether batches come with their marks."""
        self._marked = marked
        return self

    def __len__(self) -> int:
        return len(self.feed)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        start, self._given = self._given, 0
        epoch, share = self.feed.epoch, self._share(first, step)
        for number, (mark, given, batch) in enumerate(self.feed.marked((first, step), start)):
            self._given = start + number + 1
            if self._given == share:  # whoever counts batches does not ask for more
                self.set_epoch(epoch + 1)
            tensors = as_tensors(batch)
            yield (tuple(mark), given, tensors) if self._marked else tensors
        self.set_epoch(epoch + 1)

    def _share(self, first: int, step: int) -> int | None:
        """Number of batches of a worker in an epoch that begins; None if nobody knows it yet."""
        if self._marked or self.feed.has_begun:
            return None
        try:
            return len(range(first, len(self.feed), step))
        except TypeError:
            return None

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of this worker, for torchdata's `StatefulDataLoader`."""
        return {"feed": self.feed.state_dict(), "given": self._given}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where the worker of the same number stopped."""
        self.feed.load_state_dict(state["feed"])
        self._given = int(state["given"])


class Loader:
    """Batches as torch tensors, with a state that any number of workers can resume from."""

    def __init__(self, feed: Feed, workers: int, pin_memory: bool) -> None:
        self.feed = feed
        self._workers = workers
        self._pin = pin_memory

    def __iter__(self) -> Iterator[Any]:
        dataset = FeedDataset(self.feed).marks(True)
        batches: Any = dataset
        if self._workers or self._pin:  # a loop in this process needs nothing of it
            batches = DataLoader(
                dataset,
                batch_size=None,
                num_workers=self._workers,
                pin_memory=self._pin,
                collate_fn=RowsDataset.collate,
            )
        epoch = self.feed.epoch
        for mark, given, batch in batches:
            self.feed.goto(Mark(*mark), given)
            yield batch
        self.feed.set_epoch(epoch + 1)

    def __len__(self) -> int:
        return len(self.feed)

    @property
    def epoch(self) -> int:
        """Number of the next epoch."""
        return self.feed.epoch

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch at its first batch."""
        self.feed.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the loop: see `tensorferry.feeds.Feed.state_dict`."""
        return self.feed.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where a loop stopped, with any number of workers."""
        self.feed.load_state_dict(state)


class RowsDataset(Dataset[Any]):
    """Rows by number; those of a list of numbers are decoded together."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        return self.rows[number]

    def __getitems__(self, numbers: Sequence[int]) -> Gathered:
        """Several rows."""
        batch = next(self.rows.gathered([np.asarray(numbers, np.int64)]))
        return Gathered(as_tensors(batch), len(numbers))

    @staticmethod
    def collate(batch: Any) -> Any:
        """The columns of torch tensors as they are."""
        return batch.columns if isinstance(batch, Gathered) else batch


class Gathered(Sequence[Any]):
    """Rows that were decoded together.

    Attributes:
        columns: The columns, or the bytes of records.
    """

    def __init__(self, columns: Any, size: int) -> None:
        self.columns = columns
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, number: Any) -> Any:
        if not isinstance(self.columns, dict):
            return self.columns[number]
        if number >= self._size:
            raise IndexError(number)
        return {name: column[number] for name, column in self.columns.items()}


def as_tensors(batch: Any) -> Any:
    """A batch with torch tensors for its arrays of numbers.

    Raises:
        UnsupportedError: A column is ragged or sparse.
    """
    if not isinstance(batch, dict):
        return batch
    return {name: _as_tensor(column, name) for name, column in batch.items()}


def _as_tensor(column: Any, name: str) -> Any:
    if isinstance(column, RaggedTensor):
        raise UnsupportedError(
            f"the column {name!r} is ragged, which PyTorch's batches are not",
            hint=f"pad={{{name!r}: 0}} fills its rows, pack={{{name!r}: 512}} packs them",
        )
    if not isinstance(column, np.ndarray):
        return column
    if column.dtype in _SHARED and column.flags.writeable:
        return torch.from_numpy(column)
    is_numbers = column.dtype != object
    return frameworks.give(column, "torch") if is_numbers else column


def _feed(data: Any, options: FeedOptions) -> Feed:
    """A feed whose shard is by default the rank of this process."""
    if not isinstance(data, Feed) and "shard" not in options:
        options = {**options, "shard": _shard()}
    return feed_of(data, options)


def _shard() -> tuple[int, int]:
    """The rank of this process, and how many there are."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
