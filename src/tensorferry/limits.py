"""How much a file may ask for: a budget for what formats allow but nobody sane means.

A declared size is always checked against the bytes that are there. Some formats let a few bytes
stand for many values all the same (one number that fills a shape), or nest without end; these
bound that, for the whole process:

    import tensorferry as ferry
    ferry.limits.memory = 64 << 30
"""

memory: int = 4 << 30
"""Bytes a value may take when its file does not hold as many."""

depth: int = 100
"""Messages, lists or dicts inside each other; protobuf's readers stop at 100 too."""
