"""Feeds for tf.data.

    data = feeds.tensorflow.dataset("train-*.tfrecord", batch=256, shuffle=True, seed=7)
    model.fit(data)

TensorFlow receives large batches and cuts them, because a call into Python per small batch would
cost more than reading it. Each pass over the dataset is one epoch of the feed.

If the files have random access, TensorFlow requests large batches by epoch and number, so its own
iterator checkpoints work. Other rows come from a Python generator, and TensorFlow refuses to
checkpoint an iterator over a generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

import numpy as np
import tensorflow as tf

from tensorferry import frameworks
from tensorferry.feeds.feed import Feed
from tensorferry.feeds.options import FeedOptions, feed_of
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor

LARGE = 4096
"""Number of rows, about, that TensorFlow is given at a time."""

PASSES = 4
"""Number of passes over a dataset that are made ahead at the same time."""


def dataset(data: Any, **options: Unpack[FeedOptions]) -> tf.data.Dataset:
    """A `tf.data.Dataset` of batches, with their shapes, dtypes and number.

    A column that is padded to its longest row may be wider than a batch needs, because rows are
    padded before they are cut into batches.

    Args:
        data: Anything that `tensorferry.open` takes, or a `Feed`.
        **options: Options of `tensorferry.feeds.Feed`.
    """
    feed = feed_of(data, options)
    if not feed.is_seekable:
        return tf.data.Dataset.from_generator(
            lambda: _tensors(feed), output_signature=_signature(feed)
        ).prefetch(2)
    batch = feed.batch
    if feed.has_transform:  # which is to see the batches that were asked for
        made = _by_number(feed.at(feed.epoch, feed.rows_done))
    else:
        made = _by_number(feed.in_batches_of(max(1, LARGE // batch) * batch)).prefetch(2)
        made = made.rebatch(batch, drop_remainder=feed.drops_remainder)
    if not feed.has_begun:  # the first pass would be shorter
        made = made.apply(tf.data.experimental.assert_cardinality(len(feed)))
    policy = tf.data.Options()
    # The functions that are called depend on nothing but their arguments.
    policy.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return made.prefetch(max(2, LARGE // batch)).with_options(policy)


def _tensors(feed: Feed) -> Iterator[Any]:
    for batch in feed:
        yield {name: _plain(column) for name, column in batch.items()}


def _plain(column: Any) -> Any:
    if isinstance(column, RaggedTensor | SparseTensor):
        return frameworks.give(column, "tensorflow")
    return column


def _by_number(feed: Feed) -> tf.data.Dataset:
    """Passes over the batches of a feed, each with its epoch and the row that it begins with."""
    specs, source = _signature(feed), _Passes(feed)
    dtypes = [dtype for spec in specs.values() for dtype in _dtypes(spec)]

    def begin(_: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(source.begin, [], tf.int64), [3])

    def numbered(place: Any) -> tf.data.Dataset:
        def fetch(number: Any) -> Any:
            arrays = iter(tf.numpy_function(source.fetch, [place, number], dtypes))
            return {name: _tensor(spec, arrays) for name, spec in specs.items()}

        return tf.data.Dataset.range(place[2]).map(fetch)

    return tf.data.Dataset.from_tensors(0).map(begin).flat_map(numbered)


class _Passes:
    """The batches of a feed by the place where a pass begins, and their number in it.

    A batch depends on these alone. Those of a pass that are asked for in order are made ahead.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._running: dict[tuple[int, int], tuple[int, Iterator[Any]]] = {}

    def begin(self) -> Array:
        """Begins the next pass: its epoch, its first row, and its number of batches."""
        feed = self._feed
        place = np.array([feed.epoch, feed.rows_done, feed.batches_left])
        feed.set_epoch(feed.epoch + 1)
        return place

    def fetch(self, place: Array, number: Array) -> list[Array]:
        """The arrays of a batch."""
        epoch, first, count = place.tolist()
        wanted = int(number)
        known, batches = self._running.pop((epoch, first), (-1, iter(())))
        if known != wanted:
            batches = iter(self._feed.at(epoch, first + wanted * self._feed.batch))
        batch = next(batches)
        if wanted + 1 < count:
            self._running[epoch, first] = (wanted + 1, batches)
        while len(self._running) > PASSES:  # of loops that were left
            del self._running[next(iter(self._running))]
        return [array for column in batch.values() for array in _arrays(column)]


def _arrays(column: Any) -> list[Array]:
    """The arrays that a column is made of."""
    if isinstance(column, RaggedTensor):
        return [column.flat_values, *column.nested_row_splits]
    if isinstance(column, SparseTensor):
        return [column.indices, column.values, column.dense_shape]
    return [column]


def _dtypes(spec: Any) -> list[Any]:
    """The dtypes of these arrays."""
    if isinstance(spec, tf.RaggedTensorSpec):
        return [spec.dtype, *[spec.row_splits_dtype] * spec.ragged_rank]
    return (
        [tf.int64, spec.dtype, tf.int64] if isinstance(spec, tf.SparseTensorSpec) else [spec.dtype]
    )


def _tensor(spec: Any, arrays: Iterator[Any]) -> Any:
    """A column of these arrays, which are tensors now."""
    if isinstance(spec, tf.RaggedTensorSpec):
        values = tf.ensure_shape(next(arrays), [None, *spec.shape[1 + spec.ragged_rank :]])
        splits = [tf.ensure_shape(next(arrays), [None]) for _ in range(spec.ragged_rank)]
        return tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False)
    if isinstance(spec, tf.SparseTensorSpec):
        rank = spec.shape.rank
        indices = tf.ensure_shape(next(arrays), [None, rank])
        values = tf.ensure_shape(next(arrays), [None])
        return tf.SparseTensor(indices, values, tf.ensure_shape(next(arrays), [rank]))
    return tf.ensure_shape(next(arrays), spec.shape)


def _signature(feed: Feed) -> dict[str, Any]:
    """The specs of the columns, which TensorFlow has to know before it sees a batch."""
    batch = feed.first()
    return {name: _spec(column, name, feed) for name, column in batch.items()}


def _spec(column: Any, name: str, feed: Feed) -> Any:
    if isinstance(column, RaggedTensor):
        shape = [None, *[None] * column.ragged_rank, *column.flat_values.shape[1:]]
        return tf.RaggedTensorSpec(
            shape,
            _dtype(column.flat_values),
            ragged_rank=column.ragged_rank,
            row_splits_dtype=tf.as_dtype(column.nested_row_splits[0].dtype),
        )
    if isinstance(column, SparseTensor):
        return tf.SparseTensorSpec([None, *column.shape[1:]], _dtype(column.values))
    inner: Any = np.shape(column)[1:]
    if name in feed.padded_openly:  # each batch is as wide as its longest row
        found = feed.rows.infos().get(name)
        known = None if found is None else found.shape[1:]
        inner = known if known is not None and len(known) == len(inner) else [None] * len(inner)
    return tf.TensorSpec([None, *inner], _dtype(column), name=None)


def _dtype(array: Any) -> Any:
    return tf.string if array.dtype == object else tf.as_dtype(array.dtype)
