"""Plans of requests: which spans are fetched together."""

from __future__ import annotations

import itertools

from hypothesis import given, strategies as st

from tensorferry.storage.plan import FAR, NEAR, Held, plan

PIECE = 4 << 20
KB, MB = 1 << 10, 1 << 20


def blocks(spans, piece=PIECE):
    return [(block.start, block.stop) for block in plan(spans, piece)]


def test_neighbours_are_one_block():
    """80 small tensors in a row are one request, in whatever order they are asked for."""
    spans = [(i * 4 * KB, (i + 1) * 4 * KB) for i in range(80)]

    assert blocks(spans) == blocks(spans[::-1]) == [(0, 320 * KB)]


def test_gaps():
    """A small gap is fetched along; a wide one only beside spans that are wider."""
    assert blocks([(0, 10), (10 + NEAR, 20 + NEAR)]) == [(0, 20 + NEAR)]
    assert len(blocks([(0, 10), (11 + NEAR, 20 + NEAR)])) == 2
    gap = FAR - 1
    assert blocks([(0, MB), (MB + gap, 2 * MB + gap)]) == [(0, 2 * MB + gap)]
    assert len(blocks([(0, MB), (MB + gap, MB + gap + 10)])) == 2
    assert len(blocks([(0, MB), (MB + FAR + 1, 2 * MB + FAR + 1)])) == 2


def test_headers_of_large_members():
    """The headers of members of 1 MB are requests of their own: 1 MB of them is not 80 MB."""
    spans = [(i * MB, i * MB + 12 * KB) for i in range(80)]

    assert blocks(spans) == spans


def test_pieces():
    """Blocks end at spans where they can: no more than a piece, except for a larger span."""
    megabytes = [(i * MB, (i + 1) * MB) for i in range(80)]

    assert blocks(megabytes) == [(i * PIECE, (i + 1) * PIECE) for i in range(20)]
    assert blocks([(0, 9 * MB), (9 * MB, 9 * MB + 5)]) == [(0, 9 * MB), (9 * MB, 9 * MB + 5)]


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 900)), max_size=40))
def test_every_span_lies_in_one_block(pairs):
    """Blocks are in order and apart, and each span is found in one of them."""
    spans = [(start, start + size) for start, size in pairs]

    made = [*plan(spans, 1000)]

    assert all(a.stop <= b.start for a, b in itertools.pairwise(made))
    assert sorted(span for block in made for span in block.spans) == sorted(spans)
    held = Held(made)
    for start, stop in spans:
        block = held.blocks[held.find(start, stop)]
        assert block.start <= start < stop <= block.stop
    assert held.find(5000, 9000) is None
