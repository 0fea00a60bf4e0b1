"""Saving models: every kind of model, used again in a process that never saw its classes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tensorferry as ferry

X = np.arange(6, dtype="float32").reshape(2, 3) / 4

# Loads every model of a folder, calls it and its signatures, and keeps what they give.
CHILD = """
import os, sys
import tensorferry as ferry
for path in sys.argv[1:]:
    given = ferry.loads(open(f"{path}.inputs", "rb").read(), format="structure")
    model = ferry.load_model(path)
    results = {
        "call": model(*given["call"]),
        "signatures": {
            name: model.signatures[name](**inputs) for name, inputs in given["signatures"].items()
        },
        "variables": dict(model.variables),
        "names": sorted(model.signatures),
    }
    with open(f"{path}.results", "wb") as file:
        file.write(ferry.dumps(results, format="structure"))
"""


class Scale(keras.layers.Layer):
    """A layer of somebody's own, with a variable that Keras does not track."""

    def __init__(self, factor=2, **options):
        super().__init__(**options)
        self.factor = factor

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1],), initializer="ones", name="kernel")
        self.hidden = [tf.Variable(3.0)]

    def call(self, inputs):
        return inputs * self.kernel * self.factor * self.hidden[0]

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


class Subclassed(keras.Model):
    """A model that knows its inputs from the first call only."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, inputs, training=False):
        return self.dense(inputs) + (100.0 if training else 0.0)


class Module(tf.Module):
    """Two functions, a table with a vocabulary, and a plain method."""

    def __init__(self, vocabulary):
        super().__init__()
        self.weight = tf.Variable(2.0, name="weight")
        self.label = "demo"
        column = tf.lookup.TextFileIndex
        initializer = tf.lookup.TextFileInitializer(
            vocabulary, tf.string, column.WHOLE_LINE, tf.int64, column.LINE_NUMBER
        )
        self.table = tf.lookup.StaticHashTable(initializer, -1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
    def __call__(self, words):
        return tf.cast(self.table.lookup(words), tf.float32) * self.weight

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def double(self, numbers):
        return {"twice": numbers * 2, "weighted": numbers * self.weight}

    @tf.function
    def never_called(self, x):
        return x

    def describe(self):
        return self.label


class Plain:
    """No class of TensorFlow's at all; variables in lists and dicts."""

    def __init__(self):
        self.layers = [tf.Variable([[1.0], [2.0], [3.0]]), {"bias": tf.Variable(0.5)}]
        self.offset = np.float32([10.0])
        self.shift = np.ones(1, "float32")
        self.step = tf.Variable(7)
        self.title = "plain"

    def forward(self, x):
        if tf.reduce_sum(x) > 1000.0:
            return x @ self.layers[0]
        return x @ self.layers[0] + self.layers[1]["bias"] + self.offset


@dataclass
class Row:
    """A model, how to save and to call it."""

    model: Any
    call: tuple[Any, ...]
    expected: Any
    signatures: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    report: Any = None


def functional():
    inputs = {"a": keras.Input((3,), name="a"), "b": keras.Input((1,), dtype="int32", name="b")}
    sums = keras.layers.Dense(4)(inputs["a"]) + keras.ops.cast(inputs["b"], "float32")
    return keras.Model(inputs, {"sums": sums, "parts": [sums * 2, sums * 3]})


def text_model(vocabulary):
    inputs = keras.Input((2,), dtype="string", name="text")
    numbers = keras.layers.StringLookup(vocabulary=vocabulary)(inputs)
    return keras.Model(inputs, keras.layers.Embedding(8, 4)(numbers))


def ragged_words(words, lengths):
    ragged = tf.RaggedTensor.from_row_lengths(words, lengths)
    return {"ragged": ragged, "joined": tf.strings.reduce_join(ragged, axis=-1), "none": None}


def make_rows(folder):
    vocabulary = str(folder / "words.txt")
    (folder / "words.txt").write_text("a\nb\nc\n")
    custom = keras.Sequential([keras.Input((3,)), Scale(4), keras.layers.Dropout(0.5)])
    custom.compile("adam", loss="mse")
    custom.fit(X, X, verbose=0)
    layer, subclassed = Scale(2), Subclassed()
    layer(X)
    subclassed(X)
    both, words = functional(), text_model(vocabulary)
    named = {"a": X, "b": np.int32([[1], [2]])}
    text = np.array([[b"a", b"c"], [b"b", b"?"]], object)
    module, plain = Module(vocabulary), Plain()
    state = tf.Variable([1.0, 2.0, 3.0])
    traced = tf.function(lambda x: x * state)
    traced(tf.constant(X))
    lengths = np.int64([2, 1])
    rows = {
        "keras": Row(custom, (X,), custom(X)),
        "layer": Row(layer, (X,), layer(X), options={"inputs": X}),
        "subclassed": Row(subclassed, (X,), subclassed(X)),
        "functional": Row(both, (named,), both(named), {"serving_default": named}),
        "text": Row(words, (text,), words(tf.constant(text)), {"serving_default": {"text": text}}),
        "module": Row(
            module,
            (np.array([b"c", b"?"], object),),
            np.float32([4, -2]),
            {"serving_default": {"words": np.array([b"b"], object)}, "double": {"numbers": X[0]}},
            {"signatures": {"serving_default": "__call__", "double": module.double}},
        ),
        "function": Row(traced, (X,), X * state.numpy()),
        "python": Row(
            lambda x, y: (x + state, y),
            (X, X[:1]),
            (X + state.numpy(), X[:1]),
            options={"inputs": (X, X)},
        ),
        "plain": Row(plain, (X,), plain.forward(X), options={"inputs": X[:1]}),
        "ragged": Row(
            ragged_words,
            (np.array([b"a", b"b", b"c"], object), lengths),
            None,
            {
                "serving_default": {
                    "words": np.array([b"a", b"b", b"c"], object),
                    "lengths": lengths,
                }
            },
            {"inputs": {"words": ["a", "b", "c"], "lengths": lengths}},
        ),
    }
    for name, row in rows.items():
        path = folder / name
        row.options.setdefault("durable", False)
        plan = ferry.save_model(row.model, path, dry_run=True, **row.options)
        assert not path.exists()
        row.report = ferry.save_model(row.model, path, **row.options)
        assert replace(plan, written=True) == row.report
        given = {"call": list(row.call), "signatures": row.signatures}
        (folder / f"{name}.inputs").write_bytes(ferry.dumps(given, format="structure"))
    return rows


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Rows by name, with what a fresh process gave for them."""
    folder = tmp_path_factory.mktemp("models")
    rows = make_rows(folder)
    # What is not in the model is not there any more.
    os.rename(folder / "words.txt", folder / "gone.txt")
    paths = [str(folder / name) for name in rows]
    done = subprocess.run([sys.executable, "-c", CHILD, *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    results = {}
    for name in rows:
        data = (folder / f"{name}.results").read_bytes()
        results[name] = ferry.loads(data, format="structure")
    return folder, rows, results


def same(found, expected):
    """Whether two structures of tensors are equal, but for the last bits."""
    tf.nest.map_structure(
        lambda one, other: np.testing.assert_allclose(one, np.asarray(other), rtol=1e-6),
        found,
        expected,
    )


@pytest.mark.parametrize(
    "name",
    ["keras", "layer", "subclassed", "functional", "text", "module", "function", "python", "plain"],
)
def test_gives_the_same_in_a_fresh_process(saved, name):
    """Each kind of model computes the same, in its own structure, without its classes."""
    _, rows, results = saved
    same(results[name]["call"], rows[name].expected)


def test_values_of_variables(saved):
    """Variables are kept under their names, whether TensorFlow tracked them or not."""
    _, rows, results = saved
    plain = results["plain"]["variables"]

    assert plain["layers/0"].tolist() == [[1], [2], [3]]
    assert (plain["layers/1/bias"], plain["step"]) == (0.5, 7)
    assert results["module"]["variables"] == {"weight": 2}
    assert results["function"]["variables"]["state"].tolist() == [1, 2, 3]
    assert results["keras"]["variables"]["captured/0"] == 3
    model = rows["keras"].model
    layer = model.layers[0]
    found = results["keras"]["variables"][f"{model.name}/{layer.name}/kernel"]
    assert (found == layer.kernel.numpy()).all()
    for name, row in rows.items():
        assert sorted(results[name]["variables"]) == sorted(
            one.name for one in row.report.variables
        )


def test_every_signature_is_callable(saved):
    """Several signatures, structures and strings: all by name, in the fresh process."""
    _, rows, results = saved
    module = results["module"]["signatures"]
    both = results["functional"]["signatures"]["serving_default"]
    expected = rows["functional"].expected

    assert results["module"]["names"] == ["double", "serving_default"]
    assert module["serving_default"]["output_0"].tolist() == [2]
    same(module["double"], {"twice": X[0] * 2, "weighted": X[0] * 2})
    parts = {"parts_0": expected["parts"][0], "parts_1": expected["parts"][1]}
    same(both, {"sums": expected["sums"], **parts})
    same(results["text"]["signatures"]["serving_default"]["output_0"], rows["text"].expected)


def test_ragged_results(saved):
    """A signature gives a ragged result in parts, and says so; the call gives it whole."""
    _, rows, results = saved
    called, parts = results["ragged"]["call"], results["ragged"]["signatures"]["serving_default"]
    signature = rows["ragged"].report.signatures[0]

    assert called["ragged"].to_list() == [[b"a", b"b"], [b"c"]]
    assert called["joined"].tolist() == [b"ab", b"c"]
    assert called["none"] is None
    assert parts["ragged_values"].tolist() == [b"a", b"b", b"c"]
    assert parts["ragged_row_splits"].tolist() == [0, 2, 3]
    assert signature.outputs["ragged_row_splits"] == "int64[?]"
    assert any("ragged_values, ragged_row_splits" in note for note in signature.notes)
    assert any("none is None" in note for note in signature.notes)


def test_tensorflow_reads_them(saved):
    """What is written is a SavedModel as any other: tf.saved_model.load calls it."""
    folder, rows, _ = saved
    for name in ("keras", "plain", "function"):
        loaded = tf.saved_model.load(str(folder / name))
        same(loaded(tf.constant(X)).numpy(), rows[name].expected)
        info = ferry.inspect(folder / name)
        assert info.format == "savedmodel"


def test_what_is_said_to_be_lost(saved):
    """Methods, Python values, optimizers and classes are named, with reasons."""
    _, rows, _ = saved
    lost = {
        name: {one.what: one.reason for one in row.report.not_kept} for name, row in rows.items()
    }

    assert set(lost["module"]) == {
        "class Module",
        "method describe",
        "tf.function never_called",
        "attribute label",
    }
    assert {"class Plain", "attribute title", "array shift as a variable"} <= set(lost["plain"])
    assert "optimizer, loss and metrics" in lost["keras"]
    assert "optimizer state (4 variables)" in lost["keras"]
    assert lost["function"] == {}
    assert "leaves out method describe" in str(rows["module"].report)


def test_absolute_paths(saved, tmp_path):
    """Vocabularies go along and are named; paths that code has baked in are named, too."""
    folder, rows, _ = saved
    (found,) = rows["module"].report.absolute_paths

    assert found.path == str(folder / "words.txt")
    assert found.copied
    assert "assets/words.txt" in rows["module"].report.files

    def read(x):
        return tf.strings.join([x, tf.constant("/data/models/words.txt")])

    report = ferry.save_model(read, tmp_path / "x", inputs="a", dry_run=True)
    (found,) = report.absolute_paths
    assert (found.path, found.copied) == ("/data/models/words.txt", False)
    layer = Scale(2)
    layer(X)
    layer.factor = "/data/factors.txt"
    report = ferry.save_model(layer, tmp_path / "x.keras", dry_run=True)
    assert [(one.path, one.place) for one in report.absolute_paths] == [
        ("/data/factors.txt", "config/config/factor")
    ]


def test_files_are_those_that_were_promised(saved):
    """The report names the files that are there."""
    folder, rows, _ = saved
    for name, row in rows.items():
        found = [
            os.path.relpath(os.path.join(place, file), folder / name)
            for place, _, files in os.walk(folder / name)
            for file in files
        ]
        assert tuple(sorted(found)) == row.report.files


def test_temporary_names_are_not_in_the_model(saved):
    """Where a model was written first is said nowhere in it."""
    folder, rows, _ = saved
    for name in rows:
        for place, _, files in os.walk(folder / name):
            for file in files:
                with open(os.path.join(place, file), "rb") as opened:
                    assert f".{name}.".encode() not in opened.read()


def test_nothing_of_the_model_is_changed(tmp_path):
    """An object that was saved has the attributes that it had, and can be saved again."""
    plain = Plain()
    before = dict(vars(plain))
    for _ in range(2):
        ferry.save_model(plain, tmp_path / "plain", inputs=X, durable=False)
    assert vars(plain) == before
