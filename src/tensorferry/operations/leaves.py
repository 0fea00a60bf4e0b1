"""Leaves: the SHA-256 of many bytes, by all processors.

    up to LEAF bytes    hash of the bytes
    more                hash of: the hash of each leaf, of LEAF bytes each; the last may have fewer

SHA-256 goes through bytes in their order, so one processor hashes a leaf; leaves are hashed at the
same time where they are at hand. Bytes may come in pieces of any sizes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

LEAF = 1 << 24
"""Number of bytes of a leaf: digests that people keep depend on it."""

Spread = Callable[[Callable[[memoryview], bytes], Sequence[memoryview]], list[bytes]]
"""Calls a function with each of some values, maybe at the same time; gives the results in order."""


class Leaves:
    """Takes bytes, and hashes them.

    Args:
        tree: False hashes all bytes as one leaf.
    """

    def __init__(self, *, tree: bool = True) -> None:
        self._tree = tree
        self._digests: list[bytes] = []
        self._leaf = hashlib.sha256()
        self._filled = 0

    @property
    def are_several(self) -> bool:
        """Whether there is more than one leaf."""
        return bool(self._digests)

    def update(self, data: memoryview, spread: Spread | None = None) -> None:
        """Takes the next bytes.

        Args:
            data: The bytes.
            spread: Hashes leaves at the same time.
        """
        if not self._tree:
            self._leaf.update(data)
            return
        while data.nbytes:
            if self._filled == LEAF:
                self._digests.append(self._leaf.digest())
                self._leaf, self._filled = hashlib.sha256(), 0
            whole = (data.nbytes - 1) // LEAF  # the last leaf may go on
            if spread is not None and not self._filled and whole > 1:
                pieces = [data[at * LEAF : (at + 1) * LEAF] for at in range(whole)]
                self._digests += spread(_hash, pieces)
                data = data[whole * LEAF :]
            piece = data[: LEAF - self._filled]
            self._leaf.update(piece)
            self._filled += piece.nbytes
            data = data[piece.nbytes :]

    def digest(self) -> bytes:
        """The hash of all bytes so far."""
        last = self._leaf.digest()
        return hashlib.sha256(b"".join([*self._digests, last])).digest() if self._digests else last


def _hash(leaf: memoryview) -> bytes:
    return hashlib.sha256(leaf).digest()
