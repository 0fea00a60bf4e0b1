"""Diagnosis of what TensorFlow tracks; tf.saved_model.save, load and the picklers decide."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
import tracemalloc

import cloudpickle
import pytest

import tensorferry as ferry

DUMPS = {"pickle": pickle.dumps, "cloudpickle": cloudpickle.dumps}


class Box:
    """A Python object that nobody tracks."""

    def __init__(self, **held):
        vars(self).update(held)


SCALE = None


def scaled(x):
    """Uses a variable that is a global."""
    return x * SCALE


@pytest.fixture(scope="module")
def makers(tf):
    """Functions that make a module with something in the way."""
    number = [tf.TensorSpec([], tf.float32)]

    def table():
        pairs = tf.lookup.KeyValueTensorInitializer(["a"], [1])
        return tf.lookup.StaticHashTable(pairs, -1)

    def module(**held):
        found = tf.Module()
        for name, value in held.items():
            setattr(found, name, value)
        return found

    class Hiding(tf.Module):
        def __init__(self, held):
            super().__init__()
            self.box = Box(part=held)

    class Using(Hiding):
        @tf.function(input_signature=number)
        def __call__(self, x):
            return x * self.box.part

    class Looking(Hiding):
        @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
        def __call__(self, x):
            return self.box.part.lookup(x)

    class Aside(Hiding):
        @tf.function(input_signature=number)
        def __call__(self, x):
            return x

    class Late(Hiding):
        @tf.function
        def __call__(self, x):
            return x * self.box.part

    class Python(tf.Module):
        @tf.function(input_signature=number)
        def __call__(self, x):
            return tf.py_function(lambda value: value + 1, [x], tf.float32)

    class Listing(tf.Module):
        def __init__(self):
            super().__init__()
            self.boxes = [Box(part=tf.Variable(2.0), lock=threading.Lock())]

        @tf.function(input_signature=number)
        def __call__(self, x):
            return x * self.boxes[0].part

    class Shared(tf.Module):
        weight = tf.Variable(2.0)

        @tf.function(input_signature=number)
        def __call__(self, x):
            return x * self.weight

    class Indirect(tf.Module):
        def help(self, x):
            return tf.numpy_function(lambda value: value, [x], tf.float32)

        @tf.function(input_signature=number)
        def __call__(self, x):
            return self.help(x)

    class Global(tf.Module):
        @tf.function(input_signature=number)
        def __call__(self, x):
            return scaled(x)

    globals()["SCALE"] = tf.Variable(2.0)

    def traced(found, *inputs):
        found(*inputs)
        return found

    def closing():
        weight = tf.Variable(2.0)
        return module(scale=tf.function(lambda x: x * weight, input_signature=number))

    def closing_over_model():
        inner = module(weight=tf.Variable(2.0))
        return module(scale=tf.function(lambda x: x * inner.weight, input_signature=number))

    def replaced():
        found = module(parts=[tf.Variable(1.0)])
        found.parts[0] = tf.Variable(2.0)
        return found

    def circle():
        found = module(weight=tf.Variable(1.0))
        found.me = found
        found.child = module(parent=found)
        return found

    return {
        "hidden and used": lambda: Using(tf.Variable(2.0)),
        "hidden table": lambda: Looking(table()),
        "hidden, not used": lambda: Aside(tf.Variable(2.0)),
        "hidden, no graph": lambda: Late(tf.Variable(2.0)),
        "hidden in a list": Listing,
        "hidden, traced": lambda: traced(Late(tf.Variable(2.0)), tf.constant(1.0)),
        "constant, used": lambda: Using(tf.constant(2.0)),
        "closure over a variable": closing,
        "closure over a model": closing_over_model,
        "variable of a class": Shared,
        "global variable": Global,
        "python code": Python,
        "python code in a method": Indirect,
        "python code, traced": lambda: traced(Python(), tf.constant(1.0)),
        "table": lambda: module(table=table()),
        "table in a list": lambda: module(tables=[table()]),
        "variable": lambda: module(weight=tf.Variable(1.0)),
        "list": lambda: module(parts=[tf.Variable(1.0), 3]),
        "tuple": lambda: module(parts=(tf.Variable(1.0), {"a": tf.Variable(1.0)})),
        "dict": lambda: module(parts={"a": tf.Variable(1.0)}),
        "numbers as keys": lambda: module(parts={1: tf.Variable(1.0)}),
        "set": lambda: module(parts={tf.Variable(1.0).ref()}),
        "replaced": replaced,
        "dataset": lambda: module(data=tf.data.Dataset.range(3)),
        "iterator": lambda: module(iterator=iter(tf.data.Dataset.range(3))),
        "lock": lambda: module(lock=threading.Lock(), weight=tf.Variable(1.0)),
        "lambda": lambda: module(scale=lambda x: x),
        "function without a graph": lambda: module(scale=tf.function(abs)),
        "tensor": lambda: module(constant=tf.constant([1.0])),
        "generator": lambda: module(random=tf.random.Generator.from_seed(1)),
        "checkpoint": lambda: module(saver=tf.train.Checkpoint(weight=tf.Variable(1.0))),
        "module in a module": lambda: module(inner=module(weight=tf.Variable(1.0), number=3)),
        "circle": circle,
    }


# What lies where, and what a SavedModel makes of it and of the whole.
CASES = {
    "hidden and used": ("model.box.part", "fails", "fails"),
    "hidden table": ("model.box.part", "fails", "fails"),
    "hidden, not used": ("model.box.part", "drops", "drops"),
    "hidden, no graph": ("model.box.part", "drops", "drops"),
    "hidden in a list": ("model.boxes[0].part", "fails", "fails"),
    "hidden, traced": ("model.box.part", "fails", "fails"),
    "constant, used": ("model.box", "drops", "keeps"),
    "closure over a variable": (
        "model.scale.python_function.__closure__[0].cell_contents",
        "fails",
        "fails",
    ),
    "closure over a model": (
        "model.scale.python_function.__closure__[0].cell_contents.weight",
        "fails",
        "fails",
    ),
    "variable of a class": ("model.weight", "fails", "fails"),
    "global variable": (
        "type(model).__dict__['__call__'].python_function.__globals__['scaled']"
        ".__globals__['SCALE']",
        "fails",
        "fails",
    ),
    "python code": ("model.__call__", "fails", "fails"),
    "python code in a method": ("model.__call__", "fails", "fails"),
    "python code, traced": ("model.__call__", "fails", "fails"),
    "table": ("model.table", "keeps", "keeps"),
    "table in a list": ("model.tables", "keeps", "keeps"),
    "variable": ("model.weight", "keeps", "keeps"),
    "list": ("model.parts", "keeps", "keeps"),
    "tuple": ("model.parts", "keeps", "keeps"),
    "dict": ("model.parts", "keeps", "keeps"),
    "numbers as keys": ("model.parts", "fails", "fails"),
    "set": ("model.parts", "drops", "keeps"),
    "replaced": ("model.parts", "fails", "fails"),
    "dataset": ("model.data", "keeps", "keeps"),
    "iterator": ("model.iterator", "fails", "fails"),
    "lock": ("model.lock", "drops", "keeps"),
    "lambda": ("model.scale", "drops", "keeps"),
    "function without a graph": ("model.scale", "drops", "drops"),
    "tensor": ("model.constant", "drops", "keeps"),
    "generator": ("model.random", "keeps", "keeps"),
    "checkpoint": ("model.saver", "keeps", "keeps"),
    "module in a module": ("model.inner", "keeps", "keeps"),
    "circle": ("model.me", "keeps", "keeps"),
}


@pytest.mark.parametrize("name", CASES)
def test_saved_model(name, makers, tf, tmp_path):
    """A SavedModel keeps, leaves out and refuses what the report says, and nothing else."""
    path, verdict, whole = CASES[name]
    model = makers[name]()
    report = ferry.diagnose(model)

    assert report[path].verdicts["savedmodel"] == verdict
    assert report.ways["savedmodel"].verdict == whole
    assert (verdict == "fails") == ("savedmodel" in report[path].reasons and whole == "fails")
    if name.startswith("python code"):
        return
    if whole == "fails":
        with pytest.raises((AssertionError, KeyError, ValueError, RuntimeError)):
            tf.saved_model.save(model, str(tmp_path))
        return
    tf.saved_model.save(model, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    held = getattr(loaded, path.split(".")[1], None)
    if name == "function without a graph":
        with pytest.raises(ValueError, match="zero restored functions"):
            held(tf.constant(1.0))
    else:
        assert (held is not None) == (verdict == "keeps")


def test_python_code(tf, makers, tmp_path):
    """What calls Python is saved, and cannot be called in another process."""
    tf.saved_model.save(makers["python code"](), str(tmp_path))
    code = f"import tensorflow as tf; tf.saved_model.load({str(tmp_path)!r})(tf.constant(1.0))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert run.returncode != 0
    assert "callback with key=pyfunc" in run.stderr


@pytest.mark.parametrize("name", CASES)
def test_picklers(name, makers):
    """The picklers do what the report says of them, and every path leads to what it names."""
    model = makers[name]()
    report = ferry.diagnose(model)

    for way, dumps in DUMPS.items():
        try:
            dumps(model)
            found = "keeps"
        except Exception:
            found = "fails"
        assert report.ways[way].verdict == found, (way, report)
        assert (found == "fails") == any(way in row.reasons for row in report.troubles)
    for row in report.attributes:
        eval(row.path, {"model": model})
    assert max(map(len, str(report).splitlines())) <= 80


def test_pickled_parts(makers):
    """Tables, datasets and iterators are blamed themselves, not what they are made of."""
    for name, path in (
        ("table", "model.table"),
        ("dataset", "model.data"),
        ("iterator", "model.iterator"),
        ("hidden table", "model.box.part"),
        ("hidden in a list", "model.boxes[0].lock"),
    ):
        report = ferry.diagnose(makers[name]())
        for way in DUMPS:
            blamed = {row.path for row in report.troubles if way in row.reasons}
            assert blamed - {"model"} == {path}


def test_weights(makers, tf, tmp_path):
    """Hidden variables are named: weights that `save_weights` does not write."""
    for name in ("hidden and used", "closure over a variable"):
        path = CASES[name][0]
        model = makers[name]()
        assert ferry.diagnose(model).ways["weights"].verdict == "fails"
        with pytest.raises(ferry.UnsupportedError):
            ferry.save_weights(model, tmp_path / "none.npz")

        model.weight = tf.Variable(1.0)
        report = ferry.diagnose(model)
        ferry.save_weights(model, tmp_path / "one.npz")
        assert report.ways["weights"].verdict == "drops"
        assert report[path].verdicts["weights"] == "drops"
        assert "hidden variable" in report[path].reasons["weights"]
        assert list(ferry.load(tmp_path / "one.npz")) == ["weight"]


def test_tensors_and_variables(tf):
    """Tensors and variables pickle; so TensorFlow decides, and the report agrees."""
    for value in (tf.Variable([1.0]), tf.constant([1.0]), tf.ragged.constant([[1], [2, 3]])):
        report = ferry.diagnose({"a": value})
        for way, dumps in DUMPS.items():
            dumps(value)
            assert report.ways[way].verdict == "keeps"
            assert report["model['a']"].verdicts[way] == "keeps"


def test_nothing_is_traced(tf):
    """Functions are neither called nor traced, and make no variables."""
    calls = []

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def __call__(self, x):
            calls.append(x)
            self.late = tf.Variable(1.0)
            return x

    model = Model()
    ferry.diagnose(model)

    assert not calls
    assert not hasattr(model, "late")


def test_large(tf):
    """A gigabyte of variables is not copied."""
    model = tf.Module()
    model.weights = [tf.Variable(tf.zeros([1 << 26])) for _ in range(4)]
    model.lock = threading.Lock()
    ferry.diagnose(tf.Module())
    tracemalloc.start()
    start = time.process_time()
    report = ferry.diagnose(model)
    seconds = time.process_time() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert report["model.weights"].verdicts["pickle"] == "keeps"
    assert report["model.lock"].verdicts["pickle"] == "fails"
    assert peak < 20e6
    assert seconds < 2


def test_plain_objects(tf, tmp_path):
    """What TensorFlow itself does not take, save_model traces: the advice is to be followed."""

    class Plain:
        def __init__(self):
            self.layers = [tf.Variable([[2.0], [3.0]]), {"bias": tf.Variable([1.0])}]
            self.lock = threading.Lock()

        def forward(self, x):
            return x @ self.layers[0] + self.layers[1]["bias"]

    model, examples = Plain(), tf.ones((1, 2))
    advice = ferry.diagnose(model).advice[0]

    assert (advice.way, advice.code) == (
        "savedmodel",
        'ferry.save_model(model, "model", inputs=examples)',
    )
    ferry.save_model(model, tmp_path / "model", inputs=examples)
    loaded = ferry.load_model(tmp_path / "model")
    assert loaded(examples).tolist() == model.forward(examples).numpy().tolist() == [[6.0]]
    assert "savedmodel" not in [one.way for one in ferry.diagnose([model]).advice]
