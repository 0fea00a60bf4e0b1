"""Checkpoints written by us: TensorFlow's bytes, its readers, and what a crash leaves."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from checkpoints import WRITTEN, as_tf, names, read_all, save_v2
from hypothesis import given, settings, strategies as st
from strategies import (
    NUMERIC,
    numeric_arrays,
    ragged_tensors,
    same,
    sparse_tensors,
    string_arrays,
)

from tensorferry import errors
from tensorferry.formats.checkpoint import reader as checkpoint
from tensorferry.storage import system
from tensorferry.storage.place import Place
from tensorferry.tensors import layout
from tensorferry.tensors.note import Note
from tensorferry.tensors.values import RaggedTensor, SparseTensor

DATA = ".data-00000-of-00001"
TEMPORARY = re.compile(r"\..+\.ferry-[0-9a-f]{16}\.tmp")
KILLS = 100


def save(tensors, prefix, **options):
    """Writes without waiting for the disk."""
    return checkpoint.save_tensors(tensors, prefix, **{"durable": False, "state": False, **options})


@settings(max_examples=100)
@given(
    st.dictionaries(
        names, st.one_of(numeric_arrays(WRITTEN), string_arrays()), min_size=1, max_size=6
    )
)
def test_bytes_are_tensorflows(tf, tmp_path_factory, tensors):
    """The index and the data are those that TensorFlow writes, byte for byte."""
    folder = tmp_path_factory.mktemp("written")
    save_v2(tf, folder / "theirs", {name: as_tf(tf, array) for name, array in tensors.items()})
    save(tensors, folder / "ours")

    for end in (".index", DATA):
        assert (folder / f"ours{end}").read_bytes() == (folder / f"theirs{end}").read_bytes()
    shutil.rmtree(folder)


def test_bytes_of_many(tf, tmp_path):
    """Of an index of several blocks, too, with keys longer than a varint's byte."""
    tensors = {
        hashlib.sha512(bytes([index % 256, index >> 8])).hexdigest() * (index % 3 + 1): np.array(
            index
        )
        for index in range(3000)
    }
    save_v2(tf, tmp_path / "theirs", tensors)
    save(tensors, tmp_path / "ours")

    for end in (".index", DATA):
        assert (tmp_path / f"ours{end}").read_bytes() == (tmp_path / f"theirs{end}").read_bytes()
    assert (tmp_path / "ours.index").stat().st_size > 2 * 262144
    assert list(read_all(tmp_path / "ours")) == sorted(tensors)


@settings(max_examples=100)
@given(
    st.dictionaries(
        names,
        st.one_of(numeric_arrays(NUMERIC), string_arrays(), ragged_tensors(), sparse_tensors()),
        max_size=5,
    ),
    st.sampled_from(["names", "objects"]),
    st.integers(1, 3),
)
def test_roundtrip(tmp_path_factory, tensors, kind, shards):
    """Tensors of every kind and dtype come back, in either layout and any number of files."""
    folder = tmp_path_factory.mktemp("roundtrip")
    try:
        save(iter(tensors.items()), folder / "model", layout=kind, shards=shards)
    except errors.UnsupportedError:  # {"a": sparse, "a/values": ...}
        assert any("/" in name for name in tensors)
        return
    found = read_all(folder / "model")
    assert set(found) == set(tensors)
    assert all(same(found[name], tensors[name]) for name in tensors)
    shutil.rmtree(folder)


def test_what_needs_a_note(tmp_path):
    """Only a checkpoint that needs it has a note, which is hidden; the parts can be seen."""
    ragged = RaggedTensor.from_rows([[1], [2, 3]])
    sparse = SparseTensor([[0, 1]], np.array([b"x"], object), [2, 2])
    save({"v": np.zeros(3)}, tmp_path / "plain")
    save({"r": ragged, "s": sparse, "v": np.zeros(3)}, tmp_path / "noted", metadata={"m": [1]})

    assert b"_TENSORFERRY" not in (tmp_path / "plain.index").read_bytes()
    with checkpoint.open_checkpoint(Place(tmp_path / "noted")) as opened:
        assert set(opened.stored) == {"r", "s", "v"}
        assert opened.metadata == {"m": [1]}
        assert opened.stored["r"].kind == "ragged"
        assert opened.stored["r"].shape == (2, None)
        assert same(opened.stored["s"].read(), sparse)
    parts = read_all(tmp_path / "noted", parts=True)
    assert parts["r/flat_values"].tolist() == [1, 2, 3]
    assert parts["s/values"].tolist() == [b"x"]


LEAVES = st.sampled_from([np.float32, np.int64, np.bool_]).map(lambda kind: np.ones((2,), kind))
KEYS = st.text("abc./_ S", min_size=1, max_size=4)
STRUCTURES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(["a", "b", "net", "opt"]), STRUCTURES, min_size=1))
def test_objects_are_restored(tf, tmp_path_factory, structure):
    """`tf.train.Checkpoint` of the same structure restores all of it, and nothing is left over."""

    def variables(value):
        if isinstance(value, np.ndarray):
            return tf.Variable(np.zeros_like(value))
        if isinstance(value, dict):
            return {key: variables(element) for key, element in value.items()}
        return [variables(element) for element in value]

    def check(found, expected):
        if isinstance(expected, np.ndarray):
            assert same(found.numpy(), expected)
        else:
            pairs = expected.items() if isinstance(expected, dict) else enumerate(expected)
            for key, element in pairs:
                check(found[key], element)

    folder = tmp_path_factory.mktemp("objects")
    save(structure, folder / "model", layout="objects")
    root = tf.train.Checkpoint(**{name: variables(value) for name, value in structure.items()})
    root.read(str(folder / "model")).assert_consumed()

    for name, value in structure.items():
        check(getattr(root, name), value)
    with checkpoint.open_checkpoint(Place(folder / "model")) as opened:
        tensors = {name: stored.read() for name, stored in opened.stored.items()}
        found = layout.rebuild(opened.note.layout, tensors)
    assert set(found) == set(structure)  # the keys of an index are sorted
    assert same({name: found[name] for name in structure}, structure)
    shutil.rmtree(folder)


def test_default_layout(tf, tmp_path):
    """A flat dict is saved by name, a structure as objects; both are read by our own names."""
    save({"a/b": np.ones(2)}, tmp_path / "flat")
    save({"a": {"b": np.ones(2)}}, tmp_path / "nested")

    assert tf.train.load_checkpoint(str(tmp_path / "flat")).has_tensor("a/b")
    assert read_all(tmp_path / "flat").keys() == read_all(tmp_path / "nested").keys() == {"a/b"}
    with checkpoint.open_checkpoint(Place(tmp_path / "nested")) as opened:
        assert opened.keys == {"a/b": "a/b/.ATTRIBUTES/VARIABLE_VALUE"}


def test_model_is_restored(tf, tmp_path):
    """The variables of a tf.Module find their values in names with slashes."""

    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.kernel = tf.Variable(tf.zeros([2, 3]))
            self.layers = [tf.Variable(0.0), tf.Variable(0.0)]

    kernel = np.arange(6, dtype=np.float32).reshape(2, 3)
    values = {"net/kernel": kernel, "net/layers/0": np.float32(1), "net/layers/1": np.float32(2)}
    save(
        ((name, np.asarray(value)) for name, value in values.items()),
        tmp_path / "m",
        layout="objects",
    )
    net = Net()
    tf.train.Checkpoint(net=net).read(str(tmp_path / "m")).assert_consumed()

    assert same(net.kernel.numpy(), kernel)
    assert [v.numpy() for v in net.layers] == [1, 2]


@pytest.mark.parametrize("kind", ["names", "objects"])
def test_saver_restores(tf, tmp_path, kind):
    """TensorFlow 1's Saver finds variables by name, in either layout."""
    tf1 = tf.compat.v1
    values = {"dense/kernel": np.ones((2, 2), np.float32), "step": np.array(7, np.int64)}
    save(values, tmp_path / "model", layout=kind)

    with tf.Graph().as_default(), tf1.Session() as session:
        variables = [
            tf1.get_variable(name, shape=value.shape, dtype=value.dtype)
            for name, value in values.items()
        ]
        tf1.train.Saver(variables).restore(session, str(tmp_path / "model"))
        found = session.run(variables)
    assert all(
        same(np.asarray(left), right) for left, right in zip(found, values.values(), strict=True)
    )


def test_several_data_files(tf, tmp_path):
    """Tensors are dealt out, and TensorFlow finds them all."""
    tensors = {f"v{index}": np.full(100 + index, index, np.int32) for index in range(10)}
    written = save(tensors, tmp_path / "model", shards=3)

    assert [os.path.basename(path) for path in written.paths] == [
        *(f"model.data-{shard:05}-of-00003" for shard in range(3)),
        "model.index",
    ]
    sizes = [os.path.getsize(path) for path in written.paths]
    assert written.nbytes == sum(sizes)
    assert max(sizes[:3]) - min(sizes[:3]) < 500
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    assert all(same(reader.get_tensor(name), array) for name, array in tensors.items())


def test_names_that_none_can_have(tmp_path):
    """Names that the format uses itself, and names twice, are refused and leave nothing."""
    for name in ("", "\0a", "_CHECKPOINTABLE_OBJECT_GRAPH", "_TENSORFERRY", "\ud800"):
        with pytest.raises(errors.UnsupportedError):
            save({name: np.zeros(1)}, tmp_path / "model")
    for tensor in (SparseTensor([[0]], [1.0], [2]), RaggedTensor.from_rows([[1], []])):
        with pytest.raises(errors.UnsupportedError, match="is no name"):
            save({"": tensor}, tmp_path / "model")
    with pytest.raises(errors.UnsupportedError, match="two tensors"):
        save(iter([("a", np.zeros(1)), ("a", np.zeros(1))]), tmp_path / "model")
    with pytest.raises(IsADirectoryError):
        save({}, f"{tmp_path}/")
    assert os.listdir(tmp_path) == []


def test_empty(tmp_path):
    """A checkpoint without tensors is one."""
    save({}, tmp_path / "model")
    assert read_all(tmp_path / "model") == {}


# The `checkpoint` file


def test_state(tf, tmp_path):
    """TensorFlow finds our latest checkpoint, and we keep as many as are asked for."""
    for step in range(5):
        checkpoint.save_tensors(
            {"v": np.array(step)}, tmp_path / f"ckpt-{step}", durable=False, keep=2
        )

    assert tf.train.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-4")
    state = tf.train.get_checkpoint_state(tmp_path)
    assert [os.path.basename(path) for path in state.all_model_checkpoint_paths] == [
        "ckpt-3",
        "ckpt-4",
    ]
    files = {f"ckpt-{step}{end}" for step in (3, 4) for end in (".index", DATA)}
    assert {*os.listdir(tmp_path)} == files | {"checkpoint"}
    assert read_all(tmp_path)["v"] == 4


def test_state_is_written_if_it_changes(tmp_path):
    """Saving the latest checkpoint again leaves the `checkpoint` file, unless it is to last."""

    def state():
        found = (tmp_path / "checkpoint").stat()
        return found.st_ino, found.st_mtime_ns

    save({"a": np.ones(3)}, tmp_path / "model-1", state=True)
    before = state()
    save({"a": np.zeros(3)}, tmp_path / "model-1", state=True)
    assert state() == before
    save({"a": np.zeros(3)}, tmp_path / "model-1", state=True, durable=True)
    assert state() != before
    before = state()
    save({"a": np.zeros(3)}, tmp_path / "model-2", state=True)
    assert state() != before


def test_state_of_tensorflow_is_kept(tf, tmp_path):
    """Checkpoints of TensorFlow's stay in the list that ours join."""
    root = tf.train.Checkpoint(v=tf.Variable(1.0))
    tf.train.CheckpointManager(root, tmp_path, max_to_keep=3).save()
    checkpoint.save_tensors({"v": np.zeros(1)}, tmp_path / "ours", durable=False)

    paths = tf.train.get_checkpoint_state(tmp_path).all_model_checkpoint_paths
    assert [os.path.basename(path) for path in paths] == ["ckpt-1", "ours"]


# Replacing


def test_replacing_leaves_the_usual_names(tf, tmp_path):
    """A checkpoint that was replaced has the files of a new one, and the same bytes."""
    for shards in (1, 1, 2, 2, 1):
        save({"v": np.arange(shards * 10)}, tmp_path / "model", shards=shards)
        save({"v": np.arange(shards * 10)}, tmp_path / "fresh", shards=shards)
        for path in tmp_path.glob("fresh*"):
            other = tmp_path / path.name.replace("fresh", "model")
            assert other.read_bytes() == path.read_bytes()
            path.unlink()
        assert len(os.listdir(tmp_path)) == shards + 1


def test_without_second_names(tf, tmp_path, monkeypatch):
    """Where files have one name only, the new data keeps its own, and TensorFlow reads it."""

    def refuse(*arguments):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    for step in range(4):
        save({"v": np.array(step)}, tmp_path / "model")
        assert tf.train.load_checkpoint(str(tmp_path / "model")).get_tensor("v") == step
        assert read_all(tmp_path / "model")["v"] == step
        count = step % 2 + 1
        assert {*os.listdir(tmp_path)} == {"model.index", f"model.data-00000-of-{count:05}"}


def test_failing_leaves_the_old_one(tmp_path):
    """If something fails while it is written, the old checkpoint stays as it was."""
    save({"v": np.array(1)}, tmp_path / "model")

    def failing():
        yield "v", np.array(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save(failing(), tmp_path / "model")
    assert read_all(tmp_path / "model")["v"] == 1
    assert {*os.listdir(tmp_path)} == {"model.index", "model.data-00000-of-00001"}


KILLED = """
import os, random, signal, sys, time
import numpy as np
from tensorferry.formats.checkpoint import reader as checkpoint
from tensorferry.storage import system
from tensorferry.storage.place import Place
folder, kills = sys.argv[1], int(sys.argv[2])
choose = random.Random(5)
prefix = f"{folder}/model"

def save(value, durable=False):
    tensors = {f"v{n}": np.full(900, value) for n in range(9)}
    shards = 1 + value // 4 % 2
    checkpoint.save_tensors(tensors, prefix, durable=durable, state=False, shards=shards)

def write(first):
    durable = random.Random(os.getpid()).random() < 0.2
    for value in range(first, 10**9):
        save(value, durable)

times = []
for _ in range(5):
    start = time.perf_counter()
    save(0)
    times.append(time.perf_counter() - start)
last = 0
for _ in range(kills):
    child = os.fork()
    if child == 0:
        write(last + 1)
    time.sleep(choose.random() * 4 * max(times))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with checkpoint.open_checkpoint(Place(prefix)) as opened:
        found = {int(n) for stored in opened.stored.values() for n in np.unique(stored.read())}
    assert len(found) == 1 and min(found) >= last, (found, last)
    last = found.pop()
print(last)
"""


def test_killed_at_any_moment(tf, tmp_path):
    """Killed while a checkpoint is replaced leaves the old or the new one, never a mixture."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(KILLS)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)

    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 10
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    assert all((reader.get_tensor(f"v{n}") == int(result.stdout)).all() for n in range(9))
    # What was left is removed when the next one is written, but for files that are no data.
    save({"v": np.array(1)}, tmp_path / "model")
    left = {name for name in os.listdir(tmp_path) if not TEMPORARY.fullmatch(name)}
    assert left == {"model.index", "model.data-00000-of-00001"}


@pytest.mark.parametrize("durable", [True, False])
def test_stopped_at_every_step(tmp_path, monkeypatch, durable):
    """Between any two changes of names, the checkpoint that is there is whole."""
    steps = []

    def watched(function):
        def call(*arguments, **options):
            found = {int(n) for array in read_all(tmp_path / "model").values() for n in array}
            steps.append((function.__name__, found))
            return function(*arguments, **options)

        return call

    save({"a": np.full(9, 1), "b": np.full(9, 1)}, tmp_path / "model")
    with monkeypatch.context() as patch:
        for name in ("replace", "link", "unlink"):
            patch.setattr(os, name, watched(getattr(os, name)))
        patch.setattr(system, "exchange", watched(system.exchange))
        save({"a": np.full(9, 2), "b": np.full(9, 2)}, tmp_path / "model", durable=durable)

    over = ["replace"] if durable else ["exchange", "unlink"]
    names = [
        "replace",  # the new data
        *over,  # the new index
        "link",
        *over,  # the data under its usual name
        *over,  # the index that means this
        "unlink",  # the data under its other name
        "unlink",  # the lock
    ]
    values = [{1}, {1}] + [{2}] * (len(names) - 2)
    assert steps == list(zip(names, values, strict=True))


def test_readers_while_it_is_replaced(tmp_path):
    """A reader sees all of the old or all of the new, whenever it opens the checkpoint."""
    stop = threading.Event()

    def write():
        step = 0
        while not stop.is_set():
            step += 1
            save({f"v{n}": np.full(50, step) for n in range(5)}, tmp_path / "model")

    save({f"v{n}": np.full(50, 0) for n in range(5)}, tmp_path / "model")
    writer = threading.Thread(target=write)
    writer.start()
    seen: set[int] = set()
    reads, deadline = 0, time.monotonic() + 60
    try:
        while reads < 200 or (len(seen) < 3 and time.monotonic() < deadline):  # a disk may be slow
            values = {int(n) for array in read_all(tmp_path / "model").values() for n in array}
            assert len(values) == 1
            seen |= values
            reads += 1
    finally:
        stop.set()
        writer.join()
    assert len(seen) > 2


def test_note_of_the_caller(tmp_path):
    """A note that the caller fills is kept with what is added to it."""
    note = Note(origins={"v": {"device": "GPU:0"}})
    save({"v": np.zeros(1), "r": RaggedTensor.from_rows([[1]])}, tmp_path / "m", note=note)

    with checkpoint.open_checkpoint(Place(tmp_path / "m")) as opened:
        assert opened.note.origins == {"v": {"device": "GPU:0"}}
        assert set(opened.stored) == {"v", "r"}
