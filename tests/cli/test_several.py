"""One input that cannot be read does not stop the others."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tensorferry as ferry

COMMANDS = ("info", "ls", "tree", "verify", "hash", "stats")


@pytest.fixture
def paths(files, tmp_path):
    """Two good files around one that is missing, one that is damaged and one of no format."""
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes((files / "values.npz").read_bytes()[:-30])
    nothing = tmp_path / "nothing.bin2"
    nothing.write_bytes(b"no format starts like this")
    return [files / "values.npz", tmp_path / "missing.npz", damaged, nothing, files / "array.npy"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_others_are_told_of(call, paths, command):
    """Each good file is in the output, each bad one on the standard error; the exit code is 2."""
    ran = call(command, *paths)

    assert ran.code == 2
    for name in ("values.npz", "array.npy"):
        assert name in ran.out
    bad = ["missing.npz", "nothing.bin2", *(["damaged.npz"] if command != "verify" else [])]
    for name in bad:
        assert name in ran.err
        assert name not in ran.out
    assert ran.err.count("ferry: ") == len(bad)
    if command == "verify":  # that a file is damaged is an answer
        assert "damaged.npz" in ran.out


@pytest.mark.parametrize("command", COMMANDS)
def test_json_lists_the_errors(call, paths, command):
    """The document has what could be read, and what went wrong with the others."""
    ran = call(command, *paths, "--json")
    document = json.loads(ran.out)

    assert ran.code == 2
    found = [one["path"] for one in document["files"]]
    wrong = [one["path"] for one in document["errors"]]
    assert [str(paths[0]), str(paths[-1])] == [found[0], found[-1]]
    assert sorted(map(str, paths)) == sorted(found + wrong)


@pytest.mark.parametrize("command", COMMANDS)
def test_one_alone(call, paths, command):
    """An only input that cannot be read gives no output at all."""
    ran = call(command, paths[1], "--json")

    assert (ran.code, ran.out) == (2, "")
    assert "missing.npz" in ran.err


def test_into_a_directory(call, paths, tmp_path):
    """The good ones are converted."""
    ran = call("convert", *paths, f"{tmp_path}/out/", "--to", "safetensors")

    assert ran.code == 2
    made = sorted(path.name for path in (tmp_path / "out").glob("*.safetensors"))
    assert made == ["array.safetensors", "values.safetensors"]
    for name in ("missing.npz", "damaged.npz", "nothing.bin2"):
        assert name in ran.err


def test_into_one_file(call, files, tmp_path):
    """One output of a part of the inputs would not be what was asked for: nothing is written."""
    ran = call("convert", files / "rows.tfrecord", tmp_path / "no.tfrecord", tmp_path / "out.npz")

    assert ran.code == 2
    assert not (tmp_path / "out.npz").exists()


def test_tables_into_one_file(call, files, tmp_path):
    """Rows of one format go into one file, in the order given."""
    for name in ("a.parquet", "b.parquet"):
        ferry.convert(files / "rows.parquet", tmp_path / name)
    ran = call("convert", tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "c.tfrecord")

    assert ran.code == 0, ran.err
    assert ferry.inspect(tmp_path / "c.tfrecord").count == 80


@pytest.mark.parametrize("command", [*COMMANDS, "show", "head", "schema"])
def test_a_format_that_is_none(call, files, command):
    """A wrong name is refused, with those that there are."""
    ran = call(command, files / "values.npz", "--format", "nope")

    assert ran.code == 2
    assert ran.out == ""
    assert "no format is called 'nope'" in ran.err
    assert "safetensors" in ran.err


def test_what_cannot_be_read_is_shown(call, tmp_path):
    """Every command names the tensor, and says why it cannot be read."""
    path = tmp_path / "some.npz"
    np.savez(path, a=np.arange(2), dates=np.array(["2024-01-01"], "datetime64[D]"))
    for command in ("info", "ls", "tree", "verify", "stats"):
        ran = call(command, path)
        assert ran.code == 0, ran.err
        assert "dates" in ran.out
        assert "datetime64[D] has no TensorFlow counterpart" in ran.out
    assert "cannot be read" in call("diff", path, path).out


def test_tensors_are_not_merged(call, files, tmp_path):
    """`ferry merge` is for rows: tensors of two files may have the same names."""
    for names in (("values.npz", "rows.tfrecord"), ("rows.tfrecord", "values.npz")):
        ran = call("merge", *(files / name for name in names), tmp_path / "x.tfrecord")

        assert ran.code == 2
        assert "files of rows are merged, and npz holds tensors" in ran.err
        assert not (tmp_path / "x.tfrecord").exists()
