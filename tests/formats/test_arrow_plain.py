"""The quick way into Arrow files of numbers: it agrees with the other one on any bytes."""

from __future__ import annotations

import io
import types
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tensorferry as ferry
from tensorferry import _native
from tensorferry.formats.arrow import file

NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
VALUE = {name: np.arange(5).astype(name) for name in NUMBERS}


def written(table: pa.Table, **options: Any) -> bytes:
    """The file that PyArrow writes, of one record batch for each chunk of the table."""
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema, **options) as writer:
        writer.write_table(table)
    return out.getvalue()


def outcome(data: bytes) -> object:
    """What reading gives: the values, or that it fails."""
    try:
        found = ferry.loads(data, format="arrow")
    except ferry.FerryError:
        return None
    return {
        name: (array.dtype, array.tolist() if isinstance(array, np.ndarray) else str(array))
        for name, array in found.items()
    }


@pytest.fixture
def slowly(monkeypatch):
    """Reads everything with PyArrow."""

    def read(data: bytes) -> object:
        with monkeypatch.context() as patch:
            other = types.SimpleNamespace(arrow_columns=lambda source: None)
            patch.setattr(file, "_native", other)
            return outcome(data)

    return read


NOTED = pa.schema([pa.field("a", pa.int64(), metadata={"k": "v"})])
TWO = pa.concat_tables([pa.table(VALUE), pa.table(VALUE)])


@pytest.mark.parametrize("data", [
    ferry.dumps(VALUE, format="arrow", metadata={"k": "v"}),
    written(pa.table(VALUE)),
    written(TWO),
    written(pa.table({"ä": np.arange(3), "": np.arange(3)})),
    written(pa.table({"a": np.arange(3)}).replace_schema_metadata({"k": b"\xff"})),
])  # fmt: skip
def test_plain_files(data, slowly):
    """Files of numbers, of ours and of PyArrow, are taken; values and dtypes are the same."""
    assert _native.arrow_columns(data) is not None
    assert outcome(data) == slowly(data) != None  # noqa: E711  # nothing else is that


@pytest.mark.parametrize("data", [
    written(pa.table({"a": [1, None]})),
    written(pa.table({"a": ["x"]})),
    written(pa.table({"a": [True]})),
    written(pa.table({"a": [[1]]})),
    written(pa.table({"a": pa.array(["x", "y"]).dictionary_encode()})),
    written(pa.table({"a": pa.array([1, 2], pa.timestamp("s"))})),
    written(pa.table({"a": [1]}), options=pa.ipc.IpcWriteOptions(compression="zstd")),
    written(pa.table({"a": [1]}, schema=NOTED)),
    written(pa.table([[1], [2]], ["a", "a"])),
    written(pa.table({"a": [1]}).slice(1)),
    written(pa.table({})),
    ferry.dumps({"a": np.float32([1])}, format="arrow", stream=True),
    b"ARROW1", b"",
])  # fmt: skip
def test_others_are_left_to_pyarrow(data, slowly):
    """Whatever is no column of numbers goes the other way, and so do streams."""
    assert _native.arrow_columns(data) is None
    assert outcome(data) == slowly(data)


@pytest.mark.parametrize("table", [pa.table({"a": np.arange(3)}), TWO.select(["u1", "f4"])])
def test_every_bit_flipped(table, slowly):
    """Whatever is changed, both ways give the same values, or both refuse the file."""
    data = bytearray(written(table.replace_schema_metadata({"key": "value"})))
    taken = 0
    for place in range(8 * len(data)):
        data[place // 8] ^= 1 << place % 8
        changed = bytes(data)
        if _native.arrow_columns(changed) is not None:
            taken += 1
            assert outcome(changed) == slowly(changed), place
        data[place // 8] ^= 1 << place % 8
    assert taken > len(data)


def test_cut_at_every_offset():
    """A part of a file is not taken."""
    data = written(TWO)
    assert not any(_native.arrow_columns(data[:end]) for end in range(len(data)))


def test_texts_that_share_bytes():
    """Two keys of the same bytes are left to PyArrow: few bytes could stand for many texts."""
    data = written(pa.table({"a": [1]}).replace_schema_metadata({"k" * 40: "v", "l" * 40: "w"}))
    footer = data.rindex(b"k" * 40)
    other = data.rindex(b"l" * 40)
    assert _native.arrow_columns(data) is not None
    for place in range(footer, 0, -1):  # the offset that leads to the second key leads to the first
        at = other - 4 - place
        if at > 0 and data[place : place + 4] == at.to_bytes(4, "little"):
            changed = bytearray(data)
            changed[place : place + 4] = (footer - 4 - place).to_bytes(4, "little", signed=True)
            assert _native.arrow_columns(bytes(changed)) is None


def test_schema(tmp_path):
    """The schema is the one that PyArrow reads, also of a table that is closed."""
    schema = pa.schema(
        [pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.float16())], {"k": "v"}
    )
    columns = {"a": [1], "b": pa.array(np.float16([2]))}
    (tmp_path / "x.arrow").write_bytes(written(pa.table(columns, schema=schema)))
    with ferry.open(tmp_path / "x.arrow") as rows:
        assert rows.arrow_schema.equals(schema, check_metadata=True)
        assert rows.infos()["b"].dtype == "float16"
    with ferry.open(tmp_path / "x.arrow") as rows:
        assert rows.metadata == {"k": "v"}
    assert rows.arrow_schema.equals(schema, check_metadata=True)
    with pytest.raises(ValueError, match="closed"):
        rows.value()


def test_parts_of_a_file(tmp_path):
    """Columns, ranges, splits, batches and rows are those of any other file."""
    (tmp_path / "x.arrow").write_bytes(written(TWO))
    with ferry.open(tmp_path / "x.arrow", columns=["u1"]) as rows:
        assert list(rows.value()) == ["u1"]
    with ferry.open(tmp_path / "x.arrow") as rows:
        assert rows.portion(3, 7).value()["i8"].tolist() == [3, 4, 0, 1]
        assert [batch["i8"].tolist() for batch in rows.batches(8)] == [
            [0, 1, 2, 3, 4, 0, 1, 2],
            [3, 4],
        ]
        assert [split.open().value()["f4"].tolist() for split in rows.splits(2)] == [
            [0, 1, 2, 3, 4]
        ] * 2
        assert rows.value(to="arrow").num_rows == len(rows) == 10
        assert rows[7]["u8"] == 2


def test_views(tmp_path):
    """The columns of one record batch are views of the mapped file, which nobody may write to."""
    path = tmp_path / "x.arrow"
    ferry.save({"a": np.arange(100_000)}, path)
    found = ferry.load(path)["a"]
    assert not found.flags.owndata
    assert not found.flags.writeable
