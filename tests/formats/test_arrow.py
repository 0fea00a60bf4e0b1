"""Arrow files and streams: everything comes back, PyArrow reads ours, and we read anybody's."""

from __future__ import annotations

import contextlib
import random
import struct
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
import strategies
from conftest import CORPUS
from hypothesis import given, settings, strategies as st
from strategies import same
from tables import read as read_table

from tensorferry import limits
from tensorferry.errors import (
    FormatError,
    LimitError,
    TruncatedError,
    UnknownFeatureError,
    UnsupportedError,
)
from tensorferry.formats.arrow import file as arrow
from tensorferry.formats.detect import detect_bytes
from tensorferry.formats.tables import columns as arrow_columns
from tensorferry.storage import Buffers, open_source
from tensorferry.tensors.values import RaggedTensor, SparseTensor

FUZZED = CORPUS / "arrow-testing"

SAMPLE: dict[str, Any] = {
    "id": np.arange(3),
    "embedding": np.arange(6, dtype=np.float32).reshape(3, 2),
    "tokens": RaggedTensor.from_rows([[1, 2], [], [3]]),
    "name": np.array([b"a", b"", b"\xff\0"], object),
    "flag": np.array([True, False, True]),
    "half": np.array([1, 2, 3], ml_dtypes.bfloat16),
    "sparse": SparseTensor([[2, 1], [0, 0]], np.array([1.5, 2.5]), [3, 4]),
}


def read(data: bytes | memoryview, **options: Any) -> Any:
    return read_table(data, "arrow", **options)


def dumps(leaves: dict[str, Any], **options: Any) -> bytes:
    buffers = Buffers()
    arrow.write(leaves, buffers, **options)
    return b"".join(buffers)


def written(table: pa.Table, *, stream: bool = False, **options: Any) -> bytes:
    """What PyArrow writes."""
    sink = pa.BufferOutputStream()
    make = ipc.new_stream if stream else ipc.new_file
    with make(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def opened(data: bytes) -> pa.Table:
    """What PyArrow reads."""
    reader = (ipc.open_file if data.startswith(b"ARROW1") else ipc.open_stream)(data)
    table = reader.read_all()
    table.validate(full=True)
    return table


def leaves() -> st.SearchStrategy[Any]:
    return st.one_of(strategies.arrays(), strategies.ragged_tensors(), strategies.sparse_tensors())


@settings(max_examples=60)
@given(
    st.dictionaries(st.text(max_size=5), leaves(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    st.booleans(),
    st.sampled_from([None, "lz4", "zstd"]),
)
def test_roundtrip(value, metadata, stream, compression):
    """What is written is what is read: names, order, dtype, shape, every bit, and the metadata."""
    data = dumps(value, metadata=metadata, stream=stream, compression=compression)

    found, noted = read(data)

    assert same(found, value)
    assert noted == metadata
    assert detect_bytes(data) == "arrow"


@settings(max_examples=60)
@given(leaves(), st.booleans(), st.sampled_from([None, 1, 2]))
def test_rows_in_batches(value, stream, batch_rows):
    """A column of rows comes back whole, however many batches it stands in."""
    rows = value.shape[0] if value.shape else 1
    data = dumps({"x": value}, stream=stream, batch_rows=batch_rows if rows < 100 else None)

    assert same(read(data)[0], {"x": value})


def test_types_in_pyarrow():
    """PyArrow reads each column as the type that its values have in Arrow."""
    table = opened(dumps(SAMPLE, metadata={"model": "en-de"}))

    assert {field.name: str(field.type) for field in table.schema} == {
        "id": "int64",
        "embedding": "extension<arrow.fixed_shape_tensor[value_type=float, shape=[2]]>",
        "tokens": "list<item: int32>",
        "name": "binary",
        "flag": "bool",
        "half": "fixed_size_binary[2]",
        "sparse": "struct<indices: list<item: fixed_size_list<item: int64>[1]> not null, "
        "values: list<item: double> not null, order: list<item: int64> not null>",
    }
    assert table.schema.metadata == {b"model": b"en-de", b"tensorferry.rows": b"true"}
    assert table.schema.field("half").metadata == {b"tensorferry.dtype": b"bfloat16"}
    embedding = table["embedding"].combine_chunks()
    assert isinstance(embedding, pa.FixedShapeTensorArray)
    assert np.array_equal(embedding.to_numpy_ndarray(), SAMPLE["embedding"])
    assert table["tokens"].to_pylist() == [[1, 2], [], [3]]
    assert table["name"].to_pylist() == [b"a", b"", b"\xff\0"]
    assert table["sparse"].to_pylist() == [
        {"indices": [[0]], "values": [2.5], "order": [1]},
        {"indices": [], "values": [], "order": []},
        {"indices": [[1]], "values": [1.5], "order": [0]},
    ]


def test_one_row():
    """Leaves of different first dimensions stand whole in one row, tensors as Arrow's own."""
    value = {"step": np.array(7), "kernel": np.eye(3), "bias": np.zeros(2, np.float16)}
    table = opened(dumps(value))

    assert table.num_rows == 1
    assert table.schema.metadata == {b"tensorferry.rows": b"false"}
    assert table["step"].to_pylist() == [7]
    assert np.array_equal(table["kernel"].combine_chunks().to_numpy_ndarray(), [np.eye(3)])
    assert same(read(dumps(value))[0], value)


def test_choice_of_rows():
    """Equal first dimensions make rows, unless asked otherwise; others cannot."""
    value = {"a": np.zeros(3), "b": np.zeros((3, 2))}
    assert opened(dumps(value)).num_rows == 3
    assert opened(dumps(value, rows=False)).num_rows == 1
    assert opened(dumps({"a": np.zeros(3), "b": np.zeros(2)})).num_rows == 1
    assert opened(dumps({"a": np.array(3)})).num_rows == 1
    assert read(dumps({})) == ({}, {})
    with pytest.raises(UnsupportedError, match="'a': 3, 'b': 2"):
        dumps({"a": np.zeros(3), "b": np.zeros(2)}, rows=True)


def test_list_of_arrays():
    """A list of arrays of one rank is a column of Arrow's variable_shape_tensor."""
    for dtype in ("float32", "bool", "complex64", ml_dtypes.bfloat16):
        value = {"x": [np.ones((2, 1), dtype), np.zeros((0, 3), dtype), np.ones((1, 2), dtype)]}
        for options in ({}, {"batch_rows": 1}):
            data = dumps(value, **options)
            assert same(read(data)[0], value)
    column = opened(dumps(value))["x"].combine_chunks()
    column = getattr(column, "storage", column)  # older versions of PyArrow know only this
    assert str(column.type) == (
        "struct<data: list<item: fixed_size_binary[2]>, shape: fixed_size_list<item: int32>[2]>"
    )
    assert column.field("shape").to_pylist() == [[2, 1], [0, 3], [1, 2]]
    assert b"arrow.variable_shape_tensor" in data
    assert b"ARROW:extension:name" in data


@pytest.mark.parametrize(
    "parameters", [{}, {"permutation": [1, 0]}, {"permutation": [1, 0], "uniform_shape": [None, 2]}]
)
def test_variable_shape_of_others(parameters):
    """Tensors of any shape that others wrote, permuted or not, some of them missing."""
    kind = arrow_columns.VariableShapeTensorType(pa.int64(), 2, parameters)
    rows = [{"data": [1, 2], "shape": [1, 2]}, None, {"data": [3, 4, 5, 6], "shape": [2, 2]}]
    column = pa.ExtensionArray.from_storage(kind, pa.array(rows, kind.storage_type))
    found = read(written(pa.table({"x": column})))[0]["x"]

    expected = [np.array([[1, 2]]), None, np.array([[3, 4], [5, 6]])]
    if "permutation" in parameters:
        expected = [None if tensor is None else tensor.T for tensor in expected]
    assert same(found, expected)


@pytest.mark.parametrize("shape", [[2, 2], [-1, -2], [2**30, 4]], ids=str)
def test_variable_shape_that_lies(shape):
    """A shape that its numbers do not fill is refused."""
    kind = arrow_columns.VariableShapeTensorType(pa.int64(), 2)
    rows = pa.array([{"data": [1, 2], "shape": shape}], kind.storage_type)
    column = pa.ExtensionArray.from_storage(kind, rows)

    with pytest.raises(FormatError, match="2 values for the shape"):
        read(written(pa.table({"x": column})))


# Memory


@pytest.mark.parametrize("stream", [False, True])
def test_writing_copies_nothing(stream):
    """Contiguous numbers go to the sink as they lie in memory."""
    value = {
        "plain": np.arange(1000.0),
        "matrix": np.ones((1000, 3), np.int16),
        "half": np.ones((1000, 2), ml_dtypes.bfloat16),
        "complex": np.ones(1000, np.complex64),
        "ragged": RaggedTensor(np.arange(1000), (np.arange(1001, dtype=np.int32),)),
    }
    buffers = Buffers()
    arrow.write(value, buffers, stream=stream)

    for leaf in [*list(value.values())[:-1], value["ragged"].flat_values,
                 value["ragged"].nested_row_splits[0]]:  # fmt: skip
        assert any(np.shares_memory(np.frombuffer(buffer, np.uint8), leaf) for buffer in buffers)
    assert same(read(b"".join(buffers))[0], value)


@pytest.mark.parametrize("stream", [False, True])
def test_reading_copies_nothing(stream, tmp_path):
    """Numbers are views of the source, a mapped file too; they outlive it."""
    value = {
        "plain": np.arange(1000.0),
        "matrix": np.ones((1000, 3), np.int16),
        "half": np.ones((1000, 2), ml_dtypes.bfloat16),
        "quantized": np.ones(1000, [("qint8", "<i1")]),
        "complex": np.ones((1000, 2), np.complex64),
        "ragged": RaggedTensor(np.arange(1000), (np.arange(1001, dtype=np.int32),)),
    }
    path = tmp_path / "x.arrow"
    path.write_bytes(dumps(value, stream=stream))
    with open_source(path) as source:
        assert source.buffer is not None
        whole = np.frombuffer(source.buffer, np.uint8)
        found, _ = read(source.buffer)

    for leaf in [*list(found.values())[:-1], found["ragged"].flat_values,
                 found["ragged"].nested_row_splits[0]]:  # fmt: skip
        assert np.shares_memory(leaf, whole)
        assert not leaf.flags.writeable
    del whole
    path.unlink()
    assert same(found, value)


# Files of others

TABLE = pa.table(
    {
        "int": pa.array([1, 2, 3], pa.uint16()),
        "text": ["a", "ä", ""],
        "large": pa.array(["a", "ä", ""], pa.large_string()),
        "view": pa.array(["a", "ä", "longer than twelve bytes"], pa.string_view()),
        "fixed": pa.array([b"ab", b"cd", b"ef"], pa.binary(2)),
        "list": pa.array([[1.5], [], [2.5, 3.5]], pa.list_(pa.float32())),
        "large_list": pa.array([["x"], [], ["y", "z"]], pa.large_list(pa.string())),
        "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
        "pairs": pa.array([[[1, 2]], [], [[3, 4]]], pa.list_(pa.list_(pa.int8(), 2))),
        "lists": pa.array([[[1], []], [[], [2]], [[], []]], pa.list_(pa.list_(pa.int8()), 2)),
        "dictionary": pa.array(["b", "a", "b"]).dictionary_encode(),
        "when": pa.array([0, 1, 2], pa.timestamp("us", "UTC")),
        "day": pa.array([0, 1, 2], pa.date32()),
        "point": pa.array([{"x": 1, "y": [1]}, {"x": 2, "y": []}, {"x": 3, "y": [2, 3]}]),
        "map": pa.array([{"k": 1}, {}, {"l": 2}], pa.map_(pa.string(), pa.int32())),
        "bool": [True, False, True],
    }
)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("chunks", [1, 3])
def test_foreign_types(stream, chunks):
    """What PyArrow writes of any type that has a counterpart."""
    parts = [TABLE] if chunks == 1 else [TABLE.slice(row, 1) for row in range(3)]
    sink = pa.BufferOutputStream()
    with (ipc.new_stream if stream else ipc.new_file)(
        sink, TABLE.schema, options=ipc.IpcWriteOptions(unify_dictionaries=True)
    ) as writer:
        for part in parts:
            writer.write_table(part)
    found, metadata = read(sink.getvalue().to_pybytes())

    def texts(*values: str) -> np.ndarray:
        return np.array([value.encode() for value in values], object)

    def ragged(values: Any, *splits: list[int]) -> RaggedTensor:
        return RaggedTensor(values, splits)

    assert same(
        found,
        {
            "int": np.array([1, 2, 3], np.uint16),
            "text": texts("a", "ä", ""),
            "large": texts("a", "ä", ""),
            "view": texts("a", "ä", "longer than twelve bytes"),
            "fixed": texts("ab", "cd", "ef"),
            "list": ragged(np.array([1.5, 2.5, 3.5], np.float32), [0, 1, 1, 3]),
            "large_list": ragged(texts("x", "y", "z"), [0, 1, 1, 3]),
            "pair": np.array([[1, 2], [3, 4], [5, 6]], np.int8),
            "pairs": ragged(np.array([[1, 2], [3, 4]], np.int8), [0, 1, 1, 2]),
            "lists": ragged(np.array([1, 2], np.int8), [0, 2, 4, 6], [0, 1, 1, 1, 2, 2, 2]),
            "dictionary": texts("b", "a", "b"),
            "when": np.arange(3),
            "day": np.arange(3, dtype=np.int32),
            "point/x": np.array([1, 2, 3]),
            "point/y": ragged(np.array([1, 2, 3]), [0, 1, 1, 3]),
            "map/key": ragged(texts("k", "l"), [0, 1, 1, 2]),
            "map/value": ragged(np.array([1, 2], np.int32), [0, 1, 1, 2]),
            "bool": np.array([True, False, True]),
        },
    )
    assert metadata == {
        "tensorferry.type.when": "timestamp[us, tz=UTC]",
        "tensorferry.type.day": "date32[day]",
    }


def test_list_views():
    """Lists in any order, as views have them; runs."""
    views = pa.ListViewArray.from_arrays([2, 0, 0], [1, 2, 0], pa.array([1, 2, 3]))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    found, _ = read(written(pa.table({"v": views, "r": runs})))
    assert found["v"].to_list() == [[3], [1, 2], []]
    assert found["r"].tolist() == [b"a", b"a", b"b"]
    found, _ = read(written(pa.table({"v": views.slice(1), "r": runs.slice(1)})))
    assert found["v"].to_list() == [[1, 2], []]
    assert found["r"].tolist() == [b"a", b"b"]


def test_nulls():
    """A column with nulls is ragged, of none or one value in each row; a missing list is empty."""
    struct = pa.array([{"a": 1}, None, {"a": None}])
    table = pa.table(
        {
            "number": pa.array([1, None, 3]),
            "text": pa.array(["a", None, "b"]),
            "bool": pa.array([None, True, False]),
            "pair": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)),
            "list": pa.array([[1], None, [2]]),
            "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
            "struct": struct,
        }
    )
    in_chunks = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    for data in (written(table), written(table.slice(0, 2)), written(in_chunks)):
        found, _ = read(data)
        rows = len(found["list"])
        assert found["number"].to_list() == [[1], [], [3]][:rows]
        assert found["text"].to_list() == [[b"a"], [], [b"b"]][:rows]
        assert found["bool"].to_list() == [[], [True], [False]][:rows]
        assert found["pair"].to_list() == [[[1, 2]], [], [[3, 4]]][:rows]
        assert found["list"].to_list() == [[1], [], [2]][:rows]
        assert found["dictionary"].to_list() == [[b"a"], [], [b"b"]][:rows]
        assert [list(row) for row in found["struct/a"]] == [[1], [], []][:rows]


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array([None, None]), "type null"),
        (pa.array([[1, None]]), "nulls inside its lists"),
        (pa.array([1], pa.decimal128(5)), "decimal128"),
        (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]), "sparse_union"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "interval"),
    ],
)
def test_no_counterpart(column, match):
    """What has no counterpart is refused by name, with a way to read the others."""
    data = written(pa.table({"bad": column, "good": range(len(column))}))

    with pytest.raises(UnsupportedError, match=match) as caught:
        read(data)

    assert caught.value.tensor == "bad"
    assert "columns=" in (caught.value.hint or "")
    assert list(read(data, columns=["good"])[0]) == ["good"]
    with pytest.raises(UnknownFeatureError, match="'other'"):
        read(data, columns=["other"])


def test_canonical_extensions():
    """Arrow's own extension types are what they stand for."""
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2, 3], permutation=[1, 0]),
        pa.array([list(range(6)), list(range(6, 12))], pa.list_(pa.int32(), 6)),
    )
    bools = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 5], pa.int8()))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 2, pa.binary(16)))
    texts = pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(["1", "2"]))
    found, _ = read(written(pa.table([tensors, bools, uuids, texts], list("abcd"))))

    assert np.array_equal(found["a"], tensors.to_numpy_ndarray())
    assert found["b"].tolist() == [False, True]
    assert found["c"].tolist() == [b"0" * 16] * 2
    assert found["d"].tolist() == [b"1", b"2"]


def test_without_pyarrow(tmp_path):
    """Without PyArrow, the error says what to install."""
    code = """
        import sys
        sys.modules["pyarrow"] = None
        from tensorferry.errors import MissingExtraError
        import tensorferry as ferry
        for path in ("x.arrow", "x.parquet"):
            head = {"x.arrow": b"ARROW1", "x.parquet": b"PAR1"}[path]
            open(path, "wb").write(head + bytes(50))
            for use in (lambda: ferry.open(path), lambda: ferry.save({"a": 1}, path)):
                try:
                    use()
                except MissingExtraError as error:
                    print(error.hint)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout.splitlines() == ["pip install 'tensorferry[arrow]'"] * 4, result.stderr


def test_feather():
    """Feather's second version is an Arrow file; the first is refused by name."""
    with pytest.raises(UnsupportedError, match="Feather file of version 1"):
        read(b"FEA1" + bytes(100))
    assert detect_bytes(b"FEA1") == "arrow"


def test_names():
    """Columns of one name, and names or metadata that are no text, are refused."""
    with pytest.raises(FormatError, match="several columns 'a'"):
        read(written(pa.table([[1], [2]], ["a", "a"])))
    with pytest.raises(FormatError, match="several columns 'a/b'"):
        read(written(pa.table([[1], [{"b": 1}]], ["a/b", "a"])))
    for options in ({"metadata": {"\ud800": ""}}, {"metadata": {"tensorferry.rows": ""}}):
        with pytest.raises(UnsupportedError):
            dumps({}, **options)
    with pytest.raises(UnsupportedError):
        dumps({"\ud800": np.zeros(1)})


# Lies


def read_all(data: bytes) -> Any:
    """Every value of a file, or a typed error."""
    with contextlib.suppress(FormatError, UnsupportedError):
        found, _ = read(data)
        return repr(found)
    return None


SMALL = {name: SAMPLE[name] for name in ("id", "tokens", "name", "sparse")}


@pytest.mark.parametrize("options", [{}, {"stream": True}, {"compression": "lz4"}], ids=str)
def test_cut_at_every_offset(options):
    """Cut anywhere, the bytes are refused."""
    data = dumps(SMALL, batch_rows=2, **options)
    for end in range(len(data)):
        with pytest.raises(FormatError) as caught:
            read(data[:end])
        assert caught.value.offset is None or 0 <= caught.value.offset <= end


def test_stream_without_end():
    """A stream of others may just stop; ours has a mark of its end."""
    data = written(pa.table({"a": [1]}), stream=True)
    assert read(data[:-8])[0]["a"].tolist() == [1]
    with pytest.raises(TruncatedError, match="no mark of its end"):
        read(dumps(SMALL, stream=True)[:-8])


@pytest.mark.parametrize("options", [{}, {"stream": True}, {"compression": "zstd"}], ids=str)
def test_bits_flipped(options):
    """Any flipped bit gives other values or a typed error."""
    names = ["tokens"] if "compression" in options else ["tokens", "name"]
    data = dumps({name: SAMPLE[name] for name in names}, **options)
    for position in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        read_all(bytes(flipped))


def test_random_bytes_changed():
    """Several bytes changed at once give other values or a typed error."""
    generator = random.Random(7)
    samples = [
        dumps(SAMPLE),
        dumps(SAMPLE, stream=True),
        written(TABLE),
        written(TABLE, stream=True),
    ]
    for number in range(2000):
        data = bytearray(samples[number % len(samples)])
        for _ in range(generator.randint(1, 8)):
            data[generator.randrange(len(data))] = generator.choice([0, 1, 127, 128, 255])
        read_all(bytes(data))


def compressed(size: int) -> bytes:
    """A compressed file of which a buffer says that it unpacks to so many bytes."""
    value = {"x": np.zeros(1 << 16)}
    data = bytearray(dumps(value, compression="zstd"))
    place = data.index(struct.pack("<q", value["x"].nbytes) + b"\x28\xb5\x2f\xfd")
    data[place : place + 8] = struct.pack("<q", size)
    return bytes(data)


def test_unpacked_beyond_the_budget(monkeypatch):
    """What a buffer says it unpacks to is held against limits.memory before anything is done."""
    assert len(read(compressed(8 << 16))[0]["x"]) == 1 << 16
    for size in (1 << 40, 1 << 62):
        with pytest.raises(LimitError, match=r"limits\.memory"):
            read(compressed(size))
    for size in (-2, -(2**63), 8 << 15, 8 << 17):
        with pytest.raises(FormatError):
            read(compressed(size))
    monkeypatch.setattr(limits, "memory", 1000)
    with pytest.raises(LimitError, match="1000 are allowed"):
        read(compressed(8 << 16))


def test_rows_of_nothing():
    """Rows that take no bytes may be many, as long as nothing has to be made of each."""
    empty = pa.Array.from_buffers(
        pa.list_(pa.int8(), 0), 2**60, [None], children=[pa.array([], pa.int8())]
    )
    assert read(written(pa.table({"x": empty}), allow_64bit=True))[0]["x"].shape == (2**60, 0)
    lists = pa.Array.from_buffers(
        pa.list_(pa.list_(pa.int8()), 0),
        2**60,
        [None],
        children=[pa.array([], pa.list_(pa.int8()))],
    )
    with pytest.raises(LimitError, match=r"limits\.memory"):
        read(written(pa.table({"x": lists}), allow_64bit=True))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2**40]), pa.array(["a" * 1000]))
    with pytest.raises(LimitError, match=r"limits\.memory"):
        read(written(pa.table({"x": runs}), allow_64bit=True))


def test_repeated_strings():
    """A string that stands in many rows is one object, however it was repeated."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 5000, pa.int8()), ["a" * 1000])
    found = read(written(pa.table({"x": column})))[0]["x"]
    assert found[0] is found[4999]


@pytest.mark.parametrize(
    ("column", "metadata"),
    [
        (pa.array([1]), {"dtype": "bfloat16"}),
        (pa.array([1]), {"dtype": "float99"}),
        (pa.array([1]), {"dtype": "resource"}),
        (pa.array([1]), {"dtype": "\xff"}),
        (pa.array([100], pa.int8()), {"dtype": "int4"}),
        (pa.array([1.5]), {"dtype": "int4"}),
        (pa.array([b"abc"], pa.binary(3)), {"dtype": "bfloat16"}),
        (pa.array([b"a"]), {"dtype": "bfloat16"}),
        (pa.array([[1.0, 2.0, 3.0]], pa.list_(pa.float32(), 3)), {"dtype": "complex64"}),
        (pa.array([1.0]), {"dtype": "complex128"}),
        (pa.array([1]), {"dtype": "qint32"}),
        (pa.array([1]), {"shape": "[0]"}),
        (pa.array([[1]]), {"shape": "[0]"}),
        (pa.array([[]], pa.list_(pa.int8())), {"shape": "[2]"}),
        (pa.array([[]], pa.list_(pa.int8())), {"shape": "[-1]"}),
        (pa.array([[]], pa.list_(pa.int8())), {"shape": "[" * 100_000}),
        (pa.array([[]], pa.list_(pa.int8())), {"shape": "7"}),
        (pa.array([[1]]), {"row_splits": '["int8"]'}),
        (pa.array([[1]]), {"row_splits": '["int32", "int64"]'}),
        (pa.array([1]), {"kind": "sparse"}),
        (pa.array([1]), {"kind": "sparse", "shape": "[2]"}),
        (pa.array([1]), {"kind": "dense"}),
        (pa.array([{"values": [1]}]), {"kind": "sparse", "shape": "[2]"}),
        (pa.array([{"values": [1], "indices": [0]}]), {"kind": "sparse", "shape": "[2]"}),
        (pa.array([{"values": [1], "indices": [[0]]}]), {"kind": "sparse", "shape": "[2]"}),
        (pa.array([{"values": 1}]), {"kind": "sparse", "shape": "[]"}),
        (pa.array([{"values": [1, 2], "order": [1]}]), {"kind": "sparse", "shape": "[]"}),
        (pa.array([{"values": [1], "order": ["a"]}]), {"kind": "sparse", "shape": "[]"}),
        (pa.array([{"order": [1]}]), {"kind": "sparse", "shape": "[]"}),
    ],
    ids=str,
)
def test_notes_that_lie(column, metadata):
    """A note that does not fit its column is refused by the column's name."""
    field = pa.field(
        "x", column.type, metadata={f"tensorferry.{k}": v for k, v in metadata.items()}
    )
    table = pa.table([column], schema=pa.schema([field]))

    with pytest.raises(FormatError) as caught:
        read(written(table))

    assert caught.value.tensor == "x"


def test_sparse_outside_its_shape():
    """Sparse indices are held against the shape."""
    kind = {"values": pa.list_(pa.int64()), "indices": pa.list_(pa.list_(pa.int64(), 1))}
    indices = pa.array([{"values": [1], "indices": [[5]]}], pa.struct(kind))
    note = {"tensorferry.kind": "sparse", "tensorferry.shape": "[5]"}
    table = pa.table([indices], schema=pa.schema([pa.field("x", indices.type, metadata=note)]))
    with pytest.raises(FormatError, match="outside the dense shape"):
        read(written(table))


@pytest.mark.parametrize("rows", [0, 2])
def test_other_numbers_of_whole_tensors(rows):
    """A file that says it has whole tensors has one row of them."""
    schema = pa.schema([("x", pa.int64())], metadata={"tensorferry.rows": "false"})
    with pytest.raises(FormatError, match=f"{rows} rows, expected 1"):
        read(written(pa.table([list(range(rows))], schema=schema)))
    schema = pa.schema([("x", pa.list_(pa.int64()))], metadata={"tensorferry.rows": "false"})
    with pytest.raises(FormatError, match="holds rows"):
        read(written(pa.table([[[1]]], schema=schema)))


def fuzzed_files() -> list[Path]:
    return sorted(path for path in FUZZED.rglob("*") if path.is_file())


@pytest.mark.skipif(not FUZZED.exists(), reason="no corpus")
def test_fuzzed_files():
    """The files that broke Arrow's readers give a typed error or values, in a living process."""
    code = """
        import resource, sys, time
        from pathlib import Path
        from tensorferry.errors import FormatError, UnsupportedError
        from tables import read
        import tensorferry.formats.arrow.format
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for path in sys.argv[1:]:
            try:
                print(path, len(repr(read(Path(path).read_bytes(), "arrow"))))
            except (FormatError, UnsupportedError) as error:
                print(path, type(error).__name__, error)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
        assert time.process_time() < 30
    """
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, fuzzed_files())]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=600, cwd=Path(__file__).parent.parent
    )
    assert result.returncode == 0, result.stdout[-500:] + result.stderr


def integration_files() -> list[Path]:
    return sorted((FUZZED / "arrow-ipc-stream/integration").rglob("generated_*"))


@pytest.mark.parametrize("path", integration_files(), ids=lambda path: "-".join(path.parts[-2:]))
def test_integration_files(path):
    """Files of Arrow's integration tests, of old versions and the other byte order."""
    data = path.read_bytes()
    table = opened(data)
    found, _ = read(data)

    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        expected = column.to_pylist()
        if column.null_count:
            expected = [[] if value is None else [value] for value in expected]
            assert found[name].to_list() == expected
        else:
            assert found[name].tolist() == expected
