"""The table of dtypes against TensorFlow, NumPy and PyArrow."""

from __future__ import annotations

import json
import struct

import numpy as np
import pyarrow as pa
import pytest
from safetensors import deserialize

import tensorferry as ferry
from tensorferry import dtypes


def test_every_tensorflow_dtype(tf):
    """Names, numbers and NumPy dtypes are TensorFlow's, for all of 1 to 33."""
    assert [row.enum for row in dtypes.TABLE] == list(range(1, 34))
    for row in dtypes.TABLE:
        theirs = tf.dtypes.as_dtype(row.enum)
        assert theirs.name == row.name
        if row.numpy is not None:
            assert np.dtype(theirs.as_numpy_dtype) == row.numpy
        assert dtypes.as_dtype(theirs) is row
        assert dtypes.as_dtype(row.name) is dtypes.as_dtype(row.enum) is row


@pytest.mark.parametrize(
    "row", [row for row in dtypes.TABLE if row.arrow], ids=lambda row: row.name
)
def test_arrow_names(row):
    """Arrow's types have the same width."""
    kind = getattr(pa, row.arrow)()
    if row is not dtypes.STRING and row.name != "bool":
        assert np.dtype(kind.to_pandas_dtype()) == row.numpy


@pytest.mark.parametrize(
    "row", [row for row in dtypes.TABLE if row.safetensors], ids=lambda row: row.name
)
def test_safetensors_names(row):
    """Safetensors knows the name, and takes its elements to be as wide."""
    size = row.bits // 4
    header = json.dumps({"t": {"dtype": row.safetensors, "shape": [2], "data_offsets": [0, size]}})
    data = struct.pack("<Q", len(header)) + header.encode() + bytes(size)

    ((_, tensor),) = deserialize(data)
    assert tensor["dtype"] == row.safetensors


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (np.float32, "float32"),
        (np.dtype(">i4"), "int32"),
        ("<f8", "float64"),
        ("S3", "string"),
        (str, "string"),
        (object, "string"),
        ("torch.bfloat16", "bfloat16"),
        (101, "float32"),
        (bool, "bool"),
    ],
)
def test_as_dtype(given, name):
    """Whatever names a dtype finds its row."""
    assert dtypes.as_dtype(given).name == name


@pytest.mark.parametrize("given", ["float7", 0, 34, np.dtype("M8[s]"), np.dtype("f4,f4"), 3.5])
def test_no_dtype(given):
    """What names none is refused."""
    with pytest.raises(ferry.UnsupportedError):
        dtypes.as_dtype(given)
