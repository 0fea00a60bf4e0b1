"""Record files: parts of files, walked frame by frame in their order.

A file is opened once (`tensorferry.storage.place`); each pass over it reads from the start. A
stream has one pass: what was looked at to find its schema is kept, and given again to whoever reads
it. Frames and damage are `tensorferry.formats.tfrecord.frames`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tensorferry.formats.tfrecord.frames import Frames, OnError, Segment
from tensorferry.rows.rows import Damage
from tensorferry.rows.splits import Part
from tensorferry.storage import Source, shards
from tensorferry.storage.place import OPEN_AT_ONCE, Place, Recent

# As much is looked at to infer a schema: so many records, or so many bytes of them.
INFER = 1000
INFER_BYTES = 16 << 20

SMALL = 1 << 20
"""Of a file of so many bytes, no record is too large to be read together with others."""


class RecordFiles:
    """The files of records, or parts of them.

    Args:
        parts: In their order.

    Attributes:
        parts: In their order.
        is_stream: Whether one of the files can be read only once, and so all of them together.
        recent: Those that random access keeps open, if there are many.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = list(parts)
        self.is_stream = any(part.place.is_stream for part in self.parts)
        self.recent = Recent()
        # Of streams: the files that were not read to their end, the first of them, the segments
        # that were given to `first`, and those of them that nobody took since.
        self._unread = list(self.parts) if self.is_stream else []
        self._current: Frames | None = None
        self._seen: list[Segment] = []
        self._pending: list[Segment] = []

    @property
    def is_small(self) -> bool:
        """Whether there is one file, which is open, and small."""
        if self.is_stream or len(self.parts) > 1 or not self.parts[0].place.is_open:
            return False
        return (self.parts[0].place.open().size or 0) <= SMALL

    def close(self) -> None:
        """Closes the files; of a stream nothing is left."""
        for part in self.parts:
            part.place.close()
        self._unread, self._current = [], None
        self._seen, self._pending = [], []

    def segments(
        self,
        limit: Callable[[], int],
        *,
        verify: bool,
        on_error: OnError,
        damages: list[Damage] | None,
    ) -> Iterator[Segment]:
        """All frames, in segments.

        Args:
            limit: Says the most frames that the next segment may have.
            verify: See `Frames`.
            on_error: See `Frames`.
            damages: See `Frames`.
        """
        self._pending, self._seen = self._seen + self._pending, []
        while self._pending:
            segment = self._pending.pop(0)
            if segment.count > limit():
                segment, rest = segment.split(limit())
                self._pending.insert(0, rest)
            yield segment
        for frames in self._frames(verify, on_error, damages):
            while (taken := frames.take(limit())) is not None:
                yield taken

    def first(
        self, *, verify: bool, on_error: OnError, damages: list[Damage] | None
    ) -> Iterator[Segment]:
        """The first frames, as many as it takes to infer a schema."""
        rows = size = 0
        # Few at first: they may be large.
        least = INFER if self.is_small else 16
        segments = self.segments(
            lambda: min(max(least, 16 * rows), INFER - rows),
            verify=verify,
            on_error=on_error,
            damages=damages,
        )
        for segment in segments:
            if self.is_stream:
                self._seen.append(segment)
            yield segment
            rows += segment.count
            size += segment.end - segment.start
            if rows >= INFER or size >= INFER_BYTES:
                break

    def frames(
        self, part: Part, source: Source, *, verify: bool, on_error: OnError, damages: list[Damage]
    ) -> Frames:
        """The frames of a part, from its start."""
        return Frames(
            source,
            verify=verify,
            on_error=on_error,
            damages=damages,
            start=part.start,
            stop=part.stop,
            first=part.first,
        )

    def _frames(
        self, verify: bool, on_error: OnError, damages: list[Damage] | None
    ) -> Iterator[Frames]:
        noted = [] if damages is None else damages
        if not self.is_stream:
            for part in self.parts:
                with self.reading(part.place) as source:
                    yield self.frames(part, source, verify=verify, on_error=on_error, damages=noted)
            return
        while self._unread:
            part = self._unread[0]
            if self._current is None:
                self._current = self.frames(
                    part, part.place.reader(), verify=verify, on_error=on_error, damages=noted
                )
            self._current.verify, self._current.on_error = verify, on_error
            self._current.damages = noted
            yield self._current
            part.place.close()
            self._current = None
            del self._unread[0]

    @contextmanager
    def reading(self, place: Place) -> Iterator[Source]:
        """A source that reads a file from its start, for the time of one pass."""
        source = place.reader()
        try:
            yield source
        finally:
            source.close()
            if len(self.parts) > OPEN_AT_ONCE and place.is_named:
                place.close()


def places_of(given: Any) -> list[Place]:
    """The files that a user means; each of them once, if they are paths."""
    if isinstance(given, Place):
        return [given]
    if isinstance(given, str | os.PathLike):
        return [Place(path) for path in shards.expand(given)]
    if not isinstance(given, list | tuple):
        return [Place(given)]
    if all(isinstance(one, Place) for one in given):
        return list(given)
    return [Place(path) for path in shards.expand(given)]
