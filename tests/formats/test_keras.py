"""Keras weights: what real Keras saved is read, and named, as Keras has it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import h5py
import ml_dtypes
import numpy as np
import pytest
from conftest import CORPUS, ROOT
from formats.keras_models import KINDS, build, randomize, weights_of

from tensorferry.errors import FormatError
from tensorferry.formats import signatures
from tensorferry.formats.contract import Glimpse
from tensorferry.formats.keras import reader as keras_format
from tensorferry.storage import Source, open_source
from tensorferry.storage.place import Place


@pytest.fixture(scope="module")
def keras(tf):
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import keras

    return keras


@pytest.fixture(scope="module")
def models(keras):
    """Each kind of model, once."""
    return {kind: randomize(build(keras, kind)[0]) for kind in KINDS}


def save(model, path):
    """Saves a model as the path's end says."""
    if ".weights." in path.name:
        shards = {"max_shard_size": 4e-6} if path.suffix == ".json" else {}
        model.save_weights(path, **shards)
    else:
        model.save(path)
    return path


def assert_same(weights, expected):
    """Names, dtypes, shapes and every bit are those of the model's variables."""
    found = {name: weights.stored[name].read() for name in model_names(weights)}
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def model_names(weights):
    return [name for name in weights.stored if name not in weights.optimizer]


@pytest.mark.parametrize("suffix", [".weights.h5", ".keras", ".weights.json"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "custom"])
def test_reads_what_keras_saved(models, kind, suffix, tmp_path):
    """Each variable has the name that Keras shows, and its value."""
    path = save(models[kind], tmp_path / f"model{suffix}")

    with keras_format.open_weights(Place(path)) as weights:
        assert_same(weights, weights_of(models[kind]))
        assert weights.layout == "keras3"
        assert (weights.config is not None) == (suffix == ".keras")


@pytest.mark.parametrize("kind", ["sequential", "functional", "nested", "sequence", "bfloat16"])
def test_reads_legacy_files(models, kind, tmp_path):
    """A .h5 file gives the same, and the config in its attributes."""
    path = save(models[kind], tmp_path / "model.h5")

    with keras_format.open_weights(Place(path)) as weights:
        assert_same(weights, weights_of(models[kind]))
        assert weights.layout == "legacy"
        assert weights.config["class_name"] in ("Sequential", "Functional")
        assert weights.metadata["backend"] == "tensorflow"


@pytest.mark.parametrize("suffix", [".weights.h5", ".weights.json"])
def test_variables_of_custom_layers_are_called_by_their_paths(models, suffix, tmp_path):
    """Only Keras' own layers say what their variables are called; all values are there."""
    path = save(models["custom"], tmp_path / f"model{suffix}")

    with keras_format.open_weights(Place(path)) as weights:
        assert model_names(weights) == [
            "blocks/scale/vars/0",
            "blocks/scale/vars/1",
            "b/kernel",
            "b/bias",
            "dense/kernel",
            "dense/bias",
        ]
        scale = models["custom"].blocks[0]
        assert weights.stored["blocks/scale/vars/0"].read().tolist() == scale.scale.numpy().tolist()
        assert weights.stored["blocks/scale/vars/1"].read() == scale.count.numpy()
        assert weights.paths["b/kernel"] == "blocks/dense/vars/0"
        assert weights.layers["blocks/scale"] == "a"


def test_a_config_settles_what_numbers_leave_open(keras, tmp_path):
    """One variable of a LayerNormalization may be its gamma or its beta: the config knows."""
    layers = [keras.layers.LayerNormalization(center=False, name="norm")]
    model = keras.Sequential([keras.Input((2,)), *layers])

    with keras_format.open_weights(Place(save(model, tmp_path / "m.weights.h5"))) as weights:
        assert list(weights.stored) == ["layers/layer_normalization/vars/0"]
    with keras_format.open_weights(Place(save(model, tmp_path / "m.keras"))) as weights:
        assert list(weights.stored) == ["norm/gamma"]


def test_values_are_views_of_the_file(models, tmp_path):
    """Nothing is copied, in an .h5 file or in an archive."""
    for name in ("model.weights.h5", "model.keras", "model.h5"):
        path = save(models["sequential"], tmp_path / name)
        with keras_format.open_weights(Place(path), verify=False) as weights:
            for name in model_names(weights):
                array = weights.stored[name].read()
                assert not array.flags.owndata
                assert not array.flags.writeable


def test_a_part_is_read_alone(models, tmp_path):
    """Indexing gives what NumPy gives, from a mapped file as from one of ranges."""
    path = save(models["functional"], tmp_path / "model.keras")

    class Remote(Source):
        def range(self, start, stop):
            self.fetched.append(stop - start)
            return bytes(whole[start:stop])

        def head(self, size):
            return whole[:size]

    whole = path.read_bytes()
    remote = Remote("memory://model.keras")
    remote.size, remote.fetched = len(whole), []
    for source in (open_source(path), remote):
        weights = keras_format.open_weights(Place(source))
        kernel = weights.stored["look/kernel"]
        expected = models["functional"].get_layer("look").kernel.numpy()
        assert (kernel.read_part(np.s_[1, :, 2]) == expected[1, :, 2]).all()
        assert (kernel.read() == expected).all()


def test_optimizer_is_kept_apart(keras, tmp_path):
    """The optimizer's variables are listed by themselves, behind the model's."""
    model, given = build(keras, "sequential")
    model.compile("adam", "mse")
    model.fit(given, np.ones((2, 2)), verbose=0)
    for name in ("m.weights.h5", "m.keras", "m.h5", "m.weights.json"):
        with keras_format.open_weights(Place(save(model, tmp_path / name))) as weights:
            expected = [variable.numpy() for variable in model.optimizer.variables]
            found = [weights.stored[name].read() for name in weights.optimizer]
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
            assert list(weights.stored)[-len(found) :] == list(weights.optimizer)
            assert_same(weights, weights_of(model))


def test_many_names_are_in_several_attributes(keras, tmp_path):
    """Names of more than 64512 bytes, which no attribute holds, are found again."""
    names = [f"{'long' * 500}_{number}" for number in range(40)]
    layers = [keras.layers.Dense(1, name=name) for name in names]
    model = keras.Sequential([keras.Input((1,)), *layers])
    path = save(randomize(model), tmp_path / "model.h5")

    with keras_format.open_weights(Place(path)) as weights:
        assert_same(weights, weights_of(model))


def test_archive_has_metadata_and_assets(keras, tmp_path):
    """The version, the date and the names of other files are given; a config is only text."""
    lookup = keras.layers.StringLookup()
    lookup.adapt(["a", "b"])
    model = keras.Sequential([keras.Input((1,), dtype="string"), lookup])
    path = save(model, tmp_path / "model.keras")

    with keras_format.open_weights(Place(path)) as weights:
        assert weights.metadata["keras_version"] == keras.__version__
        assert weights.assets == ("assets/layers/string_lookup/vocabulary.txt",)
        assert weights.config["class_name"] == "Sequential"


def test_findings(keras, tmp_path):
    """Bytecode in a Lambda layer is reported, in both kinds of model files."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Lambda(lambda x: x + 1)])
    for name in ("model.keras", "model.h5"):
        with keras_format.open_weights(Place(save(model, tmp_path / name))) as weights:
            assert "bytecode" in [finding.kind for finding in weights.findings]


def test_plain_models_have_no_findings(models, tmp_path):
    """What Keras' own layers save is a description and nothing else."""
    for kind in ("sequential", "functional", "nested", "sequence"):
        with keras_format.open_weights(
            Place(save(models[kind], tmp_path / "model.keras"))
        ) as weights:
            assert weights.findings == ()


def test_file_objects_and_bytes(models, tmp_path):
    """Whatever can be opened as a source is read."""
    path = save(models["sequential"], tmp_path / "model.weights.h5")
    data = path.read_bytes()
    for given in (str(path), io.BytesIO(data), Source("bytes", buffer=memoryview(data))):
        with keras_format.open_weights(Place(given)) as weights:
            assert_same(weights, weights_of(models["sequential"]))


NAMES = [
    "first/kernel",
    "first/bias",
    "d/kernel",
    "d/bias",
    "norm/gamma",
    "norm/beta",
    "norm/moving_mean",
    "norm/moving_variance",
    "last/kernel",
]
OLD = "_layer_checkpoint_dependencies"


@pytest.mark.parametrize(
    ("file", "layout"),
    [
        ("keras-2.12.h5", "legacy"),
        ("keras-2.12.weights.h5", "keras2"),
        ("keras-2.13-weights.h5", "legacy"),
        ("keras-2.13.weights.h5", "keras2"),
        ("keras-2.13.keras", "keras2"),
    ],
)
def test_files_of_keras_2(file, layout):
    """Files of Keras 2 have the same variables in the same order; a config gives names to them."""
    with keras_format.open_weights(Place(ROOT / "tests/golden/keras" / file)) as weights:
        assert weights.layout == layout
        for number, name in enumerate(model_names(weights)):
            array = weights.stored[name].read()
            assert array.ravel().tolist() == (number + np.arange(array.size) / 4).tolist()
        names = model_names(weights)
    if file.endswith(".keras"):
        assert names == [f"inner/{name}" if name[:2] in ("d/", "no") else name for name in NAMES]
    elif layout == "legacy":
        assert names == NAMES
    else:
        assert names[:2] == [f"{OLD}/dense/vars/0", f"{OLD}/dense/vars/1"]
        assert names[-1] == f"{OLD}/dense_2/vars/0"


def test_files_of_other_writers_are_read(tmp_path):
    """What h5py writes by other options than Keras' gives the values that h5py reads."""
    values = np.arange(600, dtype="int32").reshape(20, 30)
    for libver in ("earliest", "latest"):
        with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
            group = file.create_group("vars")
            group.create_dataset("text", data=["a", "bcd"], dtype=h5py.string_dtype())
            group.create_dataset("fixed", data=np.array([b"a", b"bcd"]))
            group.create_dataset("bool", data=np.array([True, False]))
            group.create_dataset("swapped", data=values.astype(">f8"))
            group.create_dataset("unwritten", (2, 3), "f4", fillvalue=2.5)
            group.create_dataset("empty", (0, 3), "f4")
            group.create_dataset("scalar", data=np.float16(3))
            if libver == "earliest":
                options = {"compression": "gzip", "shuffle": True, "fletcher32": True}
                group.create_dataset("chunked", data=values, chunks=(7, 8), **options)
        with (
            keras_format.open_weights(Place(tmp_path / "x.h5")) as weights,
            h5py.File(tmp_path / "x.h5") as file,
        ):
            for path, stored in ((weights.paths[n], s) for n, s in weights.stored.items()):
                expected = file[path][()]
                assert stored.read().tolist() == expected.tolist()
                assert stored.shape == expected.shape
                if expected.size > 1:
                    assert stored.read_part(0).tolist() == expected[:1].tolist()[0]


def test_values_in_a_header(tmp_path):
    """A few values may be a part of their object."""
    values = np.arange(6, dtype="int32").reshape(2, 3)
    for libver in ("earliest", "latest"):
        with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
            options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            options.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple((2, 3))
            group = file.create_group("vars").id
            dataset = h5py.h5d.create(group, b"0", h5py.h5t.STD_I32LE, space, options)
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
        with keras_format.open_weights(Place(tmp_path / "x.h5")) as weights:
            assert weights.stored["vars/0"].read().tolist() == values.tolist()


def test_a_float_of_two_bytes_may_be_a_bfloat16(tmp_path):
    """The bits of a float say which it is, not its size."""
    values = np.arange(4).astype(ml_dtypes.bfloat16)
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        space = h5py.h5s.create_simple((4,))
        dataset = h5py.h5d.create(file.create_group("vars").id, b"0", kind, space)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values.view("u2"), mtype=kind)

    with keras_format.open_weights(Place(tmp_path / "x.h5")) as weights:
        found = weights.stored["vars/0"].read()
    assert found.dtype == values.dtype
    assert found.tolist() == values.tolist()


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_corpus():
    """Keras' own test file is read."""
    with keras_format.open_weights(
        Place(CORPUS / "keras/pre_pr22362_nested_container.keras")
    ) as weights:
        assert list(weights.stored)[:2] == ["d_0/kernel", "d_1/kernel"]
        assert np.allclose(weights.stored["d_1/kernel"].read(), 0.2)


def is_keras(head):
    return signatures.keras(Glimpse("", head)) == "surely"


def test_signature(models, tmp_path):
    """An HDF5 file and an archive of Keras are recognised, an npz file is not."""
    for name in ("model.weights.h5", "model.keras", "model.h5"):
        path = save(models["sequential"], tmp_path / name)
        assert is_keras(path.read_bytes()[:64])
    np.savez(tmp_path / "x.npz", a=np.ones(2))
    assert not is_keras((tmp_path / "x.npz").read_bytes()[:64])


def test_something_else_is_refused(tmp_path):
    """The error says what the file starts with."""
    (tmp_path / "x.h5").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(FormatError, match="no weights of Keras: starts with"):
        keras_format.open_weights(Place(tmp_path / "x.h5"))


def test_reading_imports_neither_keras_nor_h5py(models, tmp_path):
    """A process that reads weights has none of the libraries that wrote them."""
    path = save(models["sequential"], tmp_path / "model.keras")
    code = f"""
import json, sys
from tensorferry.formats.keras import reader
from tensorferry.storage.place import Place
with reader.open_weights(Place({str(path)!r})) as weights:
    {{name: stored.read() for name, stored in weights.stored.items()}}
print(json.dumps(sorted(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = json.loads(run.stdout)

    assert not {"keras", "h5py", "tensorflow", "pyfive"} & set(loaded)
