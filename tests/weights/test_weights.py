"""Weights from any file into any model, and back."""

from __future__ import annotations

import itertools
import pickle
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.frameworks.variables import list_variables
from tensorferry.weights.saving import names_for, target_of

FORMATS = ("npz", "safetensors")


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

    def randomized(make):
        def made():
            model, value = make()
            generator = np.random.default_rng(len(model.name) + next(count))
            for weight in model.weights:
                weight.assign(generator.uniform(0.1, 0.3, weight.shape).astype(np.float32))
            return model, value

        return made

    count = itertools.count()
    return {make.__name__: randomized(make) for make in (sequential, nested, subclassed)}


MODELS = ("sequential", "nested", "subclassed")


def values(model):
    """The bytes of everything that a model holds."""
    return {one.name: one.read().tobytes() for one in list_variables(model)}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("format", FORMATS)
def test_keras_round_trip(makers, tmp_path, kind, format):
    """A fresh model with the weights of another one predicts what that predicts."""
    (model, given), (fresh, _) = makers[kind](), makers[kind]()
    path = tmp_path / f"model.{format}"
    assert not np.array_equal(model(given), fresh(given))

    ferry.save_weights(model, path)
    report = ferry.load_weights(fresh, path)

    assert np.array_equal(model(given), fresh(given))
    assert report.ok
    assert report.applied
    assert len(report.loaded) == len(model.weights)
    assert not report.unexpected


@pytest.mark.parametrize("kind", MODELS)
def test_names_of_keras_files(makers, tmp_path, kind):
    """Every variable has the name that Keras gives it in a .weights.h5 file."""
    import h5py

    model, _ = makers[kind]()
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    model.save_weights(tmp_path / "model.weights.h5")
    theirs = {}
    with h5py.File(tmp_path / "model.weights.h5") as file:
        file.visititems(
            lambda name, item: theirs.update({name: item[()]}) if hasattr(item, "shape") else None
        )

    ours = dict(names_for(list_variables(model), "keras"))

    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name].read(), theirs[name]) for name in theirs)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("prefix", ["", "model/"])
@pytest.mark.parametrize("compiled", [False, True])
def test_checkpoints_of_keras(tf, makers, tmp_path, kind, prefix, compiled):
    """What tf.train.Checkpoint keeps of a model is loaded by its keys, compiled or not."""
    (model, _), (fresh, _) = makers[kind](), makers[kind]()
    if compiled:
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=model) if prefix else tf.train.Checkpoint(model)
    written = checkpoint.write(str(tmp_path / "model"))
    reader = tf.train.load_checkpoint(written)
    tensors = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}
    del tensors["_CHECKPOINTABLE_OBJECT_GRAPH"]

    report = ferry.load_weights(fresh, tensors, strict=False, structure=False)

    # TensorFlow does not see the layers in Keras' lists and dicts: they are in no checkpoint.
    lost = {one.name for one in report.missing}
    assert all("dense" in name for name in lost)
    assert len(lost) == (6 if kind == "subclassed" and not compiled else 0)
    assert not report.mismatched
    assert not report.unexpected
    assert len(report.optimizer) == (2 + 2 * len(model.trainable_variables) if compiled else 0)
    for ours, theirs in zip(fresh.weights, model.weights, strict=True):
        assert ours.path in lost or np.array_equal(ours, theirs)


def test_checkpoints_of_keras_2(makers):
    """The object names of Keras 2 lead to the same layers of a Keras 3 model."""
    model, _ = makers["nested"]()
    tensors = {
        f"model/layer_with_weights-0/{name}/.ATTRIBUTES/VARIABLE_VALUE": np.full(shape, 2.0, "f4")
        for name, shape in (("kernel", (4, 4)), ("bias", (4,)))
    }
    for number, parts in ((0, ("kernel", "bias")), (2, ("kernel", "bias"))):
        for name in parts:
            key = f"model/layer_with_weights-1/layer_with_weights-{number}/{name}"
            tensors[key] = np.full((4, 4) if name == "kernel" else (4,), 3.0 + number, "f4")
    for name in ("gamma", "beta", "moving_mean", "moving_variance"):
        tensors[f"model/layer_with_weights-1/layer_with_weights-1/{name}"] = np.full(4, 9.0, "f4")
    slot = "model/layer_with_weights-0/kernel/.OPTIMIZER_SLOT/model/optimizer/m"
    tensors[slot] = np.zeros((4, 4), "f4")

    report = ferry.load_weights(model, tensors, structure=False)

    assert report.optimizer == (slot,)
    assert [float(np.mean(weight)) for weight in model.weights] == [2, 2, 3, 3, 9, 9, 9, 9, 5, 5]


def test_optimizer(makers, tmp_path):
    """The state of an optimizer is kept apart, and saved and loaded when asked for."""
    (model, given), (fresh, _) = makers["sequential"](), makers["sequential"]()
    for one in (model, fresh):
        one.compile("adam", "mse")
    model.fit(given, np.zeros((2, 4)), verbose=0)
    path = tmp_path / "model.npz"
    ferry.save_weights(model, path, optimizer=True)
    state = [variable.numpy() for variable in model.optimizer.variables]

    before = [variable.numpy() for variable in fresh.optimizer.variables]
    report = ferry.load_weights(fresh, path)
    assert len(report.optimizer) == len(state)
    assert not report.unexpected
    assert all(map(np.array_equal, before, fresh.optimizer.variables))

    report = ferry.load_weights(fresh, path, optimizer=True)
    assert report.ok
    assert not report.optimizer
    assert all(map(np.array_equal, state, fresh.optimizer.variables))

    ferry.save_weights(model, path)
    assert not [name for name in ferry.load(path) if "optimizer" in name]
    with pytest.raises(ferry.MismatchError, match="optimizer/vars/0"):
        ferry.load_weights(fresh, path, optimizer=True)


def test_renamed_layers(keras, tmp_path):
    """Layers with other names are found if names and shapes leave no doubt, and reported so."""

    def make(*names):
        sizes = zip(names, (5, 6), strict=True)
        return keras.Sequential(
            [keras.Input((4,)), *(keras.layers.Dense(size, name=name) for name, size in sizes)]
        )

    model, fresh = make("encoder", "head"), make("trunk", "logits")
    ferry.save_weights(model, tmp_path / "model.npz")

    report = ferry.load_weights(fresh, tmp_path / "model.npz")

    assert set(report.how.values()) == {"structure"}
    assert [name.split("/")[-2:] for name in report.loaded] == [
        [layer, part] for layer in ("trunk", "logits") for part in ("kernel", "bias")
    ]
    assert "head/kernel  (by structure)" in str(report)
    assert np.array_equal(model(np.ones((1, 4))), fresh(np.ones((1, 4))))
    with pytest.raises(ferry.MismatchError, match=r"missing .*trunk/kernel"):
        ferry.load_weights(fresh, tmp_path / "model.npz", structure=False)


def test_layers_of_one_name(keras):
    """Variables of the same path are told apart by their places."""

    class Pair(keras.layers.Layer):
        def __init__(self):
            super().__init__(name="pair")
            self.left, self.right = (keras.layers.Dense(2, name="part") for _ in range(2))

        def call(self, x):
            return self.left(x) + self.right(x)

    pair = Pair()
    pair(np.ones((1, 2)))
    names = [one.name for one in list_variables(pair)]
    assert len(set(names)) == 4

    file = {
        name: np.full((2, 2) if number % 2 == 0 else (2,), number)
        for number, name in enumerate(names)
    }
    ferry.load_weights(pair, {name: value.astype("f4") for name, value in file.items()})

    assert [float(np.mean(weight)) for weight in pair.weights] == [0, 1, 2, 3]


def test_not_built(keras):
    """A model that has no weights yet says how to get them."""
    model = keras.Sequential([keras.layers.Dense(3)])

    with pytest.raises(ferry.UnsupportedError, match=r"not built yet.*\nhint: model\.build"):
        ferry.load_weights(model, {"a": np.zeros(3)})


def broken(kind, tensors):
    """A file with one thing wrong, and what the error says."""
    name = next(name for name in tensors if name.endswith("kernel"))
    if kind == "missing":
        del tensors[name]
        return "missing .*kernel"
    if kind == "shape":
        tensors[name] = tensors[name][:, :2]
        return r"mismatched .*kernel.*expected float32 \[4, 4\], .* is float32 \[4, 2\]"
    if kind == "dtype":
        tensors[name] = tensors[name].astype(np.complex64)
        return "mismatched .*complex64 .*another dtype"
    if kind == "range":
        tensors[name] = tensors[name].astype(np.float64) * 1e300
        return "mismatched .*16 values are beyond the range of float32"
    tensors[name] = ferry.SparseTensor([[0, 0]], np.float32([1]), [4, 4])
    return "no dense tensor"


@pytest.mark.parametrize("kind", ["missing", "shape", "dtype", "range", "sparse"])
def test_strict_changes_nothing(makers, tmp_path, kind):
    """A load that fails leaves every variable as it was; without strict, the others are loaded."""
    (model, _), (fresh, _) = makers["sequential"](), makers["sequential"]()
    tensors = {one.name: one.read() for one in list_variables(model)}
    message = broken(kind, tensors)
    ferry.save(tensors, tmp_path / "model.npz")
    before = values(fresh)

    with pytest.raises(ferry.MismatchError, match=message) as caught:
        ferry.load_weights(fresh, tmp_path / "model.npz", structure=False)

    assert values(fresh) == before
    report = caught.value.report
    assert not report.ok
    assert not report.applied
    assert len(report.loaded) == len(before) - 1
    assert "strict=False" in str(caught.value)
    assert "map=" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value)).report) == str(report)

    report = ferry.load_weights(fresh, tmp_path / "model.npz", strict=False, structure=False)
    assert not report.ok
    assert report.applied
    after = values(fresh)
    assert sum(after[name] != before[name] for name in before) == len(before) - 1


def test_damaged_file_changes_nothing(makers, tmp_path):
    """An error while the values are read leaves every variable as it was."""
    (model, _), (fresh, _) = makers["sequential"](), makers["sequential"]()
    path = tmp_path / "model.npz"
    ferry.save_weights(model, path)
    data = bytearray(path.read_bytes())
    place = bytes(data).rindex(model.weights[-1].numpy().tobytes())
    data[place] ^= 1
    path.write_bytes(data)
    before = values(fresh)

    with pytest.raises(ferry.ChecksumError):
        ferry.load_weights(fresh, path, strict=False)

    assert values(fresh) == before


def test_report():
    """The report names what is missing and left over, with what comes nearest."""
    model = {
        "encoder": {"kernel": np.zeros((2, 3)), "bias": np.zeros(3)},
        "step": np.zeros((), "i4"),
    }
    file = {
        "encoder/kernel": np.ones((2, 3), np.float32),
        "encodr/bias": np.ones(4),
        "step": np.array(7, np.int64),
        "optimizer/vars/0": np.array(1),
    }

    report = ferry.load_weights(model, file, strict=False)

    assert report.loaded == {"encoder/kernel": "encoder/kernel", "step": "step"}
    assert report.cast == {"encoder/kernel": ("float32", "float64"), "step": ("int64", "int32")}
    assert report.missing[0].nearest == "encodr/bias"
    assert report.unexpected[0].nearest == "encoder/bias"
    assert report.optimizer == ("optimizer/vars/0",)
    assert str(report) == (
        "the given tensors: 2 loaded, 1 missing, 1 unexpected, 1 of an optimizer left out\n"
        "missing:\n"
        "  encoder/bias (float64 [3]): nearest is encodr/bias\n"
        "unexpected:\n"
        "  encodr/bias (float64 [4]): nearest is encoder/bias\n"
        "loaded:\n"
        "  encoder/kernel <- encoder/kernel  (float32 as float64)\n"
        "  step           <- step  (int64 as int32)"
    )
    assert model["step"] == 7


@pytest.mark.parametrize(
    ("found", "wanted", "good"),
    [
        (np.float32(1.5), np.float64, True),
        (np.float64(1.1), np.float32, True),
        (np.float64(1e39), np.float32, False),
        (np.float32("inf"), np.float16, True),
        (np.int64(5), np.int32, True),
        (np.int64(2**40), np.int32, False),
        (np.int8(-1), np.uint8, False),
        (np.uint32(2**32 - 1), np.int32, False),
        (np.int32(1), np.float32, False),
        (np.float32(1), np.int32, False),
        (np.bool_(True), np.int32, False),
    ],
)
def test_cast(found, wanted, good):
    """Floats become floats, integers integers, if the values have a place there."""
    model = {"a": np.zeros((), wanted)}

    report = ferry.load_weights(model, {"a": found}, strict=False)

    assert report.ok is good
    assert not good or model["a"] == wanted(found)
    assert not ferry.load_weights(model, {"a": found}, strict=False, cast=False).ok


class TestMap:
    """The user says what variables are called."""

    def model(self):
        return {"dense": {"kernel": np.zeros((2, 3)), "bias": np.zeros(3)}}

    @property
    def file(self):
        return {"fc.weight": np.arange(6.0).reshape(3, 2), "fc.bias": np.ones(3)}

    def test_dict(self):
        """A dict gives names, and what to do with a tensor."""
        model = self.model()
        said = {"dense/kernel": ("fc.weight", "transpose"), "dense/bias": "fc/bias"}

        report = ferry.load_weights(model, self.file, map=said)

        assert set(report.how.values()) == {"map"}
        assert np.array_equal(model["dense"]["kernel"], self.file["fc.weight"].T)
        assert model["dense"]["bias"].tolist() == [1, 1, 1]

    def test_function(self):
        """A function is asked for each variable; None leaves it to the names."""
        model = self.model()

        def said(name):
            return ("fc.weight", (1, 0)) if name.endswith("kernel") else None

        ferry.load_weights(model, {**self.file, "dense.bias": np.full(3, 5.0)}, map=said)

        assert np.array_equal(model["dense"]["kernel"], self.file["fc.weight"].T)
        assert model["dense"]["bias"].tolist() == [5, 5, 5]

    def test_patterns(self):
        """Pairs of patterns and replacements are applied in turn."""
        model = {"layers": [{"w": np.zeros(2)}, {"w": np.zeros(2)}]}
        file = {"h0_w": np.full(2, 1.0), "h1_w": np.full(2, 2.0)}

        ferry.load_weights(model, file, map=[(r"layers/(\d+)", r"h\1"), ("/", "_")])

        assert [layer["w"].tolist() for layer in model["layers"]] == [[1, 1], [2, 2]]

    def test_one_tensor_for_several(self):
        """Functions of the array may take different parts of one tensor."""
        model = {"q": np.zeros(2), "k": np.zeros(2)}
        said = {
            "q": ("qk", lambda value: value[:2]),
            "k": ("qk", lambda value: value[2:]),
        }

        ferry.load_weights(model, {"qk": np.arange(4.0)}, map=said)

        assert model["k"].tolist() == [2, 3]

    def test_ends_of_names(self):
        """A variable may be named by the end of its name, where no other ends like that."""
        model = {"net": {"a": {"w": np.zeros(1)}, "b": {"w": np.zeros(1)}}}

        ferry.load_weights(model, {"x": np.ones(1)}, map={"b/w": "x"}, strict=False)

        assert model["net"]["b"]["w"] == 1
        with pytest.raises(ferry.MismatchError, match="does not have"):
            ferry.load_weights(model, {"x": np.ones(1)}, map={"w": "x"})

    def test_over_names(self):
        """What the map says goes before a tensor of the variable's name, which is left over."""
        model = {"a": np.zeros(1), "b": np.zeros(1)}

        report = ferry.load_weights(
            model, {"a": np.ones(1), "b": np.full(1, 2.0)}, map={"a": "b"}, strict=False
        )

        assert model["a"] == 2
        assert [one.name for one in report.missing] == ["b"]
        assert [one.name for one in report.unexpected] == ["a"]

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"dense/kernl": "fc.weight"}, "does not have\nhint: nearest is dense/kernel"),
            ({"dense/kernel": "fc.wight"}, "map says fc.wight, which is not there"),
            ({"dense/kernel": "fc.weight"}, r"expected float64 \[2, 3\], fc.weight is"),
            ({"dense/kernel": ("fc.weight", "flip")}, "expected 'transpose', axes or a function"),
            ({"dense/kernel": ("fc.weight", (0, 2))}, "are no axes"),
            ({"dense/kernel": ("fc.weight", np.ravel)}, r"its shape is \[6\] after the transform"),
        ],
    )
    def test_mistakes(self, said, message):
        """What the map gets wrong is said, and nothing is changed."""
        model = self.model()

        with pytest.raises(ferry.MismatchError, match=message):
            ferry.load_weights(model, self.file, map=said)

        assert not model["dense"]["kernel"].any()


def test_conventions_of_torch_are_not_guessed():
    """A square weight fits a kernel in shape, and is not taken for it."""
    model = {"dense": {"kernel": np.zeros((3, 3)), "bias": np.zeros(3)}}

    with pytest.raises(ferry.MismatchError, match=r"dense/kernel.*could be fc.weight"):
        ferry.load_weights(model, {"fc.weight": np.ones((3, 3)), "fc.bias": np.ones(3)})


class Slots:
    __slots__ = ("__secret", "unset", "w")

    def __init__(self):
        self.w = np.zeros(2)
        self.__secret = np.zeros(3)


class Point(NamedTuple):
    x: np.ndarray
    y: np.ndarray


class Plain:
    shared = np.zeros(9)  # of the class, not of the model

    def __init__(self):
        self.w = np.zeros((2, 3))
        self.parts = [np.zeros(1), {"deep": (np.zeros(2),)}]
        self.slots = Slots()
        self.point = Point(np.zeros(1), np.zeros(2))
        self.me = self
        self.again = self.w
        self.name, self.rate, self.call, self.kind = "plain", 0.1, print, Plain

    @property
    def bad(self):
        raise RuntimeError("properties are not to be called")


def test_plain_objects(tmp_path):
    """Arrays are found wherever they lie in an object, and set in place; cycles end."""
    model, fresh = Plain(), Plain()
    for number, one in enumerate(list_variables(model)):
        one.assign(np.full(one.shape, number + 1.0))
    held = fresh.w

    ferry.save_weights(model, tmp_path / "plain.safetensors")
    report = ferry.load_weights(fresh, tmp_path / "plain.safetensors")

    assert list(report.loaded) == [
        "w",
        "parts/0",
        "parts/1/deep/0",
        "slots/_Slots__secret",
        "slots/w",
        "point/x",
        "point/y",
    ]
    assert values(fresh) == values(model)
    assert fresh.w is held
    assert not report.unexpected


def test_depth_is_bounded():
    """What nests without end is refused, not followed until the stack ends."""
    model: dict = {"w": np.zeros(1)}
    for _ in range(200):
        model = {"deeper": model}

    with pytest.raises(ferry.LimitError, match="nests deeper than 100"):
        ferry.load_weights(model, {"w": np.zeros(1)})


def test_swapped_arrays():
    """The tensors may be the variables themselves."""
    model = {"a": np.zeros(2), "b": np.ones(2)}

    ferry.load_weights(model, {"a": model["b"], "b": model["a"]})

    assert model["a"].tolist() == [1, 1]
    assert model["b"].tolist() == [0, 0]


def test_read_only_array():
    """An array that cannot be set is known before anything is."""
    model = {"a": np.zeros(2), "b": np.frombuffer(bytes(16))}

    with pytest.raises(ferry.UnsupportedError, match="'b': cannot be set: the array is read-only"):
        ferry.load_weights(model, {"a": np.ones(2), "b": np.ones(2)})

    assert not model["a"].any()


@pytest.mark.parametrize("model", [{}, 3, "text", SimpleNamespace(rate=0.1), [1.0]])
def test_no_variables(model):
    """What holds no variables is no model."""
    with pytest.raises(ferry.UnsupportedError, match="variables"):
        ferry.load_weights(model, {"a": np.zeros(1)})


def test_tied_arrays():
    """A file may have an array at each of its places, but only with the same values."""
    shared = np.zeros(2)
    model = {"embedding": shared, "head": shared}

    assert not ferry.load_weights(model, {"embedding": np.ones(2), "head": np.ones(2)}).unexpected
    assert ferry.load_weights(model, {"head": np.full(2, 2.0)}).ok
    assert shared.tolist() == [2, 2]
    with pytest.raises(ferry.MismatchError, match="head is the same variable, with other values"):
        ferry.load_weights(model, {"embedding": np.ones(2), "head": np.zeros(2)})


def test_records_are_no_weights(tmp_path):
    """A file of records is named as what it is."""
    with ferry.writer(tmp_path / "a.tfrecord") as out:
        out.write({"w": 1})

    with pytest.raises(ferry.UnsupportedError, match="it holds records, expected named tensors"):
        ferry.load_weights({"w": np.zeros(1)}, tmp_path / "a.tfrecord")


def test_sources(tmp_path):
    """An open bundle, a nested dict and a list of arrays are sources like files."""
    ferry.save({"a": {"b": np.ones(2)}}, tmp_path / "a.npz")
    model = {"a": {"b": np.zeros(2)}}

    with ferry.open(tmp_path / "a.npz") as bundle:
        assert ferry.load_weights(model, bundle).path == str(tmp_path / "a.npz")
        assert bundle["a/b"].tolist() == [1, 1]
    assert ferry.load_weights(model, {"a": {"b": np.full(2, 2.0)}}).ok
    np.savez(tmp_path / "list.npz", np.full(2, 3.0))
    ferry.load_weights(model, tmp_path / "list.npz")
    assert model["a"]["b"].tolist() == [3, 3]


def test_quantized(tmp_path):
    """Weights that were saved quantized are loaded as the floats they stand for."""
    model = {"w": np.linspace(-1, 1, 50).reshape(5, 10)}
    ferry.save_weights(model, tmp_path / "a.safetensors", quantize="int8", metadata={"by": "us"})
    fresh = {"w": np.zeros((5, 10))}

    ferry.load_weights(fresh, tmp_path / "a.safetensors")

    assert np.abs(fresh["w"] - model["w"]).max() < 0.01
    assert ferry.open(tmp_path / "a.safetensors").metadata == {"by": "us"}


@pytest.fixture(scope="session")
def module(tf):
    """A class of modules with variables in lists, dicts and other modules."""

    class Inner(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(tf.random.normal((2, 3)), name="weights")

    class Outer(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = [Inner(), Inner()]
            self.named = {"a": tf.Variable(tf.random.normal((4,)), trainable=False)}
            self.same = self.parts[0].w
            self.text = tf.Variable(["x", "y"])
            self.half = tf.Variable(tf.random.normal((3,), dtype=tf.bfloat16))
            self.loose = tf.Variable([1.0], shape=tf.TensorShape([None]))
            self.layer = tf.keras.layers.Dense(2)
            self.layer.build((2, 2))

        @tf.function
        def __call__(self, x):
            return x

    return Outer


@pytest.mark.parametrize("format", FORMATS)
def test_module_round_trip(module, tmp_path, format):
    """A tf.Module's variables come through, each once, under the paths of its objects."""
    model, fresh = module(), module()
    model.loose.assign([1.0, 2.0, 3.0])
    model(3)

    ferry.save_weights(model, tmp_path / f"module.{format}")
    report = ferry.load_weights(fresh, tmp_path / f"module.{format}")

    assert list(values(fresh).values()) == list(values(model).values())
    assert fresh.loose.shape == [None]
    assert fresh.loose.numpy().tolist() == [1, 2, 3]
    assert len(report.loaded) == 8
    assert {"named/a", "text", "half", "loose", "parts/1/w"} < set(report.loaded)


def test_module_checkpoint(tf, module, tmp_path):
    """The keys of a checkpoint of a tf.Module lead to its variables."""
    model, fresh = module(), module()
    reader = tf.train.load_checkpoint(tf.train.Checkpoint(net=model).write(str(tmp_path / "c")))
    tensors = {
        key: reader.get_tensor(key)
        for key in reader.get_variable_to_shape_map()
        if key != "_CHECKPOINTABLE_OBJECT_GRAPH"
    }

    report = ferry.load_weights(fresh, tensors, structure=False)

    assert not report.unexpected
    assert list(values(fresh).values()) == list(values(model).values())


def test_variables_in_dicts(tf):
    """A dict of variables of several kinds is a model; names of TensorFlow are names, too."""
    model = {
        "a": tf.Variable([0.0, 0.0], name="scope/first"),
        "b": tf.keras.Variable([0.0], name="second"),
        "c": np.zeros(1),
    }

    file = {"scope/first:0": np.float32([1, 2]), "b": np.float32([3]), "c": np.float64([4])}
    ferry.load_weights(model, file)

    assert model["a"].numpy().tolist() == [1, 2]
    assert model["b"].numpy().tolist() == [3]
    assert model["c"].tolist() == [4]


def test_saver(tf, tmp_path):
    """A Saver keeps variables under the names that it was given."""
    variables = {
        "w1": tf.Variable([1.0, 2.0]),
        "b": tf.keras.Variable([3.0]),
        "n": np.arange(3),
    }
    saver = ferry.Saver(variables)

    saved = saver.save(tmp_path / "step.safetensors", metadata={"step": 9})
    variables["w1"].assign([0.0, 0.0])
    variables["b"].assign([0.0])
    variables["n"][:] = 0
    report = saver.restore(tmp_path / "step.safetensors")

    assert saved.format == "safetensors"
    assert list(ferry.load(tmp_path / "step.safetensors")) == ["n", "b", "w1"]
    assert list(report.loaded) == ["w1", "b", "n"]
    assert variables["w1"].numpy().tolist() == [1, 2]
    assert variables["b"].numpy().tolist() == [3]
    assert variables["n"].tolist() == [0, 1, 2]
    ferry.save({"other": np.zeros(2, np.float32)}, tmp_path / "other.npz")
    with pytest.raises(ferry.MismatchError, match="3 missing"):
        saver.restore(tmp_path / "other.npz")
    assert not saver.restore(tmp_path / "other.npz", strict=False).loaded


def test_targets():
    """The names follow the kind of file."""
    assert target_of("a.weights.h5", None) == "keras"
    assert target_of("a.keras", None) == "keras"
    assert target_of("a", "checkpoint") == "checkpoint"
    assert target_of("a.safetensors", None) == "natural"
    assert target_of("a.npz", "keras") == "keras"


class TestTorch:
    """Modules of PyTorch, where it is installed."""

    @pytest.fixture
    def make(self):
        torch = pytest.importorskip("torch")

        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = torch.nn.Embedding(5, 4)
                self.layers = torch.nn.Sequential(
                    torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4)
                )
                self.head = torch.nn.Linear(4, 5, bias=False)
                self.head.weight = self.embedding.weight
                self.register_buffer("unsaved", torch.zeros(2), persistent=False)

            def forward(self, x):
                return self.head(self.layers(self.embedding(x)))

        return lambda: Tied().eval()

    @pytest.mark.parametrize("format", FORMATS)
    def test_round_trip(self, make, tmp_path, format):
        """A fresh module gives the same results, and the file has the names of state_dict."""
        import torch

        model, fresh, given = make(), make(), torch.arange(5)
        path = tmp_path / f"model.{format}"

        ferry.save_weights(model, path)
        report = ferry.load_weights(fresh, path)

        assert torch.equal(model(given), fresh(given))
        assert set(ferry.load(path)) == set(model.state_dict())
        assert report.ok
        assert not report.unexpected
        assert fresh.head.weight is fresh.embedding.weight
        assert fresh.head.weight.requires_grad
        again = make()
        again.load_state_dict(ferry.load(path, to="torch"))
        assert torch.equal(model(given), again(given))

    def test_strict_changes_nothing(self, make):
        """A load that fails leaves the module as it was."""
        model, fresh = make(), make()
        tensors = {f"module.{name}": part for name, part in model.state_dict().items()}
        before = values(fresh)
        last = "module.layers.2.weight"
        tensors[last] = tensors[last][:2]

        with pytest.raises(ferry.MismatchError, match=r"layers\.2\.weight: expected float32"):
            ferry.load_weights(fresh, tensors)
        assert values(fresh) == before

        tensors[last] = model.state_dict()[last.removeprefix("module.")]
        report = ferry.load_weights(fresh, tensors)
        assert set(report.how.values()) == {"prefix"}
        assert values(fresh) == values(model)

    def test_without_memory(self, make):
        """A module without memory or shapes is refused before anything is set."""
        import torch

        with pytest.raises(ferry.UnsupportedError, match=r"meta device: module.to_empty"):
            ferry.load_weights(torch.nn.Linear(2, 2, device="meta"), {"weight": np.zeros((2, 2))})
        with pytest.raises(ferry.UnsupportedError, match="no shape yet: call the module once"):
            ferry.load_weights(torch.nn.LazyLinear(2), {"weight": np.zeros((2, 2))})

    def test_from_tensorflows_names(self):
        """A kernel becomes a weight if the user says so."""
        torch = pytest.importorskip("torch")
        model = torch.nn.Linear(3, 2)
        file = {
            "dense/kernel": np.arange(6, dtype="f4").reshape(3, 2),
            "dense/bias": np.ones(2, "f4"),
        }

        ferry.load_weights(
            model, file, map={"weight": ("dense/kernel", "transpose"), "bias": "dense/bias"}
        )

        assert model.weight.tolist() == file["dense/kernel"].T.tolist()


def test_jax(tmp_path):
    """JAX's arrays, which never change, are replaced in what holds them."""
    jax = pytest.importorskip("jax")
    model = {"a": jax.numpy.zeros(2), "b": [jax.numpy.zeros(3, "bfloat16")]}

    ferry.load_weights(model, {"a": np.float32([1, 2]), "b/0": np.ones(3, "f4")})

    assert model["a"].tolist() == [1, 2]
    assert str(model["b"][0].dtype) == "bfloat16"
    with pytest.raises(ferry.UnsupportedError, match="never change"):
        ferry.load_weights({"a": (jax.numpy.zeros(2),)}, {"a/0": np.ones(2, "f4")})


@pytest.mark.parametrize("name", ["sequential", "nested"])  # of lists TensorFlow knows nothing
def test_tensorflow_restores_a_checkpoint_of_weights(tf, makers, name, tmp_path):
    """What is saved of a model that TensorFlow tracks, tf.train.Checkpoint puts into another."""
    model, value = makers[name]()
    other, _ = makers[name]()
    ferry.save_weights(model, tmp_path / "x.ckpt")
    tf.train.Checkpoint(other).read(str(tmp_path / "x.ckpt")).assert_consumed()

    np.testing.assert_array_equal(other(value), model(value))


# Options


def test_options_are_of_files():
    """A dict of tensors is not opened, so options for opening are refused by name."""
    with pytest.raises(TypeError, match="names, storage_options: only files"):
        ferry.load_weights(
            {"a": np.zeros(2)}, {"a": np.ones(2)}, names="keys", storage_options={"region": "x"}
        )


def test_options_reach_the_format(tmp_path):
    """A checkpoint is written in shards and read by its keys; npz takes a level."""
    model = {"a": np.arange(3.0), "b": {"c": np.arange(4.0)}}
    ferry.save_weights(model, tmp_path / "x.ckpt", layout="names", shards=2, durable=False)
    loud = ferry.save_weights(model, tmp_path / "x.npz", compression="deflate", level=1)
    fresh = {"a": np.zeros(3), "b": {"c": np.zeros(4)}}

    assert len(list(tmp_path.glob("x.ckpt.data-*-of-00002"))) == 2
    assert loud.format == "npz"
    assert ferry.load_weights(fresh, tmp_path / "x.ckpt", names="keys").ok
    assert fresh["b"]["c"].tolist() == [0, 1, 2, 3]


def test_an_unknown_option_is_refused(tmp_path):
    """A misspelt option is refused, and the nearest one is named."""
    model = {"a": np.ones(3)}
    path = tmp_path / "x.npz"
    ferry.save_weights(model, path)
    saver = ferry.Saver(model)
    for call in (ferry.Saver.restore, ferry.load_weights):
        owner = saver if call is ferry.Saver.restore else model
        with pytest.raises(ferry.OptionError, match="npz has no option 'verfiy'") as caught:
            call(owner, path, verfiy=False)
        assert caught.value.hint == "did you mean 'verify'?"
    for call in (ferry.Saver.save, ferry.save_weights):
        owner = saver if call is ferry.Saver.save else model
        with pytest.raises(ferry.OptionError, match="npz has no option 'levle'") as caught:
            call(owner, path, levle=1)
        assert caught.value.hint == "did you mean 'level'?"
