"""Feeds for grain.

    source = feeds.grain.source("train.tfrecord")           # rows by their numbers
    grain.MapDataset.source(source).shuffle(seed=7)

    dataset = feeds.grain.dataset("train-*.tfrecord", batch=256, shuffle=True, seed=7)
    iterator = iter(dataset)                                # batches; get_state and set_state

A source returns one dict per row, at grain's pace. A dataset returns whole batches, which is many
times faster: the feed itself shuffles, shards and resumes.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Unpack

import grain

from tensorferry.feeds.data import seekable_rows
from tensorferry.feeds.feed import Feed
from tensorferry.feeds.options import FeedOptions, feed_of
from tensorferry.files import keywords
from tensorferry.rows.rows import Rows


def source(data: Any, **options: Unpack[keywords.Reading]) -> RowSource:
    """A `RandomAccessDataSource` of rows.

    Args:
        data: Anything that `tensorferry.open` takes, or rows that are open: rows that can be read
            one by one.
        **options: Options of `tensorferry.open`.
    """
    return RowSource(seekable_rows(data, options, instead="feeds.grain.dataset"))


def dataset(data: Any, **options: Unpack[FeedOptions]) -> FeedDataset:
    """An `IterDataset` of batches.

    Args:
        data: Anything that `tensorferry.open` takes, or a `Feed`.
        **options: Options of `tensorferry.feeds.Feed`.
    """
    return FeedDataset(feed_of(data, options))


class RowSource:
    """Rows by their numbers, as grain asks for them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> Any:
        return self._rows[number]

    def _getitems(self, numbers: Sequence[int]) -> list[Any]:
        """Several rows at once: grain's own name for it."""
        return self._rows.take(numbers)

    def __repr__(self) -> str:
        return f"RowSource({self._rows!r})"


class FeedDataset(grain.IterDataset[Any]):
    """The batches of a feed."""

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self._feed = feed

    def __iter__(self) -> FeedIterator:
        return FeedIterator(self._feed)


class FeedIterator(grain.DatasetIterator[Any]):
    """An epoch of batches, with a state that is kept with a checkpoint.

    Each iterator has its own position. Iterators that are made after one has ended yield the next
    epoch.
    """

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self._origin = feed
        self._feed = copy.copy(feed)
        self._running = iter(self._feed)

    def __next__(self) -> Any:
        try:
            return next(self._running)
        except StopIteration:
            self._origin.set_epoch(self._feed.epoch)
            raise

    def get_state(self) -> dict[str, Any]:
        """Where the feed is."""
        return self._feed.state_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from there."""
        self._feed.load_state_dict(state)
        self._running = iter(self._feed)
