"""Models of real Keras that the tests save and load."""

from __future__ import annotations

import numpy as np


def build(keras, kind):
    """A built model of a kind, and something to give it."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    keras.backend.clear_session()
    if kind == "sequential":
        model = keras.Sequential(
            [keras.Input((4,)), layers.Dense(3, name="first"), layers.Dense(2, use_bias=False)]
        )
        return model, np.ones((2, 4), "float32")
    if kind == "functional":
        given = keras.Input((8, 8, 3))
        x = layers.Conv2D(4, 3, name="look")(given)
        x = layers.BatchNormalization()(x)
        x = layers.LayerNormalization()(layers.Flatten()(x))
        return keras.Model(given, layers.Dropout(0.1)(layers.Dense(2)(x))), np.ones((2, 8, 8, 3))
    if kind == "nested":
        inner = keras.Sequential([keras.Input((4,)), layers.Dense(4, name="d")], name="inner")
        given = keras.Input((4,))
        return keras.Model(given, layers.Dense(1, name="d")(inner(inner(given)))), np.ones((2, 4))
    if kind == "shared":
        given, shared = keras.Input((4,)), layers.Dense(4, name="both")
        return keras.Model(given, shared(shared(given))), np.ones((2, 4), "float32")
    if kind == "sequence":
        given = keras.Input((5,), dtype="int32")
        x = layers.Embedding(11, 3)(given)
        x = layers.MultiHeadAttention(2, 3, name="attend")(x, x)
        x = layers.Bidirectional(layers.LSTM(2, return_sequences=True))(x)
        return keras.Model(given, layers.GRU(2, name="gate")(x)), np.arange(10).reshape(2, 5)
    if kind == "custom":
        return _custom(keras), np.ones((2, 4), "float32")
    assert kind == "bfloat16"
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("bfloat16")
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.BatchNormalization()])
    keras.config.set_dtype_policy(policy)
    return model, np.ones((2, 4), "float32")


def _custom(keras):
    class Scale(keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")
            self.count = self.add_weight(shape=(), dtype="int64", trainable=False, name="count")

        def call(self, x):
            return x * self.scale

    class Both(keras.Model):
        def __init__(self):
            super().__init__(name="both")
            self.head = keras.layers.Dense(3)
            self.blocks = [Scale(name="a"), keras.layers.Dense(2, name="b")]

        def call(self, x):
            return self.blocks[1](self.blocks[0](self.head(x)))

    model = Both()
    model(np.ones((1, 4), "float32"))
    return model


KINDS = ("sequential", "functional", "nested", "shared", "sequence", "custom", "bfloat16")


def randomize(model, seed=2):
    """Gives each variable of its layers other values."""
    random = np.random.default_rng(seed)
    for variable in model.variables:
        if "seed_generator" not in variable.path:
            value = random.uniform(0.5, 9.5, tuple(variable.shape))
            variable.assign(value.astype("int64") if variable.dtype == "int64" else value)
    return model


def weights_of(model):
    """The values of its layers' variables by path, which a Sequential puts its own name before."""
    return {
        variable.path.removeprefix(f"{model.name}/"): variable.numpy()
        for variable in model.variables
        if "seed_generator" not in variable.path
    }
