"""SavedModels by the contract of formats: found, and opened as a bundle of their variables."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from savedmodels import save_module
from strategies import same

from tensorferry.errors import UnsupportedError
from tensorferry.files.find import resolve
from tensorferry.formats.savedmodel.format import FORMAT, SavedModelOptions
from tensorferry.operations.glance import variables_of
from tensorferry.operations.list import list_tensors
from tensorferry.operations.subject import open_one
from tensorferry.storage.place import Place


@pytest.fixture(scope="module")
def module_path(tf, tmp_path_factory):
    return save_module(tf, tmp_path_factory.mktemp("module"))


@pytest.fixture(scope="module")
def frozen(tf):
    with tf.Graph().as_default() as graph:
        tf.constant(np.arange(6.0), name="layer/w")
    definition = graph.as_graph_def()
    node = definition.node.add(name="objects", op="Const")
    node.attr["dtype"].type = tf.variant.as_datatype_enum
    node.attr["value"].tensor.dtype = tf.variant.as_datatype_enum
    node.attr["value"].tensor.variant_val.add(type_name="tensorflow::TensorList")
    return definition.SerializeToString()


def read(place, **options):
    return FORMAT.reads.open(place, SavedModelOptions(**options))


def test_variables(tf, module_path):
    """A folder leads to the model; its variables have paths, and the keys of the checkpoint."""
    loaded = tf.saved_model.load(str(module_path))
    place = FORMAT.reads.find(Place(module_path))

    with read(place) as bundle:
        assert bundle.path == f"{module_path}/saved_model.pb"
        assert (bundle.format, bundle.version, bundle.checksums) == ("savedmodel", None, True)
        assert set(bundle) == {"layer/kernel", "step", "words"}
        assert same(bundle["layer/kernel"], loaded.layer.kernel.numpy())
        assert same(bundle["layer/kernel/.ATTRIBUTES/VARIABLE_VALUE"], bundle["layer/kernel"])
        assert bundle.details.graph is not None
        assert all(path.startswith(str(module_path / "variables")) for path in bundle.files)
    with read(place, names="keys") as bundle:
        assert "step/.ATTRIBUTES/VARIABLE_VALUE" in list(bundle)
    with read(Place(module_path)) as bundle:
        assert len(bundle) == 3


def test_frozen_graphs(frozen, tmp_path):
    """The constants of a frozen graph are read from a path, bytes or a stream."""
    (tmp_path / "frozen.pb").write_bytes(frozen)

    for given in (tmp_path / "frozen.pb", frozen, io.BytesIO(frozen)):
        with read(Place(given)) as bundle:
            assert same(bundle["layer/w"], np.arange(6.0))
            assert same(bundle.slice("layer/w", np.s_[2:4]), np.arange(2.0, 4.0))
            assert bundle.info["objects"].dtype == "variant"
            assert "TensorFlow's" in bundle.info["objects"].unreadable
            with pytest.raises(UnsupportedError, match="objects of"):
                bundle["objects"]
            assert not bundle.checksums
            assert bundle.files == [bundle.path]


def test_models_need_a_path(module_path):
    """Bytes of a SavedModel have no variables beside them, and say so."""
    data = (module_path / "saved_model.pb").read_bytes()

    assert FORMAT.reads.find(Place(data)) is None
    with pytest.raises(UnsupportedError, match="opened by its path"):
        read(Place(data))


def test_listing(module_path):
    """`ferry ls` of a model tells without opening it what opening it tells."""
    with open_one(str(module_path)) as subject:
        expected = tuple(subject.stored().values())

    assert variables_of(resolve(str(module_path))) == list(expected)
    assert list_tensors(module_path).tensors == expected


def test_finding_imports_no_numpy(module_path):
    """To find out that a folder is a model, and to look into it, takes no NumPy."""
    code = f"""
import json, sys
from tensorferry.formats.savedmodel import model
from tensorferry.formats.savedmodel.format import FORMAT
from tensorferry.storage.place import Place
place = FORMAT.reads.find(Place({str(module_path)!r}))
found = model.list_variables(model.read(place))
assert [info.name for info in found.tensors] == ["layer/kernel", "step", "words"]
print(json.dumps(sorted(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert not {"numpy", "ml_dtypes", "tensorflow"} & set(json.loads(run.stdout))
