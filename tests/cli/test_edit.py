"""`ferry edit`, and `convert --drop`, `--set` and `--metadata`: surgery on weights."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import tensorferry as ferry

TENSORS = {
    "encoder/kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "encoder/bias": np.zeros(4, np.float32),
    "head": np.ones(3, np.float32),
    "step": np.array(7),
}
NAMES = ["model.npz", "model.safetensors", "model.ckpt", "model.arrow"]


@pytest.fixture(params=NAMES)
def path(request, tmp_path):
    """A file of weights that keeps metadata."""
    path = tmp_path / request.param
    ferry.save(TENSORS, path, metadata={"stage": "first", "owner": "us"}, durable=False)
    np.save(tmp_path / "new.npy", np.full(3, 5, np.float32))
    return path


def test_edit(path, call):
    """Tensors are dropped, renamed, set and cast, and metadata changes, in place and at once."""
    folder = path.parent
    before = sorted(os.listdir(folder))
    ran = call(
        "edit", path, "--drop", "st*", "--rename", "encoder/*=enc/*",
        "--cast", "encoder/k*=float16",
        "--set", f"head={folder}/new.npy", "--set", f"extra={folder}/new.npy",
        "--metadata", "stage=last", "--metadata", "owner=",
    )  # fmt: skip

    assert ran.code == 0, ran.err
    with ferry.open(path) as bundle:
        found = dict(bundle.items())
        assert dict(bundle.metadata)["stage"] == "last"
        assert "owner" not in bundle.metadata
    assert set(found) == {"enc/kernel", "enc/bias", "head", "extra"}
    assert found["enc/kernel"].dtype == np.float16
    np.testing.assert_array_equal(found["enc/kernel"], TENSORS["encoder/kernel"])
    np.testing.assert_array_equal(found["head"], [5, 5, 5])
    np.testing.assert_array_equal(found["extra"], [5, 5, 5])
    assert len(os.listdir(folder)) == len(before)


def test_into_another_file(path, call):
    """With -o the file stays as it is, and the name says the format."""
    kept = {name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)}
    out = path.parent / "out" / "slim.npz"
    out.parent.mkdir()
    report = json.loads(call("edit", path, "--drop", "step", "-o", out, "--json").out)

    assert set(ferry.load(out)) == set(TENSORS) - {"step"}
    assert (report["format"], report["count"]) == ("npz", 3)
    for name, data in kept.items():
        assert (path.parent / name).read_bytes() == data
    assert "exists already" in call("edit", path, "--drop", "step", "-o", out).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--drop", "stepp"], "did you mean 'step'?"),
        (["--rename", "heads=x"], "did you mean 'head'?"),
        (["--cast", "hed=float16"], "did you mean 'head'?"),
        (["--rename", "head=step"], "would both be called"),
        (["--cast", "head=string"], "not cast to string"),
        (["--set", "head=none.npy"], "none.npy"),
        (["--set", "head"], "says no file"),
        (["--metadata", "stage"], "not of the form"),
        (["--drop", "*"], "nothing would be left"),
        ([], "nothing is to be changed"),
    ],
)
def test_what_does_not_fit(tmp_path, call, arguments, message):
    """A wish that fits no tensor is an error, and the file stays as it was."""
    path = tmp_path / "model.npz"
    ferry.save(TENSORS, path, durable=False)
    data = path.read_bytes()
    ran = call("edit", path, *arguments)

    assert (ran.code, message in ran.err) == (2, True), ran.err
    assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["model.npz"]


def test_what_is_not_edited_in_place(tmp_path, call):
    """Rows, compressed files and sets of files are not edited in place; the hint works."""
    ferry.save(TENSORS, tmp_path / "model.npz.gz", durable=False)
    ran = call("edit", tmp_path / "model.npz.gz", "--drop", "step")
    assert "-o OUT" in ran.err
    assert (
        call("edit", tmp_path / "model.npz.gz", "--drop", "step", "-o", tmp_path / "o.npz").code
        == 0
    )
    ferry.save({"x": np.arange(3)}, tmp_path / "rows.parquet", durable=False)
    assert "expected tensors" in call("edit", tmp_path / "rows.parquet", "--drop", "x").err


def test_structures_stay(tmp_path):
    """A nested structure whose tensors are cast or set comes back nested."""
    value = {"layers": [{"w": np.ones(2, np.float32)}, {"w": np.zeros(2, np.float32)}], "name": "x"}
    ferry.save(value, tmp_path / "nested.npz", durable=False)
    names = list(ferry.open(tmp_path / "nested.npz"))
    ferry.edit(tmp_path / "nested.npz", casts={"*": "float16"}, set={names[0]: np.full(2, 9.0)})

    found = ferry.load(tmp_path / "nested.npz")
    assert found["name"] == "x"
    assert found["layers"][1]["w"].dtype == np.float16
    assert found["layers"][0]["w"].tolist() == [9.0, 9.0]


def test_quantized_tensors_stay(tmp_path):
    """Tensors that were saved quantized stay so, or the edit is refused: nothing grows silently."""
    rng = np.random.default_rng(0)
    ferry.save({"w": rng.random((64, 64)), "s": np.zeros(3)}, tmp_path / "q.npz", quantize="int8")
    size = (tmp_path / "q.npz").stat().st_size
    with pytest.raises(ferry.UnsupportedError, match="quantized"):
        ferry.edit(tmp_path / "q.npz", drop=["s"])
    assert (tmp_path / "q.npz").stat().st_size == size
    report = ferry.edit(tmp_path / "q.npz", tmp_path / "full.npz", drop=["s"])
    assert report.count == 1


def test_convert(tmp_path, call):
    """`convert` drops, sets and keeps metadata, of tensors and columns, and verifies the rest."""
    ferry.save(TENSORS, tmp_path / "model.npz", durable=False)
    np.save(tmp_path / "new.npy", np.full(3, 5, np.float32))
    ran = call(
        "convert", tmp_path / "model.npz", tmp_path / "m.safetensors",
        "--drop", "step,encoder/bias", "--set", f"head={tmp_path}/new.npy",
        "--metadata", "a=b", "--verify",
    )  # fmt: skip
    assert "verified" in ran.err
    with ferry.open(tmp_path / "m.safetensors") as bundle:
        assert set(bundle) == {"encoder/kernel", "head"}
        assert bundle.metadata["a"] == "b"

    rows = {"id": np.arange(4), "text": np.array([b"a"] * 4, object)}
    for name in ("rows.parquet", "rows.tfrecord"):
        with ferry.writer(tmp_path / name, durable=False) as out:
            out.write_batch(rows)
        target = tmp_path / f"out.{name.partition('.')[2]}"
        assert call("convert", tmp_path / name, target, "--drop", "text").code == 0
        assert list(ferry.open(target).columns) == ["id"]
    ran = call("convert", tmp_path / "rows.tfrecord", tmp_path / "x.tfrecord", "--metadata", "a=b")
    assert "no place for metadata" in ran.err
    ran = call("convert", tmp_path / "rows.parquet", tmp_path / "x.arrow", "--metadata", "a=b")
    assert ferry.open(tmp_path / "x.arrow").metadata["a"] == "b"
    ran = call("convert", tmp_path / "model.npz", tmp_path / "x.npz", "--drop", "stepp")
    assert "did you mean 'step'?" in ran.err


def _trained(tf):
    """A checkpoint of two variables and the slots that an optimizer has for each."""
    module, optimizer = tf.Module(), tf.compat.v1.train.AdamOptimizer(0.1)
    module.w, module.b = tf.Variable(np.ones((3, 2), "f4")), tf.Variable(np.ones(2, "f4"))
    checkpoint = tf.train.Checkpoint(model=module, optimizer=optimizer)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.ones((1, 3)) @ module.w + module.b) ** 2)
        variables = [module.w, module.b]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    return checkpoint, step


def test_slots_of_an_optimizer(tf, call, tmp_path):
    """A variable is set in place, and TensorFlow restores it, the slots and everything else."""
    first, train = _trained(tf)
    train()
    path = first.save(str(tmp_path / "x.ckpt"))
    reader = tf.train.load_checkpoint(path)
    before = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    np.save(tmp_path / "new.npy", np.full((3, 2), 9, "f4"))
    line = ["edit", path, "--set", f"model/w={tmp_path / 'new.npy'}", "--cast", "model/*=float64"]
    ran = call(*line, "-o", tmp_path / "y.ckpt")
    assert (ran.code, "9 tensors" in ran.err) == (0, True), ran.err
    assert (
        tf.train.load_checkpoint(str(tmp_path / "y.ckpt"))
        .get_tensor("model/b/.ATTRIBUTES/VARIABLE_VALUE")
        .dtype
        == np.float64
    )
    assert call(*line[:4]).code == 0

    after = tf.train.load_checkpoint(path)
    assert after.get_variable_to_shape_map().keys() == before.keys()
    second, again = _trained(tf)
    status = second.restore(path)
    again()  # makes the slots
    status.assert_consumed()
    changed = [name for name, value in before.items() if np.any(after.get_tensor(name) != value)]
    assert changed == ["model/w/.ATTRIBUTES/VARIABLE_VALUE"]
    assert (after.get_tensor(changed[0]) == 9).all()


def test_slots_are_not_lost(tf, call, tmp_path):
    """New names would part slots from their variables: that is refused, with what can be done."""
    first, train = _trained(tf)
    train()
    path = first.save(str(tmp_path / "x.ckpt"))
    for change in (["--rename", "model/w=model/kernel"], ["--drop", "optimizer/m/*"]):
        ran = call("edit", path, *change)
        assert ran.code == 2
        assert "hint: leave out the optimizer, too: optimizer/*" in ran.err
    assert call("edit", path, "--drop", "optimizer/*", "--rename", "model/w=model/k").code == 0
    module = tf.Module()
    module.k = tf.Variable(np.zeros((3, 2), "f4"))
    tf.train.Checkpoint(model=module).restore(path).assert_existing_objects_matched()
    assert module.k.numpy().any()
