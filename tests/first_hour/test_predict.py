"""Predictions for columns as people have them: inputs go by name, and never by their order."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry

X = np.arange(8, dtype=np.float32).reshape(4, 2)
Y = X * 10
IDS = np.array([b"a", b"b", b"c", b"d"], object)


@pytest.fixture(scope="module")
def keras():
    """Keras, which decides what its models take."""
    return pytest.importorskip("keras")


@pytest.fixture(scope="module")
def models(keras, tf, tmp_path_factory):
    """One input and two, in every form that Keras, TensorFlow and Python have."""
    x, y = keras.Input((2,), name="x"), keras.Input((2,), name="y")
    one, two = keras.Model(x, x + 1), keras.Model([x, y], x - y)
    folder = tmp_path_factory.mktemp("models")
    one.save(folder / "one.keras")
    two.save(folder / "two.keras")
    two.export(folder / "two", verbose=False)

    class Module(tf.Module):
        @tf.function
        def __call__(self, x, y):
            return x - y

    class Subclassed(keras.Model):
        def call(self, x, training=None):
            return x + 1

    subclassed = Subclassed()
    subclassed(X)
    return {
        "functional": one,
        "sequential": keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x + 1)]),
        "subclassed": subclassed,
        "file": folder / "one.keras",
        "function": lambda x: x + 1,
        "list": two,
        "dict": keras.Model({"x": x, "y": y}, x - y),
        "two.keras": folder / "two.keras",
        "exported": folder / "two",
        "signature": tf.saved_model.load(str(folder / "two")).signatures["serving_default"],
        "module": Module(),
        "lambda": lambda y, x: x - y,
    }


ONE = ("functional", "sequential", "subclassed", "file", "function")
TWO = ("list", "dict", "two.keras", "exported", "signature", "module", "lambda")


@pytest.mark.parametrize("name", ONE)
def test_one_input_of_several_columns(models, name):
    """`keep=("id",)` carries the others along, and the model gets its own, whatever the order."""
    for columns in ({"id": IDS, "x": X}, {"x": X, "id": IDS}, {"id": IDS, "other": X}):
        found = ferry.predict(models[name], columns, keep=("id",), batch_size=3)

        (output,) = (value for key, value in found.items() if key != "id")
        np.testing.assert_array_equal(output, X + 1)
        assert found["id"].tolist() == IDS.tolist()


def test_the_input_of_a_sequential_model_by_name(keras):
    """`keras.Input(name="x")` names the column, whatever stands beside it."""
    model = keras.Sequential([keras.Input((2,), name="x"), keras.layers.Lambda(lambda x: x + 1)])
    result = ferry.predict(model, {"id": np.arange(len(X)), "x": X})
    assert np.array_equal(result["output"], X + 1)


@pytest.mark.parametrize("name", TWO)
def test_two_inputs_by_name(models, name):
    """Columns are inputs by their names: neither the order nor a column more changes anything."""
    for columns in ({"x": X, "y": Y}, {"a": IDS, "y": Y, "x": X}):
        (output,) = ferry.predict(models[name], columns, batch_size=2).values()

        np.testing.assert_array_equal(output, X - Y)


def test_save_predictions_keeps_ids(models, tmp_path):
    """`save_predictions(model, columns, path, keep=("id",))` writes outputs beside their ids."""
    path = tmp_path / "out.parquet"
    columns = {"id": IDS, "x": X, "label": np.arange(4)}

    ferry.save_predictions(models["functional"], columns, path, keep=("id",), batch_size=2)

    rows = ferry.load(path)
    assert sorted(rows) == ["id", "output"]
    assert rows["id"].tolist() == IDS.tolist()
    np.testing.assert_array_equal(rows["output"], X + 1)


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_what_is_not_clear_is_refused(models, name):
    """Two columns of unknown names are never fed by their order."""
    columns = {"u": X, "v": Y} if name != "subclassed" else {"u": X, "v": Y, "w": Y}
    with pytest.raises(ferry.MismatchError, match="the model takes"):
        ferry.predict(models[name], columns)


def test_lists_of_inputs(models):
    """A list of inputs is what Keras takes it for; another number of inputs is refused."""
    (output,) = ferry.predict(models["list"], [X, Y], batch_size=2).values()
    np.testing.assert_array_equal(output, models["list"].predict([X, Y], verbose=0))

    with pytest.raises(ferry.MismatchError, match="3 inputs in a list, the model takes 'x', 'y'"):
        ferry.predict(models["list"], [X, Y, Y])


def test_labels_are_no_inputs(models, tf):
    """Pairs of inputs and labels, as `tf.data` gives them, are refused and not guessed at."""
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(2)
    with pytest.raises(ferry.MismatchError, match="a tuple of 2 parts"):
        ferry.predict(models["list"], iter(dataset))
    found = ferry.predict(models["functional"], (x for x, _ in dataset))
    np.testing.assert_array_equal(found["output"], X + 1)


def test_functions_of_any_arguments():
    """Arguments with defaults are taken when their columns are there; `**rest` takes all others."""

    def scaled(x, scale=2):
        return x * scale

    def total(x, **rest):
        return x + sum(rest.values())

    np.testing.assert_array_equal(ferry.predict(scaled, {"x": X})["output"], X * 2)
    found = ferry.predict(scaled, {"scale": Y, "x": X})
    np.testing.assert_array_equal(found["output"], X * Y)
    found = ferry.predict(total, {"a": Y, "x": X, "id": IDS}, keep=("id",))
    np.testing.assert_array_equal(found["output"], X + Y)


@pytest.mark.parametrize("suffix", [".tfrecord", ".tfrecord.gz", ".npz"])
def test_a_path_is_opened(tmp_path, monkeypatch, suffix):
    """Inputs may be the path of a file: the model gets its columns, and others are kept."""
    monkeypatch.chdir(tmp_path)
    ferry.save({"x": np.arange(5, dtype=np.float32), "id": np.arange(5)}, f"in{suffix}")

    ferry.save_predictions(
        lambda x: {"y": x * 2}, f"in{suffix}", "out.npz", keep=("id",), batch_size=2
    )

    assert ferry.load("out.npz")["y"].tolist() == [0, 2, 4, 6, 8]
    assert ferry.load("out.npz")["id"].tolist() == [0, 1, 2, 3, 4]


def test_rows_stay_open(tmp_path):
    """Rows that were opened are streamed, and stay open."""
    ferry.save({"x": np.arange(5, dtype=np.float32)}, tmp_path / "in.tfrecord")
    rows = ferry.open(tmp_path / "in.tfrecord")

    assert ferry.predict(lambda x: x + 1, rows, batch_size=2)["output"].tolist() == [1, 2, 3, 4, 5]
    assert len(list(rows)) == 5


def test_an_output_with_the_name_of_what_is_kept(tmp_path):
    """Neither replaces the other: a model may give the input back, and nothing else by its name."""
    rows = {"x": np.ones(3), "id": np.arange(3)}

    def echo(x, id):  # the name of the input
        return {"y": x, "id": id}

    same = ferry.predict(echo, rows, keep=("id",))
    np.testing.assert_array_equal(same["id"], np.arange(3))
    with pytest.raises(ferry.MismatchError, match="an output that is called 'id'"):
        ferry.save_predictions(lambda x: {"id": x}, rows, tmp_path / "p.npz", keep=("id",))
    assert list(tmp_path.iterdir()) == []


def test_frames_and_datasets(tf, tmp_path):
    """A DataFrame is rows, as files are; the elements of a dataset are batches, as for Keras."""
    pandas = pytest.importorskip("pandas")

    class Upper(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def __call__(self, text):
            return {"upper": tf.strings.upper(text)}

    ferry.save_model(Upper(), tmp_path / "upper", durable=False)
    columns = {"text": ["a", "bb", "c"], "id": [1, 2, 3]}
    frame = pandas.DataFrame(columns)
    dataset = tf.data.Dataset.from_tensor_slices(columns).batch(2)
    expected = [b"A", b"BB", b"C"]

    for inputs in (frame, dataset, ferry.open(_saved(frame, tmp_path))):
        found = ferry.predict(tmp_path / "upper", inputs, keep=("id",))
        assert (found["upper"].tolist(), found["id"].tolist()) == (expected, [1, 2, 3])
        saved = tmp_path / "out.parquet"
        ferry.save_predictions(tmp_path / "upper", inputs, saved, keep=("id",), durable=False)
        assert ferry.load(saved)["upper"].tolist() == expected
    assert (
        ferry.predict(tmp_path / "upper", dataset.map(lambda row: row["text"]))["upper"].tolist()
        == expected
    )
    with pytest.raises(ferry.MismatchError, match="a batch is a tuple of 2 parts"):
        ferry.predict(tmp_path / "upper", dataset.map(lambda row: (row["text"], row["id"])))


def _saved(frame, folder):
    path = folder / "in.tfrecord"
    ferry.save(frame, path, durable=False)
    return path


def test_an_engine_that_is_none():
    """A number of workers is an engine's, and no engine."""
    with pytest.raises(ValueError, match=r"engine is 4, expected .*engines\.Local\(workers=4\)"):
        ferry.predict(lambda x: x, "x.tfrecord", engine=4)
