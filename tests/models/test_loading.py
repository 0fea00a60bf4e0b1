"""Loading models: those of others give what TensorFlow gives, and calls take what users have."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from conftest import CORPUS, ROOT

import tensorferry as ferry
from tensorferry.errors import FormatError, MismatchError, UnsupportedError

# Why a model of the corpus is not loaded: it is damaged, it does more, or TensorFlow cannot either.
DAMAGED = ("bad_node_attr", "const_with_no_value", "negative_shape")
DANGEROUS = {"AssetModule": "read", "tftrt_2.0_saved_model": "native"}


def corpus():
    """The SavedModels of others."""
    found = {
        os.path.dirname(path)
        for name in ("saved_model.pb", "saved_model.pbtxt")
        for path in CORPUS.rglob(name)
    }
    return sorted(found)


def example(spec):
    """Some input for a spec."""
    shape = [3 if size is None else size for size in (spec.shape.rank and spec.shape) or ()]
    if spec.dtype == tf.string:
        feature = tf.train.Feature(float_list=tf.train.FloatList(value=[5.0]))
        features = tf.train.Features(feature={"x": feature, "x2": feature})
        record = tf.train.Example(features=features).SerializeToString()
        return np.full(shape or [1], record, object)
    return np.ones(shape, spec.dtype.as_numpy_dtype)


def outcome(call, inputs):
    """What a call gives, or that TensorFlow refuses it."""
    try:
        return {name: np.asarray(value) for name, value in call(**inputs).items()}
    except tf.errors.OpError as error:
        return type(error).__name__


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not there")
def test_models_of_others():
    """Each loads and computes as tf.saved_model.load has it, or is refused with a true reason."""
    called, refused = 0, {}
    for path in corpus():
        name = os.path.basename(path)
        try:
            ours = ferry.load_model(path)
        except (FormatError, UnsupportedError) as error:
            refused[name] = error
            continue
        theirs = tf.saved_model.load(path)
        visible = {one for one in theirs.signatures if not one.startswith("__")}
        assert set(ours.signatures) == visible
        for key in sorted(visible):
            concrete = theirs.signatures[key]
            specs = concrete.structured_input_signature[1]
            inputs = {one: example(spec) for one, spec in specs.items()}
            if len(inputs) > 10:
                continue
            found = outcome(ours.signatures[key], inputs)
            tensors = {one: tf.constant(value) for one, value in inputs.items()}
            wanted = outcome(concrete, tensors)
            assert str(found) == str(wanted)
            called += isinstance(found, dict)
    assert called > 20
    for name, error in refused.items():
        if name in DAMAGED:
            assert isinstance(error, FormatError)
        elif name in DANGEROUS:
            assert f"allow=({DANGEROUS[name]!r},)" in error.hint
        else:
            reason = r"TensorFlow cannot load it|and each is a model|TensorFlow loads no"
            assert re.search(reason, error.message), error
    assert set(refused) > {*DAMAGED, *DANGEROUS}


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not there")
def test_what_models_of_others_are():
    """Models of TensorFlow 1 and Keras 2: their variables have names, their default is found."""
    serving = CORPUS / "serving"
    first = ferry.load_model(serving / "saved_model_half_plus_two_mkl/00000123")
    assert first.variables["a"] == 0.5
    assert first([[4.0]])["y"].tolist() == [[4]]
    second = ferry.load_model(serving / "saved_model_half_plus_two_tf2_cpu/00000123")
    assert set(second.variables) == {"a", "b", "c"}
    keras = ferry.load_model(CORPUS / "tfx/trainer/keras/Format-Serving")
    assert "layer_with_weights-0/kernel" in keras.variables
    tags = CORPUS / "tensorflow/saved_model/half_plus_two_empty_tags/00000123"
    assert ferry.load_model(tags, tags=[])([[4.0]])["y"].tolist() == [[4]]
    with pytest.raises(UnsupportedError, match="0 MetaGraphs fit"):
        ferry.load_model(tags, tags=["train"])
    asset = ferry.load_model(CORPUS / "tensorflow/saved_model/AssetModule", allow=["read"])
    assert [danger.kind for danger in asset.dangers] == ["read"]


# Calls


class Module(tf.Module):
    def __init__(self):
        super().__init__()
        self.scale = tf.Variable(2.0)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.float32, name="x"),
            {"k": tf.TensorSpec([], tf.int32), "names": tf.TensorSpec([None], tf.string)},
        ]
    )
    def __call__(self, x, others):
        return x * self.scale, {"names": others["names"], "k": others["k"] + 1}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="y")])
    def half(self, y):
        return y / 2


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loading") / "model"
    module = Module()
    ferry.save_model(module, folder, signatures={"serving_default": module, "half": "half"})
    return folder


def test_calls_take_what_users_have(path):
    """Lists, arrays of another float, tensors: each becomes what the model takes."""
    model = ferry.load_model(path)
    for x in (
        [[1.0, 2.0]],
        [[1, 2]],
        np.float64([[1, 2]]),
        tf.constant([[1.0, 2.0]]),
        np.float32([[1, 2], [3, 4]])[:1],
    ):
        doubled, rest = model(x, {"k": 4, "names": ["a", b"b"]})
        assert isinstance(doubled, np.ndarray)
        assert doubled.tolist() == [[2, 4]]
        assert (rest["k"], rest["names"].tolist()) == (5, [b"a", b"b"])
    assert model.signatures["half"]([4, 5])["output_0"].tolist() == [2, 2.5]
    assert model.signatures["half"](y=np.int64([4]).astype("f8"))["output_0"].tolist() == [2]
    assert model.signatures["half"]({"y": [4.0]})["output_0"].tolist() == [2]
    assert model.model.half(tf.constant([4.0])).numpy().tolist() == [2]


def test_what_calls_give(path):
    """NumPy, or the tensors of the framework that was asked for."""
    tensors = ferry.load_model(path, to="tensorflow")
    assert isinstance(tensors([[1.0, 2.0]], {"k": 1, "names": ["a"]})[0], tf.Tensor)
    assert isinstance(tensors.signatures["half"]([1.0])["output_0"], tf.Tensor)
    chosen = ferry.load_model(path, signature="half")
    assert chosen([3.0])["output_0"].tolist() == [1.5]
    assert dict(chosen.signatures["half"].inputs) == {"y": "float32[?]"}
    assert dict(chosen.signatures["half"].outputs) == {"output_0": "float32[?]"}
    assert chosen.variables["scale"] == 2


def test_what_does_not_fit(path):
    """Wrong names, shapes and dtypes are refused with what is expected, before anything runs."""
    model = ferry.load_model(path)
    half = model.signatures["half"]
    for call, kind, problem in (
        (lambda: half(z=[1.0]), TypeError, r"takes y \(float32\[\?\]\); given were z"),
        (lambda: half([1.0], [2.0]), TypeError, "by name"),
        (lambda: half([[1.0]]), MismatchError, r"y is float32\[1, 1\], expected float32\[\?\]"),
        (lambda: half(["a"]), MismatchError, "y"),
        (lambda: half(np.array([b"a"], object)), MismatchError, r"string\[1\], expected float32"),
        (lambda: half(np.int64([1])), MismatchError, r"int64\[1\], expected float32"),
        (lambda: model([[1.0, 2.0]]), MismatchError, "2 more tensors are expected"),
        (lambda: model([[1.0, 2.0]], {"k": 1}), MismatchError, "another structure"),
        (
            lambda: model([[1.0, 2.0]], {"k": np.int64(1 << 40), "names": []}),
            MismatchError,
            "expected int32",
        ),
    ):
        with pytest.raises(kind, match=problem):
            call()
    with pytest.raises(UnsupportedError, match="no signature is called 'third'"):
        ferry.load_model(path, signature="third")


def test_files_of_keras_2():
    """What Keras 3 cannot make of an old file is said, with what can be done."""
    for name in ("keras-2.12.h5", "keras-2.13.keras"):
        with pytest.raises(UnsupportedError, match="Keras cannot load it") as caught:
            ferry.load_model(ROOT / "tests/golden/keras" / name)
        assert "load_weights" in caught.value.hint


def test_what_is_no_model(tmp_path):
    """Nothing there, a directory of something else, options of another kind."""
    with pytest.raises(FileNotFoundError, match="there is no model"):
        ferry.load_model(tmp_path / "nothing")
    with pytest.raises(UnsupportedError, match="holds no model"):
        ferry.load_model(tmp_path)
    with pytest.raises(UnsupportedError, match="'everything', which is no kind of danger"):
        ferry.load_model(tmp_path, allow="everything")
    ferry.save({"a": np.ones(2)}, tmp_path / "x.safetensors")
    with pytest.raises(UnsupportedError, match="are of SavedModels"):
        ferry.load_model(tmp_path / "x.safetensors", signature="x")


# Kills

# TensorFlow is imported before the forks, and runs in the children alone.
KILLED = """
import os, random, signal, sys, time
import numpy as np
import tensorflow as tf
import tensorferry as ferry
from tensorferry.formats.savedmodel import model as savedmodel
path, choose = sys.argv[1], random.Random(7)

def replace(start, pipe):
    variable = tf.Variable(tf.zeros([200_000], tf.int64))
    for number in range(start, start + 10**6):
        variable.assign(tf.fill([200_000], tf.constant(number, tf.int64)))
        model = tf.function(lambda: variable + tf.constant([number, -7], tf.int64)[0])
        ferry.save_model(model, path, durable=number % 2 == 0)
        os.write(pipe, b".")

for round in range(6):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        replace(1 + round * 1000, writing)
    os.read(reading, 1)
    time.sleep(choose.random() / 10)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    constants = savedmodel.read(path).find().constants
    found = (held.read() for held in constants.values() if held.dtype.name == "int64")
    numbers = {int(array[0]) for array in found if array.shape == (2,)}
    with ferry.open(path) as bundle:
        values = set(np.unique(bundle["variable"]).tolist())
    print("whole" if len(values) == 1 and values <= numbers else f"{numbers} {values}")
"""


def test_killed_while_a_model_is_replaced(tmp_path):
    """Killed at any moment of replacing, there is one whole model: its graph and its values fit."""
    command = [sys.executable, "-c", KILLED, str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n") == ["whole"] * 6 + [""]
    assert ferry.verify(tmp_path / "model").sound
    assert set(ferry.load_model(tmp_path / "model")().tolist())
    beside = {*os.listdir(tmp_path)} - {"model"}
    assert all(name.startswith(".model.") and name.endswith(".tmp") for name in beside)
