"""The recipes that people bring for five jobs, each in at most half the lines.

Each test runs the usual recipe, counts its lines, runs ours, and compares the results. A line is a
statement that is executed; imports count for both, and the data is there already.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import namedtuple

import numpy as np
import pytest

import tensorferry as ferry

SENTENCES = np.array([b"ein Haus", b"zwei Katzen"], object)


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    """Paths are relative, as people type them."""
    monkeypatch.chdir(tmp_path)


def lines_of(function) -> int:
    """Number of statements in a function, docstring and return aside."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    is_text = [isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) for n in statements]
    return len(statements) - 1 - sum(is_text)


def check_lines(usual, ours) -> None:
    """Ours takes at most half the lines."""
    assert 2 * lines_of(ours) <= lines_of(usual), (lines_of(ours), lines_of(usual))


# A translation model's predictions, kept with their metadata

Predictions = namedtuple("Predictions", "ids scores")


def predictions(tf):
    """Beams of different lengths, and a score each."""
    return {"ids": tf.ragged.constant([[5, 17, 2], [8, 2]]), "scores": tf.constant([0.5, 0.25])}


def test_predictions_with_metadata(tf):
    """Ragged ids, scores and facts about the model in one file."""

    def usual(value):
        import json

        flat = {"scores": value["scores"].numpy()}
        flat["ids_values"] = value["ids"].flat_values.numpy()
        flat["ids_splits"] = value["ids"].row_splits.numpy()
        np.savez("pred.npz", **flat)
        with open("pred.json", "w") as file:
            json.dump({"model": "en-de"}, file)
        data = np.load("pred.npz")
        with open("pred.json") as file:
            metadata = json.load(file)
        ids = tf.RaggedTensor.from_row_splits(data["ids_values"], data["ids_splits"])
        return ids.to_list(), data["scores"].tolist(), metadata["model"]

    def ours(value):
        ferry.save(value, "pred.safetensors", metadata={"model": "en-de"})
        with ferry.open("pred.safetensors") as found:
            return found["ids"].to_list(), found["scores"].tolist(), found.metadata["model"]

    check_lines(usual, ours)
    assert ours(predictions(tf)) == usual(predictions(tf))


def test_predictions_as_rows(tf):
    """A row for each sentence, with its text, its ids and its score."""
    value = predictions(tf)

    def usual():
        with tf.io.TFRecordWriter("usual.tfrecord") as writer:
            for text, ids, score in zip(SENTENCES, value["ids"], value["scores"], strict=True):
                feature = {}
                feature["text"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))
                feature["ids"] = tf.train.Feature(int64_list=tf.train.Int64List(value=ids))
                feature["score"] = tf.train.Feature(float_list=tf.train.FloatList(value=[score]))
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString(deterministic=True))

    def ours():
        columns = {"text": SENTENCES, "ids": value["ids"], "score": value["scores"]}
        ferry.save(columns, "ours.tfrecord")

    check_lines(usual, ours)
    usual()
    ours()
    with open("usual.tfrecord", "rb") as theirs, open("ours.tfrecord", "rb") as mine:
        assert mine.read() == theirs.read()


def test_predict_in_batches(tf):
    """A model's outputs for many inputs, batch by batch into a file, with the inputs' ids."""
    model = tf.function(lambda x: {"y": x * 2})
    x, ids = np.arange(10, dtype=np.float32), np.arange(10)

    def usual():
        kept, parts = [], []
        for start in range(0, len(x), 4):
            batch = x[start : start + 4]
            parts.append(model(tf.constant(batch))["y"].numpy())
            kept.append(ids[start : start + 4])
        np.savez("usual.npz", y=np.concatenate(parts), id=np.concatenate(kept))

    def ours():
        columns = {"x": x, "id": ids}
        ferry.save_predictions(model, columns, "ours.npz", keep=("id",), batch_size=4)

    check_lines(usual, ours)
    usual()
    ours()
    for name, array in np.load("usual.npz").items():
        np.testing.assert_array_equal(np.load("ours.npz")[name], array)


# Tensors as byte strings


def test_a_tensor_and_its_dtype(tf):
    """To bytes and back without knowing the dtype."""
    tensor = tf.constant([[1.5, 2.5]], tf.float16)

    def usual():
        import json

        data = tf.io.serialize_tensor(tensor).numpy()
        header = json.dumps({"dtype": tensor.dtype.name})
        dtype = json.loads(header)["dtype"]
        return tf.io.parse_tensor(data, tf.as_dtype(dtype)).numpy()

    def ours():
        data = ferry.dumps(tensor)
        return ferry.loads(data)

    check_lines(usual, ours)
    np.testing.assert_array_equal(ours(), usual())


def test_many_tensors_in_one_string(tf):
    """A dict of tensors as one byte string."""
    tensors = {"a": tf.constant([1, 2]), "b": tf.constant([[0.5]])}

    def usual():
        import pickle

        packed = {}
        for name, tensor in tensors.items():
            packed[name] = (tensor.dtype.name, tf.io.serialize_tensor(tensor).numpy())
        data = pickle.dumps(packed)
        result = {}
        for name, (dtype, part) in pickle.loads(data).items():
            result[name] = tf.io.parse_tensor(part, tf.as_dtype(dtype)).numpy().tolist()
        return result

    def ours():
        found = ferry.loads(ferry.dumps(tensors))
        return {name: array.tolist() for name, array in found.items()}

    check_lines(usual, ours)
    assert ours() == usual()


def test_a_sparse_tensor(tf):
    """A sparse tensor to bytes and back."""
    sparse = tf.SparseTensor([[0, 1], [2, 0]], [3.0, 4.0], [3, 2])

    def usual():
        parts = tf.io.serialize_sparse(sparse).numpy().tolist()
        stacked = tf.constant([parts])
        many = tf.io.deserialize_many_sparse(stacked, tf.float32)
        one = tf.sparse.reshape(many, many.dense_shape[1:])
        return tf.sparse.to_dense(one).numpy()

    def ours():
        data = ferry.dumps(sparse)
        return ferry.loads(data).to_dense()

    check_lines(usual, ours)
    np.testing.assert_array_equal(ours(), usual())


# Tensors into TFRecords


def test_a_matrix_in_records(tf):
    """Matrices as serialized tensors in Examples, and back."""
    matrices = np.arange(12, dtype=np.float64).reshape(3, 2, 2)

    def usual():
        with tf.io.TFRecordWriter("usual.tfrecord") as writer:
            for matrix in matrices:
                text = tf.io.serialize_tensor(matrix).numpy()
                feature = {"m": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))}
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())
        rows = []
        for record in tf.data.TFRecordDataset("usual.tfrecord"):
            parsed = tf.io.parse_single_example(record, {"m": tf.io.FixedLenFeature([], tf.string)})
            rows.append(tf.io.parse_tensor(parsed["m"], tf.float64).numpy())
        return np.stack(rows)

    def ours():
        ferry.save({"m": matrices}, "ours.tfrecord")
        return ferry.load("ours.tfrecord")["m"]

    check_lines(usual, ours)
    np.testing.assert_array_equal(ours(), usual())
    with open("usual.tfrecord", "rb") as theirs, open("ours.tfrecord", "rb") as mine:
        assert mine.read() == theirs.read()


def test_shards(tf):
    """Rows dealt out to compressed shards, and all of them read."""
    rows = [{"label": number} for number in range(10)]

    def usual():
        options = tf.io.TFRecordOptions(compression_type="GZIP")
        names = [f"usual-{number:05}-of-00003" for number in range(3)]
        writers = [tf.io.TFRecordWriter(name, options) for name in names]
        for number, row in enumerate(rows):
            values = tf.train.Int64List(value=[row["label"]])
            feature = {"label": tf.train.Feature(int64_list=values)}
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writers[number % 3].write(example.SerializeToString())
        for writer in writers:
            writer.close()
        dataset = tf.data.TFRecordDataset(names, "GZIP")
        spec = {"label": tf.io.FixedLenFeature([], tf.int64)}
        return sorted(int(tf.io.parse_single_example(one, spec)["label"]) for one in dataset)

    def ours():
        with ferry.writer("ours@3", compression="gzip") as out:
            for row in rows:
                out.write(row)
        return sorted(ferry.load("ours@3")["label"].tolist())

    check_lines(usual, ours)
    assert ours() == usual()


def test_labels_of_tensorflow(tf):
    """TensorFlow's int32 labels, which `tf.io.parse_example` reads as int64."""
    labels = tf.constant([3, 5])

    def usual():
        examples = []
        for label in labels:
            values = tf.train.Int64List(value=[int(label)])
            feature = {"label": tf.train.Feature(int64_list=values)}
            examples.append(tf.train.Example(features=tf.train.Features(feature=feature)))
        with tf.io.TFRecordWriter("usual.tfrecord") as writer:
            for example in examples:
                writer.write(example.SerializeToString())

    def ours():
        ferry.save({"label": labels}, "ours.tfrecord")

    check_lines(usual, ours)
    usual()
    ours()
    with open("usual.tfrecord", "rb") as theirs, open("ours.tfrecord", "rb") as mine:
        assert mine.read() == theirs.read()


# Tensors as bytes for other systems


def test_big_endian_numbers(tf):
    """The numbers alone, in network byte order, for a program in another language."""
    tensor = tf.constant([[1.5, -2.0]])

    def usual():
        array = tensor.numpy()
        swapped = array.astype(array.dtype.newbyteorder(">"))
        data = swapped.tobytes()
        back = np.frombuffer(data, ">f4").reshape(array.shape)
        return data, back.astype(np.float32).tolist()

    def ours():
        data = ferry.dumps(tensor, format="raw", byteorder="big")
        return data, ferry.loads(
            data, format="raw", dtype="float32", shape=[1, 2], byteorder="big"
        ).tolist()

    check_lines(usual, ours)
    assert ours() == usual()


def test_json_for_a_web_service(tf):
    """A body for TensorFlow Serving's REST, with bytes among its inputs."""
    inputs = {"x": tf.constant([[1.0, 2.0]]), "text": tf.constant([b"\x00\xff"])}

    def usual():
        import base64
        import json

        body = {}
        for name, tensor in inputs.items():
            values = tensor.numpy().tolist()
            if tensor.dtype == tf.string:
                values = [{"b64": base64.b64encode(one).decode()} for one in values]
            body[name] = values
        return json.loads(json.dumps({"inputs": body}))

    def ours():
        import json

        return json.loads(ferry.serving.PredictRequest("m", inputs).to_json())

    check_lines(usual, ours)
    assert ours()["inputs"] == usual()["inputs"]


def test_weights_for_other_frameworks(tf):
    """Keras' weights as safetensors, for those who have no TensorFlow."""
    import keras

    model = keras.Sequential([keras.Input((2,), name="in"), keras.layers.Dense(1, name="out")])

    def usual():
        from safetensors.numpy import load_file, save_file

        tensors = {}
        for weight in model.weights:
            tensors[weight.path] = np.ascontiguousarray(weight.numpy())
        save_file(tensors, "usual.safetensors")
        return load_file("usual.safetensors")

    def ours():
        ferry.save_weights(model, "ours.safetensors")
        return ferry.load("ours.safetensors")

    check_lines(usual, ours)
    assert {array.shape: array.tolist() for array in ours().values()} == {
        array.shape: array.tolist() for array in usual().values()
    }


# Models that refuse to be serialized


def test_variables_by_name(tf):
    """A few variables, saved by step, the newest restored."""
    w, b = tf.Variable([1.0], name="w"), tf.Variable([2.0], name="b")

    def usual():
        checkpoint = tf.train.Checkpoint(w=w, b=b)
        manager = tf.train.CheckpointManager(checkpoint, "usual", max_to_keep=3)
        manager.save(checkpoint_number=2)
        w.assign([0.0])
        latest = tf.train.latest_checkpoint("usual")
        status = checkpoint.restore(latest)
        status.assert_consumed()
        return w.numpy().tolist()

    def ours():
        saver = ferry.Saver([w, b], max_to_keep=3)
        saver.save("ours/model", global_step=2)
        w.assign([0.0])
        return saver.restore(ferry.latest_checkpoint("ours")).ok and w.numpy().tolist()

    check_lines(usual, ours)
    assert ours() == usual() == [1.0]


def test_a_class_that_keras_cannot_rebuild(tf):
    """A model without get_config: its weights go to another instance of the class."""
    import keras

    class Model(keras.Model):
        def __init__(self, units):
            super().__init__()
            self.dense = keras.layers.Dense(units)

        def call(self, x):
            return self.dense(x)

    one, other, x = Model(2), Model(2), np.ones((1, 3), "f4")
    one(x)
    other(x)

    def usual():
        one.save_weights("usual.weights.h5")
        other.load_weights("usual.weights.h5")

    def ours():
        ferry.load_weights(other, one)

    check_lines(usual, ours)
    ours()
    np.testing.assert_array_equal(other(x), one(x))
    usual()
    np.testing.assert_array_equal(other(x), one(x))


def test_a_function_as_a_model(tf):
    """A plain Python function of tensors as a SavedModel, and what it gives."""
    x = np.array([1.0, 2.0], np.float32)

    def double(x):
        return x * 2

    def usual():
        module = tf.Module()
        spec = tf.TensorSpec([2], tf.float32, name="x")
        function = tf.function(double, input_signature=[spec])
        module.double = function
        signatures = {"serving_default": function.get_concrete_function()}
        tf.saved_model.save(module, "usual", signatures)
        loaded = tf.saved_model.load("usual")
        outputs = loaded.signatures["serving_default"](x=tf.constant(x))
        return next(iter(outputs.values())).numpy()

    def ours():
        ferry.save_model(double, "ours", inputs=x)
        return next(iter(ferry.predict("ours", x).values()))

    check_lines(usual, ours)
    np.testing.assert_array_equal(ours(), usual())
