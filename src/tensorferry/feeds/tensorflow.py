"""Feeds for tf.data.

    data = feeds.tensorflow.dataset("train-*.tfrecord", batch=256, shuffle=True, seed=7)
    model.fit(data)

TensorFlow gets large batches, which it cuts: a call into Python for each small one would cost more
than reading it. Each pass over the dataset is one epoch of the feed. TensorFlow's own iterator
checkpoints do not hold a Python generator: keep `feed.state_dict()` instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

import numpy as np
import tensorflow as tf

from tensorferry import frameworks
from tensorferry.feeds.feed import Feed
from tensorferry.feeds.options import FeedOptions
from tensorferry.tensors.values import RaggedTensor, SparseTensor

LARGE = 4096
"""Number of rows, about, that TensorFlow is given at a time."""


def dataset(data: Any, **options: Unpack[FeedOptions]) -> tf.data.Dataset:
    """A `tf.data.Dataset` of batches, with their shapes, dtypes and number.

    Args:
        data: What `tensorferry.open` takes, or a `Feed`.
        **options: Those of `tensorferry.feeds.Feed`.
    """
    chosen: Any = options
    feed = data if isinstance(data, Feed) else Feed(data, **chosen)
    batch = feed.batch
    large = feed.in_batches_of(max(1, LARGE // batch) * batch) if feed.is_seekable else feed
    made = tf.data.Dataset.from_generator(
        lambda: _tensors(large), output_signature=_signature(large)
    )
    if large is not feed:
        made = made.rebatch(batch, drop_remainder=feed.drops_remainder)
        made = made.apply(tf.data.experimental.assert_cardinality(len(feed)))
    return made.prefetch(2)


def _tensors(feed: Feed) -> Iterator[Any]:
    for batch in feed:
        yield {name: _plain(column) for name, column in batch.items()}


def _plain(column: Any) -> Any:
    if isinstance(column, RaggedTensor | SparseTensor):
        return frameworks.give(column, "tensorflow")
    return column


def _signature(feed: Feed) -> dict[str, Any]:
    """What TensorFlow has to know of a batch before it sees one."""
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
