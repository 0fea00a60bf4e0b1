"""Folders that do not exist are made wherever something is written, and errors name the target."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tensorferry as ferry

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)
COLUMNS = {"a": np.arange(3)}
FILES = ("x.npy", "x.npz", "x.safetensors", "x.pb", "x.json", "x.ckpt", "x.npy.gz", "x.arrow")
ROWS = ("x.tfrecord", "x.parquet", "x.csv", "x.jsonl", "x.tfrecord.gz")


@pytest.fixture
def new(tmp_path):
    """A folder in a folder, neither of which exists."""
    return tmp_path / "runs" / "today"


@pytest.mark.parametrize("name", FILES)
def test_save(new, name):
    """`save` makes the folder of its path."""
    ferry.save(
        {"a": ARRAY} if name != "x.npy" and ".npy" not in name and name != "x.pb" else ARRAY,
        new / name,
    )

    found = ferry.load(new / name)
    np.testing.assert_array_equal(found["a"] if isinstance(found, dict) else found, ARRAY)


@pytest.mark.parametrize("name", ROWS)
def test_rows(new, name):
    """`save` of columns and `writer` make it, too, with one file or several."""
    ferry.save(COLUMNS, new / "saved" / name)
    with ferry.writer(new / "written" / name) as writer:
        writer.write_batch(COLUMNS)

    for part in ("saved", "written"):
        assert ferry.load(new / part / name)["a"].tolist() == [0, 1, 2]


def test_models_weights_and_conversions(new, tf):
    """Models, weights, conversions and sharded sets do, as well."""
    import keras

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])

    ferry.save_model(model, new / "a" / "model.keras")
    ferry.save_model(model, new / "b" / "model")
    ferry.save_weights(model, new / "c" / "model.weights.h5")
    ferry.convert(new / "c" / "model.weights.h5", new / "d" / "model.safetensors")
    ferry.save({"w": ARRAY, "v": ARRAY}, new / "e" / "m.safetensors", shard_size=30)

    expected = model.get_weights()[0]
    np.testing.assert_array_equal(
        keras.saving.load_model(new / "a/model.keras").get_weights()[0], expected
    )
    assert tf.saved_model.contains_saved_model(str(new / "b" / "model"))
    assert ferry.load(new / "e" / "m.safetensors.index.json")["w"].tolist() == ARRAY.tolist()


def test_a_failure_leaves_no_folder(new, tmp_path):
    """What could not be written leaves nothing behind, the new folders included."""

    def fails():
        yield "a", ARRAY
        raise RuntimeError("the generator fails")

    with pytest.raises(RuntimeError, match="the generator fails"):
        ferry.save(fails(), new / "x.safetensors")

    assert list(tmp_path.iterdir()) == []


def test_errors_name_the_target(tmp_path, monkeypatch):
    """Neither a file that stands in the way nor a full disk shows a temporary name."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError) as caught:
        ferry.save(ARRAY, tmp_path / "file" / "x.npy")
    assert caught.value.filename == str(tmp_path / "file")

    def refuse(old, new):
        raise OSError(13, "Permission denied", old, None, new)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError) as caught:
        ferry.save(ARRAY, tmp_path / "x.npy")
    assert str(caught.value) == f"[Errno 13] Permission denied: '{tmp_path / 'x.npy'}'"


def test_errors_of_frameworks_name_the_target(tmp_path):
    """Keras' own error names the model's path, not the file that it was written to."""
    from tensorferry.storage.directory import replacing_path

    with (
        pytest.raises(ValueError, match="cannot write") as caught,
        replacing_path(str(tmp_path / "model")) as temporary,
    ):
        raise ValueError(f"cannot write {temporary}/variables")
    assert str(caught.value) == f"cannot write {tmp_path / 'model'}/variables"


@pytest.mark.parametrize("name", ["x.npz", "run/x.tfrecord", "x.ckpt", "model"])
def test_the_home_directory(tmp_path, monkeypatch, name):
    """No folder is made that is called "~"; one that is there is a folder as any other."""
    monkeypatch.chdir(tmp_path)
    options = {"format": "savedmodel"} if name == "model" else {}

    with pytest.raises(ferry.UnsupportedError, match=r"home directory\nhint: write /"):
        ferry.save({"x": np.ones(3)}, f"~/{name}", **options)
    assert not list(tmp_path.iterdir())

    (tmp_path / "~").mkdir()
    ferry.save({"x": np.ones(3)}, f"~/{name}", **options)
    assert ferry.load(f"~/{name}")["x"].tolist() == [1, 1, 1]
