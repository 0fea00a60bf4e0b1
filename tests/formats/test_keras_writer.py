"""Keras weights, written: real Keras loads them, and predicts what the model did."""

from __future__ import annotations

import builtins
import io
import json
import math
import os
import zipfile

import h5py
import ml_dtypes
import numpy as np
import pytest
from formats.keras_models import KINDS, build, randomize, weights_of
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hypothesis_numpy

from tensorferry.codecs.hdf5 import writer as hdf5
from tensorferry.errors import MismatchError, UnsupportedError
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


DTYPES = [*sorted(set(hdf5.DATATYPES) - {"opaque16"}), "bfloat16"]


def arrays_of_weights():
    """Arrays that Keras keeps."""
    dtypes = [np.dtype(getattr(ml_dtypes, each, each)) for each in DTYPES]
    swapped = [each.newbyteorder(">") for each in dtypes if each.kind in "iuf"]
    shapes = hypothesis_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
    sizes = st.tuples(st.sampled_from([*dtypes, *swapped]), shapes)
    made = sizes.map(lambda each: np.arange(math.prod(each[1])).astype(each[0]).reshape(each[1]))
    return st.tuples(made, st.booleans()).map(lambda each: each[0].T if each[1] else each[0])


@pytest.mark.parametrize("dtype", DTYPES)
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
    "path",
    ["kernel", "a/kernel", "vars", "a/../vars/0", "a//vars/0", "vars/", "vars/.", "vars/.."],
)
def test_names_that_are_no_paths_are_refused(path, tmp_path):
    """Keras would not find it, in one file or in several."""
    with pytest.raises(UnsupportedError, match="no path of a variable"):
        written({path: np.ones(3)})
    with pytest.raises(UnsupportedError, match="no path of a variable"):
        keras_writer.save_shards(
            {path: np.ones(3)}, Target(str(tmp_path / "m.weights.json")), shard_size=1
        )


def test_other_dtypes_are_refused():
    """What Keras does not keep so is not written."""
    for array in (np.ones(2, ml_dtypes.float8_e5m2), np.array([b"a"], object), np.ones(2, "c8")):
        with pytest.raises(UnsupportedError, match="vars/0"):
            written({"vars/0": array})


def test_without_h5py(monkeypatch):
    """Writing needs no other package."""
    real = builtins.__import__

    def refuse(name, *rest, **options):
        if name == "h5py":
            raise ModuleNotFoundError(name=name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert opened(written({"vars/0": np.ones(3)})).stored["vars/0"].read().sum() == 3


def read_by_h5py(data):
    """All arrays, and all attributes, of a file."""
    arrays, attributes = {}, {}

    def visit(name, item):
        attributes.update({f"{name}@{key}": value for key, value in item.attrs.items()})
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()]

    with h5py.File(io.BytesIO(data)) as file:
        file.visititems(visit)
    return arrays, attributes


@pytest.mark.parametrize("count", [0, 1, 8, 9, 256, 257, 8193])
def test_h5py_reads_groups_of_any_size(count):
    """Members of one group and groups beside each other: one table, one node, several levels."""
    values = {f"vars/{number}": np.full(2, number) for number in range(count)}
    values |= {f"layers/dense_{n}/vars/0": np.full((1, 3), n, "f4") for n in range(min(count, 300))}
    arrays, _ = read_by_h5py(written(values))

    assert set(arrays) == set(values)
    assert all(
        (arrays[name] == array).all() and arrays[name].dtype == array.dtype
        for name, array in values.items()
    )


@given(arrays_of_weights())
def test_h5py_reads_any_array(array):
    """Dtype, shape and every bit, of scalars, empty, strided and byte-swapped arrays."""
    arrays, attributes = read_by_h5py(written({"a/vars/0": array}))
    found = arrays["a/vars/0"]
    expected = array.astype(array.dtype.newbyteorder("="))
    if array.dtype == ml_dtypes.bfloat16:
        assert attributes == {"a/vars/0@dtype": "bfloat16"}
        found = found.view(ml_dtypes.bfloat16)
    assert (found.dtype, found.shape) == (expected.dtype, array.shape)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("length", [0, 1, 7, 8, 5_000, 70_000])
def test_h5py_reads_names_of_layers(length):
    """Texts of any length and number, which lie in one heap or in several."""
    layers = {f"g{number}": f"{number}é" + "x" * length for number in range(20)}
    values = {f"{group}/vars/0": np.ones(1) for group in layers}
    _, attributes = read_by_h5py(written(values, layers=layers))

    assert attributes == {f"{group}/vars@name": name for group, name in layers.items()}


def test_names_of_other_languages():
    """Names are UTF-8; what is none is refused before anything is written."""
    values = {"каша/vars/0": np.ones(2), "é/é/vars/漢字": np.ones(3)}
    assert set(read_by_h5py(written(values))[0]) == set(values)
    for paths in ({"x": "a\ud800/vars/0"}, {"x": "a/vars/\ud800"}):
        with pytest.raises(UnsupportedError, match="UTF-8"):
            written({"x": np.ones(1)}, paths=paths)
    for layers in ({"a\ud800": "x"}, {"a": "\ud800"}):
        with pytest.raises(UnsupportedError, match="UTF-8"):
            written({}, layers=layers)
    with pytest.raises(UnsupportedError, match="no path of a variable"):
        written({}, layers={"a//b": "x"})


def test_large_arrays_are_aligned_and_not_copied():
    """A large array is handed on as it is, at an address that vectors are loaded from."""
    array = np.arange(4096.0)
    pieces = []
    sink = io.BytesIO()
    sink.write = pieces.append
    keras_writer.write({"vars/0": np.ones(1), "vars/1": array}, sink)

    assert any(isinstance(piece, np.ndarray) and np.shares_memory(piece, array) for piece in pieces)
    data = b"".join(map(bytes, pieces))
    assert data.index(array.tobytes()) % 64 == 0


def test_a_tensor_and_a_group_of_one_name_are_refused():
    """HDF5 has one member of a name."""
    with pytest.raises(UnsupportedError, match="a tensor and a group"):
        written({"vars/0": np.ones(1), "vars/0/vars/1": np.ones(1)})
    with pytest.raises(UnsupportedError, match="a tensor and a group"):
        written({"vars/0/vars/1": np.ones(1), "vars/0": np.ones(1)})
    with pytest.raises(UnsupportedError, match="two tensors are written to vars/0"):
        written({"a": np.ones(1), "b": np.ones(1)}, paths={"a": "vars/0", "b": "vars/0"})
    with pytest.raises(UnsupportedError, match="at most 32"):
        written({"vars/0": np.ones((1,) * 33)})


def test_a_tensor_that_changes_is_refused():
    """What is read later has the size that was announced."""

    class Growing:
        dtype, shape = np.dtype("f4"), (2,)

        def read(self):
            return np.ones(3, "f4")

    with pytest.raises(MismatchError, match="12 bytes, 8 were announced"):
        written({"vars/0": Growing()})


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
