"""Limits on the memory and nesting that a file may ask for.

A declared size is always checked against the bytes that are there. Some formats still let a few
bytes stand for many values (one number that fills a shape), or nest without end. Two limits bound
that, for the whole process:

    import tensorferry as ferry
    ferry.limits.memory = 64 << 30
"""

memory: int = 4 << 30
"""Number of bytes that a value may take in memory if its file does not hold as many."""

depth: int = 100
"""Number of nested messages, lists or dicts; readers of protobuf also stop at 100."""
