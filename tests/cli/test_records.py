"""`ferry repair`, `index`, `split`, `merge`, `slice`, `schema`, `bench` and `completion`."""

from __future__ import annotations

import json
import subprocess

import pytest
from commands import environment, run

import tensorferry as ferry


def test_slice_split_and_merge(files, call, tmp_path):
    """Records go over byte by byte: cut, split and put together again they are the same file."""
    source = files / "rows.tfrecord"
    parts = [("0:15", "a"), ("15:-5", "b"), ("-5:", "c")]
    for part, name in parts:
        assert call("slice", source, tmp_path / f"{name}.tfrecord", "--", part).code == 0
    merged = call(
        "merge", *(tmp_path / f"{name}.tfrecord" for _, name in parts), tmp_path / "m.tfrecord"
    )
    split = call("split", tmp_path / "m.tfrecord", tmp_path / "s.tfrecord", "--records", 7)
    again = call("merge", tmp_path / "s.tfrecord-*", tmp_path / "n.tfrecord", "--json")

    assert merged.code == split.code == again.code == 0
    assert len(list(tmp_path.glob("s.tfrecord-*-of-00006"))) == 6
    assert json.loads(again.out)["count"] == 40
    for name in ("m.tfrecord", "n.tfrecord"):
        assert (tmp_path / name).read_bytes() == source.read_bytes()


def test_slice_by_a_condition(files, call, tmp_path):
    """A condition selects records, which stay as they were."""
    target = tmp_path / "threes.tfrecord"
    ran = call("slice", files / "rows.tfrecord", target, "::2", "--where", "label == 3")

    assert ran.code == 0
    with ferry.open(target) as records:
        assert [row["name"] for row in records] == [b"row 3", b"row 13", b"row 23", b"row 33"]
    assert call("slice", files / "rows.tfrecord", target).code == 2
    assert call("slice", files / "rows.tfrecord", target, "--force").code == 0
    assert call("slice", files / "values.npz", tmp_path / "x.tfrecord").code == 2
    assert call("slice", files / "rows.tfrecord", tmp_path / "x.tfrecord", "a:b").code == 2


def test_repair(files, call, tmp_path):
    """Whole records are kept, lost ones are named; the new file is sound."""
    damaged = tmp_path / "damaged.tfrecord"
    data = bytearray((files / "rows.tfrecord").read_bytes())
    data[data.find(b"row 9")] ^= 1
    damaged.write_bytes(data[:-1])
    ran = call("repair", damaged, tmp_path / "good.tfrecord", "--json")
    report = json.loads(ran.out)

    assert ran.code == 0
    assert (report["count"], len(report["damages"])) == (38, 2)
    assert call("verify", tmp_path / "good.tfrecord").code == 0
    assert call("repair", damaged, tmp_path / "good.tfrecord").code == 2


def test_index(files, call, tmp_path):
    """An index is written beside the file, and fits it; compressed files have none."""
    path = tmp_path / "rows.tfrecord"
    path.write_bytes((files / "rows.tfrecord").read_bytes())
    ran = call("index", path)

    assert ran.out == f"{path}.idx\n"
    assert call("verify", path).code == 0
    assert call("index", files / "rows.tfrecord.gz").code == 2


@pytest.mark.parametrize("name", ["rows.tfrecord", "rows.parquet", "values.npz"])
def test_schema(files, call, name):
    """The schema of records, tables and columns in every language."""
    texts = {
        language: call("schema", files / name, "--as", language).out
        for language in ("tf", "tfmd", "arrow", "json")
    }

    assert "'score': tf.io.FixedLenFeature([3], tf.float32)" in texts["tf"]
    assert 'name: "label"' in texts["tfmd"]
    assert "label: int64 not null" in texts["arrow"]
    assert [f["name"] for f in json.loads(texts["json"])["features"]] == ["label", "name", "score"]
    assert json.loads(call("schema", files / name, "--json").out)["version"] == 1


@pytest.mark.parametrize("name", ["rows.tfrecord", "values.npz", "rows.parquet", "array.npy"])
def test_bench_of_a_file(files, call, name):
    """What is in a file is written and read in every format and compression that takes it."""
    report = json.loads(call("bench", files / name, "--runs", 1, "--json").out)["report"]
    done = {(t["format"], t["compression"]) for t in report["timings"] if t["problem"] is None}

    assert report["complete"]
    assert report["given"]["nbytes"] == (files / name).stat().st_size
    assert {("npz", "deflate"), ("parquet", "zstd"), ("arrow", "lz4"), ("json", "gzip")} <= done
    assert {("checkpoint", None), ("tfrecord", None), ("tfrecord", "gzip")} <= done
    assert (("npy", None) in done) == (name == "array.npy")


def test_bench_of_a_tensor(call):
    """A tensor, with a table of size and times, and what to choose for what."""
    report = json.loads(call("bench", "--shape", "20,30", "--runs", 1, "--json").out)["report"]
    sizes = {(t["format"], t["compression"]): t["nbytes"] for t in report["timings"]}
    chosen = {found["purpose"]: found for found in report["recommendations"]}

    assert not [timing for timing in report["timings"] if timing["problem"]]
    assert all(t["write"] > 0 and t["read"] > 0 for t in report["timings"])
    assert set(chosen) == {"storage", "transfer", "interop", "tensorflow"}
    storage = (chosen["storage"]["format"], chosen["storage"]["compression"])
    assert sizes[storage] <= 1.02 * min(sizes.values())
    assert chosen["tensorflow"]["format"] in ("tensorproto", "checkpoint", "tfrecord")
    assert call("bench").code == 2
    shown = call("bench", "--shape", "8", "--dtype", "bfloat16", "--runs", 1).out
    assert "safetensors" in shown
    assert "storage" in shown


def test_bench_of_strings(call, tmp_path):
    """Strings and ragged columns are written, too; what has no place for them says why."""
    with ferry.writer(tmp_path / "a.tfrecord", durable=False) as out:
        for number in range(5):
            out.write({"text": f"text {number}", "tokens": list(range(number))})
    ran = call("bench", tmp_path / "a.tfrecord", "--runs", 1, "--json")

    assert ran.code == 0, ran.err
    timings = json.loads(ran.out)["report"]["timings"]
    assert [t["format"] for t in timings if t["compression"] is None and not t["problem"]]


def complete(*words: object) -> list[str]:
    """What bash is offered for the last of some words."""
    from commands import COMMAND

    typed = " ".join(map(str, words))
    env = environment(
        _FERRY_COMPLETE="bash_complete", COMP_WORDS=typed, COMP_CWORD=str(len(words) - 1)
    )
    ran = subprocess.run(COMMAND, capture_output=True, text=True, env=env)
    assert ran.stderr == ""
    return ran.stdout.split()


def test_completion():
    """The scripts are the shells' own, and completing works without running anything."""
    for shell in ("bash", "zsh", "fish"):
        assert "_ferry_completion" in run("completion", shell).out
    assert complete("ferry", "ver") == ["file,ver", "plain,verify"]
    assert complete("ferry", "verify", "--du") == ["plain,--duplicates"]
    assert complete("ferry", "info", "some") == ["file,some"]
    assert "plain,tfmd" in complete("ferry", "schema", "x", "--as", "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["convert", "a", "b", "--to", "safe"], "plain,safetensors"),
        (["shuffle", "a", "b", "--to", "par"], "plain,parquet"),
        (["info", "a", "--format", "np"], "plain,npz"),
        (["convert", "a", "b", "--dtype", "bf"], "plain,bfloat16"),
        (["convert", "a", "b", "--quantize", "in"], "plain,int8"),
        (["convert", "a", "b", "--compression", "gz"], "plain,gzip"),
        (["cat", "a", "--to", "mark"], "plain,markdown"),
        (["cat", "a", "--option", "on_error=s"], "plain,on_error=skip"),
        (["info", "a", "--limit", "mem"], "plain,memory=16GB"),
    ],
)
def test_completion_of_values(words, expected, monkeypatch):
    """The values of options are completed."""
    from click.shell_completion import ShellComplete

    from tensorferry.cli.application import application

    found = ShellComplete(application, {}, "ferry", "_FERRY_COMPLETE").get_completions(
        words[:-1], words[-1]
    )
    assert expected in [f"{item.type},{item.value}" for item in found]


@pytest.mark.parametrize("name", ["values.safetensors", "rows.tfrecord", "rows.parquet"])
def test_completion_of_names(files, name):
    """Names inside a file are completed; of a file that is none, nothing is."""
    path = files / name

    assert complete("ferry", "show", path, "sc") == ["plain,score"]
    assert sorted(complete("ferry", "show", path, "")) == [
        "plain,label", "plain,name", "plain,score",
    ]  # fmt: skip
    assert complete("ferry", "head", path, "--columns", "name,la") == ["plain,name,label"]
    assert complete("ferry", "ls", path, "--match", "la") == ["plain,label"]
    assert complete("ferry", "convert", path, "out.npz", "--select", "la") == ["plain,label"]
    assert complete("ferry", "show", __file__, "") == []
    assert complete("ferry", "show", files / "missing.npz", "x") == []


def test_completion_in_bash(files):
    """Bash itself, with the script, fills in the name of a tensor."""
    import shutil

    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    folder = files / "bin"
    folder.mkdir(exist_ok=True)
    from commands import COMMAND

    command = folder / "ferry"
    command.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    command.chmod(0o755)
    program = """
        eval "$(ferry completion bash)"
        COMP_WORDS=(ferry show "$1" sc) COMP_CWORD=3
        _ferry_completion ferry
        printf '%s' "${COMPREPLY[*]}"
    """
    ran = subprocess.run(
        [bash, "-c", program, "bash", str(files / "values.npz")],
        capture_output=True, text=True,
        env=environment(PATH=f"{folder}:/usr/bin:/bin"),
    )  # fmt: skip
    shutil.rmtree(folder)

    assert ran.stdout == "score", ran.stderr
