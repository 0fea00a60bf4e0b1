"""Feeds for Keras 3, on every backend.

data = feeds.keras.dataset("train.tfrecord", batch=256, shuffle=True, targets="label")
model.fit(data, epochs=3)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import keras

from tensorferry.errors import UnsupportedError
from tensorferry.feeds.feed import Feed
from tensorferry.feeds.options import FeedOptions, feed_of


def dataset(
    data: Any,
    *,
    inputs: str | Sequence[str] | None = None,
    targets: str | Sequence[str] | None = None,
    weights: str | None = None,
    **options: Unpack[FeedOptions],
) -> FeedDataset:
    """A `PyDataset` for `model.fit`, `evaluate` and `predict`.

    Args:
        data: Anything that `tensorferry.open` takes, or a `Feed`: rows that can be read one by one.
        inputs: The columns that the model takes: one column is an array, several are a dict. By
            default all columns except the targets.
        targets: The columns to predict.
        weights: The column with the weight of each row.
        **options: Options of `tensorferry.feeds.Feed`.
    """
    feed = feed_of(data, options)
    if not feed.is_seekable:
        raise UnsupportedError(
            "Keras asks for batches by their number, and these rows can only be read in order",
            hint="feeds.tensorflow.dataset, or a Feed in a Python generator, give them in order",
        )
    return FeedDataset(feed, inputs, targets, weights)


class FeedDataset(keras.utils.PyDataset):
    """The batches of a feed by their number; each epoch has its own order."""

    def __init__(
        self,
        feed: Feed,
        inputs: str | Sequence[str] | None,
        targets: str | Sequence[str] | None,
        weights: str | None,
    ) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self.feed = feed
        self._inputs, self._targets, self._weights = inputs, targets, weights

    def __len__(self) -> int:
        return len(self.feed)

    def __getitem__(self, number: int) -> Any:
        batch = self.feed.batch_at(number)
        others = {*_names(self._targets), *_names(self._weights)}
        inputs = self._inputs or [name for name in batch if name not in others]
        found = [_chosen(batch, inputs)]
        if self._targets is not None:
            found.append(_chosen(batch, self._targets))
        if self._weights is not None:
            found.append(_chosen(batch, self._weights))
        return tuple(found) if len(found) > 1 else found[0]

    def on_epoch_end(self) -> None:
        """The next epoch has another order."""
        self.feed.set_epoch(self.feed.epoch + 1)


def _names(given: str | Sequence[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _chosen(batch: dict[str, Any], names: str | Sequence[str]) -> Any:
    """One column alone, several as a dict."""
    wanted = _names(names)
    for name in wanted:
        if name not in batch:
            raise UnsupportedError(
                f"the batches have no column {name!r}", hint=f"they have {', '.join(batch)}"
            )
    return batch[wanted[0]] if len(wanted) == 1 else {name: batch[name] for name in wanted}
