"""A schema as Arrow's."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from rows.schemas import schemas

from tensorferry.errors import MissingExtraError, UnsupportedError
from tensorferry.rows.schema import Feature, Schema, as_schema


def test_arrow():
    """Each column has one Arrow type, whatever the rows."""
    pa = pytest.importorskip("pyarrow")
    schema = as_schema(
        {
            "a": "int64",
            "b": ("float32", (2,)),
            "c": ("string", (2, 3)),
            "d": ("int64", (None,)),
            "e": ("int64", (None, 3)),
            "f": ("float64", (2, 3)),
            "g": ("bfloat16", (2,)),
            "h": ("float64", (None,)),
            "i": "int32",
            "j": Feature("j", "int64", (None,), "int64", sequence=True, optional=True),
        }
    )

    assert schema.to_arrow() == pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("b", pa.list_(pa.float32(), 2), nullable=False),
            pa.field("c", pa.list_(pa.list_(pa.binary(), 3), 2), nullable=False),
            pa.field("d", pa.list_(pa.int64()), nullable=False),
            pa.field("e", pa.list_(pa.list_(pa.int64(), 3)), nullable=False),
            pa.field("f", pa.fixed_shape_tensor(pa.float64(), (2, 3)), nullable=False),
            pa.field("g", pa.binary(), nullable=False),
            pa.field("h", pa.binary(), nullable=False),
            pa.field("i", pa.int32(), nullable=False),
            pa.field("j", pa.list_(pa.list_(pa.int64()))),
        ]
    )


@given(schemas())
def test_arrow_of_any(schema):
    """Every schema has an Arrow schema with its names."""
    pytest.importorskip("pyarrow")

    assert schema.to_arrow().names == list(schema)


def test_arrow_refuses(monkeypatch):
    """More values than Arrow's fixed lists hold are refused, and so is Arrow's absence."""
    pytest.importorskip("pyarrow")
    with pytest.raises(UnsupportedError, match="less than 2\\^31"):
        as_schema({"x": ("int64", (2**16, 2**16))}).to_arrow()

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tensorferry\[arrow\]'"):
        Schema().to_arrow()
