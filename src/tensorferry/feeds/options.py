"""The options of a feed, for the functions that make one for a framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorferry.errors import UnsupportedError
from tensorferry.feeds.batching import Padding
from tensorferry.feeds.feed import Feed
from tensorferry.files import keywords
from tensorferry.rows.columns import Batch


class FeedOptions(keywords.Reading, total=False):
    """The keywords of `tensorferry.feeds.Feed`, which documents them."""

    batch: int
    shuffle: bool
    seed: int
    shard: tuple[int, int]
    pad: Mapping[str, Padding] | None
    bucket: Mapping[str, Sequence[int]] | None
    pack: Mapping[str, int] | None
    images: Sequence[str]
    transform: Callable[[Batch], Any] | None
    window: int
    drop_remainder: bool
    pad_remainder: bool
    prefetch: int
    transform_threads: int
    storage_options: Mapping[str, Any] | None


def feed_of(data: Any, options: FeedOptions) -> Feed:
    """A feed of some data, or the feed that was given.

    Args:
        data: What `tensorferry.open` takes, or a `Feed`.
        options: Those of a new feed.

    Raises:
        UnsupportedError: There are options beside a feed, which would be ignored.
    """
    if not isinstance(data, Feed):
        return Feed(data, **options)
    if options:
        raise UnsupportedError(f"a Feed has its options: {', '.join(options)} cannot be given")
    return data
