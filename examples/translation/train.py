"""Trains the model on generated sentences: under a minute on two cores."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from model import END, PADDING, START, Service, Translator, Vocabulary
from sentences import pairs

EPOCHS = 6


def train(*, epochs: int = EPOCHS, verbose: int = 0) -> tuple[Service, list[str], list[str]]:
    """A trained service, sentences it has not seen, and their translations."""
    keras.utils.set_random_seed(7)
    learned, held = pairs()
    source = Vocabulary([english for english, _ in learned])
    target = Vocabulary([german for _, german in learned])
    inputs = source.encode(tf.constant([english for english, _ in learned])).to_tensor(PADDING)
    words = target.encode(tf.constant([german for _, german in learned]))
    before, after = _around(words)
    model = Translator(len(source), len(target), name="translator")
    model.compile(
        keras.optimizers.Adam(4e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=PADDING),
    )
    model.fit((inputs, before), after, batch_size=128, epochs=epochs, verbose=verbose)
    service = Service(model, source, target)
    return service, [english for english, _ in held], [german for _, german in held]


def _around(words: Any) -> tuple[Any, Any]:
    """The sentences with a start in front, and the same sentences with an end behind."""
    count = words.nrows()
    start = tf.fill([count, 1], START)
    end = tf.fill([count, 1], END)
    return (
        tf.concat([start, words], axis=1).to_tensor(PADDING),
        tf.concat([words, end], axis=1).to_tensor(PADDING),
    )
