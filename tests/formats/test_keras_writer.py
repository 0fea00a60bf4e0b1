"""Keras weights, written: real Keras loads them, and predicts what the model did."""

from __future__ import annotations

import builtins
import io
import json
import os
import zipfile

import ml_dtypes
import numpy as np
import pytest
from formats.keras_models import KINDS, build, randomize, weights_of

from tensorferry.errors import MismatchError, MissingExtraError, UnsupportedError
from tensorferry.formats.keras import writer as keras_writer
from tensorferry.formats.keras.reader import open_weights
from tensorferry.storage import Source
from tensorferry.storage.place import Place, Target


@pytest.fixture(scope="module")
def keras(tf):
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import keras

    return keras


def written(tensors, **options):
    """The bytes of a file."""
    sink = io.BytesIO()
    keras_writer.write(tensors, sink, **options)
    return sink.getvalue()


def opened(data):
    """What is in the bytes of a file."""
    return open_weights(Place(Source("x.weights.h5", buffer=memoryview(data))))


@pytest.mark.parametrize("kind", KINDS)
def test_keras_loads_what_was_read_and_written(keras, kind, tmp_path):
    """A file that went through us gives another model the same weights and predictions."""
    model, given = build(keras, kind)
    randomize(model)
    model.save_weights(tmp_path / "theirs.weights.h5")
    with open_weights(Place(tmp_path / "theirs.weights.h5")) as weights:
        tensors = {name: stored.read() for name, stored in weights.stored.items()}
        data = written(tensors, paths=weights.paths, layers=weights.layers)
    (tmp_path / "ours.weights.h5").write_bytes(data)

    other = randomize(build(keras, kind)[0], seed=7)
    other.load_weights(tmp_path / "ours.weights.h5")

    for path, value in weights_of(model).items():
        assert weights_of(other)[path].tobytes() == value.tobytes(), path
    np.testing.assert_array_equal(np.asarray(other(given)), np.asarray(model(given)))


def test_keras_loads_weights_by_paths_alone(keras, tmp_path):
    """A flat dict with paths for names is enough."""
    model, _ = build(keras, "sequential")
    kernel = np.arange(12, dtype="float32").reshape(4, 3)
    tensors = {
        "layers/dense/vars/0": kernel,
        "layers/dense/vars/1": np.ones(3, "float32"),
        "layers/dense_1/vars/0": np.ones((3, 2), "float32"),
    }
    (tmp_path / "x.weights.h5").write_bytes(written(tensors))

    model.load_weights(tmp_path / "x.weights.h5")

    assert (model.get_layer("first").kernel.numpy() == kernel).all()


def test_keras_loads_the_optimizer(keras, tmp_path):
    """The optimizer goes on where it was."""
    model, given = build(keras, "sequential")
    model.compile("adam", "mse")
    model.fit(given, np.ones((2, 2)), verbose=0)
    model.save_weights(tmp_path / "theirs.weights.h5")
    with open_weights(Place(tmp_path / "theirs.weights.h5")) as weights:
        data = written(weights.stored, paths=weights.paths, layers=weights.layers)
    (tmp_path / "ours.weights.h5").write_bytes(data)

    other, _ = build(keras, "sequential")
    other.compile("adam", "mse")
    other.optimizer.build(other.trainable_variables)
    other.load_weights(tmp_path / "ours.weights.h5")

    for one, expected in zip(other.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), expected.numpy())


@pytest.mark.parametrize("kind", ["nested", "sequence", "bfloat16"])
def test_keras_loads_shards(keras, kind, tmp_path):
    """Files of a few bytes each, and their index, are loaded as one."""
    model, given = build(keras, kind)
    randomize(model)
    model.save_weights(tmp_path / "theirs.weights.h5")
    with open_weights(Place(tmp_path / "theirs.weights.h5")) as weights:
        keras_writer.save_shards(
            weights.stored,
            Target(str(tmp_path / "ours.weights.json")),
            shard_size=24,
            paths=weights.paths,
            layers=weights.layers,
        )
        names = list(weights.stored)
    assert len(list(tmp_path.glob("ours_*.weights.h5"))) > 1

    other = randomize(build(keras, kind)[0], seed=7)
    other.load_weights(tmp_path / "ours.weights.json")

    np.testing.assert_array_equal(np.asarray(other(given)), np.asarray(model(given)))
    with open_weights(Place(tmp_path / "ours.weights.json")) as weights:
        assert list(weights.stored) == names


@pytest.mark.parametrize("deflated", [False, True])
def test_archive_with_other_weights(keras, deflated, tmp_path):
    """Keras loads the model with the new weights; all else in the archive is what it was."""
    lookup = keras.layers.IntegerLookup()
    lookup.adapt([5, 7])
    model = keras.Sequential(
        [keras.Input((4,), dtype="int64"), lookup, keras.layers.Dense(3, name="d")]
    )
    model.save(tmp_path / "old.keras")
    if deflated:
        with zipfile.ZipFile(tmp_path / "old.keras") as old:
            members = {name: old.read(name) for name in old.namelist()}
        with zipfile.ZipFile(tmp_path / "old.keras", "w", zipfile.ZIP_DEFLATED) as new:
            for name, data in members.items():
                new.writestr(name, data)
    kernel = np.arange(12, dtype="float32").reshape(4, 3)

    with open(tmp_path / "new.keras", "wb") as sink:
        keras_writer.replace_weights(Place(tmp_path / "old.keras"), {"d/kernel": kernel}, sink)

    with (
        zipfile.ZipFile(tmp_path / "old.keras") as old,
        zipfile.ZipFile(tmp_path / "new.keras") as new,
    ):
        assert new.namelist() == old.namelist()
        for name in set(old.namelist()) - {"model.weights.h5"}:
            assert new.read(name) == old.read(name)
    other = keras.saving.load_model(tmp_path / "new.keras")
    assert (other.layers[-1].kernel.numpy() == kernel).all()
    assert (other.layers[-1].bias.numpy() == model.layers[-1].bias.numpy()).all()


def test_other_names_and_shapes_are_refused(tmp_path):
    """Weights that are not the model's are an error that names them."""
    like = opened(written({"layers/dense/vars/0": np.ones((2, 3))}, layers={"layers/dense": "a"}))
    assert list(like.stored) == ["a/kernel"]
    for name, shape in (("b/kernel", (2, 3)), ("a/kernel", (3, 2)), ("layers/dense/vars/1", (3,))):
        with pytest.raises(MismatchError, match=name):
            keras_writer.write_like(like, {name: np.ones(shape)}, io.BytesIO())
    for name in ("a/kernel", "layers/dense/vars/0"):
        sink = io.BytesIO()
        keras_writer.write_like(like, {name: np.zeros((2, 3))}, sink)
        assert not opened(sink.getvalue()).stored["a/kernel"].read().any()


@pytest.mark.parametrize("dtype", [*sorted(keras_writer.NATIVE), "bfloat16"])
def test_roundtrip(dtype):
    """Every dtype, scalars and empty arrays are read as they were written."""
    numpy = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    values = {
        "vars/0": np.arange(6).reshape(2, 3).astype(numpy),
        "a/b/vars/0": np.array(1).astype(numpy),
        "a/vars/named": np.zeros((0, 3), numpy),
    }
    weights = opened(written(values))
    assert list(weights.stored) == list(values)
    for name, array in values.items():
        found = weights.stored[name].read()
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()


def test_the_same_tensors_give_the_same_bytes():
    """Nothing depends on the time."""
    values = {"layers/dense/vars/0": np.ones((2, 3)), "layers/dense/vars/1": np.ones(3)}
    assert written(values) == written(values)


@pytest.mark.parametrize(
    "path", ["kernel", "a/kernel", "vars", "a/../vars/0", "a//vars/0", "vars/"]
)
def test_names_that_are_no_paths_are_refused(path):
    """Keras would not find it."""
    with pytest.raises(UnsupportedError, match="no path of a variable"):
        written({path: np.ones(3)})


def test_other_dtypes_are_refused():
    """What Keras does not keep so is not written."""
    for array in (np.ones(2, ml_dtypes.float8_e5m2), np.array([b"a"], object), np.ones(2, "c8")):
        with pytest.raises(UnsupportedError, match="vars/0"):
            written({"vars/0": array})


def test_without_h5py(monkeypatch):
    """The error says what to install."""
    real = builtins.__import__

    def refuse(name, *rest, **options):
        if name == "h5py":
            raise ModuleNotFoundError(name=name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"tensorferry\[keras\]"):
        written({"vars/0": np.ones(3)})


def test_large_files_go_through_a_temporary_one(monkeypatch):
    """The bytes are the same."""
    values = {"layers/dense/vars/0": np.arange(1000.0)}
    expected = written(values)
    monkeypatch.setattr(keras_writer, "HELD", 10)
    assert written(values) == expected


def test_index(tmp_path):
    """Total size and groups are what Keras writes."""
    keras_writer.save_shards(
        {"a/vars/0": np.ones(3), "vars/0": np.ones(4)},
        Target(str(tmp_path / "m.weights.json")),
        shard_size=24,
    )
    assert json.loads((tmp_path / "m.weights.json").read_text()) == {
        "metadata": {"total_size": 56},
        "weight_map": {"/a/vars": ["m_00000.weights.h5"], "/vars": ["m_00001.weights.h5"]},
    }
