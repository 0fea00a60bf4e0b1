"""A small translation model: an encoder, a decoder with attention, and two vocabularies.

The model is hard to save: it has custom layers, lookup tables, strings, and a loop.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

# Every vocabulary starts with padding, the start and end of a sentence, and unknown words.
PADDING, START, END, UNKNOWN = range(4)
SPECIAL = ["", "[start]", "[end]", "[unknown]"]
LONGEST = 12
WIDTH = 64


class Encoder(keras.layers.Layer):
    """Reads a sentence in both directions."""

    def __init__(self, words: int, width: int = WIDTH, **options: Any) -> None:
        super().__init__(**options)
        self.words, self.width = words, width
        self.embedding = keras.layers.Embedding(words, width)
        self.recurrent = keras.layers.Bidirectional(
            keras.layers.GRU(width, return_sequences=True, return_state=True), merge_mode="concat"
        )
        self.summary = keras.layers.Dense(width, activation="tanh")

    def call(self, tokens: Any) -> tuple[Any, Any]:
        """The encoding of each word in its context, and of the whole sentence."""
        outputs, forward, backward = self.recurrent(self.embedding(tokens))
        return outputs, self.summary(keras.ops.concatenate([forward, backward], axis=-1))

    def get_config(self) -> dict[str, Any]:
        """The arguments with which Keras builds the object again."""
        return {**super().get_config(), "words": self.words, "width": self.width}


class Decoder(keras.layers.Layer):
    """Writes a sentence word by word, with the attention for each word."""

    def __init__(self, words: int, width: int = WIDTH, **options: Any) -> None:
        super().__init__(**options)
        self.words, self.width = words, width
        self.embedding = keras.layers.Embedding(words, width)
        self.recurrent = keras.layers.GRU(width, return_sequences=True, return_state=True)
        self.query = keras.layers.Dense(2 * width, use_bias=False)
        self.output_layer = keras.layers.Dense(words)

    def call(self, tokens: Any, state: Any, encoded: Any, mask: Any) -> tuple[Any, Any, Any]:
        """The logits of the words that follow, the new state, and the attention."""
        outputs, state = self.recurrent(self.embedding(tokens), initial_state=state)
        scores = keras.ops.einsum("bte,bse->bts", self.query(outputs), encoded)
        scores = scores - 1e9 * (1.0 - keras.ops.cast(mask, scores.dtype)[:, None, :])
        attention = keras.ops.softmax(scores)
        context = keras.ops.einsum("bts,bse->bte", attention, encoded)
        logits = self.output_layer(keras.ops.concatenate([outputs, context], axis=-1))
        return logits, state, attention

    def get_config(self) -> dict[str, Any]:
        """The arguments with which Keras builds the object again."""
        return {**super().get_config(), "words": self.words, "width": self.width}


class Translator(keras.Model):
    """The model for training: logits for each next word of a translation."""

    def __init__(self, source_words: int, target_words: int, **options: Any) -> None:
        super().__init__(**options)
        self.source_words, self.target_words = source_words, target_words
        self.encoder = Encoder(source_words, name="encoder")
        self.decoder = Decoder(target_words, name="decoder")

    def call(self, inputs: tuple[Any, Any]) -> Any:
        """The logits, given the words that came before."""
        source, target = inputs
        encoded, state = self.encoder(source)
        logits, _, _ = self.decoder(target, state, encoded, keras.ops.not_equal(source, PADDING))
        return logits

    def get_config(self) -> dict[str, Any]:
        """The arguments with which Keras builds the object again."""
        config = {"source_words": self.source_words, "target_words": self.target_words}
        return {**super().get_config(), **config}


class Vocabulary(tf.Module):
    """Words to numbers and back: a lookup table, which cannot be pickled."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__()
        self.words = [*SPECIAL, *sorted({word for text in sentences for word in text.split()})]
        numbers = tf.range(len(self.words), dtype=tf.int32)
        content = tf.lookup.KeyValueTensorInitializer(tf.constant(self.words), numbers)
        self.table = tf.lookup.StaticHashTable(content, UNKNOWN)
        self.constant = tf.constant(self.words)

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentences: Any) -> Any:
        """The numbers of the words, a ragged tensor."""
        return self.table.lookup(tf.strings.split(sentences))

    def decode(self, tokens: Any) -> Any:
        """The sentences of a ragged tensor of numbers."""
        words = tf.RaggedTensor.from_row_splits(
            tf.gather(self.constant, tokens.flat_values), tokens.row_splits
        )
        return tf.strings.reduce_join(words, separator=" ", axis=1)


class Service(tf.Module):
    """The model for serving: from sentences to sentences."""

    def __init__(self, model: Translator, source: Vocabulary, target: Vocabulary) -> None:
        super().__init__(name="service")
        self.model, self.source, self.target = model, source, target

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="sentences")])
    def translate(self, sentences: Any) -> dict[str, Any]:
        """Translates word by word, always the most likely word, until each sentence ends."""
        tokens = self.source.encode(sentences).to_tensor(PADDING)
        encoded, state = self.model.encoder(tokens)
        mask = tf.not_equal(tokens, PADDING)
        count = tf.shape(tokens)[0]
        last = tf.fill([count, 1], START)
        ended = tf.zeros([count], tf.bool)
        score = tf.zeros([count])
        words = tf.TensorArray(tf.int32, LONGEST)
        looked = tf.TensorArray(tf.float32, LONGEST)
        for step in tf.range(LONGEST):
            logits, state, attention = self.model.decoder(last, state, encoded, mask)
            likely = tf.nn.log_softmax(logits[:, 0])
            last = tf.argmax(likely, axis=-1, output_type=tf.int32)[:, None]
            score += tf.where(ended, 0.0, tf.reduce_max(likely, axis=-1))
            words = words.write(step, tf.where(ended, PADDING, last[:, 0]))
            looked = looked.write(step, attention[:, 0])
            ended |= last[:, 0] == END
        found = tf.transpose(words.stack())
        lengths = tf.reduce_sum(tf.cast(found > END, tf.int64), axis=1)
        ids = tf.RaggedTensor.from_tensor(found, lengths=lengths)
        return {
            "ids": found,
            "lengths": lengths,
            "scores": score,
            "attention": tf.transpose(looked.stack(), [1, 0, 2]),
            "text": self.target.decode(ids),
        }
