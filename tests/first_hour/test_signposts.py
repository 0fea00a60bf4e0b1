"""Dead ends are signposts: what people try first works, or the error says what to type instead."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    """Paths are relative, as people type them."""
    monkeypatch.chdir(tmp_path)


def sequential(*, built=True):
    """A Keras model of two layers."""
    import keras

    inputs = [keras.Input((3,))] if built else []
    return keras.Sequential([*inputs, keras.layers.Dense(4), keras.layers.Dense(2)])


def test_save_of_a_model_says_save_model(tf):
    """`save(keras_model, "m.keras")`, a path without an ending, and `dumps` say save_model."""
    model = sequential()
    for call in (
        lambda: ferry.save(model, "m.keras"),
        lambda: ferry.save(model, "m"),
        lambda: ferry.save(tf.Module(), "m.npz"),
        lambda: ferry.dumps(model),
    ):
        with pytest.raises(ferry.UnsupportedError, match=r"hint: use tensorferry\.save_model"):
            call()


def test_save_with_the_path_first():
    """`save("x.npz", value)` says which comes first, and writes nothing."""
    for value in ({"x": ARRAY}, ARRAY, [1.0, 2.0]):
        with pytest.raises(ferry.OptionError, match=r"hint: the value comes first"):
            ferry.save("x.npz", value)
    assert list(Path().iterdir()) == []


def test_weights_from_model_to_model(tf):
    """`load_weights(model, other_model)` copies, as `set_weights(get_weights())` does."""
    one, other = sequential(), sequential()

    report = ferry.load_weights(one, other)

    assert report.ok
    for found, wanted in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(found, wanted)
    one.layers[0].kernel.assign(np.zeros((3, 4)))
    assert other.get_weights()[0].any()  # copied, not shared


def test_names_of_other_libraries():
    """A name that is another library's is an AttributeError that names ours."""
    for module, name, instead in (
        (ferry.tfio, "parse_sparse", "use tensorferry.tfio.deserialize_sparse"),
        (ferry.tfio, "TFRecordDataset", "tensorferry.open"),
        (ferry.tfio, "serialise_tensor", "use tensorferry.tfio.serialize_tensor"),
        (ferry, "train", "use tensorferry.Saver, CheckpointManager or latest_checkpoint"),
        (ferry, "serialize", "use tensorferry.dumps"),
        (ferry, "load_wieghts", "use tensorferry.load_weights"),
        (ferry, "ModelCheckpoint", "use tensorferry.weights_callback"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(module, name)
        assert instead in str(caught.value)
        assert caught.value.name == name
    assert not hasattr(ferry, "__wrapped__")


def test_every_signpost_leads_somewhere():
    """The names that signposts name exist."""
    from tensorferry.signposts import INSTEAD

    for module, table in INSTEAD.items():
        for name, instead in table.items():
            assert name not in (ferry.__all__ if module == "tensorferry" else dir(ferry.tfio))
            first = instead.removeprefix("tensorferry.").replace(",", " ").replace("(", " ").split()
            in_tfio = module.endswith("tfio") and not instead.startswith("tensorferry.")
            home = ferry.tfio if in_tfio else ferry
            assert hasattr(home, first[0].partition(".")[0]), instead


def test_names_in_capitals():
    """`A.NPY` is an npy file, as NumPy writes it, and `A.NPZ.GZ` a compressed npz."""
    ferry.save(ARRAY, "A.NPY")
    np.testing.assert_array_equal(np.load("A.NPY"), ARRAY)
    np.testing.assert_array_equal(ferry.load("A.NPY"), ARRAY)
    ferry.save({"a": ARRAY}, "A.NPZ.GZ")
    np.testing.assert_array_equal(ferry.load("A.NPZ.GZ")["a"], ARRAY)


def test_checkpoints_by_step(tf):
    """`model.ckpt-4` is a checkpoint, which TensorFlow reads."""
    ferry.save({"a": ARRAY}, "model.ckpt-4")

    np.testing.assert_array_equal(tf.train.load_variable("model.ckpt-4", "a"), ARRAY)
    np.testing.assert_array_equal(ferry.load("model.ckpt-4")["a"], ARRAY)


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors", "x.parquet", "x.npy", "x.ckpt"])
def test_metadata_of_every_kind(tf, name):
    """`metadata={"shape": t.shape}` works, and so do dtypes, NumPy's numbers, paths and dates."""
    t = tf.zeros((2, 3))
    metadata = {
        "shape": t.shape,
        "open": tf.TensorShape([None, 3]),
        "array": ARRAY.shape,
        "dtype": t.dtype,
        "own": ARRAY.dtype,
        "loss": np.float32(0.5),
        "steps": np.arange(3),
        "tensor": tf.constant([1, 2]),
        "path": Path("run"),
        "day": datetime.date(2026, 1, 2),
        "nested": {"n": np.int64(3)},
    }
    ferry.save(ARRAY, name, metadata=metadata)

    with ferry.open(name) as bundle:
        assert bundle.metadata == {
            "shape": [2, 3],
            "open": [None, 3],
            "array": [2, 3],
            "dtype": "float32",
            "own": "float32",
            "loss": 0.5,
            "steps": [0, 1, 2],
            "tensor": [1, 2],
            "path": "run",
            "day": "2026-01-02",
            "nested": {"n": 3},
        }


def test_metadata_that_json_lacks():
    """NaN and objects are refused with the key, and a way to keep them."""
    with pytest.raises(ferry.UnsupportedError, match=r"metadata 'loss' is nan.*\n?.*as a text"):
        ferry.save(ARRAY, "x.npz", metadata={"loss": float("nan")})
    with pytest.raises(ferry.UnsupportedError, match="metadata 'thing' is of type object"):
        ferry.save(ARRAY, "x.npz", metadata={"thing": object()})


def test_an_unbuilt_model(tf):
    """`diagnose` and `save_model` agree, and with Keras: a .keras file yes, a SavedModel no."""
    import keras

    report = ferry.diagnose(sequential(built=False))
    ways = {way: found.verdict for way, found in report.ways.items()}

    assert ways["keras"] == "keeps"
    saved = ferry.save_model(sequential(built=False), "m.keras")
    assert saved.written
    assert isinstance(keras.saving.load_model("m.keras"), keras.Sequential)
    assert ways["savedmodel"] == "fails"
    with pytest.raises(ferry.UnsupportedError, match="not built yet"):
        ferry.save_model(sequential(built=False), "m")
    assert ways["weights"] == "fails"
    with pytest.raises(ferry.UnsupportedError, match="not built yet"):
        ferry.save_weights(sequential(built=False), "m.safetensors")
