"""SavedModels of every day: nothing of them is a danger."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import tensorferry as ferry


class Everything(tf.Module):
    """What models of every day do."""

    def __init__(self):
        super().__init__()
        keys, values = tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
        self.table = tf.lookup.StaticVocabularyTable(initializer, 2)
        self.mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        self.count = tf.Variable(0, dtype=tf.int64)
        self.generator = tf.random.Generator.from_seed(1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def text(self, lines):
        clean = tf.strings.regex_replace(tf.strings.lower(lines), "[^a-z ]", "")
        words = tf.strings.split(clean)
        return {
            "ids": self.table.lookup(words).to_tensor(-1),
            "codes": tf.strings.unicode_decode(clean, "UTF-8").to_tensor(),
            "hashed": tf.strings.to_hash_bucket_fast(clean, 10),
            "numbers": tf.strings.to_number(tf.strings.as_string(tf.strings.length(clean))),
        }

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
    def flow(self, x):
        self.count.assign_add(1)
        tf.debugging.assert_all_finite(x, "finite")
        tf.debugging.assert_greater(tf.size(x), 0)
        total = tf.constant(0.0)
        for row in x:
            if tf.reduce_sum(row) > 0:
                total += tf.reduce_max(row)
        noise = tf.random.normal([2]) + self.generator.normal([2])
        mapped = tf.map_fn(lambda row: tf.sort(row), x)
        halves = tf.switch_case(tf.cast(self.count % 2, tf.int32), [lambda: x, lambda: x / 2])
        return {"total": total, "noise": noise, "mapped": mapped, "halves": halves}

    @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
    def image(self, data):
        pixels = tf.io.decode_image(data, expand_animations=False, channels=3)
        return {"small": tf.image.resize(tf.ensure_shape(pixels, [None, None, 3]), [2, 2])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def remember(self, words):
        self.mutable.insert(words, tf.range(tf.size(words, tf.int64)))
        return {"size": self.mutable.size(), "found": self.mutable.lookup(words)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def parse(self, records):
        features = {
            "x": tf.io.FixedLenFeature([2], tf.float32),
            "w": tf.io.VarLenFeature(tf.string),
        }
        parsed = tf.io.parse_example(records, features)
        return {"x": parsed["x"], "w": tf.sparse.to_dense(parsed["w"])}


def test_models_of_every_day(tmp_path):
    """Text, control flow, tables, images, random numbers, Examples: nothing of it is a danger."""
    module = Everything()
    names = ("text", "flow", "image", "remember", "parse")
    signatures = {name: getattr(module, name) for name in names}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=signatures)
    model = ferry.load_model(tmp_path / "model")
    assert model.dangers == ()
    assert model.signatures["text"](["A b!"])["ids"].shape == (1, 2)
    assert model.signatures["flow"](np.ones((3, 4), "float32"))["total"] == 3
    assert model.signatures["remember"](["a", "b"])["size"] == 2
    data = tf.io.encode_png(np.zeros((4, 4, 3), "uint8")).numpy()
    assert model.signatures["image"](data)["small"].shape == (2, 2, 3)


def test_exports_of_keras(tmp_path):
    """Recurrent and preprocessing layers as Keras exports them."""
    import keras

    layers = keras.layers
    text = layers.TextVectorization(output_sequence_length=4, vocabulary=["a", "b"])
    inputs = keras.Input((), dtype="string")
    ids = text(inputs)
    x = layers.GRU(3)(layers.Dropout(0.5)(layers.Embedding(5, 3)(ids)))
    model = keras.Model(inputs, layers.Dense(2, "softmax")(layers.BatchNormalization()(x)))
    model.export(str(tmp_path / "text"), verbose=False)
    assert ferry.load_model(tmp_path / "text")(["a b"]).shape == (1, 2)
    stateful = keras.Sequential(
        [keras.Input(batch_shape=(2, 3, 4)), layers.LSTM(5, stateful=True), layers.Dense(1)]
    )
    stateful.export(str(tmp_path / "stateful"), verbose=False)
    found = ferry.load_model(tmp_path / "stateful")(np.ones((2, 3, 4), "float32"))
    assert found.shape == (2, 1)
