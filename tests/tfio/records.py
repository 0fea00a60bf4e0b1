"""Examples and SequenceExamples as bytes, by hand: TensorFlow's own writer has one form only."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

# The kinds of lists, by the names of the keys that hold them here; the numbers are the fields'.
DTYPES = {"s": "string", "f": "float32", "i": "int64"}
FIELDS = {"s": 1, "f": 2, "i": 3}
VALUES = {
    "s": st.binary(max_size=3),
    "f": st.floats(width=32),
    "i": st.integers(-(2**63), 2**63 - 1),
}


def varint(number):
    """As in protobuf: seven bits a byte, the lowest first."""
    number, out = number % 2**64, bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def message(field, data):
    """A field of bytes."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def feature(kind, values, *, packed=True):
    """A Feature with a list, or without one."""
    if kind is None:
        return b""
    if kind == "s":
        data = b"".join(message(1, value) for value in values)
    else:
        parts = [varint(v) if kind == "i" else np.float32(v).tobytes() for v in values]
        tag = b"\x08" if kind == "i" else b"\x0d"
        data = message(1, b"".join(parts)) if packed else b"".join(tag + part for part in parts)
    return message(FIELDS[kind], data)


def entry(key, value):
    """An entry of a map."""
    return message(1, message(1, key.encode()) + message(2, value))


def example(**lists):
    """An Example of keys whose first letter is the kind of their list."""
    return message(1, b"".join(entry(k, feature(k[0], values)) for k, values in lists.items()))


def sequences(**steps):
    """A SequenceExample without a context."""
    lists = {
        key: b"".join(message(1, feature(key[0], step)) for step in value)
        for key, value in steps.items()
    }
    return message(2, b"".join(entry(key, value) for key, value in lists.items()))


def strings(values):
    """As TensorFlow takes any number of records, none included."""
    array = np.empty(len(values), object)
    array[:] = values
    return array
