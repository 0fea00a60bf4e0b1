"""Garbage collection: a native object that holds a callback takes part in it."""

from __future__ import annotations

import gc
import weakref

from tensorferry import _native


class Holder:
    """Something that holds a native object, which holds it."""

    def __call__(self, view):
        """Takes a piece."""


def test_framer():
    """A circle through a framer and what it hands on to is collected."""
    holder = Holder()
    holder.framer = _native.Framer(holder, 10)
    holder.framer.add(b"x")
    gone = weakref.ref(holder)
    del holder
    gc.collect()

    assert gone() is None
