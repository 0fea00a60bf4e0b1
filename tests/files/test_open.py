"""Opening what is several files, or is known by its name."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from conftest import CORPUS
from strategies import same

import tensorferry as ferry

MNIST = CORPUS / "tensorflow/ckpt_mnist_46900"


@pytest.mark.skipif(not MNIST.exists(), reason="no corpus")
@pytest.mark.parametrize(
    "name",
    [
        "",
        "checkpoint",
        "model.ckpt-46900",
        "model.ckpt-46900.index",
        "model.ckpt-46900.data-00000-of-00001",
    ],
)
def test_every_path_of_a_checkpoint(name, tf):
    """Directory, state file, prefix, index and data file lead to the same tensors."""
    reader = tf.train.load_checkpoint(str(MNIST / "model.ckpt-46900"))
    with ferry.open(MNIST / name) as bundle:
        assert bundle.format == "checkpoint"
        assert set(bundle) == set(reader.get_variable_to_shape_map())
        for tensor in bundle:
            assert same(bundle[tensor], reader.get_tensor(tensor))


def test_paths_of_objects(tf, tmp_path):
    """Tensors of an object graph have readable names; the keys are aliases that slices know too."""
    module = tf.Module()
    module.kernel = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    prefix = tf.train.Checkpoint(net=module).save(str(tmp_path / "model"))

    with ferry.open(prefix) as bundle:
        assert bundle.info["net/kernel"].origin["aliases"] == (
            "net/kernel/.ATTRIBUTES/VARIABLE_VALUE",
        )
        assert bundle.slice("net/kernel", 1).tolist() == [3, 4]
        ferry.save(bundle, tmp_path / "x.safetensors", durable=False)
    assert ferry.load(tmp_path / "x.safetensors")["net/kernel"].tolist() == [[1, 2], [3, 4]]


def test_old_checkpoints(tf, tmp_path):
    """The first version is one file, which nothing but its end tells."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("w", initializer=[1.0, 2.0])
        session.run(variable.initializer)
        saver = v1.train.Saver(write_version=v1.train.SaverDef.V1)
        path = saver.save(session, str(tmp_path / "old"), write_meta_graph=False)

    assert ferry.load(path)["w"].tolist() == [1, 2]


def test_saved_models(tf, tmp_path):
    """A SavedModel is a bundle of its variables, by its directory or its file."""
    module = tf.Module()
    module.table = tf.Variable([[1, 2]], name="table")
    tf.saved_model.save(module, str(tmp_path / "model"))

    for path in (tmp_path / "model", tmp_path / "model/saved_model.pb"):
        with ferry.open(path) as bundle:
            assert bundle.format == "savedmodel"
            assert bundle["table"].tolist() == [[1, 2]]


def test_plain_files_import_no_model_formats(tmp_path):
    """Opening an array loads nothing that reads checkpoints, models or HDF5."""
    ferry.save({"x": np.ones(1)}, tmp_path / "x.safetensors", durable=False)
    code = (
        "import sys, tensorferry as ferry;"
        f"ferry.load({str(tmp_path / 'x.safetensors')!r});"
        "print([n for n in sys.modules if n.startswith('tensorferry.formats.') and "
        "n.split('.')[2].startswith(('checkpoint', 'savedmodel'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
