"""Checkpoints: TensorFlow's own read, ours read by TensorFlow."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings, strategies as st
from strategies import NUMERIC, numeric_arrays, same, string_arrays

from tensorferry import dtypes, errors
from tensorferry.formats import checkpoint, checkpoint_graph

CORPUS = Path(os.environ.get("TENSORFERRY_CORPUS", ROOT.parent / "shared/corpus"))
INDEXES = sorted(CORPUS.glob("tensorflow/**/*.index"))

# What TensorFlow 2.21 makes eager tensors of.
WRITTEN = tuple(row for row in NUMERIC if row.name not in ("int2", "uint2", "float4_e2m1fn"))

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


def save_v2(tf, prefix, tensors, slices=None):
    """What TensorFlow's own writer makes of named tensors."""
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors) if slices is None else [name for name, _ in tensors],
        shape_and_slices=slices or [""] * len(tensors),
        tensors=list(tensors.values()) if slices is None else [tensor for _, tensor in tensors],
    )


def as_tf(tf, array):
    """An eager tensor of any dtype, bit for bit."""
    array = np.asarray(array, array.dtype.newbyteorder("="))
    row = dtypes.from_numpy(array.dtype)
    if row is dtypes.STRING:
        return tf.constant(array.tolist(), tf.string, shape=array.shape)
    array = np.ascontiguousarray(array).reshape(array.shape)
    if row.name.startswith("q"):
        return tf.bitcast(array.view(array.dtype[0]), row.name)
    return tf.constant(array, dtype=row.name)


def read_all(path, **options):
    """All tensors of a checkpoint."""
    with checkpoint.open_stored(path, **options) as opened:
        return {name: stored.read() for name, stored in opened.stored.items()}


# Reading


@settings(max_examples=100)
@given(
    st.dictionaries(
        names, st.one_of(numeric_arrays(WRITTEN), string_arrays()), min_size=1, max_size=6
    )
)
def test_reads_what_tensorflow_writes(tf, tmp_path_factory, tensors):
    """Every dtype, shape and name that TensorFlow saves comes back with every bit."""
    folder = tmp_path_factory.mktemp("v2")
    save_v2(tf, folder / "model", {name: as_tf(tf, array) for name, array in tensors.items()})

    with checkpoint.open_stored(folder / "model") as opened:
        assert set(opened.stored) == set(tensors)
        for name, array in tensors.items():
            stored = opened.stored[name]
            assert stored.dtype is dtypes.from_numpy(array.dtype)
            assert stored.shape == array.shape
            assert same(stored.read(), array)
    shutil.rmtree(folder)


@pytest.mark.parametrize("path", INDEXES, ids=lambda path: str(path.relative_to(CORPUS)))
def test_corpus(tf, path):
    """Every checkpoint of the corpus has the values that TensorFlow reads."""
    prefix = str(path).removesuffix(".index")
    reader = tf.train.load_checkpoint(prefix)
    theirs = set(reader.get_variable_to_shape_map()) - {checkpoint_graph.KEY}

    found = read_all(prefix, names="keys")

    assert set(found) == theirs
    for name, array in found.items():
        assert same(array, np.asarray(reader.get_tensor(name), array.dtype)), name
    assert len(read_all(prefix)) == len(found)


def test_every_path_will_do(tf, tmp_path):
    """The prefix, each file, the directory and the `checkpoint` file all name the checkpoint."""
    saved = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).save(str(tmp_path / "model.ckpt"))
    paths = (
        saved,
        f"{saved}.index",
        f"{saved}.data-00000-of-00001",
        tmp_path,
        tmp_path / "checkpoint",
        Path(saved),
    )

    for path in paths:
        assert checkpoint.resolve(path) == saved
        assert same(read_all(path)["v"], np.array([1, 2], np.float32))
    assert checkpoint.latest_checkpoint(tmp_path) == tf.train.latest_checkpoint(tmp_path)


def test_paths_that_name_none(tmp_path):
    """What is no checkpoint is none, and opening it says so."""
    (tmp_path / "other.bin").write_bytes(bytes(100))
    (tmp_path / "lost.data-00000-of-00001").write_bytes(b"")

    for name in ("", "missing", "other.bin", "missing.index", "lost.data-00000-of-00001"):
        assert checkpoint.resolve(tmp_path / name) is None
        with pytest.raises(FileNotFoundError, match="no checkpoint"):
            checkpoint.open_stored(tmp_path / name)


def test_directory_that_was_moved(tf, tmp_path):
    """A `checkpoint` file with absolute paths still finds its checkpoints beside it."""
    (tmp_path / "a").mkdir()
    saved = tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "a/ckpt"))
    state = tmp_path / "a/checkpoint"
    state.write_text(state.read_text().replace('"ckpt', f'"{tmp_path}/a/ckpt'))
    shutil.move(tmp_path / "a", tmp_path / "b")

    assert checkpoint.resolve(tmp_path / "b") == saved.replace("/a/", "/b/")


def test_directory_of_several(tf, tmp_path):
    """A directory of several checkpoints, of which nothing names the latest, is refused."""
    for name in ("one", "two"):
        save_v2(tf, tmp_path / name, {"v": tf.constant(1.0)})

    with pytest.raises(errors.FormatError, match="2 checkpoints"):
        checkpoint.resolve(tmp_path)


def test_object_graph(tf, tmp_path):
    """Variables are called by their paths, slots are known, and keys are still there."""
    saved = {"q.r/s": tf.Variable(5.0), "list": [tf.Variable(1.0), tf.Variable(2.0)]}
    root = tf.train.Checkpoint(net=saved, table={})
    path = root.save(str(tmp_path / "ckpt"))

    with checkpoint.open_stored(path) as opened:
        assert set(opened.stored) == {"net/q.r/s", "net/list/0", "net/list/1", "save_counter"}
        assert opened.keys["net/q.r/s"] == "net/q..r.Ss/.ATTRIBUTES/VARIABLE_VALUE"
        assert opened.slots == {}
        paths = dict(opened.graph.paths())
        assert paths["net", "list", "1"].attributes[0].key == opened.keys["net/list/1"]
    assert set(read_all(path, names="keys")) == set(opened.keys.values())


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_slots():
    """What an optimizer keeps for a variable stands under the optimizer's name."""
    path = CORPUS / "tensorflow/saved_model/OptimizerSlotVariableModule/variables"

    with checkpoint.open_stored(path) as opened:
        assert opened.slots["opt/m/v"] == ("v", "opt", "m")
        assert set(opened.slots) == {"opt/m/v", "opt/v/v"}
        assert "v" in opened.stored


def test_names_of_variables(tf, tmp_path):
    """By the names of variables where these are unique, otherwise by path."""
    root = tf.train.Checkpoint(
        a=tf.Variable(1.0, name="dense/kernel"), b=tf.Variable(2.0), c=tf.Variable(3.0)
    )
    path = root.write(str(tmp_path / "ckpt"))

    assert set(read_all(path, names="variables")) == {"dense/kernel", "b", "c"}


def test_slices(tf, tmp_path):
    """A partitioned variable is one tensor; its pieces are not listed."""
    whole = np.arange(200 * 300, dtype=np.int32).reshape(200, 300)
    cuts = [(0, 120, 0, 70), (120, 80, 0, 70), (0, 120, 70, 230), (120, 80, 70, 230)]
    pieces = [("w\xff", whole[a : a + b, c : c + d]) for a, b, c, d in cuts]
    specs = [f"200 300 {a},{b}:{c},{d}" for a, b, c, d in cuts]
    rows = [("r", whole[:150]), ("r", whole[150:])]
    texts = [("s", np.array([b"a", b"b"], object)), ("s", np.array([b"c"], object))]
    save_v2(
        tf,
        tmp_path / "model",
        [*pieces, *rows, *texts],
        [*specs, "200 300 0,150:-", "200 300 150,50:-", "3 0,2", "3 2,1"],
    )

    with checkpoint.open_stored(tmp_path / "model") as opened:
        assert set(opened.stored) == {"w\xff", "r", "s"}
        assert same(opened.stored["w\xff"].read(), whole)
        assert same(opened.stored["r"].read(), whole)
        assert same(opened.stored["r"].read_part(np.s_[3, ::2]), whole[3, ::2])
        assert opened.stored["s"].read().tolist() == [b"a", b"b", b"c"]


def test_values_are_views(tf, tmp_path):
    """Arrays lie in the mapped file, are read-only, and outlive the checkpoint."""
    save_v2(tf, tmp_path / "model", {"v": tf.range(1000)})

    with checkpoint.open_stored(tmp_path / "model") as opened:
        array = opened.stored["v"].read()
        again = opened.stored["v"].read()
        part = opened.stored["v"].read_part(np.s_[10:20])

    assert array.ctypes.data == again.ctypes.data
    assert part.ctypes.data == array.ctypes.data + 40
    assert not array.flags.writeable
    assert array.tolist() == list(range(1000))


def test_checksum_is_verified_once(tf, tmp_path, monkeypatch):
    """The first whole read verifies a tensor, later ones do not; a part never does."""
    save_v2(tf, tmp_path / "model", {"v": tf.range(1000)})
    data = tmp_path / "model.data-00000-of-00001"
    data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])

    with checkpoint.open_stored(tmp_path / "model") as opened:
        assert opened.stored["v"].read_part(np.s_[1:3]).tolist() == [1, 2]
        with pytest.raises(errors.ChecksumError, match="corrupt"):
            opened.stored["v"].read()
    assert read_all(tmp_path / "model", verify=False)["v"][0] == 1


def test_variants(tf, tmp_path):
    """A tensor of variants is listed, and refused when it is read."""
    variant = tf.RaggedTensor.from_row_splits([1, 2], [0, 2])._to_variant()
    save_v2(tf, tmp_path / "model", {"r": variant, "v": tf.constant(1)})

    with checkpoint.open_stored(tmp_path / "model") as opened:
        assert opened.stored["r"].dtype.name == "variant"
        with pytest.raises(errors.UnsupportedError, match="variant"):
            opened.stored["r"].read()
        assert opened.stored["v"].read() == 1


def test_missing_shard(tf, tmp_path):
    """A data file that is not there is named."""
    save_v2(tf, tmp_path / "model", {"v": tf.constant(1)})
    (tmp_path / "model.data-00000-of-00001").unlink()

    with pytest.raises(FileNotFoundError) as caught:
        checkpoint.open_stored(tmp_path / "model")
    assert caught.value.filename == str(tmp_path / "model.data-00000-of-00001")
