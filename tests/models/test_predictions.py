from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.errors import MismatchError, UnsupportedError

SENTENCES = np.array([b"one two three", b"four", b"", b"five six", b"seven"], dtype=object)
WORDS = [text.split() for text in SENTENCES.tolist()]


@pytest.fixture(scope="session")
def tokenizer(tf):
    """A served model: strings in; padded ids with lengths, scores and strings out."""

    class Tokenizer(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="sentences")])
        def __call__(self, sentences):
            words = tf.strings.split(sentences)
            ids = tf.strings.to_hash_bucket_fast(words.flat_values, 1000)
            ids = tf.RaggedTensor.from_row_splits(ids, words.row_splits)
            return {
                "ids": ids.to_tensor(-1),
                "lengths": ids.row_lengths(),
                "scores": tf.cast(tf.strings.length(sentences), tf.float32) / 2,
                "upper": tf.strings.upper(sentences),
            }

    return Tokenizer()


@pytest.fixture(scope="session")
def saved(tf, tokenizer, tmp_path_factory):
    """The same, saved by TensorFlow."""
    path = tmp_path_factory.mktemp("model") / "tokenizer"
    tf.saved_model.save(tokenizer, str(path), signatures={"words": tokenizer.__call__})
    return path


def expected(tokenizer) -> dict:
    """What TensorFlow gives for all sentences in one call."""
    found = tokenizer(SENTENCES)
    rows = [
        row[:length] for row, length in zip(found["ids"].numpy(), found["lengths"], strict=True)
    ]
    return {
        "ids": [row.tolist() for row in rows],
        "scores": found["scores"].numpy(),
        "upper": found["upper"].numpy(),
    }


def check(found, wanted):
    """The outputs are those of one call, ragged where they were padded."""
    assert found.keys() == wanted.keys()
    assert isinstance(found["ids"], ferry.RaggedTensor)
    assert found["ids"].to_list() == wanted["ids"]
    np.testing.assert_array_equal(found["scores"], wanted["scores"])
    assert found["upper"].tolist() == wanted["upper"].tolist()


@pytest.mark.parametrize("batch_size", [None, 1, 2, 5, 100])
@pytest.mark.parametrize("source", ["path", "loaded", "module", "signature"])
def test_predict(tf, tokenizer, saved, source, batch_size):
    """Batches of any size give what one call gives, however the model is handed over."""
    model = {
        "path": lambda: saved,
        "loaded": lambda: ferry.load_model(saved),
        "module": lambda: tokenizer,
        "signature": lambda: tf.saved_model.load(str(saved)),
    }[source]()
    options = {"signature": "words"} if source == "signature" else {}
    given = {"sentences": SENTENCES} if source == "signature" else SENTENCES
    found = ferry.predict(
        model, given, batch_size=batch_size, lengths={"ids": "lengths"}, **options
    )
    check(found, expected(tokenizer))


@pytest.mark.parametrize(
    "name", ["x.tfrecord", "x.tfrecord.gz", "x.arrow", "x.arrows", "x.parquet"]
)
def test_rows(tokenizer, saved, tmp_path, name):
    """A row for each input, written batch by batch, with inputs that were to be kept."""
    path = tmp_path / name
    written = ferry.save_predictions(
        saved,
        {"sentences": SENTENCES},
        path,
        batch_size=2,
        lengths={"ids": "lengths"},
        keep=("sentences",),
    )
    assert written.nbytes == path.stat().st_size
    with ferry.open(path) as opened:
        found = next(opened.batches(100))
    assert found.pop("sentences").tolist() == SENTENCES.tolist()
    check(found, expected(tokenizer))


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors", "x.structure", "x.json", "x.ckpt"])
def test_columns(tokenizer, saved, tmp_path, name):
    """Other formats hold whole columns, and take the options of save."""
    path = tmp_path / name
    ferry.save_predictions(
        saved, SENTENCES, path, batch_size=2, lengths={"ids": "lengths"}, metadata={"beam": "4"}
    )
    check(ferry.load(path), expected(tokenizer))
    with ferry.open(path) as bundle:
        assert bundle.metadata == {"beam": "4"}


def test_records_in(tokenizer, saved, tmp_path):
    """Batches of a TFRecord file go through a model into another file."""
    source, target = tmp_path / "in.tfrecord", tmp_path / "out.parquet"
    with ferry.writer(source) as out:
        out.write_batch({"sentences": SENTENCES})
    with ferry.open(source) as records:
        ferry.save_predictions(saved, records.batches(2), target, lengths={"ids": "lengths"})
    with ferry.open(target) as table:
        check(next(table.batches(100)), expected(tokenizer))


def test_keras(tf):
    """A Keras model takes one input, or several by name."""
    keras = tf.keras
    left, right = keras.Input((3,), name="left"), keras.Input((3,), name="right")
    model = keras.Model({"left": left, "right": right}, keras.layers.Dense(2)(left + right))
    given = {"left": np.ones((5, 3), np.float32), "right": np.arange(15.0).reshape(5, 3)}
    given["right"] = given["right"].astype(np.float32)
    found = ferry.predict(model, given, batch_size=2)
    np.testing.assert_allclose(found["output"], model(given), rtol=1e-5)


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    ("give", "names"),
    [
        (lambda x: x, ["output"]),
        (lambda x: (x, x + 1), ["output_0", "output_1"]),
        (lambda x: Pair(x, x + 1), ["first", "second"]),
        (lambda x: {"y": x}, ["y"]),
    ],
)
def test_names(give, names):
    """Outputs without names get some; a plain function takes NumPy."""
    found = ferry.predict(lambda x: give(np.asarray(x)), [1, 2, 3], batch_size=2)
    assert list(found) == names
    np.testing.assert_array_equal(found[names[0]], [1, 2, 3])


def test_refused(tokenizer):
    """What cannot be put together, is not there, or cannot be called is named."""
    with pytest.raises(MismatchError, match="shapes") as caught:
        ferry.predict(tokenizer, SENTENCES, batch_size=2)
    assert "lengths=" in caught.value.hint
    with pytest.raises(MismatchError, match="no output is called 'sizes'"):
        ferry.predict(tokenizer, SENTENCES, lengths={"ids": "sizes"})
    with pytest.raises(MismatchError, match="expected one integer for each row"):
        ferry.predict(tokenizer, SENTENCES, lengths={"ids": "scores"})
    with pytest.raises(MismatchError, match="goes from 9 to 9"):
        ferry.predict(
            lambda x: {"a": np.zeros((2, 3)), "n": np.array([9, 9])}, [1, 2], lengths={"a": "n"}
        )
    with pytest.raises(MismatchError, match="no input is called 'text'"):
        ferry.predict(tokenizer, SENTENCES, keep=("text",))
    with pytest.raises(MismatchError, match="a 2, b 3"):
        ferry.predict(lambda a, b: a, {"a": [1, 2], "b": [1, 2, 3]}, batch_size=1)
    with pytest.raises(MismatchError, match="those before"):
        ferry.predict(lambda x: {str(x[0]): x}, [1, 2], batch_size=1)
    with pytest.raises(UnsupportedError, match="no signature is called 'other'"):
        ferry.predict(tokenizer, SENTENCES, signature="other")
    with pytest.raises(UnsupportedError, match="cannot be called"):
        ferry.predict(object(), SENTENCES)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("x.tfrecord", {"metadata": {"a": "b"}}, "tfrecord has no place for metadata"),
        ("x.parquet", {"quantize": "int8"}, "parquet has no option 'quantize'"),
        ("x.tfrecord", {"shard_size": "5MB"}, "tfrecord has no option 'shard_size'"),
    ],
)
def test_options_that_rows_do_not_have(tmp_path, name, options, message):
    """An option that a file of rows has no place for is refused, and nothing is written."""
    with pytest.raises(ferry.UnsupportedError, match=message):
        ferry.save_predictions(lambda x: x, np.zeros((2, 1)), tmp_path / name, **options)
    assert not list(tmp_path.iterdir())


def test_options_of_rows(tmp_path):
    """TFRecords are written in shards, and a format is named where the path has no suffix."""
    inputs = np.arange(6, dtype=np.float32)
    saved = ferry.save_predictions(lambda x: x, inputs, tmp_path / "x.tfrecord", shards=2)
    named = ferry.save_predictions(lambda x: x, inputs, tmp_path / "y", format="npz")

    assert saved.format == "tfrecord"
    assert len(list(tmp_path.glob("x.tfrecord-*-of-00002"))) == 2
    assert named.format == "npz"
    assert ferry.load(tmp_path / "y")["output"].tolist() == inputs.tolist()
