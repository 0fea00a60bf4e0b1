"""Values as Arrow columns and back, without a file between."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
import strategies
from hypothesis import given, settings, strategies as st
from strategies import same

from tensorferry import dtypes
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.tables import (
    chunks as arrow_chunks,
    columns as arrow_columns,
    metadata as marks,
    outline as arrow_outline,
    values as arrow_values,
)
from tensorferry.tensors.values import RaggedTensor, SparseTensor


def there_and_back(leaves: dict[str, Any], **options: Any) -> dict[str, Any]:
    batch = arrow_columns.to_batch(leaves, metadata={}, **options)
    batch.validate(full=True)
    found = arrow_values.from_batches(batch.schema, [batch])
    return found if marks.in_rows(batch.schema.metadata) else arrow_chunks.out_of_one_row(found)


def leaves() -> st.SearchStrategy[Any]:
    return st.one_of(strategies.arrays(), strategies.ragged_tensors(), strategies.sparse_tensors())


@settings(max_examples=100)
@given(st.dictionaries(st.text(max_size=5), leaves(), max_size=4))
def test_whole_tensors(value):
    """Any leaves stand in one row, each whole, and come back to the bit."""
    assert same(there_and_back(value, rows=False), value)


@settings(max_examples=100)
@given(leaves())
def test_rows(value):
    """Any leaf with a first dimension is a column of rows, and comes back to the bit."""
    assert same(there_and_back({"x": value}), {"x": value})
    if value.shape and (not isinstance(value, SparseTensor) or value.shape[0] < 1000):
        assert same(there_and_back({"x": value}, rows=True), {"x": value})


def test_row_splits_of_any_kind():
    """int32 and int64 row splits come back as they were, in rows and in one row."""
    for first, second in (("int32", "int32"), ("int32", "int64"), ("int64", "int32")):
        splits = np.array([0, 2, 2], first), np.array([0, 1, 3], second)
        value = {"x": RaggedTensor(np.arange(3.0), splits)}
        assert same(there_and_back(value), value)
        assert same(there_and_back(value, rows=False), value)


def test_ragged_strings():
    """Strings in ragged tensors, with uniform dimensions and without."""
    for shape in ((3,), (3, 2), (3, 0), (3, 2, 1)):
        flat = np.full(shape, b"text\0", object)
        value = {"x": RaggedTensor(flat, (np.array([0, 1, 1, 3]),))}
        assert same(there_and_back(value), value)
        assert same(there_and_back(value, rows=False), value)


@pytest.mark.parametrize(
    ("dtype", "arrow", "seen"),
    [
        ("int4", "int8", [-8, 7]),
        ("uint2", "uint8", [0, 3]),
        ("qint8", "int8", [-8, 7]),
        ("quint16", "uint16", [8, 7]),
        ("bfloat16", "fixed_size_binary[2]", [b"\x00\xc1", b"\xe0\x40"]),
        ("float8_e5m2", "fixed_size_binary[1]", [b"\xc8", b"\x47"]),
        ("complex64", "fixed_size_list<item: float>[2]", [[-8, 0], [7, 0]]),
        ("float16", "halffloat", [-8, 7]),
        ("bool", "bool", [False, True]),
    ],
)
def test_what_others_see(dtype, arrow, seen):
    """Readers that know nothing of our notes see numbers where Arrow has them."""
    row = dtypes.BY_NAME[dtype]
    assert row.numpy is not None
    numbers = {"uint2": [0, 3], "quint16": [8, 7], "bool": [0, 1]}.get(dtype, [-8, 7])
    if row.numpy.names:
        array = np.array(numbers, row.numpy[0]).view(row.numpy)
    else:
        array = np.array(numbers).astype(row.numpy)
    batch = arrow_columns.to_batch({"x": array}, metadata={})

    assert str(batch.schema.field("x").type) == arrow
    assert batch.column(0).to_pylist() == seen
    assert not batch.schema.field("x").nullable


@pytest.mark.parametrize(
    "value",
    [
        [],
        [np.zeros(2), np.zeros((2, 2))],
        [np.zeros(2), np.zeros(2, np.int8)],
        [np.array([b"a"], object)],
        [np.array(1)],
        np.array([{}], object),
        np.array(["2020-01-01"], "M8[D]"),
    ],
    ids=str,
)
def test_no_place(value):
    """What has no place in a column is refused by its name."""
    with pytest.raises(UnsupportedError) as caught:
        arrow_columns.to_batch({"x": value}, metadata={})
    assert caught.value.tensor == "x"


@pytest.mark.parametrize(
    ("parameters", "rank"),
    [
        ({"permutation": [0, 0]}, 2),
        ({"permutation": [0]}, 2),
        ({"permutation": "10"}, 2),
        ({"permutation": [True, False]}, 2),
        ({"dim_names": ["a"]}, 2),
        ({"dim_names": [1, 2]}, 2),
        ({"uniform_shape": [-1, None]}, 2),
    ],
)
def test_parameters_of_variable_shapes(parameters, rank):
    """Parameters of arrow.variable_shape_tensor that its specification does not allow."""
    with pytest.raises(FormatError):
        arrow_columns.check_parameters(parameters, rank)
    for text in (b"[", b"[]", b"7"):
        with pytest.raises(FormatError):
            arrow_columns.parse_parameters(text, rank)
    assert arrow_columns.parse_parameters(b"", rank) == {}


def test_too_many_dimensions():
    """A type may claim 2^31 dimensions; nothing is made for each of them."""
    members = {"data": pa.list_(pa.int8()), "shape": pa.list_(pa.int32(), 2**27)}
    metadata = {"ARROW:extension:name": "arrow.variable_shape_tensor"}
    field = pa.field("x", pa.struct(members), metadata=metadata)
    schema = pa.schema([field])
    with pytest.raises(UnsupportedError, match="134217728 dimensions"):
        arrow_values.from_batches(schema, [])
    (leaf,) = arrow_outline.outline(schema)
    assert "134217728 dimensions" in str(leaf.error)


def test_sparse_without_values():
    """A schema that says sparse of another type is refused before anything is read."""
    note = {"tensorferry.kind": "sparse", "tensorferry.shape": "[]"}
    for kind in (pa.struct([]), pa.int64()):
        schema = pa.schema([pa.field("x", kind, metadata=note), pa.field("y", pa.int64())])
        bad, good = arrow_outline.outline(schema)
        assert isinstance(bad.error, FormatError)
        assert "its note says sparse" in str(bad.error)
        assert good.error is None
        assert good.nodes == (1,)


def test_outline():
    """What a schema says of its leaves is what reading them gives."""
    value: dict[str, Any] = {
        "plain": np.zeros(2, np.int16),
        "matrix": np.zeros((2, 3, 4), ml_dtypes.bfloat16),
        "complex": np.zeros((2, 3), np.complex64),
        "nothing": np.zeros((2, 3, 0), np.complex128),
        "texts": np.full((2, 2), b"", object),
        "ragged": RaggedTensor.from_rows([[[1.0]], []]),
        "sparse": SparseTensor([[0, 1]], [1.5], [2, 7]),
        "list": [np.zeros((1, 2), np.complex64), np.zeros((2, 2), np.complex64)],
    }
    batch = arrow_columns.to_batch(value, metadata={})
    found = {leaf.name: (leaf.dtype, leaf.shape) for leaf in arrow_outline.outline(batch.schema)}

    assert found == {
        "plain": ("int16", ()),
        "matrix": ("bfloat16", (3, 4)),
        "complex": ("complex64", (3,)),
        "nothing": ("complex128", (3, 0)),
        "texts": ("string", (2,)),
        "ragged": ("float32", (None, None)),
        "sparse": ("float32", (7,)),
        "list": ("complex64", (None, None)),
    }
    assert same(there_and_back(value), value)


USUAL = [
    pa.array(np.arange(12, dtype=np.int16)),
    pa.array([f"text {row}" for row in range(12)]),
    pa.FixedSizeListArray.from_arrays(pa.array(np.arange(24, dtype=np.float32)), 2),
    pa.FixedSizeListArray.from_arrays(pa.array(np.arange(36)), 3),
]


@pytest.mark.parametrize("array", USUAL, ids=lambda array: str(array.type))
@pytest.mark.parametrize("nullable", [True, False])
def test_usual_columns(array, nullable):
    """The shortest ways, which nearly all columns take, lead where the general ones lead."""
    field = pa.field("a", array.type, nullable=nullable)
    for part in (array, array.slice(3), array.slice(2, 5), array.slice(4, 0)):
        found = arrow_values._usual(part)
        (general,) = arrow_values._parts(part, field, arrow_columns.Note(), None).values()
        assert found is not None
        assert same({"a": found}, {"a": general.leaf})
    counters = itertools.count(5), itertools.count(3)
    plain = arrow_outline._plain(field, field.type, 5, 3)
    assert [plain] == arrow_outline._leaves(field, counters)


USUAL_TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string()),
    *(pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view()),
    *(pa.list_(pa.float32(), 16), pa.list_(pa.field("x", pa.int8(), nullable=False), 1)),
]
OTHER_TYPES = [
    *(pa.null(), pa.binary(3), pa.date32(), pa.timestamp("us"), pa.decimal128(5), pa.duration("s")),
    *(pa.list_(pa.int64()), pa.list_(pa.int64(), 0), pa.list_(pa.string(), 2)),
    *(pa.list_(pa.bool_(), 2), pa.list_(pa.list_(pa.int8(), 2), 2)),
    pa.list_(pa.field("x", pa.int8(), metadata={"a": "b"}), 2),
    *(pa.struct([("x", pa.int64())]), pa.dictionary(pa.int8(), pa.string()), pa.bool8()),
    *(pa.fixed_shape_tensor(pa.int64(), [2, 2]), pa.map_(pa.string(), pa.int64())),
    pa.run_end_encoded(pa.int32(), pa.int64()),
]


def test_outlines_of_usual_columns():
    """Leaves that are found in one native call are those of the walk over all types."""
    names = ["", "a\0b", "a\0c", "é", "a/b"]
    fields = [
        pa.field(f"{names[number % 5]}{number}", kind, nullable=number % 3 > 0)
        for number, kind in enumerate(USUAL_TYPES * 2)
    ]
    for schema in (pa.schema(fields), pa.schema(fields, {"key": "value"}), pa.schema([])):
        found = arrow_outline._usual(schema)
        assert found == arrow_outline._any(schema)
        assert found == arrow_outline.checked(schema)
        assert [leaf.name for leaf in found] == schema.names


@pytest.mark.parametrize("kind", OTHER_TYPES, ids=str)
def test_outlines_of_other_columns(kind):
    """Another type, or metadata of a column, is left to the walk."""
    usual = pa.field("a", pa.int64())
    for field in (pa.field("b", kind), pa.field("b", pa.int64(), metadata={"x": "y"})):
        schema = pa.schema([usual, field])
        assert arrow_outline._usual(schema) is None
        assert [leaf.column for leaf in arrow_outline.outline(schema)][:2] == ["a", "b"]
    with pytest.raises(FormatError, match="several columns 'a'"):
        arrow_outline.checked(pa.schema([usual, usual]))


@pytest.mark.parametrize("array", [
    pa.array([1, None]),
    pa.array(["a", None]),
    pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
    pa.array([[1, None]], pa.list_(pa.int64(), 2)),
    pa.array([[], []], pa.list_(pa.int64(), 0)),
    pa.array([["a"]], pa.list_(pa.string(), 1)),
    pa.array([b"a"]),
    pa.array([True]),
])  # fmt: skip
def test_unusual_columns(array):
    """Nulls, and types that are rarer, go the general way."""
    assert arrow_values._usual(array) is None
