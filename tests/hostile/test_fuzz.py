"""The fuzz targets over their corpus, cut and changed: `make fuzz-python` goes on from here."""

from __future__ import annotations

import random

import pytest
from fuzz import targets

from tensorferry import limits

CORPUS = {
    f"{folder.name}/{path.name}": path
    for folder in sorted(targets.CORPUS.iterdir())
    for path in sorted(folder.iterdir())
}
MUTATIONS = 60
WORDS = [b"\0", b"\xff" * 8, b"\x7f\xff\xff\xff", b"\0" * 8, b'\\ud800"', b"[" * 2000, b"-1", b"/"]


@pytest.fixture(autouse=True)
def _limits(monkeypatch):
    monkeypatch.setattr(limits, "memory", limits.memory)  # targets lower it


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The bytes cut, with a bit flipped, or with other bytes in some place."""
    place = chance.randrange(len(data) + 1)
    kind = chance.randrange(4)
    if kind == 0:
        return data[:place]
    if kind == 1:
        changed = bytearray(data)
        changed[place % len(data)] ^= 1 << chance.randrange(8)
        return bytes(changed)
    word = chance.choice(WORDS) if kind == 2 else chance.randbytes(chance.randrange(1, 9))
    return data[:place] + word + data[place + len(word) * chance.randrange(2) :]


@pytest.mark.parametrize("name", CORPUS)
def test_target(name):
    """Whatever the bytes are, a target returns or raises an error of ours."""
    target = targets.TARGETS[name.partition("/")[0]]
    data = CORPUS[name].read_bytes()
    targets.run(target, data)
    chance = random.Random(name)
    for _ in range(MUTATIONS):
        targets.run(target, mutated(data, chance))


def test_corpus():
    """Each target has a corpus, whose files are as their maker says: nothing is refused whole."""
    assert {name.partition("/")[0] for name in CORPUS} == set(targets.TARGETS)
