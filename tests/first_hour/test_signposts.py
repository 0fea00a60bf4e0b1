"""Dead ends are signposts: what people try first works, or the error says what to type instead."""

from __future__ import annotations

import copy
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


def test_methods_of_the_framework_on_a_loaded_model(tf):
    """`load_model(path).predict(x)` says where Keras' own method is, and what does the same."""
    ferry.save_model(sequential(), "m.keras")
    model = ferry.load_model("m.keras")

    with pytest.raises(AttributeError, match=r"use model\.model\.predict, or tensorferry\.predict"):
        model.predict(ARRAY)
    with pytest.raises(AttributeError, match=r"use model\.model\.summary$"):
        model.summary()
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        model.nothing()
    np.testing.assert_allclose(model(ARRAY), model.model.predict(ARRAY, verbose=0), rtol=1e-6)
    assert copy.copy(model).format == "keras"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("np", "numpy"), ("tf", "tensorflow"), ("pt", "torch"), ("pytorch", "torch"), ("flax", "jax")],
)
def test_other_names_of_frameworks(name, meant):
    """`to="tf"` and what safetensors calls the frameworks: the error has the name."""
    ferry.save(ARRAY, "x.npy")

    with pytest.raises(ferry.UnsupportedError, match=f"did you mean '{meant}'"):
        ferry.load("x.npy", to=name)


@pytest.mark.parametrize("name", ["m.pt", "m.PTH", "m.pkl", "m.onnx", "m.tflite"])
def test_files_that_nobody_writes_here(name):
    """The endings of other programs' files lead to a format with the same content."""
    with pytest.raises(ferry.UnknownFormatError, match=r"not written here\n.* in \.safetensors"):
        ferry.save({"x": ARRAY}, name)
    ferry.save({"x": ARRAY}, "m.npz")
    with pytest.raises(ferry.UnknownFormatError, match=r"not written here\n.* in \.safetensors"):
        ferry.convert("m.npz", name)
    assert [path.name for path in Path().iterdir()] == ["m.npz"]


@pytest.mark.parametrize(
    ("name", "call", "instead"),
    [
        ("x.tfrecord", "batch", r"batches\(size\)"),
        ("x.parquet", "shuffle", r"feeds\.Feed\(rows, shuffle=True\)"),
        ("x.csv", "as_numpy_iterator", "for row in rows"),
        ("x.npz", "get_tensor", r"bundle\[name\]"),
        ("x.npz", "names", r"list\(bundle\)"),
        ("x.safetensors", "get_slice", r"slice\(name, index\)"),
    ],
)
def test_methods_of_others_on_what_open_gives(name, call, instead):
    """tf.data's, NumPy's and safetensors' methods lead to those that do the same."""
    ferry.save({"x": np.arange(3)}, name)

    with ferry.open(name) as opened:
        with pytest.raises(AttributeError, match=f"no attribute '{call}': use .*{instead}"):
            getattr(opened, call)()
        with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
            opened.nothing()
        assert not hasattr(opened, call)
        assert call not in dir(opened)
        assert "infos" in dir(opened)


@pytest.mark.parametrize(
    ("option", "meant"), [("batch_size", "batch"), ("transforms", "transform"), ("pads", "pad")]
)
def test_options_of_other_loaders(option, meant):
    """An option that a feed lacks is refused with the feed's own options, not with a format's."""
    ferry.save({"x": np.arange(3)}, "x.tfrecord")

    with pytest.raises(ferry.OptionError, match=rf"(?s)a feed has no .*did you mean '{meant}'"):
        ferry.feeds.Feed("x.tfrecord", **{option: 2})
    assert len(ferry.feeds.Feed("x.tfrecord", batch=2, verify=False).rows) == 3
