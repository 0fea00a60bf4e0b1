"""Files of records that the tests write."""

from __future__ import annotations

import numpy as np

import tensorferry as ferry


def write(path, rows, **options):
    """A file of rows."""
    with ferry.writer(path, durable=False, **options) as out:
        for row in rows:
            out.write(row)
    return str(path)


def rows_of(count, start=0):
    """Rows with a scalar, a ragged, a fixed, a string, a missing and a tensor column."""
    return [
        {
            "id": number,
            "tokens": list(range(number % 4)),
            "emb": np.full(3, number, np.float32),
            "text": f"row {number}",
            "maybe": number if number % 3 else None,
            "image": np.full((2, 2), number % 256, np.uint8),
        }
        for number in range(start, start + count)
    ]
