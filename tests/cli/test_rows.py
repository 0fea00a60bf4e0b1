"""`ferry show`, `head`, `tail` and `cat`."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from commands import COMMAND, NAMES, columns, environment, run, run_on_terminal

import tensorferry as ferry

ROWS = [name for name in NAMES if name.startswith(("rows", "values"))]


@pytest.mark.parametrize("name", NAMES)
def test_show(files, call, name):
    """A slice of a tensor or column of every format, with what sums it up."""
    tensor = "tensor" if name.startswith("array") else "score"
    ran = call("show", files / name, f"{tensor}[2:4,:2]", "--json")
    found = json.loads(ran.out)["excerpt"]
    expected = columns()["score"][2:4, :2]

    assert ran.code == 0
    assert np.array_equal(np.array(found["values"], np.float32), expected)
    assert found["summary"]["count"] == 4
    assert found["summary"]["mean"] == pytest.approx(expected.mean())
    assert sum(found["histogram"]["counts"]) == 4


@pytest.mark.parametrize("name", ["rows.tfrecord", "rows.parquet", "values.npz"])
@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("3", np.s_[3]),
        ("-1", np.s_[-1]),
        ("5:7", np.s_[5:7]),
        ("-3:,1", np.s_[-3:, 1]),
        ("::-13", np.s_[::-13]),
        ("...,2", np.s_[..., 2]),
        (":0", np.s_[:0]),
        ("38:99", np.s_[38:99]),
    ],
)
def test_indexes(files, call, name, index, expected):
    """An index means what it means in NumPy, be it of a tensor or of rows."""
    ran = call("show", files / name, f"score[{index}]", "--json")
    found = np.array(json.loads(ran.out)["excerpt"]["values"], np.float32)

    assert ran.code == 0
    assert np.array_equal(
        found.reshape(columns()["score"][expected].shape), columns()["score"][expected]
    )


@pytest.mark.parametrize("name", ROWS)
def test_rows(files, call, name):
    """The first, the last and the chosen rows are those of the file, one JSON object a line."""
    expected = columns()

    def lines(*arguments: object) -> list[dict]:
        ran = call(*arguments)
        assert ran.code == 0, ran.err
        return [json.loads(line) for line in ran.out.splitlines()]

    head = lines("head", "-n", 3, files / name)
    tail = lines("tail", "-n", 2, files / name, "--columns", "name,label")
    chosen = lines("cat", files / name, "--where", 'label == 3 and not name == "row 8"')

    assert [row["label"] for row in head] == [0, 1, 2]
    assert np.array_equal(
        np.array([row["score"] for row in head], np.float32), expected["score"][:3]
    )
    assert tail == [{"name": "row 38", "label": 3}, {"name": "row 39", "label": 4}]
    assert list(tail[0]) == ["name", "label"]
    assert [row["name"] for row in chosen] == [
        f"row {n}" for n in range(40) if n % 5 == 3 and n != 8
    ]


def test_document(files, call):
    """`--json` is one document with a version, whatever the number of rows."""
    for command, count in (("cat", 40), ("head", 10), ("tail", 10)):
        found = json.loads(call(command, files / "rows.tfrecord", "--json").out)
        assert (found["version"], found["command"], len(found["rows"])) == (1, command, count)


def test_terminal(files):
    """On a terminal rows are a table that fits, values a picture of themselves."""
    narrow = run_on_terminal("head", files / "rows.tfrecord", columns=50, NO_COLOR="1")
    shown = run_on_terminal("show", files / "array.npy")

    assert re.match(r"label +name +score", narrow.out)
    assert max(map(len, narrow.out.splitlines())) <= 50
    assert "█" in shown.out


def test_standard_input(files):
    """Records come through a pipe."""
    ran = run("head", "-n1", "-", stdin=(files / "rows.tfrecord.gz").read_bytes())

    assert json.loads(ran.out)["name"] == "row 0"


def test_closed_pipe(files):
    """A reader that goes away early is no error and no noise."""
    command = " ".join(
        [*COMMAND, "cat", str(files / "rows.tfrecord"), "| head -n 1; echo ${PIPESTATUS[0]}"]
    )
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment()
    )

    assert done.stderr == ""
    assert done.stdout.splitlines()[1] == "0"


def test_records_of_bytes(tmp_path, call):
    """Records that are no Examples are shown as bytes, and others with --raw."""
    path = tmp_path / "other.tfrecord"
    with ferry.writer(path, durable=False) as out:
        out.write(b"\xff\xff")
        out.write(b"text")
    found = call("cat", path).out.splitlines()

    assert json.loads(found[0]) == {"record": {"base64": "//8="}}
    assert json.loads(found[1]) == {"record": "text"}


def test_missing_values(tmp_path, call):
    """A feature that a record lacks is null."""
    path = tmp_path / "gaps.tfrecord"
    with ferry.writer(path, durable=False) as out:
        out.write({"id": 1, "tag": "a"})
        out.write({"id": 2})
    assert [json.loads(line)["tag"] for line in call("cat", path).out.splitlines()] == ["a", None]
    assert call("cat", path, "--where", "tag == null").out == '{"id": 2, "tag": null}\n'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "values.npz", "scoer"], "did you mean 'score'?"),
        (["show", "values.npz", "score[99]"], "no such part"),
        (["show", "values.npz"], "expected the name of one"),
        (["head", "values.npz", "--where", "label = "], "has its end at character"),
        (["head", "rows.tfrecord", "--columns", "nope"], "no column is called 'nope'"),
        (["head", "values.npz", "--where", "nope == 1"], "no tensor is called 'nope'"),
    ],
)
def test_wrong_use(files, call, arguments, message):
    """What is not there is named, with what is: exit code 2."""
    ran = call(arguments[0], files / arguments[1], *arguments[2:])

    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""


def test_tensors_that_are_no_columns(tmp_path, call):
    """Tensors of different lengths have no rows; the message names the lengths."""
    path = tmp_path / "model.npz"
    ferry.save({"a": np.zeros(3), "b": np.zeros(4)}, path, durable=False)
    ran = call("head", path)

    assert ran.code == 2
    assert "a: 3, b: 4" in ran.err


def test_images(tf, call, tmp_path):
    """Images are shown as type and size, and saved by --extract, whose paths stand in the rows."""
    path, folder = tmp_path / "images.tfrecord", tmp_path / "pictures"
    picture = tf.io.encode_png(np.zeros((28, 40, 3), np.uint8)).numpy()
    with ferry.writer(path, durable=False) as out:
        for number in range(4):
            out.write({"id": number, "image": picture})
    shown = run_on_terminal("head", path)
    piped = call("cat", path, "--where", "id > 1", "--extract", folder)
    rows = [json.loads(line) for line in piped.out.splitlines()]

    assert f"png 40x28, {len(picture)} B" in shown.out
    assert [row["id"] for row in rows] == [2, 3]
    assert rows[0]["image"]["image"]["type"] == "png"
    for row in rows:
        with open(row["image"]["path"], "rb") as file:
            assert file.read() == picture
    assert len(list(folder.iterdir())) == 2
    again = call("head", path, "--extract", folder)
    assert again.code == 2
    assert "exists already" in again.err


def test_nothing_to_show(tmp_path, call):
    """A terminal says that there are no rows; a pipe gets none."""
    path = tmp_path / "empty.tfrecord"
    with ferry.writer(path, durable=False):
        pass

    assert "no rows" in run_on_terminal("head", path).out
    assert call("head", path).out == ""


def test_narrow_cells(tmp_path):
    """Cells lose their ends on a narrow terminal, and letters with marks take one column."""
    path = tmp_path / "rows.tfrecord"
    with ferry.writer(path, durable=False) as out:
        for number in range(3):
            out.write({"a": "e\u0301" * 30, "b": np.arange(6.0), "c": f"sentence {number} " * 9})
    ran = run_on_terminal("head", path, columns=60)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", ran.out).splitlines()

    assert "sentence 0" in ran.out
    assert len(lines) == 4
    assert all(line.count("…") >= 1 for line in lines[1:])


def test_parquet_needs_no_compute(tmp_path):
    """Rows of a table are shown without pyarrow.compute, and pandas where it is installed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    table = {"a": [1, 2, 3], "t": ["x", "y", None], "l": [[1], [], [2]], "b": [b"", None, b"z"]}
    pq.write_table(pa.table(table), path)
    program = (
        "import sys; from tensorferry.cli import main; main(['head', sys.argv[1]]); "
        "print(*{'pandas', 'pyarrow.compute'} & sys.modules.keys())"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )

    assert [json.loads(line) for line in found.stdout.splitlines()[:-1]] == [
        {"a": 1, "t": "x", "l": [1], "b": ""},
        {"a": 2, "t": "y", "l": [], "b": None},
        {"a": 3, "t": None, "l": [2], "b": "z"},
    ]
    assert found.stdout.splitlines()[-1] == ""
