"""The files of weights: where they are read from, how they are written, and their options."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.weights.saving import target_of


def test_sources(tmp_path):
    """An open bundle, a nested dict and a list of arrays are sources like files."""
    ferry.save({"a": {"b": np.ones(2)}}, tmp_path / "a.npz")
    model = {"a": {"b": np.zeros(2)}}

    with ferry.open(tmp_path / "a.npz") as bundle:
        assert ferry.load_weights(model, bundle).path == str(tmp_path / "a.npz")
        assert bundle["a/b"].tolist() == [1, 1]
    assert ferry.load_weights(model, {"a": {"b": np.full(2, 2.0)}}).ok
    np.savez(tmp_path / "list.npz", np.full(2, 3.0))
    ferry.load_weights(model, tmp_path / "list.npz")
    assert model["a"]["b"].tolist() == [3, 3]


def test_records_are_no_weights(tmp_path):
    """A file of records is named as what it is."""
    with ferry.writer(tmp_path / "a.tfrecord") as out:
        out.write({"w": 1})

    with pytest.raises(ferry.UnsupportedError, match="it holds records, expected named tensors"):
        ferry.load_weights({"w": np.zeros(1)}, tmp_path / "a.tfrecord")


def test_quantized(tmp_path):
    """Weights that were saved quantized are loaded as the floats they stand for."""
    model = {"w": np.linspace(-1, 1, 50).reshape(5, 10)}
    ferry.save_weights(model, tmp_path / "a.safetensors", quantize="int8", metadata={"by": "us"})
    fresh = {"w": np.zeros((5, 10))}

    ferry.load_weights(fresh, tmp_path / "a.safetensors")

    assert np.abs(fresh["w"] - model["w"]).max() < 0.01
    assert ferry.open(tmp_path / "a.safetensors").metadata == {"by": "us"}


def test_saver(tf, tmp_path):
    """A Saver keeps variables under the names that it was given."""
    variables = {
        "w1": tf.Variable([1.0, 2.0]),
        "b": tf.keras.Variable([3.0]),
        "n": np.arange(3),
    }
    saver = ferry.Saver(variables)

    saved = saver.save(tmp_path / "step.safetensors", metadata={"step": 9})
    variables["w1"].assign([0.0, 0.0])
    variables["b"].assign([0.0])
    variables["n"][:] = 0
    report = saver.restore(tmp_path / "step.safetensors")

    assert saved.format == "safetensors"
    assert list(ferry.load(tmp_path / "step.safetensors")) == ["n", "b", "w1"]
    assert list(report.loaded) == ["w1", "b", "n"]
    assert variables["w1"].numpy().tolist() == [1, 2]
    assert variables["b"].numpy().tolist() == [3]
    assert variables["n"].tolist() == [0, 1, 2]
    ferry.save({"other": np.zeros(2, np.float32)}, tmp_path / "other.npz")
    with pytest.raises(ferry.MismatchError, match="3 missing"):
        saver.restore(tmp_path / "other.npz")
    assert not saver.restore(tmp_path / "other.npz", strict=False).loaded


def test_targets():
    """The names follow the kind of file."""
    assert target_of("a.weights.h5", None) == "keras"
    assert target_of("a.keras", None) == "keras"
    assert target_of("a", "checkpoint") == "checkpoint"
    assert target_of("a.safetensors", None) == "natural"
    assert target_of("a.npz", "keras") == "keras"


# Options


def test_options_are_of_files():
    """A dict of tensors is not opened, so options for opening are refused by name."""
    with pytest.raises(TypeError, match="names, storage_options: only files"):
        ferry.load_weights(
            {"a": np.zeros(2)}, {"a": np.ones(2)}, names="keys", storage_options={"region": "x"}
        )


def test_options_reach_the_format(tmp_path):
    """A checkpoint is written in shards and read by its keys; npz takes a level."""
    model = {"a": np.arange(3.0), "b": {"c": np.arange(4.0)}}
    ferry.save_weights(model, tmp_path / "x.ckpt", layout="names", shards=2, durable=False)
    loud = ferry.save_weights(model, tmp_path / "x.npz", compression="deflate", level=1)
    fresh = {"a": np.zeros(3), "b": {"c": np.zeros(4)}}

    assert len(list(tmp_path.glob("x.ckpt.data-*-of-00002"))) == 2
    assert loud.format == "npz"
    assert ferry.load_weights(fresh, tmp_path / "x.ckpt", names="keys").ok
    assert fresh["b"]["c"].tolist() == [0, 1, 2, 3]


def test_an_unknown_option_is_refused(tmp_path):
    """A misspelt option is refused, and the nearest one is named."""
    model = {"a": np.ones(3)}
    path = tmp_path / "x.npz"
    ferry.save_weights(model, path)
    saver = ferry.Saver(model)
    for call in (ferry.Saver.restore, ferry.load_weights):
        owner = saver if call is ferry.Saver.restore else model
        with pytest.raises(ferry.OptionError, match="npz has no option 'verfiy'") as caught:
            call(owner, path, verfiy=False)
        assert caught.value.hint == "did you mean 'verify'?"
    for call in (ferry.Saver.save, ferry.save_weights):
        owner = saver if call is ferry.Saver.save else model
        with pytest.raises(ferry.OptionError, match="npz has no option 'levle'") as caught:
            call(owner, path, levle=1)
        assert caught.value.hint == "did you mean 'level'?"
