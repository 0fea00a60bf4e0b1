"""Sources and sinks: where bytes come from and go to.

A source is a read-only buffer of the whole input. A sink is anything with a `write` method that
takes a buffer, as files have; formats hand it the caller's own memory, so a sink that keeps
buffers (as `Buffers` does) keeps them as they are, and one that writes them copies nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Sink(Protocol):
    """Takes bytes, in order."""

    def write(self, buffer: Any, /) -> Any:
        """Takes the bytes of a contiguous buffer."""


class Buffers(list[Any]):
    """A sink in memory that keeps the buffers it is given, without copying them."""

    write = list.append


def as_source(data: Buffer) -> bytes | memoryview:
    """A read-only view of the bytes of a buffer."""
    if type(data) is bytes:
        return data
    return memoryview(data).toreadonly().cast("B")


def byte_view(buffer: Any) -> memoryview:
    """A buffer as a flat run of bytes, whatever the type of its elements."""
    if isinstance(buffer, np.ndarray):  # NumPy exports no small dtype as a buffer with a format
        buffer = buffer.reshape(-1).view(np.uint8)
    return memoryview(buffer).cast("B")
