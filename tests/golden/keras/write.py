"""Writes the files beside this one, by the Keras of an old TensorFlow.

Run by hand, once for each version, in an environment of its own:

    pip install tensorflow-cpu==2.12.0 "numpy<2"      # keras 2.12.0, h5py 3.16.0, Python 3.11
    pip install tensorflow-cpu==2.13.1 "numpy<2"      # keras 2.13.1, h5py 3.16.0, Python 3.11
    python tests/golden/keras/write.py

The values of the n-th weight are n, n + 0.25, n + 0.5, ...
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

HERE = Path(__file__).parent
VERSION = ".".join(tf.__version__.split(".")[:2])

layers = tf.keras.layers
given = tf.keras.Input((4,))
inner = tf.keras.Sequential(
    [tf.keras.Input((4,)), layers.Dense(3, name="d"), layers.BatchNormalization(name="norm")],
    name="inner",
)
x = layers.Dense(4, name="first")(given)
x = layers.Dense(2, use_bias=False, name="last")(inner(x))
model = tf.keras.Model(given, x, name="golden")
model.compile("sgd", "mse")
for number, weight in enumerate(model.weights):
    count = int(np.prod(weight.shape))
    weight.assign((number + np.arange(count) / 4).reshape(weight.shape))

model.save_weights(HERE / f"keras-{VERSION}.weights.h5")
if VERSION == "2.12":
    model.save(HERE / f"keras-{VERSION}.h5")
else:
    model.save(HERE / f"keras-{VERSION}.keras")
    model.save_weights(HERE / f"keras-{VERSION}-weights.h5", save_format="h5")
print(tf.__version__, keras.__version__, sys.version)
