"""Plans: which bytes of a remote file are fetched by one request, and the bytes that are held.

A request costs tens of milliseconds however small it is, so spans that lie close to each other are
fetched together, with the bytes between them. What one request brings is a `Block`. A span lies in
one block as a whole: whoever asks for it gets a view, never a copy put together from two blocks.

A gap of up to `NEAR` bytes takes no longer than its share of a request among several that run at
once, and is always fetched along. A wider gap, up to `FAR` bytes, is only fetched along if it is
smaller than what is wanted beside it: the headers of large members of an archive must not bring
the members as well.

Fetching is left to `tensorferry.storage.ranged`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from concurrent.futures import Future

from tensorferry.classes import dataclass, field

Span = tuple[int, int]
"""A start and a stop."""

NEAR = 1 << 18
FAR = 1 << 20


@dataclass(slots=True, eq=False)
class Block:
    """Bytes of a file that are fetched together.

    Attributes:
        start: The offset of its first byte.
        stop: The offset after its last byte.
        spans: The spans in it that were asked for.
        parts: The requests under way or done: one, or several that fill parts of `target`. Empty
            until the block is asked for.
        target: Takes the bytes of several requests.
        failed: Whether a request failed or was cancelled.
    """

    start: int
    stop: int
    spans: list[Span] = field(default_factory=list)
    parts: list[Future[memoryview]] = field(default_factory=list)
    target: memoryview | None = None
    failed: bool = False

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.stop - self.start

    def wait(self) -> memoryview:
        """All bytes of a block whose requests were begun; raises what a request raised."""
        data = [part.result() for part in self.parts]
        return data[0] if self.target is None else self.target.toreadonly()

    def cancel(self) -> None:
        """Drops the requests that are not under way yet."""
        for part in self.parts:
            part.cancel()


class Held:
    """The blocks that a source was told to expect, in the order of their offsets."""

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks = sorted(blocks, key=lambda block: (block.start, block.stop))
        self._starts = [block.start for block in self.blocks]

    def find(self, start: int, stop: int) -> int | None:
        """The number of a block that has all bytes of a span; None if there is none."""
        place = bisect_right(self._starts, start) - 1
        if place < 0 or self.blocks[place].stop < stop or self.blocks[place].failed:
            return None
        return place


def plan(spans: Iterable[Span], piece: int) -> Iterator[Block]:
    """Blocks that have all spans, in the order of their offsets.

    Args:
        spans: None of them is empty; they may overlap, and come in any order.
        piece: A block is larger than this only if one span is, or spans overlap.
    """
    block: Block | None = None
    wanted = 0
    for start, stop in sorted(spans):
        if block is not None:
            gap = start - block.stop
            reach = max(NEAR, min(FAR, wanted, stop - start))
            fits = stop - block.start <= piece and gap <= reach
            if gap < 0 or fits:
                block.spans.append((start, stop))
                wanted += max(0, stop - max(start, block.stop))
                block.stop = max(block.stop, stop)
                continue
            yield block
        block = Block(start, stop, [(start, stop)])
        wanted = stop - start
    if block is not None:
        yield block
