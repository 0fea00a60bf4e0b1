"""SavedModels of tensors, which TensorFlow loads and calls."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import arrays, same

import tensorferry as ferry
from tensorferry import dtypes
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.savedmodel import program as programs

VALUE = {
    "logits": np.arange(6, dtype=np.float32).reshape(2, 3),
    "text": np.array([b"drei", b"\0\xff"], object),
    "encoder": {"ids": np.arange(3), "layers": [np.float16([1, 2]), np.zeros((0, 4), bool)]},
}
NAMES = {"logits", "text", "encoder/ids", "encoder/layers/0", "encoder/layers/1"}


@pytest.fixture
def path(tmp_path):
    """A SavedModel of some tensors."""
    return ferry.save(VALUE, tmp_path / "model", format="savedmodel", metadata={"step": 9}).path


def flat(value):
    """The tensors of `VALUE` by the names that they have in a signature."""
    encoder = value["encoder"]
    return {
        **{name: value[name] for name in ("logits", "text")},
        **{f"encoder/layers/{place}": array for place, array in enumerate(encoder["layers"])},
        "encoder/ids": encoder["ids"],
    }


def test_tensorflow_loads(tf, path):
    """`tf.saved_model.load` gives variables by their paths, and a signature that returns all."""
    loaded = tf.saved_model.load(path)

    assert isinstance(loaded.logits, tf.Variable)
    assert loaded.encoder.ids.name == "encoder/ids:0"
    assert same(loaded.text.numpy(), VALUE["text"])
    signature = loaded.signatures["serving_default"]
    assert {name: spec.shape.as_list() for name, spec in signature.structured_outputs.items()} == {
        name: list(array.shape) for name, array in flat(VALUE).items()
    }
    found = signature()
    assert found.keys() == NAMES
    for name, array in flat(VALUE).items():
        assert same(found[name].numpy(), array)
    loaded.logits.assign_add(tf.ones((2, 3)))  # the function reads the variable, no copy of it
    assert same(signature()["logits"].numpy(), VALUE["logits"] + 1)


def test_tensorflow_1_and_serving_load(tf, path, tmp_path):
    """A session restores by the saver of the model, as Serving does; the saver also saves."""
    v1 = tf.compat.v1
    with v1.Session(graph=tf.Graph()) as session:
        graph = v1.saved_model.load(session, ["serve"], path)
        outputs = graph.signature_def["serving_default"].outputs
        found = session.run({name: output.name for name, output in outputs.items()})
        prefix = str(tmp_path / "again")
        session.run(
            graph.saver_def.save_tensor_name, {graph.saver_def.filename_tensor_name: prefix}
        )

    assert found.keys() == NAMES
    for name, array in flat(VALUE).items():
        assert same(np.asarray(found[name], array.dtype), array)
    assert same(
        tf.train.load_checkpoint(prefix).get_tensor("logits/.ATTRIBUTES/VARIABLE_VALUE"),
        VALUE["logits"],
    )


def test_read_again(path):
    """Nesting, order, dtypes and metadata come back, and it is sound."""
    found = ferry.load(path)

    assert list(found) == list(VALUE)
    for name, array in flat(found).items():
        assert same(array, flat(VALUE)[name])
    assert ferry.open(path).metadata == {"step": 9}
    assert ferry.verify(path).sound
    info = ferry.inspect(path)
    (graph,) = info.model.graphs
    assert {output.name for output in graph.signatures[0].outputs} == NAMES
    assert not info.problems
    assert not graph.custom_ops
    assert all(risk.expected for risk in graph.risks)


def test_our_models_are_loaded(tf, path):
    """`load_model` finds nothing in it that does more than compute."""
    found = ferry.load_model(path)()

    assert same(found["logits"], VALUE["logits"])


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(array=arrays())
def test_any_array(tf, tmp_path, array):
    """TensorFlow returns the same bits, whatever the dtype and the shape."""
    path = str(tmp_path / "any")
    if dtypes.from_numpy(array.dtype).name in programs.UNSET:
        with pytest.raises(UnsupportedError, match="TensorFlow has no variables of"):
            ferry.save(array, path, format="savedmodel")
        return
    ferry.save(array, path, format="savedmodel", durable=False)
    (found,) = tf.saved_model.load(path).signatures["serving_default"]().values()

    assert same(np.asarray(found.numpy(), array.dtype), array)
    assert same(ferry.load(path), array)


def test_dtypes_without_variables(tf):
    """The dtypes that are refused are those of which TensorFlow sets no variable."""
    for row in dtypes.TABLE:
        if row.numpy is None or row is dtypes.STRING:
            continue
        handle = tf.raw_ops.VarHandleOp(dtype=row.enum, shape=[2], shared_name=row.name)
        value = tf.io.parse_tensor(ferry.dumps(np.zeros(2, row.numpy)), row.enum)
        try:
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)
        except tf.errors.InvalidArgumentError:
            assert row.name in programs.UNSET
        else:
            assert row.name not in programs.UNSET


def test_sparse_and_ragged(tf, tmp_path):
    """The parts of a sparse and of a ragged tensor are variables; they come back as one."""
    value = {
        "tokens": tf.ragged.constant([[5, 17], [8]], dtype=tf.int64),
        "mask": tf.sparse.from_dense([[0, 1], [2, 0]]),
    }
    path = ferry.save(value, tmp_path / "model", format="savedmodel").path
    found = ferry.load(path)

    assert found["tokens"].to_list() == [[5, 17], [8]]
    assert same(found["mask"].to_dense(), np.int32([[0, 1], [2, 0]]))
    loaded = tf.saved_model.load(path)
    assert same(loaded.tokens.flat_values.numpy(), np.array([5, 17, 8]))


def test_names_and_devices(tf, tmp_path):
    """A variable comes back as one, with its name and device."""
    bias = tf.Variable([0.5, 0.25], name="bias")
    path = ferry.save(bias, tmp_path / "model", format="savedmodel").path
    again = ferry.load(path, to="tensorflow", placed=True)

    assert isinstance(again, tf.Variable)
    assert (again.name, again.device) == (bias.name, bias.device)


@pytest.mark.parametrize("name", ["a b", "ü.x", "a//b", "0", "_operations/1/_kernel", "é/.S"])
def test_unusual_names(tf, tmp_path, name):
    """Names that are no names of Python's or of scopes are keys of the signature all the same."""
    path = ferry.save({name: np.ones(2)}, tmp_path / "model", format="savedmodel").path

    assert list(ferry.load(path)) == [name]
    assert list(tf.saved_model.load(path).signatures["serving_default"]()) == [name]


@pytest.mark.parametrize(
    "name", ["signatures", "graph", "__class__", "a/_track_trackable", "get_slot_names", ""]
)
def test_names_that_are_taken(tmp_path, name):
    """A name that TensorFlow could not set is refused, and nothing is left."""
    with pytest.raises(UnsupportedError, match=r"is an attribute of every|is no name for a tensor"):
        ferry.save({name: np.ones(2)}, tmp_path / "model", format="savedmodel")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        *("a/_self_saveable_object_factories", "_self_name_based_restores/x"),
        *(".ATTRIBUTES", "x.ATTRIBUTES", "a.ATTRIBUTES/b"),
    ],
)
def test_names_that_are_not_restored(tmp_path, name):
    """TensorFlow would give another value, or none, without a word."""
    with pytest.raises(UnsupportedError, match=r"is an attribute of|ends like the name") as caught:
        ferry.save({name: np.ones(2)}, tmp_path / "model", format="savedmodel")
    assert f"{name}/".startswith(f"{caught.value.tensor}/")
    assert not list(tmp_path.iterdir())


def test_a_tensor_below_another(tmp_path):
    """TensorFlow would leave the slot of an optimizer below its variable empty: it is refused."""
    value = {"kernel": np.ones(2), "kernel/Adam": np.zeros(2)}
    with pytest.raises(UnsupportedError, match="restores nothing below a variable") as caught:
        ferry.save(value, tmp_path / "model", format="savedmodel")

    assert caught.value.tensor == "kernel/Adam"
    assert not list(tmp_path.iterdir())


def test_all_taken_names(tf):
    """Every attribute of TensorFlow's objects is refused as a name."""
    tracked = set(dir(tf.__internal__.tracking.AutoTrackable()))

    assert {name for name in tracked if not name.startswith("__")} <= programs.TAKEN


def test_nothing_to_keep(tf, tmp_path):
    """An empty dict is a model that returns nothing."""
    path = ferry.save({}, tmp_path / "model", format="savedmodel").path

    assert ferry.load(path) == {}
    assert tf.saved_model.load(path).signatures["serving_default"]() == {}


def test_replaced_as_a_whole(tmp_path, path):
    """Another SavedModel is replaced; a file is left alone, and so is a folder with others."""
    ferry.save({"x": np.ones(2)}, path, format="savedmodel")
    assert list(ferry.load(path)) == ["x"]
    assert sorted(os.listdir(path)) == ["saved_model.pb", "variables"]

    (tmp_path / "model" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("model", "file"):
        with pytest.raises(FormatError, match=r"notes\.txt|a file is there"):
            ferry.save({"x": np.ones(2)}, tmp_path / name, format="savedmodel")
    assert (tmp_path / "model" / "notes.txt").read_text() == "mine"


def test_a_store(s3, tf):
    """It is written to a store, and read there; what is there is not replaced."""
    url = f"s3://{s3.bucket}/predictions"
    saved = ferry.save(VALUE, url, format="savedmodel")

    assert len(saved.files) == 3
    assert same(ferry.load(url)["encoder"]["ids"], VALUE["encoder"]["ids"])
    assert same(ferry.load_model(url)()["logits"], VALUE["logits"])
    with pytest.raises(UnsupportedError, match="cannot be replaced in one step"):
        ferry.save(VALUE, url, format="savedmodel")
    with pytest.raises(UnsupportedError, match="is an attribute of every"):
        ferry.save({"graph": np.ones(2)}, f"{url}-2", format="savedmodel")
    with pytest.raises(FileNotFoundError):
        ferry.open(f"{url}-2")


def test_no_path():
    """Bytes and streams are refused: it is several files."""
    with pytest.raises(UnsupportedError, match="must be saved to a path"):
        ferry.dumps(VALUE, format="savedmodel")


def test_save_model_says_how(tf, tmp_path):
    """`save_model` of tensors says which call keeps them."""
    for value in (VALUE, [np.ones(2)], tf.ones(2), np.ones(2)):
        with pytest.raises(UnsupportedError) as caught:
            ferry.save_model(value, tmp_path / "model")
        assert "format='savedmodel'" in caught.value.hint


def test_many_variables(tf, tmp_path):
    """Thousands of tensors are written in an instant, and TensorFlow restores each."""
    value = {f"layer_{n}/kernel": np.float32([n]) for n in range(2000)}
    path = ferry.save(value, tmp_path / "model", format="savedmodel", durable=False).path
    found = tf.saved_model.load(path).signatures["serving_default"]()

    assert all(found[name].numpy() == array for name, array in value.items())


def test_without_tensorflow(tmp_path):
    """Neither writing nor reading imports TensorFlow."""
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, tensorferry as ferry\n"
        f"path = ferry.save({{'x': np.ones(2)}}, {str(tmp_path / 'm')!r}, format='savedmodel')\n"
        "ferry.load(path)\n"
        "sys.exit('tensorflow' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tensors_are_edited_in_place(tf, path):
    """A SavedModel of tensors is all there is of it, and is edited as any file of tensors."""
    report = ferry.edit(
        path, drop=["encoder/*"], rename={"logits": "scores"}, metadata={"step": 10}
    )

    assert not any("program" in note for note in report.notes)
    assert list(ferry.load(path)) == ["scores", "text"]
    assert ferry.open(path).metadata == {"step": 10}
    assert tf.saved_model.load(path).signatures["serving_default"]().keys() == {"scores", "text"}
