"""Memory that a framework can use in place.

Frameworks whose tensors never change must not share an array that may. They copy it, and some of
them copy it twice unless it starts at a multiple of `ALIGNMENT`. A view of a mapped file that no
program can write into is shared, if it is aligned.
"""

from __future__ import annotations

import numpy as np

from tensorferry.storage.pages import is_constant
from tensorferry.tensors.values import Array

# The alignment that TensorFlow and XLA on a CPU require of memory that they use in place.
ALIGNMENT = 64

# From this many bytes on, `aligned_copy` is faster than the frameworks' own copies: by a few
# percent at first, by five times for hundreds of megabytes.
LARGE = 1 << 20


def in_place(array: Array) -> Array:
    """An array that a framework can use in place: a view of a mapped file itself, or a copy."""
    is_aligned = array.__array_interface__["data"][0] % ALIGNMENT == 0
    if is_aligned and array.flags.c_contiguous and is_constant(array):
        return array
    return aligned_copy(array)


def aligned_copy(array: Array) -> Array:
    """A copy in C order that starts at a multiple of `ALIGNMENT`.

    NumPy's own copy rarely does, and a framework would copy that once more.
    """
    buffer = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -buffer.__array_interface__["data"][0] % ALIGNMENT
    copy = buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
