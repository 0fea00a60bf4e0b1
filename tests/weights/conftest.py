"""Models of Keras, and what the tests see of any model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tensorferry.frameworks.variables import list_variables

FORMATS = ("npz", "safetensors")
MODELS = ("sequential", "nested", "subclassed", "tied")


def values(model):
    """The bytes of everything that a model holds."""
    return {one.name: one.read().tobytes() for one in list_variables(model)}


@pytest.fixture(scope="session")
def keras(tf):
    """Keras 3, as TensorFlow brings it."""
    return tf.keras


@pytest.fixture(scope="session")
def makers(keras):
    """Functions that make a model and an input; two calls differ in weights and layer numbers."""
    layers = keras.layers

    @keras.utils.register_keras_serializable("tensorferry")
    class Block(layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.first = layers.Dense(3)
            self.rest = [layers.Dense(3) for _ in range(2)]
            self.named = {"x": layers.Dense(3)}
            self.scale = self.add_weight(shape=(3,), name="scale", initializer="random_normal")

        def call(self, x):
            for layer in (self.first, *self.rest, self.named["x"]):
                x = layer(x)
            return x * self.scale

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.block = Block()
            self.attention = layers.MultiHeadAttention(2, 3)
            self.out = layers.Bidirectional(layers.LSTM(2))

        def call(self, x):
            x = self.block(x)
            return self.out(self.attention(x, x))

    @keras.utils.register_keras_serializable("tensorferry")
    class Head(layers.Layer):
        """Multiplies by a variable of another layer, which is its own, too."""

        def __init__(self, other, **options):
            super().__init__(**options)
            self.shared = other.kernel
            self.bias = self.add_weight(shape=(4,), name="bias", initializer="zeros")

        def call(self, x):
            return x @ self.shared + self.bias

    def sequential():
        model = keras.Sequential(
            [keras.Input((4,)), layers.Dense(4), layers.BatchNormalization(), layers.Dense(4)]
        )
        return model, np.ones((2, 4), np.float32)

    def nested():
        given = keras.Input((4,))
        shared = layers.Dense(4, activation="relu")
        inner, _ = sequential()
        model = keras.Model(given, layers.Dropout(0.5)(inner(shared(shared(given)))))
        return model, np.ones((2, 4), np.float32)

    def subclassed():
        model, value = Subclassed(), np.ones((1, 5, 3), np.float32)
        model(value)
        return model, value

    def tied():
        given = keras.Input((4,))
        dense = layers.Dense(4)
        x = dense(layers.SpectralNormalization(layers.Dense(4))(given))
        return keras.Model(given, Head(dense)(x)), np.ones((2, 4), np.float32)

    def randomized(make):
        def made():
            model, value = make()
            generator = np.random.default_rng(len(model.name) + next(count))
            for weight in model.weights:
                weight.assign(generator.uniform(0.1, 0.3, weight.shape).astype(np.float32))
            return model, value

        return made

    count = itertools.count()
    return {make.__name__: randomized(make) for make in (sequential, nested, subclassed, tied)}
