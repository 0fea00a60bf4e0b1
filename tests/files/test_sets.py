"""Checkpoints are found by their names: a short way that is the long one, in less time."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest
import tensorflow as tf

import tensorferry as ferry
from tensorferry.errors import FerryError
from tensorferry.files.open import Reading
from tensorferry.files.plain import look_for_set

LENDING = Reading(lends=True)
VALUES = {
    "plain.ckpt": {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.array(3.0)},
    "model.ckpt-900": {"a": np.arange(6, dtype="i8")},
    "strings.ckpt": {"a": np.array([b"x", b"yz"], object), "b": np.zeros(2, "u1")},
    "nested.ckpt": {"a": {"b": [np.zeros(2, "f4"), np.ones(3, "i4")]}, "c": 1.5},
    "ragged.ckpt": {"r": ferry.RaggedTensor.from_rows([[1, 2], [3]])},
    "empty.ckpt": {"a": np.zeros((0, 3), "i8")},
    "large.ckpt": {"a": np.arange(1 << 16, dtype="f8"), "b": np.ones(3, "f2")},
}


def same(one: object, other: object) -> bool:
    """Whether two values have the same types, dtypes and bytes."""
    return ferry.dumps(one) == ferry.dumps(other)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("lends", [False, True])
def test_the_short_way_gives_what_the_long_one_gives(tmp_path, name, lends):
    """Values, infos, metadata, files, the object graph, and whether arrays are writable."""
    path = str(tmp_path / name)
    ferry.save(VALUES[name], path, metadata={"step": 9}, durable=False)
    how = Reading(lends=lends)
    found = how.look(path)
    assert found is not None

    with how.open_found(found) as short, how.open_any(path) as long:
        assert list(short) == list(long)
        assert dict(short.infos()) == dict(long.infos())
        for fact in ("metadata", "files", "version", "format", "layout", "path", "checksums"):
            assert getattr(short, fact) == getattr(long, fact)
        assert short.details.keys == long.details.keys
        assert short.details.graph_bytes == long.details.graph_bytes
        assert short.place == long.place
        for tensor in long:
            assert same(short[tensor], long[tensor])
            if isinstance(long[tensor], np.ndarray):
                assert short[tensor].flags.writeable == long[tensor].flags.writeable
        assert same(short.value(), long.value())
        with pickle.loads(pickle.dumps(short)) as again:
            assert same(again.value(), long.value())
    assert same(ferry.load(path), LENDING.open_any(path).value())


def test_checkpoints_of_tensorflow(tmp_path):
    """A checkpoint of objects has its names, its keys and its slots either way."""
    model = tf.Module()
    model.w, model.inner = tf.Variable([1.0, 2.0], name="w"), tf.Module()
    model.inner.b = tf.Variable(3, name="b")
    path = tf.train.Checkpoint(model=model).write(str(tmp_path / "tf.ckpt"))

    with ferry.open(path) as short, LENDING.open_any(path) as long:
        assert LENDING.look(path) is not None
        assert list(short) == list(long)
        assert dict(short.infos()) == dict(long.infos())
        assert short.details.graph == long.details.graph
        assert all(same(short[name], long[name]) for name in long)


@pytest.mark.parametrize("end", [".index", ".data-00000-of-00001"])
def test_damage_is_reported_by_the_long_way(tmp_path, end):
    """A byte that is changed, or bytes that are missing, give the value or the error of before."""
    path = str(tmp_path / "x.ckpt")
    ferry.save({"a": np.arange(3, dtype="f4"), "b": np.array([b"x"], object)}, path, durable=False)
    data = (tmp_path / f"x.ckpt{end}").read_bytes()

    def outcome(load):
        try:
            return ferry.dumps(load())
        except FerryError as error:
            return type(error), error.message, error.path, error.offset, error.tensor

    changed = [
        data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in range(len(data))
    ]
    for content in [*changed, *(data[:size] for size in range(0, len(data), 7))]:
        (tmp_path / f"x.ckpt{end}").write_bytes(content)
        assert outcome(lambda: ferry.load(path)) == outcome(lambda: LENDING.open_any(path).value())


def test_what_goes_the_long_way(tmp_path):
    """Other options, several data files, and a file or folder of the very name."""
    value = {"a": np.arange(4, dtype="f4")}
    path = str(tmp_path / "x.ckpt")
    ferry.save(value, path, durable=False)
    assert look_for_set(path, lends=True) is not None
    assert Reading(verify=False).look(path) is None
    assert Reading(preferred={"names": "keys"}).look(path) is None
    assert Reading(given={"names": "keys"}).look(path) is None
    assert Reading(parts=True).look(path) is None
    assert look_for_set(f"file://{path}", lends=True) is None
    assert look_for_set(str(tmp_path / "none.ckpt"), lends=True) is None
    assert look_for_set(str(tmp_path / "x"), lends=True) is None
    ferry.save({**value, "b": np.ones(3)}, str(tmp_path / "two.ckpt"), shards=2, durable=False)
    assert look_for_set(str(tmp_path / "two.ckpt"), lends=True) is None

    (tmp_path / "x.ckpt").mkdir()
    shutil.copy(tmp_path / "x.ckpt.index", tmp_path / "x.ckpt" / "other.index")
    assert look_for_set(path, lends=True) is None
    assert same(ferry.load(path), LENDING.open_any(path).value())
