"""A tensor that cannot be read is listed with the reason, and never hides the others."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.operations.list import list_tensors
from tensorferry.operations.select import select
from tensorferry.operations.show import excerpt

REASON = "datetime64[D] has no TensorFlow counterpart"


@pytest.fixture
def path(tmp_path):
    """An archive of NumPy's with dates, which no tensor can hold, between two arrays."""
    found = tmp_path / "some.npz"
    dates = np.array(["2024-01-01", "2024-01-02"], "datetime64[D]")
    np.savez(found, a=np.arange(2), dates=dates, b=np.ones(2, np.float32))
    return found


def test_it_is_listed(path):
    """`inspect` and `list` have it with its reason, and the others without one."""
    for infos in (ferry.inspect(path).tensors, list_tensors(path).tensors):
        reasons = {info.name: info.unreadable for info in infos}
        assert REASON in reasons.pop("dates")
        assert reasons == {"a": None, "b": None}


def test_it_is_no_damage(path):
    """`verify` finds the file sound, and says what it did not check."""
    report = ferry.verify(path)

    assert report.sound
    assert len(report.notes) == 1
    assert "'dates'" in report.notes[0]
    assert REASON in report.notes[0]


def test_stats_leave_it_out_and_say_so(path):
    """The others have statistics, and the report names the one that has none."""
    report = ferry.stats(path)

    assert [column.name for column in report.columns] == ["a", "b"]
    assert "'dates'" in report.notes[0]


def test_rows_leave_it_out_unless_it_is_asked_for(path):
    """Rows have the columns that can be read."""
    assert [sorted(row) for row in select(path)] == [["a", "b"]] * 2
    with pytest.raises(ferry.UnsupportedError, match=r"datetime64"):
        list(select(path, columns=["dates"]))


def test_diff_reports_it(path):
    """Nobody knows whether it is the same: it differs, and the others are compared."""
    report = ferry.diff(path, path)

    assert not report.equal
    assert {one.name: one.reason for one in report.tensors} == {
        "a": None,
        "dates": "unreadable",
        "b": None,
    }
    assert ferry.diff(path, path, match=["a", "b"]).equal


@pytest.mark.parametrize("target", ["out.safetensors", "out.tfrecord", "out.parquet"])
def test_convert_refuses_it(path, tmp_path, target):
    """Nothing is dropped silently: it has to be left out by name."""
    with pytest.raises(ferry.UnsupportedError, match="datetime64") as caught:
        ferry.convert(path, tmp_path / target)
    assert caught.value.tensor == "dates"
    assert "select" in str(caught.value.hint)
    assert not (tmp_path / target).exists()

    ferry.convert(path, tmp_path / target, select=["a", "b"], verify=True)
    assert [info.name for info in ferry.inspect(tmp_path / target).tensors] == ["a", "b"]


def test_hash_and_show_refuse_it(path):
    """A digest of a part is none of the whole; `select` names the part."""
    with pytest.raises(ferry.UnsupportedError, match="datetime64") as caught:
        ferry.hash(path)
    assert caught.value.tensor == "dates"
    assert len(ferry.hash(path, select=["a", "b"]).tensors) == 2
    with pytest.raises(ferry.UnsupportedError, match="datetime64"):
        excerpt(path, "dates")


def test_columns_of_tables(tmp_path):
    """A column of a table that no tensor can hold is the same."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "some.parquet"
    table = pa.table({"a": [1, 2], "odd": pa.array([{"x": []}, None]), "b": [0.5, 1.5]})
    parquet.write_table(table, path)
    reasons = {info.name: info.unreadable for info in ferry.inspect(path).tensors}
    odd = [name for name, reason in reasons.items() if reason]
    assert odd
    assert ferry.verify(path).sound
    notes = ferry.verify(path).notes
    assert len([note for note in notes if "was not checked" in note]) == len(odd)
    assert [sorted(row) for row in select(path)] == [["a", "b", "odd/x"]] * 2  # as PyArrow has it
    assert [column.name for column in ferry.stats(path).columns] == ["a", "b"]
