"""The command goes on, says what is wrong in words that can be typed, and leaves nothing behind."""

from __future__ import annotations

import json
import pickle
import re
import shlex
import struct
import time
import zipfile

import h5py
import numpy as np
import pytest
from commands import run_on_terminal

import tensorferry as ferry
from tensorferry import progress


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Ten records, of which the fifth is damaged."""
    path = tmp_path_factory.mktemp("robust") / "damaged file.tfrecord"
    with ferry.writer(path, durable=False) as out:
        for row in range(10):
            out.write({"id": row, "name": b"row %d" % row})
    data = bytearray(path.read_bytes())
    data[data.find(b"row 4")] ^= 1
    path.write_bytes(data)
    return path


def test_slice_from_the_end(files, call, tmp_path):
    """`slice IN OUT -5:` works as it is typed, with `-o` and without."""
    for arguments in ([tmp_path / "a.tfrecord", "-5:"], ["-5:", "-o", tmp_path / "b.tfrecord"]):
        assert call("slice", files / "rows.tfrecord", *arguments).code == 0
        with ferry.open(next(a for a in arguments if str(a).endswith("tfrecord"))) as rows:
            assert [row["name"] for row in rows] == [b"row %d" % row for row in range(35, 40)]
    assert call("slice", files / "rows.tfrecord", tmp_path / "c.tfrecord", "-5").code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert", "rows.parquet", "x.parquet", "--shard-size", "abc"],
        ["convert", "rows.parquet", "x.parquet", "--shard-size", "5MB"],
        ["convert", "values.npz", "x.npz", "--shards", "2"],
        ["convert", "rows.parquet", "x.csv", "--jobs", "2"],
        ["bench", "array.npy", "--dtype", "float16"],
        ["split", "rows.tfrecord", "x", "--shard-size", "many"],
        ["info", "array.npy", "--limit", "memory=much"],
    ],
    ids=" ".join,
)
def test_unused_options(files, call, tmp_path, arguments):
    """An option that would not be used is refused, and nothing is written."""
    target = tmp_path / "x"
    given = [files / one if (files / one).exists() else one for one in arguments]
    given = [f"{target}{one[1:]}" if str(one)[:1] == "x" else one for one in given]
    ran = call(*given)

    assert ran.code == 2
    assert "--debug" not in ran.err, ran.err
    assert not list(tmp_path.iterdir())


def test_hints_work(damaged, files, call, tmp_path):
    """What a hint tells to type works when it is typed."""
    ran = call("hash", damaged)
    assert ran.code == 2
    option, repair = re.findall(r"`([^`]*)`", ran.err)
    assert call("hash", damaged, *shlex.split(option)).code == 0
    words = shlex.split(repair.replace("OUT", str(tmp_path / "good.tfrecord")))
    assert (words[0], call(*words[1:]).code) == ("ferry", 0)
    verified = call("verify", damaged).out
    words = shlex.split(re.search(r"ferry (repair .*) OUT", verified)[1])
    assert call(*words, tmp_path / "again.tfrecord").code == 0
    ran = call("stats", files / "values.npz", "--sel", "score")
    assert "hint: did you mean --select?" in ran.err
    ran = call("show", files / "values.npz", "scores")
    assert "did you mean 'score'?" in ran.err


def test_limits(call, tmp_path, monkeypatch):
    """A limit that is named in a hint can be raised by an option, for one run."""
    from tensorferry import limits

    array = np.zeros((1 << 16,), np.float32)
    np.savez_compressed(tmp_path / "z.npz", z=array)
    monkeypatch.setattr(limits, "memory", 1000)
    ran = call("stats", tmp_path / "z.npz")
    assert "--limit memory=16GB" in ran.err
    assert call("stats", tmp_path / "z.npz", "--limit", "memory=16GB").code == 0
    assert limits.memory == 1000


def strangers(folder):
    """Files of other programs, and what each is called."""
    # As torch.save begins them now, and began them before; tests/frameworks asks torch itself.
    with zipfile.ZipFile(folder / "new.pt", "w") as archive:
        archive.writestr("new/data.pkl", pickle.dumps({"a": 1}, 2))
        archive.writestr("new/version", "3\n")
    with zipfile.ZipFile(folder / "script.pt", "w") as archive:
        archive.writestr("script/data/0", bytes(16))
        archive.writestr("script/data.pkl", pickle.dumps({"a": 1}, 2))
        archive.writestr("script/constants.pkl", pickle.dumps((), 2))
    (folder / "old.pt").write_bytes(pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2))
    for protocol in (0, 2, 4):
        (folder / f"p{protocol}.pkl").write_bytes(pickle.dumps({"a": 1}, protocol))
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    (folder / "m.tflite").write_bytes(struct.pack("<I", 28) + b"TFL3" + bytes(64))
    (folder / "m.onnx").write_bytes(b"\x08\x07\x12\x07pytorch\x1a\x051.9.0:\x00")
    (folder / "m.meta").write_bytes(b"\n\x80\x07\x12\xe9\x06\n9\n\x03Add\x12\x06\n")
    return {
        "new.pt": "a PyTorch archive",
        "script.pt": "a TorchScript model",
        "old.pt": "a PyTorch file",
        "p0.pkl": "a pickle",
        "p2.pkl": "a pickle",
        "p4.pkl": "a pickle",
        "x.zip": "a zip archive",
        "m.tflite": "a TensorFlow Lite model",
        "m.onnx": "an ONNX model",
        "m.meta": "the graph of a TensorFlow 1 checkpoint",
    }


def test_strangers(call, tmp_path):
    """Files of other programs are named for what they are, by every command that opens them."""
    for name, what in strangers(tmp_path).items():
        for command in ("info", "stats"):
            ran = call(command, tmp_path / name)
            assert ran.code == 2
            assert what in ran.err, ran.err


def test_plain_hdf5(call, tmp_path):
    """HDF5 that Keras did not write says so, with what is in it."""
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["a/b"] = np.arange(6).reshape(2, 3)
    shown = call("info", tmp_path / "plain.h5").out
    assert "plain HDF5, not written by Keras" in shown
    assert re.search(r"a/b +int64 +\[2, 3\]", shown)
    ferry.save({"layers/dense/vars/0": np.ones(3)}, tmp_path / "k.weights.h5", durable=False)
    assert "plain HDF5" not in call("info", tmp_path / "k.weights.h5").out


def test_head_of_a_damaged_file(damaged, call):
    """The good rows come first, then the error; on a terminal as in a pipe."""
    ran = call("head", damaged)
    assert ran.code == 2
    assert ran.out.count("\n") == 9
    assert "record 4 is corrupt" in ran.err
    shown = run_on_terminal("head", damaged, NO_COLOR="1")
    assert shown.code == 2
    lines = shown.out.splitlines()
    assert lines[5].split() == ["5", "row", "5"]
    assert "record 4 is corrupt" in lines[10]
    assert call("tail", damaged, "-n", 2).out.count("\n") == 2


def test_hints_work_as_typed(call, tmp_path):
    """A hint names options that the command has, or a command that has them; typed, it works."""
    good, bad = tmp_path / "good.tfrecord", tmp_path / "bad.tfrecord"
    with ferry.writer(good, durable=False) as out:
        for number in range(9):
            out.write({"id": number})
    data = bytearray(good.read_bytes())
    data[len(data) // 2] ^= 1
    bad.write_bytes(data)
    out = tmp_path / "out.tfrecord"
    for command in (["cat", bad], ["diff", bad, good], ["hash", bad],
                    ["slice", bad, out, ":", "-f"], ["merge", bad, out, "-f"]):  # fmt: skip
        ran = call(*command)
        hints = re.findall(r"`(?:(ferry [^`]*) )?--option on_error=skip`", ran.err)
        assert (ran.code, len(hints)) == (2, 1), ran.err
        if hints[0]:
            words = [str(out) if word == "OUT" else word for word in shlex.split(hints[0])[1:]]
            assert call(*words, "--option", "on_error=skip", "-f").code == 0
            assert ferry.count(out) == 8
        else:
            assert call(*command, "--option", "on_error=skip").code == 0


def test_nulls_inside_lists_are_shown(call, tmp_path):
    """Rows that no tensor holds, with nulls inside of lists, are shown all the same."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns = {
        "id": [1, 2, 3],
        "tokens": pa.array([[1, None], [], None], pa.list_(pa.int64())),
        "inner": pa.array([{"words": ["a", None]}, None, {"words": None}]),
    }
    pq.write_table(pa.table(columns), tmp_path / "nulls.parquet")
    ran = call("head", tmp_path / "nulls.parquet")

    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["tokens"] for row in rows] == [[1, None], [], None]
    assert [row["inner/words"] for row in rows] == [["a", None], None, None]
    assert "[1, null]" in run_on_terminal("head", tmp_path / "nulls.parquet").out
    ran = call("tail", "-1", tmp_path / "nulls.parquet", "--where", "id < 3", "-s", "id,tokens")
    assert json.loads(ran.out) == {"id": 2, "tokens": []}


def test_waiting(monkeypatch, capfd):
    """What tells no progress says on a terminal for how long it goes on, and clears its line."""
    monkeypatch.setattr(progress, "SILENT", 0.01)
    with progress.WaitingLine("a" * 200, unit="records", shown=True):
        time.sleep(0.3)
    drawn = capfd.readouterr().err
    lines = drawn.split("\r")
    assert any("reading  0." in line for line in lines)
    assert max(map(len, lines)) < 80
    assert lines[-1] == ""
    assert not lines[-2].strip()
    with progress.WaitingLine("a", unit="records", shown=None):
        time.sleep(0.05)
    assert capfd.readouterr().err == ""
    with progress.WaitingLine("b" * 200, unit="records", shown=True) as tell:
        tell(1000, 4000)
        time.sleep(0.3)
    lines = capfd.readouterr().err.split("\r")
    assert any(" 25%  " in line and " records/s  " in line and "█" in line for line in lines)
    assert max(map(len, lines)) < 80
