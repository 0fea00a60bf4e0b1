"""Limits on the memory and nesting that a file may ask for.

A declared size is always checked against the bytes that are present. Some formats still let a few
bytes stand for many (compression, or one number that fills a shape), or nest without end. These
limits bound that, for the whole process:

    import tensorferry as ferry
    ferry.limits.memory = 64 << 30

Everything that is read from one file counts towards its limit, each tensor once. A file may expand
to `memory` bytes or to a hundred times its size, whichever is more. Bytes that the file really
contains do not count, so a file of any size can be read.
"""

memory: int = 1 << 30
"""Number of bytes that the values of a file may take in memory if the file does not hold them."""

stream: int = 4 << 30
"""Number of bytes of a pipe, or of one of its records, that may be held in memory."""

cache: int = 32 << 30
"""Number of bytes of objects of stores that are kept on the local disk: `docs/storage.md`."""

depth: int = 100
"""Number of nested messages, lists or dicts; readers of protobuf also stop at 100."""
