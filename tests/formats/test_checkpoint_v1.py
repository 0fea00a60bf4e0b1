"""Checkpoints of the first version: what TensorFlow still writes of them is read."""

from __future__ import annotations

import os

import numpy as np
import pytest
from checkpoints import read_all, resolve
from strategies import same

from tensorferry.formats.checkpoint import reader as checkpoint
from tensorferry.storage.place import Place

VALUES = {
    "f": np.arange(6, dtype=np.float32).reshape(2, 3),
    "d": np.array(2.5),
    "i": np.array([-1, 2], np.int32),
    "l": np.array([-5, 2**40]),
    "b": np.array([True, False]),
    "s": np.array([b"a", b"", b"bcd"], object),
    "c": np.array([1 + 2j], np.complex64),
    "h": np.array([1.5, -2], np.float16),
    "u8": np.array([1, 255], np.uint8),
    "i8": np.array([-1, 2], np.int8),
    "i16": np.array([-1, 2], np.int16),
    "empty": np.zeros((0, 3), np.float32),
    "zeros": np.zeros((3, 2), np.float32),
    "long": np.arange(100_000, dtype=np.float32),
}


@pytest.fixture(scope="module", params=[False, True], ids=["one", "sharded"])
def saved(tf, request, tmp_path_factory):
    """The path of a checkpoint as TensorFlow's Saver writes it, and a partitioned value."""
    tf1 = tf.compat.v1
    tf1.logging.set_verbosity(tf1.logging.ERROR)
    prefix = str(tmp_path_factory.mktemp("v1") / "model.ckpt")
    with tf.Graph().as_default(), tf1.Session() as session:
        variables = [
            tf1.get_variable(name, initializer=tf.constant(value)) for name, value in VALUES.items()
        ]
        parts = tf1.get_variable(
            "part",
            shape=[4, 3],
            partitioner=tf1.fixed_size_partitioner(2),
            initializer=tf1.random_uniform_initializer(),
        )
        session.run(tf1.global_variables_initializer())
        saver = tf1.train.Saver(
            [*variables, *parts],
            write_version=tf1.train.SaverDef.V1,
            sharded=request.param,
        )
        path = saver.save(session, prefix, write_meta_graph=False)
        whole = np.concatenate(session.run(list(parts)))
    return prefix, path, whole


def test_values(saved):
    """Every dtype, the shapes, strings, and slices joined to the whole."""
    prefix, _, whole = saved
    found = read_all(prefix)

    assert set(found) == {*VALUES, "part"}
    assert all(same(found[name], value) for name, value in VALUES.items())
    assert same(found["part"], whole)
    with checkpoint.open_checkpoint(Place(prefix)) as opened:
        assert opened.version == 1
        for name, value in VALUES.items():
            stored = opened.stored[name]
            assert stored.shape == value.shape
            assert stored.kind == ("string" if value.dtype == object else "dense")
        assert opened.stored["f"].read_part(np.s_[1, ::2]).tolist() == [3, 5]


def test_as_tensorflow_reads_it(tf, saved):
    """The same names and values that TensorFlow gives, where it can."""
    prefix, path, _ = saved
    reader = tf.train.load_checkpoint(path)
    found = read_all(prefix)

    assert {name: list(array.shape) for name, array in found.items()} == (
        reader.get_variable_to_shape_map()
    )
    for name in ("f", "d", "i", "l", "s", "long"):
        assert same(found[name], np.asarray(reader.get_tensor(name), found[name].dtype))


def test_paths(saved):
    """The file, each of several, and the directory's `checkpoint` file."""
    prefix, path, _ = saved
    for given in (path, path.replace("?????", "00000"), prefix, os.path.dirname(prefix)):
        assert resolve(given) == prefix
