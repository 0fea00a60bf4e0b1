"""The options of a feed, for the functions that make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorferry.files import keywords


class FeedOptions(keywords.Reading, total=False):
    """The keywords of `tensorferry.feeds.Feed`, which says what they mean."""

    batch: int
    shuffle: bool
    seed: int
    shard: tuple[int, int]
    pad: Mapping[str, Any] | None
    bucket: Mapping[str, Sequence[int]] | None
    pack: Mapping[str, int] | None
    images: Sequence[str]
    transform: Callable[[dict[str, Any]], Any] | None
    window: int
    drop_remainder: bool
    pad_remainder: bool
    prefetch: int
    transform_threads: int
    storage_options: Mapping[str, Any] | None
