"""Checkpoints with metadata, structures and devices: described as they are when they are opened."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from commands import environment

import tensorferry as ferry
from tensorferry.errors import FerryError
from tensorferry.formats.checkpoint import outline
from tensorferry.operations.fileinfo import describe
from tensorferry.operations.list import list_tensors
from tensorferry.operations.subject import open_one

NESTED = {"a": [np.ones(3, np.float32), {"b": np.zeros(())}], "c": None, "d": "text"}
METADATA = {"step": 7, "who": "me"}


def opened(path):
    """What is told of a checkpoint that is opened."""
    with open_one(str(path), verify=False, lenient=True) as subject:
        return describe(subject)


@pytest.mark.parametrize("layout", ["names", "objects"])
def test_description(tmp_path, layout):
    """It is the same, without opening the checkpoint."""
    path = tmp_path / "a.ckpt"
    ferry.save(NESTED, path, layout=layout, metadata=METADATA)

    assert outline.read(str(path)) is not None
    assert ferry.inspect(path) == opened(path)
    assert ferry.inspect(path).metadata == METADATA
    assert list_tensors(path).tensors == opened(path).tensors


def test_tensors_of_tensorflow(tf, tmp_path):
    """Where they were is told, too."""
    path = tmp_path / "a.ckpt"
    ferry.save({"a": tf.ones(3), "b": tf.Variable(2.0, name="rate")}, path)

    assert outline.read(str(path)) is not None
    assert ferry.inspect(path) == opened(path)
    assert ferry.inspect(path).tensors[1].origin["name"] == "rate"


def test_model_of_tensors(tf, tmp_path):
    """A SavedModel shows the metadata of its tensors, and where they were."""
    path = tmp_path / "model"
    ferry.save({"a": tf.ones(3), "b": [np.zeros(2)]}, path, format="savedmodel", metadata=METADATA)
    found = ferry.inspect(path)

    with ferry.open(path) as bundle:
        assert found.tensors == tuple(bundle.info.values())
        assert found.metadata == bundle.metadata == METADATA
    assert list_tensors(path).tensors == found.tensors
    assert "device" in found.tensors[0].origin


def test_keys_that_name_one_variable(tf, tmp_path):
    """A checkpoint with the keys of an object and of a name has both tensors, by two names."""
    path = tmp_path / "model"
    ferry.save({"w": np.float32([1])}, path, format="savedmodel")
    prefix = f"{path}/variables/variables"
    reader = tf.train.load_checkpoint(prefix)
    keys = sorted(reader.get_variable_to_dtype_map())
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=[*keys, "w"],
        shape_and_slices=[""] * (len(keys) + 1),
        tensors=[*(tf.constant(reader.get_tensor(key)) for key in keys), tf.constant([b"other"])],
    )
    found = ferry.inspect(path).tensors
    with ferry.open(path) as bundle:
        assert {info.name: info.dtype for info in found} == {
            name: info.dtype for name, info in bundle.infos().items()
        }
        assert {"float32", "string"} == {info.dtype for info in found}


def test_tensors_of_several_parts_are_opened(tmp_path):
    """A checkpoint with ragged or quantized tensors has no outline."""
    values = {
        "ragged": ({"r": ferry.RaggedTensor.from_rows([[1], []])}, {}),
        "quantized": ({"x": np.ones(64, np.float32)}, {"quantize": "int8"}),
    }
    for name, (value, options) in values.items():
        path = tmp_path / f"{name}.ckpt"
        ferry.save(value, path, metadata=METADATA, **options)
        assert outline.read(str(path)) is None
        assert ferry.inspect(path) == opened(path)


def test_numpy_is_not_imported(tmp_path):
    """`ferry info` of a checkpoint with a note needs no NumPy, as that of any other small one."""
    path = tmp_path / "a.ckpt"
    ferry.save(NESTED, path, metadata=METADATA)
    program = f"""
import sys
from tensorferry.cli import main
assert main(["info", {str(path)!r}]) == 0
print("heavy:", "numpy" in sys.modules)
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )

    assert "step=7, who=me" in found.stdout
    assert "heavy: False" in found.stdout


def test_damage(tmp_path):
    """With any byte of the note changed: what opening tells, or the error that it raises."""
    path = tmp_path / "a.ckpt"
    ferry.save(NESTED, path, metadata=METADATA)
    (file,) = tmp_path.glob("a.ckpt.data*")
    good = file.read_bytes()
    start = good.index(b'{"')
    told = 0
    for place in range(start - 8, len(good)):
        for bits in (1, 0x10, 0x5F):
            file.write_bytes(good[:place] + bytes([good[place] ^ bits]) + good[place + 1 :])
            if outline.read(str(path)) is None:
                continue
            told += 1
            try:
                expected = opened(path)
            except FerryError as error:
                pytest.fail(f"byte {place}: {error}")
            assert ferry.inspect(path) == expected
    assert told > 20
