"""Options that are not used are refused: none is ignored in silence."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.operations import bench

REFUSED = {
    "hash values.npz -s lable": "no tensor fits 'lable'\nhint: did you mean 'label'?",
    "hash rows.parquet -s label,typo": "no column fits 'typo'",
    "stats values.npz -s lable": "no tensor fits 'lable'",
    "diff values.npz values.safetensors -s lable": "no tensor fits 'lable'",
    "diff values.npz values.safetensors --map lable=label": "no tensor fits 'lable'",
    "diff values.npz values.safetensors --all --summary": "--all lists everything",
    "convert values.npz OUT.npz -s label,typo": "no tensor fits 'typo'",
    "convert values.npz OUT.npz --drop typo": "no tensor fits 'typo'",
    "convert values.npz OUT.npz --rename typo=name": "no tensor fits 'typo'",
    "convert rows.tfrecord OUT.tfrecord --rename typo=name": "no column fits 'typo'",
    "convert rows.tfrecord OUT.tfrecord --shards 2 --shard-size 1MB": "both say how many files",
    "convert values.npz OUT.npz --shards 2": "not written in a number of shards",
    "convert rows.tfrecord OUT.parquet --shard-size 1MB": "written into one file, of any size",
    "convert values.npz OUT.npz --resume": "into a directory OUT",
    "verify values.npz --duplicates": "duplicates are looked for among records, found tensors",
    "verify rows.parquet --duplicates": "duplicates are looked for among records, found rows",
    "verify values.npz --quick --nan": "expected one of them",
    "verify values.npz --address here": "hint: add --engine ray",
    "head rows.parquet --raw": "has no option 'raw'",
    "head rows.parquet --json --to csv": "two forms",
    "split rows.tfrecord OUT.tfrecord --shards 2 --by label": "for a choice at random",
    "split rows.tfrecord OUT.tfrecord --shards 2 --seed 3": "for a choice at random",
    "sample rows.tfrecord OUT.tfrecord -n 3 --ratio 0.5": "expected one of -n and --ratio",
    "ls values.npz -1 --json": "no --json",
    "ls values.npz -1 --all": "no --all",
    "view values.npz --static OUT.html --keep": "for a page that is served",
    "view values.npz --static OUT.html --port 8000": "for a page that is served",
    "bench values.npz --dtype float16": "a FILE has its own",
    "bench values.npz --shape 3": "expected a FILE, or --shape",
    "sql 'select_1' --force": "hint: add -o OUT",
}


@pytest.mark.parametrize("line", REFUSED)
def test_refused(files, call, tmp_path, line):
    """An option that changes nothing, or a name that is not there, is an error."""
    words = [
        files / word if (files / word).exists() else word.replace("OUT", str(tmp_path / "out"))
        for word in line.split()
    ]
    ran = call(*words)

    assert ran.code == 2
    assert REFUSED[line] in ran.err
    assert not ran.out
    assert not list(tmp_path.iterdir())


def test_streams_are_read_once(files):
    """Looking for NaN in a stream would read it again: that is said, not left out."""
    with pytest.raises(ferry.UnsupportedError, match="a stream is read once"):
        ferry.verify(open_stream(files / "rows.tfrecord"), nan=True)


def open_stream(path):
    """A file object that cannot seek."""
    import os

    read, write = os.pipe()
    os.write(write, path.read_bytes())
    os.close(write)
    return os.fdopen(read, "rb")


def test_names_that_look_like_patterns(tmp_path, call):
    """A name is taken as it is, whatever signs are in it, also when a conversion is verified."""
    ferry.save({"a[0]": np.ones(2), "a{1..2}": np.ones(3), "b": np.ones(4)}, tmp_path / "a.npz")
    ran = call("convert", tmp_path / "a.npz", tmp_path / "b.npz", "--drop", "b", "--verify")

    assert ran.code == 0, ran.err
    assert call("hash", tmp_path / "a.npz", "-s", "a[0]", "--tensors").out.count("a[0]") == 1


def test_extracting_no_image(files, call, tmp_path):
    """A folder that stays empty is told of."""
    ran = call("head", files / "rows.tfrecord", "--extract", tmp_path / "images")

    assert ran.code == 0
    assert "there is no image in these rows" in ran.err


def test_bench_splits_the_bytes_of_floats():
    """Where a format can store the bytes of floats apart, both ways are tried."""
    found = {timing.encoding for timing in bench.time_shape((8, 8), "float32", runs=1).timings}

    assert found == {None, bench.SPLIT}
