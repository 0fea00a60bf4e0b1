"""`ferry convert`: all pairs of formats, with `diff` as the judge."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import COMMAND, NAMES, columns, environment, run, run_on_terminal

import tensorferry as ferry


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_all_pairs(files, call, tmp_path, source, target):
    """From every format into every format: the same afterwards, or a reason why not."""
    many_into_one = target.startswith("array") and not source.startswith("array")
    ran = call("convert", files / source, tmp_path / target, "--verify")
    if many_into_one:
        assert ran.code == 2
        assert "hint: " in ran.err
        assert not list(tmp_path.iterdir())
        ran = call("convert", files / source, tmp_path / target, "--verify", "--select", "score")
    assert ran.code == 0, ran.err
    assert ", verified" in ran.err
    assert ran.out == ""
    mapped = ["--map", "score=tensor", "--match", "score"] if many_into_one else []
    assert call("diff", files / source, tmp_path / target, *mapped).code == 0


def test_changes(files, call, tmp_path):
    """Some columns, under other names, in another dtype, quantized, compressed."""
    path = tmp_path / "out.safetensors"
    options = ["--select", "score", "--rename", "sc*=new/*", "--dtype", "bfloat16", "--verify"]
    ran = call("convert", files / "rows.tfrecord", path, *options, "--json")
    (report,) = json.loads(ran.out)["conversions"]

    assert ran.code == 0
    assert report["verified"] is True
    with ferry.open(path) as bundle:
        assert list(bundle) == ["new/ore"]
        assert bundle.info["new/ore"].dtype == "bfloat16"
    quantized = call(
        "convert", files / "values.npz", tmp_path / "q.npz", "--quantize", "int8", "--verify"
    )
    assert "largest error" in quantized.err
    assert quantized.code == 0
    packed = call("convert", files / "values.npz", tmp_path / "p.parquet", "--compression", "zstd")
    assert packed.code == 0
    assert call("convert", files / "values.npz", tmp_path / "x.npz", "--select", "nope").code == 2


def test_numbers_that_do_not_fit(call, tmp_path):
    """A number beyond the largest of the new dtype is refused, and nothing is written."""
    source, target = tmp_path / "a.npz", tmp_path / "b.npz"
    ferry.save({"big": np.array([1e10], np.float32)}, source, durable=False)
    ran = call("convert", source, target, "--dtype", "float16")

    assert ran.code == 2
    assert "does not fit into float16" in ran.err
    assert not target.exists()


def test_metadata(call, tmp_path):
    """Metadata and nesting go along; what has no place is told of."""
    source = tmp_path / "a.safetensors"
    ferry.save({"x": [np.zeros(3), np.ones(3)]}, source, metadata={"step": 3}, durable=False)

    assert call("convert", source, tmp_path / "b.npz").code == 0
    with ferry.open(tmp_path / "b.npz") as bundle:
        assert bundle.metadata == {"step": 3}
        assert isinstance(bundle.value()["x"], list)
    ran = call("convert", source, tmp_path / "c.tfrecord", "--select", "x/0")
    assert "no place for metadata: step" in ran.err


def test_missing_values(call, tmp_path):
    """Features that records lack are nulls in a table, and lacking again in records."""
    source = tmp_path / "gaps.tfrecord"
    with ferry.writer(source, durable=False) as out:
        for number in range(5):
            out.write({"id": number, **({"tag": f"t{number}"} if number % 2 else {})})
    for name in ("gaps.parquet", "gaps.arrow"):
        assert call("convert", source, tmp_path / name, "--verify").code == 0
        back = tmp_path / f"{name}.tfrecord"
        assert call("convert", tmp_path / name, back, "--verify").code == 0
        rows = [json.loads(line) for line in call("cat", back).out.splitlines()]
        assert [row["tag"] for row in rows] == [None, "t1", None, "t3", None]


def test_shards(files, call, tmp_path):
    """Shards hold the rows in their order, and several files become one again."""
    ran = call(
        "convert", files / "rows.parquet", tmp_path / "t.tfrecord", "--shards", 3, "--verify"
    )
    names = sorted(tmp_path.iterdir())

    assert ran.code == 0
    assert [len(list(ferry.open(name))) for name in names] == [14, 14, 12]
    again = call("convert", *names, tmp_path / "one.tfrecord.gz")
    assert again.code == 0
    assert call("diff", tmp_path / "one.tfrecord.gz", files / "rows.tfrecord").code == 0
    sized = call("convert", files / "rows.tfrecord", tmp_path / "s.tfrecord", "--shard-size", "1KB")
    assert sized.code == 0
    assert len(list(tmp_path.glob("s.tfrecord-*"))) >= 3
    parts = call(
        "convert", files / "values.npz", tmp_path / "m.safetensors", "--shard-size", "400B"
    )
    assert parts.code == 0
    assert call("diff", tmp_path / "m.safetensors.index.json", files / "values.npz").code == 0


def test_nothing_is_replaced(files, call, tmp_path):
    """What is there stays, unless --force; --dry-run writes nothing."""
    path = tmp_path / "out.npz"
    path.write_text("mine")
    refused = call("convert", files / "values.json", path)

    assert refused.code == 2
    assert "--force" in refused.err
    assert path.read_text() == "mine"
    assert call("convert", files / "values.json", path, "--force").code == 0
    tried = call("convert", files / "values.json", tmp_path / "new.npz", "--dry-run")
    assert tried.code == 0
    assert "would be written" in tried.err
    assert not (tmp_path / "new.npz").exists()


def test_a_directory_and_again(files, call, tmp_path):
    """Many files into a directory; to resume, what is whole stays, all else is made again."""
    names = ["values.npz", "array.npy", "rows.parquet"]
    command = ["convert", *(files / name for name in names), f"{tmp_path}/", "--to", "safetensors"]
    first = call(*command, "--jobs", 2)
    (tmp_path / "array.safetensors").write_bytes(b"half")
    refused = call(*command)
    (tmp_path / "rows.safetensors").unlink()
    again = json.loads(call(*command, "--resume", "--json").out)["conversions"]

    assert first.code == 0
    assert refused.code == 2
    assert [report["written"] for report in again] == [False, True, True]
    for name in names:
        made = tmp_path / f"{name.split('.')[0]}.safetensors"
        assert call("diff", files / name, made).code == 0
    (tmp_path / "values.safetensors").write_bytes(b"of someone else")
    (tmp_path / ".ferry-convert.json").unlink()
    assert call(*command, "--resume").code == 2


@pytest.mark.parametrize("format", ["checkpoint", "savedmodel"])
def test_formats_of_several_files(files, call, tmp_path, format):
    """Many files become as many checkpoints or models; one that was changed is made again."""
    names = ["values.npz", "array.npy"]
    command = ["convert", *(files / name for name in names), f"{tmp_path}/", "--to", format]
    first = json.loads(call(*command, "--json").out)["conversions"]

    assert all(os.path.exists(file) for report in first for file in report["files"])
    for name, report in zip(names, first, strict=True):
        assert call("diff", files / name, report["target"]).code == 0
    assert call(*command).code == 2
    (data,) = (file for file in first[1]["files"] if ".data-" in file)
    with open(data, "r+b") as file:
        file.truncate(3)
    again = json.loads(call(*command, "--resume", "--json").out)["conversions"]
    assert [report["written"] for report in again] == [False, True]
    assert call("diff", files / names[1], again[1]["target"]).code == 0


def test_a_model_as_the_target(files, call, tmp_path, monkeypatch):
    """A model is one target, which is replaced, and no directory for other files."""
    monkeypatch.chdir(tmp_path)
    ferry.save({"x": np.ones(2)}, "m", format="savedmodel")
    command = ["convert", files / "values.npz", "m", "--to"]
    refused, other = call(*command, "savedmodel"), call(*command, "npz", "--force")

    assert (refused.code, other.code) == (2, 2)
    assert "--force replaces it" in refused.err
    assert "other files do not go into" in other.err
    assert list(ferry.load("m")) == ["x"]
    assert call(*command, "savedmodel", "--force").code == 0
    assert call("convert", "m", "m", "--to", "savedmodel", "--force").code == 0
    assert sorted(os.listdir("m")) == ["saved_model.pb", "variables"]
    assert call("diff", files / "values.npz", "m").code == 0


def test_resuming_takes_nothing_for_its_own(call, tmp_path, monkeypatch):
    """What was refused before is not ours when it is there, and a changed model is not whole."""
    monkeypatch.chdir(tmp_path)
    ferry.save({"signatures": np.ones(1)}, "a.npz")
    ferry.save({"x": np.ones(1)}, "b.npz")
    command = ["convert", "a.npz", "b.npz", "out/", "--to", "savedmodel"]
    assert call(*command).code == 2
    ferry.save({"mine": np.ones(1)}, "out/a", format="savedmodel")
    ferry.save({"x": np.ones(1)}, "a.npz")
    again = call(*command, "--resume")

    assert again.code == 2
    assert "--force replaces it" in again.err
    assert "is there already" in again.err
    assert list(ferry.load("out/a")) == ["mine"]
    with open("out/b/saved_model.pb", "r+b") as file:
        good = file.read()
        file.seek(0)
        file.write(good.replace(b"SaveV2", b"LoadV2"))
    changed = call(*command, "--resume")
    assert changed.code == 2
    assert "is there already" not in changed.err


def test_the_list_of_what_is_finished_is_no_source(call, tmp_path, monkeypatch):
    """A directory that was written is converted again without it."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.npz", "b.npz"):
        ferry.save({"x": np.ones(1)}, name)
    assert call("convert", "a.npz", "b.npz", "one/", "--to", "safetensors").code == 0
    assert call("convert", "one/", "two/", "--to", "npz").code == 0

    assert sorted(os.listdir("two")) == [".ferry-convert.json", "a.npz", "b.npz"]


def test_verified_though_nothing_is_left(call, tmp_path):
    """Of a file that keeps none of its tensors there is nothing to compare."""
    ferry.save({"a": np.ones(2)}, tmp_path / "a.npz")
    report = ferry.convert(
        tmp_path / "a.npz", tmp_path / "b.npz", drop=["*"], set={"new": np.ones(2)}, verify=True
    )
    assert report.verified
    assert list(ferry.load(tmp_path / "b.npz")) == ["new"]


def test_streams(files):
    """From the standard input to the standard output: only the bytes are there."""
    data = (files / "rows.tfrecord").read_bytes()
    command = [*COMMAND, "convert", "-", "-", "--to", "npz"]
    done = subprocess.run(command, input=data, capture_output=True, env=environment())

    assert done.returncode == 0, done.stderr
    assert np.array_equal(ferry.loads(done.stdout)["label"], columns()["label"])
    assert b"\xe2\x86\x92 -: npz" in done.stderr


def test_interrupted(files, tmp_path):
    """Ctrl-C: exit code 130, one line, and nothing half-written."""
    target = tmp_path / "out.tfrecord"
    process = subprocess.Popen(
        [*COMMAND, "convert", "-", str(target)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin is not None
    process.stdin.write((files / "rows.tfrecord").read_bytes() * 600)  # more than a pipe holds
    process.stdin.flush()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    error = process.stderr.read().decode()
    process.stdin.close()

    assert process.wait(20) == 130
    assert error.splitlines() == ["ferry: interrupted"]
    assert not os.listdir(tmp_path)


def test_a_bar_on_a_terminal(files, tmp_path):
    """On a terminal there is a bar with rate and time left, which goes away."""
    program = "from tensorferry import cli, progress; progress.SILENT = 0.0; cli.main()"
    command = [sys.executable, "-c", program]
    ran = run_on_terminal(
        "convert",
        files / "rows.tfrecord",
        tmp_path / "out.parquet",
        command=command,
        overwritten=True,
    )

    assert "100%" in ran.out
    assert "left" in ran.out
    assert ran.out.rstrip().splitlines()[-1].split("\r")[-1].endswith(" s")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["values.npz"], "expected IN and OUT"),
        (["values.npz", "out.what"], "does not say which format"),
        (["values.npz", "array.npy", "out.npz"], "2 inputs for one output"),
        (["values.npz", "out/"], "--to"),
        (["values.npz", "out.npz", "--dtype", "string"], "not cast to string"),
        (["values.npz", "out.npz", "--shards", "2"], "number of shards"),
        (["values.npz", "out.npz", "--rename", "score"], "no new name"),
        (["values.npz", "out.npz", "--rename", "*=x"], "would both be called"),
        (["values.npz", "out.npz", "--compression", "lzma"], "lzma"),
        (["missing.npz", "out.npz"], "missing.npz"),
    ],
)
def test_wrong_use(files, call, tmp_path, monkeypatch, arguments, message):
    """Wrong use is exit code 2, with what to do; nothing is written."""
    monkeypatch.chdir(files)
    before = sorted(os.listdir(files))
    ran = call("convert", *arguments)

    assert ran.code == 2
    assert message in ran.err
    assert sorted(os.listdir(files)) == before


def test_as_a_process(files, tmp_path):
    """The public function and the command do the same."""
    ran = run("convert", files / "values.npz", tmp_path / "a.arrow")
    report = ferry.convert(files / "values.npz", tmp_path / "b.arrow")

    assert ran.code == 0
    assert isinstance(report, ferry.ConvertReport)
    assert (tmp_path / "a.arrow").read_bytes() == (tmp_path / "b.arrow").read_bytes()


@pytest.mark.parametrize("name", ["train.tfrecord@4", "train.tfrecord-*", "."])
def test_shards_into_a_directory(call, tmp_path, monkeypatch, name):
    """A set of shards becomes as many files, and one that is lost is made again, alone."""
    monkeypatch.chdir(tmp_path)
    with ferry.writer("train.tfrecord@4", durable=False) as out:
        out.write_batch(columns())
    command = ["convert", name, "out/", "--to", "parquet", "--jobs", 2]
    ran = call(*command)
    names = [f"train-0000{number}-of-00004.parquet" for number in range(4)]

    assert ran.code == 0, ran.err
    assert [n for n in sorted(os.listdir("out")) if not n.startswith(".")] == names
    assert sum(len(ferry.open(f"out/{n}")) for n in names) == 40
    os.unlink(f"out/{names[2]}")
    again = json.loads(call(*command, "--resume", "--json").out)["conversions"]
    assert [report["written"] for report in again] == [False, False, True, False]


def test_an_interrupted_set(tmp_path):
    """Ctrl-C among many shards: whole files stay, nothing is half-written, and it resumes."""
    with ferry.writer(tmp_path / "train.tfrecord@12", durable=False) as out:
        for _ in range(12):
            out.write_batch({"x": np.random.default_rng(0).standard_normal((1000, 200))})
    command = [*COMMAND, "convert", str(tmp_path / "train.tfrecord@12"), f"{tmp_path}/out/"]
    command += ["--to", "safetensors"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment())
    made = tmp_path / "out"
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and len(list(made.glob("*.safetensors"))) < 2:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    error = process.stderr.read().decode()

    assert process.wait(20) == 130, error
    whole = {path.name: path.stat().st_mtime_ns for path in made.glob("*.safetensors")}
    assert 2 <= len(whole) < 12
    assert not list(made.glob(".*.tmp"))
    again = subprocess.run([*command, "--resume"], env=environment(), capture_output=True)
    assert again.returncode == 0, again.stderr
    now = {path.name: path.stat().st_mtime_ns for path in made.glob("*.safetensors")}
    assert len(now) == 12
    assert all(now[name] == when for name, when in whole.items())
