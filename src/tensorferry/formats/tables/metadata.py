"""What the metadata of an Arrow schema says of a table."""

from __future__ import annotations

from collections.abc import Mapping

ROWS = "tensorferry.rows"
"""The key that says whether each row is an example ("true") or all tensors stand in one row."""

Metadata = Mapping[bytes, bytes] | None


def in_rows(metadata: Metadata) -> bool:
    """Whether each row is an example, as in any file that says nothing about it."""
    return (metadata or {}).get(ROWS.encode()) != b"false"


def is_ours(metadata: Metadata) -> bool:
    """Whether it notes how its leaves stand in rows."""
    return ROWS.encode() in (metadata or {})


def texts_of(metadata: Metadata) -> dict[str, str]:
    """The metadata as texts, without our own key."""
    texts = {
        key.decode(errors="backslashreplace"): value.decode(errors="backslashreplace")
        for key, value in (metadata or {}).items()
    }
    texts.pop(ROWS, None)
    return texts
