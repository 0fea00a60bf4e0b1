"""Texts: string tensors whose source says that they are text, and not just any bytes.

A string tensor is an object array of `bytes`, whatever it was made of. Where it was made of
Python's `str`, or of a file's text column, the metadata of its dtype says so: formats that tell
text from bytes (Arrow, Parquet) write it as text again. The mark changes nothing else: NumPy
ignores it when it compares dtypes, keeps it in views and selections, and drops it where arrays are
computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_MARK = "tensorferry.text"
TEXT: np.dtype[Any] = np.dtype(object, metadata={_MARK: True})
"""The dtype of string tensors that are known to be text."""


def is_text(array: Array) -> bool:
    """Whether a tensor is known to be text."""
    metadata = array.dtype.metadata
    return metadata is not None and _MARK in metadata


def as_text(array: Array) -> Array:
    """A string tensor that is known to be text, in the same memory."""
    return array.view(TEXT)


def joined(arrays: Sequence[Array]) -> Array:
    """Arrays, concatenated along their first dimension; text if all of them are."""
    whole = np.concatenate(arrays)
    return as_text(whole) if whole.dtype == object and all(map(is_text, arrays)) else whole
