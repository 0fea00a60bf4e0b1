"""Writes small checkpoints with the TensorFlow that is there, and what it reads in them.

    python make_checkpoints.py FOLDER

Runs by hand, in an environment with one TensorFlow from 1.15 on, and never in a test run. The
folder gets the name of the version; `expected.json` in it has for each checkpoint the dtype, shape
and values of every key. This file needs nothing but TensorFlow, and Python 3.7.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
IS_TF1 = tf.__version__.startswith("1.")

VALUES = {
    "dense/kernel": np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
    "dense/bias": np.array([-1.5, 0.0, 1e-30]),
    "step": np.array(2**40 + 1),
    "flags": np.array([[True], [False]]),
    "words": np.array([b"", b"a\0b", b"x" * 200], object),
    "small": np.array([-3, 4], np.int8),
    "phase": np.array([1 - 2j], np.complex64),
    "empty": np.zeros((0, 2), np.float32),
}


def save_by_name(folder):
    """The Saver's own form, both versions of it, with a partitioned variable."""
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [
            v1.get_variable(name, initializer=tf.constant(value)) for name, value in VALUES.items()
        ]
        parts = v1.get_variable(
            "part",
            shape=[4, 3],
            partitioner=v1.fixed_size_partitioner(2),
            initializer=v1.constant_initializer(0.25),
        )
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(variables + list(parts))
        saver.save(session, os.path.join(folder, "named.ckpt"), 7, write_meta_graph=False)
        old = v1.train.Saver(variables, write_version=v1.train.SaverDef.V1)
        path = os.path.join(folder, "old.ckpt")
        old.save(session, path, write_meta_graph=False, write_state=False)


def save_objects(folder):
    """A Keras model and its optimizer, trained for a step, as objects."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam(0.5)
    model.compile(optimizer, "mse")
    x, y = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)
    model.fit(x, y, epochs=1, verbose=0)
    root = tf.train.Checkpoint(model=model, optimizer=optimizer)
    root.save(os.path.join(folder, "objects"))
    if getattr(tf.keras, "__version__", "2") < "3":
        model.save_weights(os.path.join(folder, "weights"), save_format="tf")


def expected(prefix):
    """What this TensorFlow reads."""
    reader = tf.train.load_checkpoint(prefix)
    found = {}
    for name in sorted(reader.get_variable_to_shape_map()):
        if name == "_CHECKPOINTABLE_OBJECT_GRAPH":
            continue
        try:
            array = np.asarray(reader.get_tensor(name))
        except tf.errors.UnimplementedError:  # of the old form it reads some dtypes only
            continue
        if array.dtype.kind in "OS":
            flat, kind = [bytes(value).hex() for value in array.ravel().tolist()], "string"
        else:
            flat, kind = array.tobytes().hex(), array.dtype.name
        found[name] = [kind, list(array.shape), flat]
    return found


def main():
    """Writes all of it."""
    if IS_TF1:
        v1.enable_eager_execution()
    folder = os.path.join(sys.argv[1], "tensorflow-" + tf.__version__)
    os.makedirs(folder)
    save_by_name(folder)
    save_objects(folder)
    names = sorted(name[: -len(".index")] for name in os.listdir(folder) if name.endswith(".index"))
    answers = {name: expected(os.path.join(folder, name)) for name in [*names, "old.ckpt"]}
    with open(os.path.join(folder, "expected.json"), "w") as file:
        json.dump(answers, file, indent=0, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
