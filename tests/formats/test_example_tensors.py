"""Tensors of one shape as strings, many at once: the same as one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from strategies import numeric_arrays, same

import tensorferry as ferry
from tensorferry import dtypes
from tensorferry.formats.tfrecord import tensors


@given(array=numeric_arrays())
def test_strings_are_tensorprotos(array):
    """Each string is the TensorProto of its row, and all of them are read back."""
    if array.ndim == 0:
        return
    native = array.astype(array.dtype.newbyteorder("="))
    strings = tensors.to_strings(native)
    if strings is None:
        assert native.size == 0
        return
    row = dtypes.from_numpy(native.dtype)

    assert [string.tobytes() for string in strings] == [
        ferry.dumps(part) for part in np.array(native)
    ]
    offsets = np.arange(len(strings) + 1) * strings.shape[1]
    rows = tensors.from_strings(strings.reshape(-1), offsets, row.name, native.shape[1:])
    if rows is None:
        assert row.name == "bool" or row.bits < 8
    else:
        assert same(rows, native)


def test_other_strings():
    """Strings of other sizes, dtypes or shapes are not taken apart."""
    strings = tensors.to_strings(np.arange(6.0).reshape(3, 2))
    flat, offsets = strings.reshape(-1), np.arange(4) * strings.shape[1]

    assert tensors.from_strings(flat, offsets, "float64", (2,)) is not None
    assert tensors.from_strings(flat, offsets, "float64", (2, 1)) is None
    assert tensors.from_strings(flat, offsets, "int64", (2,)) is None
    assert tensors.from_strings(flat[:-1], offsets, "float64", (2,)) is None
    offsets[1] += 1
    assert tensors.from_strings(flat, offsets, "float64", (2,)) is None
