"""`ferry info`, `ls`, `tree` and `formats`, and the ways to name an input."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from commands import NAMES, columns, environment, run, run_on_terminal
from conftest import ROOT

import tensorferry as ferry


@pytest.mark.parametrize("name", NAMES)
def test_every_format(files, call, name):
    """The format, the number and the names of what is in a file of every format."""
    ran = call("info", files / name, "--json")
    (found,) = json.loads(ran.out)["files"]

    assert ran.code == 0
    suffix = name.split(".")[1]
    assert found["format"] == {"pb": "tensorproto"}.get(suffix, suffix)
    names = {tensor["name"] for tensor in found["tensors"]}
    assert names == ({"tensor"} if name.startswith("array") else set(columns()))
    expected = {"tensors": len(names), "records": 40, "rows": 40}
    assert found["count"] == expected[found["holds"]]
    endings = {"gz": "gzip", "zst": "zstd", "parquet": "zstd"}
    assert found["compression"] == endings.get(name.split(".")[-1])


def test_a_path_alone(files):
    """`ferry FILE` is `ferry info FILE`, as a process, from anywhere."""
    ran = run("values.npz", cwd=files)

    assert ran.code == 0
    assert ran.err == ""
    assert re.search(r"^format +npz$", ran.out, re.MULTILINE)
    assert re.search(r"^score +float32 +\[40, 3\]", ran.out, re.MULTILINE)


def test_standard_input(files):
    """`-` is the standard input: tensors and records."""
    tensors = run("-", "--json", stdin=(files / "array.npy").read_bytes())
    records = run("-", stdin=(files / "rows.tfrecord").read_bytes())

    assert json.loads(tensors.out)["files"][0]["tensors"][0]["shape"] == [40, 3]
    assert re.search(r"^label +int64", records.out, re.MULTILINE)


def test_shards_are_one_input(tmp_path, call):
    """A glob, `name@2`, a directory and the shards one by one are the same records."""
    with ferry.writer(tmp_path / "train.tfrecord@2", durable=False) as out:
        out.write_batch(columns())
    names = sorted(tmp_path.iterdir())
    for paths in (
        [tmp_path / "train.tfrecord@2"],
        [tmp_path / "train.tfrecord-*"],
        [tmp_path],
        names,
    ):
        ran = call("info", "--json", *paths)
        (found,) = json.loads(ran.out)["files"]
        assert (found["count"], len(found["files"])) == (40, 2)


def test_several_inputs(files, call):
    """A glob of other files, or a directory of them, is one input each, sidecars left out."""
    found = json.loads(call("info", "--json", files / "array.*").out)["files"]

    assert {info["path"] for info in found} == {
        str(files / name) for name in NAMES if name.startswith("array")
    }


def test_a_directory(files, call, tmp_path):
    """Rows of one format are one input, else each file is one, and what is beside them none."""
    found = json.loads(call("info", "--json", files).out)["files"]
    (tmp_path / "train.tfrecord").write_bytes((files / "rows.tfrecord").read_bytes())
    (tmp_path / "dataset_info.json").write_text("{}")

    assert {info["path"] for info in found} == {
        str(files / name) for name in NAMES if "json" not in name
    }
    alone = json.loads(call("info", "--json", tmp_path).out)["files"]
    assert [(info["path"], info["format"]) for info in alone] == [(str(tmp_path), "tfrecord")]
    assert call("head", tmp_path, "-n", 1).code == 0


def test_damage_at_a_glance(tmp_path, call, files):
    """A cut TFRecord file tells how many records are whole; the exit code is 1."""
    path = tmp_path / "cut.tfrecord"
    path.write_bytes((files / "rows.tfrecord").read_bytes()[:-5])
    ran = call("info", path)

    assert ran.code == 1
    assert "records  39" in ran.out
    assert "record 39, byte" in ran.out


def test_records_that_are_no_examples(tmp_path, call):
    """Records of other messages are bytes, and the note says why."""
    path = tmp_path / "other.tfrecord"
    with ferry.writer(path, durable=False) as out:
        out.write(b"\xff\xff")
    ran = call("info", path)

    assert ran.code == 0
    assert "read as bytes" in ran.out
    assert "records  1" in ran.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.npz"], 2, "missing.npz"),
        (["ls"], 2, "see `ferry ls --help`"),
        (["inof"], 2, "did you mean `ferry info`?"),
        (["info", "--what"], 2, "--what"),
        (["info", ROOT / "Makefile"], 2, "no format recognises"),
    ],
)
def test_wrong_use(arguments, code, message):
    """Wrong use and unreadable input: exit code 2, at most three lines, no traceback."""
    ran = run(*arguments)

    assert ran.code == code
    assert message in ran.err
    assert ran.out == ""
    assert len(ran.err.splitlines()) <= 3
    assert "Traceback" not in ran.err


def test_debug(tmp_path):
    """`--debug` shows where an error came from."""
    assert "Traceback" in run("info", tmp_path / "missing.npz", "--debug").err


def test_missing_extra(files):
    """A format whose package is missing: exit code 3, and the command that installs it."""
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from tensorferry.cli import main; sys.exit(main(sys.argv[1:]))"
    )

    def without_pyarrow(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment())

    missing = without_pyarrow("info", files / "rows.parquet")
    listed = without_pyarrow("formats", "--json")

    assert missing.returncode == 3
    assert "pip install 'tensorferry[arrow]'" in missing.stderr
    rows = {row["name"]: row for row in json.loads(listed.stdout)["formats"]}
    assert rows["arrow"]["install"] == "pip install 'tensorferry[arrow]'"
    assert rows["npz"]["available"]


def test_repeated_layers(tmp_path, call):
    """Layers that are alike are one line, and one branch; slots of an optimizer are apart."""
    tensors = {
        f"layers.{layer}.{name}": np.zeros((2, 3), np.float32)
        for layer in range(12)
        for name in ("query.weight", "key.weight")
    }
    tensors["embedding"] = np.zeros((10, 3), np.float32)
    tensors["optimizer.embedding.exp_avg"] = np.zeros((10, 3), np.float32)
    path = tmp_path / "model.safetensors"
    ferry.save(tensors, path, durable=False)
    listed = call("ls", path, "--sort", "name").out
    tree = call("tree", path).out

    assert re.search(r"^layers\.\{0\.\.11\}\.query\.weight .* 12 x +288 B$", listed, re.MULTILINE)
    assert listed.index("optimizer:") > listed.index("layers.")
    assert "26 tensors, 204 values, 816 B" in listed
    assert "layers.{0..11}." in tree
    assert tree.index("optimizer:") > tree.index("layers.")
    assert len(call("ls", path, "--all", "--match", "*key*").out.splitlines()) == 14


def test_sorted_by_size(files, call):
    """`--sort size` has the largest first."""
    found = json.loads(call("ls", "--json", "--sort", "size", files / "values.npz").out)
    sizes = [tensor["nbytes"] for tensor in found["files"][0]["tensors"]]

    assert sizes == sorted(sizes, reverse=True)


def test_terminals(tmp_path):
    """A narrow terminal cuts names in their middle, a wide one shows them; a pipe cuts nothing."""
    name = "encoder/" + "very_long_name_of_a_block/" * 3 + "kernel"
    path = tmp_path / "model.npz"
    ferry.save({name: np.zeros(3, np.float32)}, path, durable=False)
    narrow = run_on_terminal("ls", path, columns=60)
    wide = run_on_terminal("ls", path, columns=200)

    assert "…" in narrow.out
    assert name not in narrow.out
    assert name in wide.out
    assert "\x1b[1m" in wide.out
    assert "\x1b" not in run_on_terminal("ls", path, NO_COLOR="1").out
    piped = run("ls", path).out
    assert name in piped
    assert "\x1b" not in piped
    plain = re.sub(r"\x1b\[[0-9;]*m", "", narrow.out)
    assert max(map(len, plain.splitlines())) <= 60


def test_names_cannot_command_a_terminal(tmp_path, call):
    """Escape sequences in a file's names and metadata are shown, not obeyed."""
    path = tmp_path / "evil.safetensors"
    evil = "a\x1b]0;title\x07b\nc"
    ferry.save({evil: np.zeros(1, np.float32)}, path, metadata={"k": evil}, durable=False)
    for command in ("info", "ls", "tree"):
        assert "\x1b" not in call(command, path).out


def test_inspect():
    """The public function gives the same, as a dataclass."""
    assert ferry.FileInfo.__module__ == "tensorferry.operations.fileinfo"


def test_version_and_help():
    """`--version` and `--help` import neither NumPy nor a command."""
    assert run("--version").out == f"ferry {ferry.__version__}\n"
    helped = run("--help").out
    assert "info" in helped
    assert "`ferry FILE` alone" in helped


def test_formats(call):
    """What can be read, what can be written, and what a missing package would bring."""
    found = json.loads(call("formats", "--json").out)
    rows = {row["name"]: row for row in found["formats"]}

    assert rows["safetensors"]["writes"]
    assert (rows["savedmodel"]["reads"], rows["savedmodel"]["writes"]) == (True, True)
    assert found["places"][0]["available"]
    code = (
        "import sys; sys.modules['pyarrow'] = sys.modules['obstore'] = None\n"
        "from tensorferry.cli import main; sys.exit(main(['formats']))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment()
    ).stdout
    assert re.search(r"^parquet .* pip install 'tensorferry\[arrow\]'$", shown, re.MULTILINE)
    assert "no: pip install 'tensorferry[cloud]'" in shown
    narrow = run_on_terminal("formats", columns=80).out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", narrow)
    assert max(map(len, plain.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "options", "version", "compression"),
    [
        ("a.parquet", {"compression": "zstd"}, "2.6", "zstd"),
        ("a.arrow", {"compression": "lz4"}, "V5", "lz4"),
        ("a.arrows", {}, "V5 stream", None),
        ("a.npz", {"compression": "deflate"}, None, "deflate"),
        ("a.npz", {}, None, None),
        ("a.npy", {}, "1.0", None),
        ("a.npy.gz", {}, "1.0", "gzip"),
        ("a.ckpt", {}, "2", None),
    ],
)
def test_version_and_compression(call, tmp_path, name, options, version, compression):
    """Files tell the version of their format, and a compression inside of them."""
    value = columns()["score"] if ".npy" in name else columns()
    ferry.save(value, tmp_path / name, durable=False, **options)
    (found,) = json.loads(call("info", tmp_path / name, "--json").out)["files"]

    assert (found["version"], found["compression"]) == (version, compression)


def test_files_without_bytes(call, tmp_path):
    """An empty file, and bytes that need to be told what they are, give a way out."""
    for name, message in (("a.bin", "--option dtype=float32"), ("a", "a file without bytes")):
        (tmp_path / name).write_bytes(b"")
        ran = call("info", tmp_path / name)
        assert ran.code == 2
        assert message in ran.err
        assert "--debug" not in ran.err


def test_sizes_of_columns(call, tmp_path):
    """Columns of Parquet have the sizes that PyArrow finds in the footer."""
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    ferry.save(columns(), path, rows=True, durable=False)
    (found,) = json.loads(call("ls", path, "--json").out)["files"]
    footer = parquet.read_metadata(path).row_group(0)
    expected = {
        footer.column(place).path_in_schema.split(".")[0]: footer.column(
            place
        ).total_compressed_size
        for place in range(footer.num_columns)
    }
    assert {tensor["name"]: tensor["nbytes"] for tensor in found["tensors"]} == expected
    assert " B" in call("ls", path).out


def test_slots_by_their_keys(call, tmp_path, tf):
    """Slots of an optimizer are apart, whatever the object that has them is called."""
    module = tf.Module()
    module.kernel = tf.Variable([1.0, 2.0])
    from tf_keras.optimizers.legacy import Adam

    chosen = Adam()
    chosen.apply_gradients([(tf.constant([0.1, 0.1]), module.kernel)])
    prefix = tf.train.Checkpoint(net=module, mine=chosen).save(str(tmp_path / "ck"))
    shown = call("ls", prefix).out

    assert shown.index("net/kernel") < shown.index("optimizer:") < shown.index("mine/m/net/kernel")
