"""Limits on the memory and nesting that a file may ask for.

A declared size is always checked against the bytes that are there. Some formats still let a few
bytes stand for many (compression, or one number that fills a shape), or nest without end. These
limits bound that, for the whole process:

    import tensorferry as ferry
    ferry.limits.memory = 64 << 30

What a file expands to is counted over everything that is read from it, once for each tensor. It
may take `memory` bytes, or a hundred times the size of the file, whichever is more. Bytes that the
file really holds do not count: a file of any size can be read.
"""

memory: int = 1 << 30
"""Number of bytes that the values of a file may take in memory if the file does not hold them."""

stream: int = 4 << 30
"""Number of bytes of a pipe, or of one of its records, that may be held in memory."""

cache: int = 32 << 30
"""Number of bytes of objects of stores that are kept on the local disk: `docs/storage.md`."""

depth: int = 100
"""Number of nested messages, lists or dicts; readers of protobuf also stop at 100."""
