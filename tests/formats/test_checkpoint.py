"""Checkpoints: TensorFlow's own read, ours read by TensorFlow."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import cramjam
import numpy as np
import pytest
from checkpoints import WRITTEN, as_tf, names, read_all, resolve, save_v2
from conftest import CORPUS, ROOT
from hypothesis import given, settings, strategies as st
from strategies import NUMERIC, from_bits, numeric_arrays, same, string_arrays

from tensorferry import _native, dtypes, errors
from tensorferry.codecs import leveldb, protobuf
from tensorferry.formats.checkpoint import (
    entries as checkpoint_entries,
    graph as checkpoint_graph,
    reader as checkpoint,
)
from tensorferry.storage import open_sink, open_source
from tensorferry.storage.place import Place

INDEXES = sorted(CORPUS.glob("tensorflow/**/*.index"))

# Reading


@settings(max_examples=100)
@given(
    st.dictionaries(
        names, st.one_of(numeric_arrays(WRITTEN), string_arrays()), min_size=1, max_size=6
    )
)
def test_reads_what_tensorflow_writes(tf, tmp_path_factory, tensors):
    """Every dtype, shape and name that TensorFlow saves comes back with every bit."""
    folder = tmp_path_factory.mktemp("v2")
    save_v2(tf, folder / "model", {name: as_tf(tf, array) for name, array in tensors.items()})

    with checkpoint.open_checkpoint(Place(folder / "model")) as opened:
        assert set(opened.stored) == set(tensors)
        for name, array in tensors.items():
            stored = opened.stored[name]
            assert stored.dtype is dtypes.from_numpy(array.dtype)
            assert stored.shape == array.shape
            assert same(stored.read(), array)
    shutil.rmtree(folder)


@pytest.mark.parametrize("path", INDEXES, ids=lambda path: str(path.relative_to(CORPUS)))
def test_corpus(tf, path):
    """Every checkpoint of the corpus has the values that TensorFlow reads."""
    prefix = str(path).removesuffix(".index")
    reader = tf.train.load_checkpoint(prefix)
    theirs = set(reader.get_variable_to_shape_map()) - {checkpoint_graph.KEY}

    found = read_all(prefix, names="keys")

    assert set(found) == theirs
    for name, array in found.items():
        assert same(array, np.asarray(reader.get_tensor(name), array.dtype)), name
    assert len(read_all(prefix)) == len(found)


def test_every_path_will_do(tf, tmp_path):
    """The prefix, each file, the directory and the `checkpoint` file all name the checkpoint."""
    saved = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).save(str(tmp_path / "model.ckpt"))
    paths = (
        saved,
        f"{saved}.index",
        f"{saved}.data-00000-of-00001",
        tmp_path,
        tmp_path / "checkpoint",
        Path(saved),
    )

    for path in paths:
        assert resolve(path) == saved
        assert same(read_all(path)["v"], np.array([1, 2], np.float32))
    assert checkpoint.latest_checkpoint(tmp_path) == tf.train.latest_checkpoint(tmp_path)


def test_paths_that_name_none(tmp_path):
    """What is no checkpoint is none, and opening it says so."""
    (tmp_path / "other.bin").write_bytes(bytes(100))
    (tmp_path / "lost.data-00000-of-00001").write_bytes(b"")

    for name in ("", "missing", "other.bin", "missing.index", "lost.data-00000-of-00001"):
        assert resolve(tmp_path / name) is None
        with pytest.raises(FileNotFoundError, match="no checkpoint"):
            checkpoint.open_checkpoint(Place(tmp_path / name))


def test_directory_that_was_moved(tf, tmp_path):
    """A `checkpoint` file with absolute paths still finds its checkpoints beside it."""
    (tmp_path / "a").mkdir()
    saved = tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "a/ckpt"))
    state = tmp_path / "a/checkpoint"
    state.write_text(state.read_text().replace('"ckpt', f'"{tmp_path}/a/ckpt'))
    shutil.move(tmp_path / "a", tmp_path / "b")

    assert resolve(tmp_path / "b") == saved.replace("/a/", "/b/")


def test_directory_of_several(tf, tmp_path):
    """A directory of several checkpoints, of which nothing names the latest, is refused."""
    for name in ("one", "two"):
        save_v2(tf, tmp_path / name, {"v": tf.constant(1.0)})

    with pytest.raises(errors.FormatError, match="2 checkpoints"):
        resolve(tmp_path)


def test_object_graph(tf, tmp_path):
    """Variables are called by their paths, slots are known, and keys are still there."""
    saved = {"q.r/s": tf.Variable(5.0), "list": [tf.Variable(1.0), tf.Variable(2.0)]}
    root = tf.train.Checkpoint(net=saved, table={})
    path = root.save(str(tmp_path / "ckpt"))

    with checkpoint.open_checkpoint(Place(path)) as opened:
        assert set(opened.stored) == {"net/q.r/s", "net/list/0", "net/list/1", "save_counter"}
        assert opened.keys["net/q.r/s"] == "net/q..r.Ss/.ATTRIBUTES/VARIABLE_VALUE"
        assert opened.slots == {}
        nodes = opened.graph.nodes
        found = nodes[0]
        for step in ("net", "list", "1"):
            found = nodes[found.children[step]]
        assert found.attributes[0][2] == opened.keys["net/list/1"]
    assert set(read_all(path, names="keys")) == set(opened.keys.values())


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_slots():
    """What an optimizer keeps for a variable stands under the optimizer's name."""
    path = CORPUS / "tensorflow/saved_model/OptimizerSlotVariableModule/variables"

    with checkpoint.open_checkpoint(Place(path)) as opened:
        assert opened.slots["opt/m/v"] == ("v", "opt", "m")
        assert set(opened.slots) == {"opt/m/v", "opt/v/v"}
        assert "v" in opened.stored


def test_names_of_variables(tf, tmp_path):
    """By the names of variables where these are unique, otherwise by path."""
    root = tf.train.Checkpoint(
        a=tf.Variable(1.0, name="dense/kernel"), b=tf.Variable(2.0), c=tf.Variable(3.0)
    )
    path = root.write(str(tmp_path / "ckpt"))

    assert set(read_all(path, names="variables")) == {"dense/kernel", "b", "c"}


def test_slices(tf, tmp_path):
    """A partitioned variable is one tensor; its pieces are not listed."""
    whole = np.arange(200 * 300, dtype=np.int32).reshape(200, 300)
    cuts = [(0, 120, 0, 70), (120, 80, 0, 70), (0, 120, 70, 230), (120, 80, 70, 230)]
    pieces = [("w\xff", whole[a : a + b, c : c + d]) for a, b, c, d in cuts]
    specs = [f"200 300 {a},{b}:{c},{d}" for a, b, c, d in cuts]
    rows = [("r", whole[:150]), ("r", whole[150:])]
    texts = [("s", np.array([b"a", b"b"], object)), ("s", np.array([b"c"], object))]
    save_v2(
        tf,
        tmp_path / "model",
        [*pieces, *rows, *texts],
        [*specs, "200 300 0,150:-", "200 300 150,50:-", "3 0,2", "3 2,1"],
    )

    with checkpoint.open_checkpoint(Place(tmp_path / "model")) as opened:
        assert set(opened.stored) == {"w\xff", "r", "s"}
        assert same(opened.stored["w\xff"].read(), whole)
        assert same(opened.stored["r"].read(), whole)
        assert same(opened.stored["r"].read_part(np.s_[3, ::2]), whole[3, ::2])
        assert opened.stored["s"].read().tolist() == [b"a", b"b", b"c"]


def test_values_are_views(tf, tmp_path):
    """Arrays lie in the mapped file, are read-only, and outlive the checkpoint."""
    save_v2(tf, tmp_path / "model", {"v": tf.range(1000)})

    with checkpoint.open_checkpoint(Place(tmp_path / "model")) as opened:
        array = opened.stored["v"].read()
        again = opened.stored["v"].read()
        part = opened.stored["v"].read_part(np.s_[10:20])

    assert array.ctypes.data == again.ctypes.data
    assert part.ctypes.data == array.ctypes.data + 40
    assert not array.flags.writeable
    assert array.tolist() == list(range(1000))


def test_checksum_is_verified_once(tf, tmp_path, monkeypatch):
    """The first whole read verifies a tensor, later ones do not; a part never does."""
    save_v2(tf, tmp_path / "model", {"v": tf.range(1000)})
    data = tmp_path / "model.data-00000-of-00001"
    data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])

    with checkpoint.open_checkpoint(Place(tmp_path / "model")) as opened:
        assert opened.stored["v"].read_part(np.s_[1:3]).tolist() == [1, 2]
        with pytest.raises(errors.ChecksumError, match="corrupt"):
            opened.stored["v"].read()
    assert read_all(tmp_path / "model", verify=False)["v"][0] == 1


def test_variants(tf, tmp_path):
    """A tensor of variants is listed, and refused when it is read."""
    variant = tf.RaggedTensor.from_row_splits([1, 2], [0, 2])._to_variant()
    save_v2(tf, tmp_path / "model", {"r": variant, "v": tf.constant(1)})

    with checkpoint.open_checkpoint(Place(tmp_path / "model")) as opened:
        assert opened.stored["r"].dtype_name == "variant"
        assert "objects" in opened.stored["r"].unreadable
        with pytest.raises(errors.UnsupportedError, match="variant"):
            opened.stored["r"].read()
        assert opened.stored["v"].read() == 1


def test_missing_shard(tf, tmp_path):
    """A data file that is not there is named."""
    save_v2(tf, tmp_path / "model", {"v": tf.constant(1)})
    (tmp_path / "model.data-00000-of-00001").unlink()

    with pytest.raises(FileNotFoundError) as caught:
        checkpoint.open_checkpoint(Place(tmp_path / "model"))
    assert caught.value.filename == str(tmp_path / "model.data-00000-of-00001")


def swapped(prefix, tensors):
    """A checkpoint as a machine of the other byte order writes it."""
    entries = {b"": b"\x08\x01\x10\x01\x1a\x02\x08\x01"}
    data = b""
    for name in sorted(tensors):
        array = tensors[name]
        row = dtypes.from_numpy(array.dtype)
        if row is dtypes.STRING:
            texts = array.ravel().tolist()
            crc = _native.crc32c(np.array(list(map(len, texts)), ">u4").tobytes())
            stored = leveldb.mask(crc).to_bytes(4, "big")
            part = bytes(map(len, texts)) + stored + b"".join(texts)
            crc = _native.crc32c(stored + b"".join(texts), crc)
        else:
            unit = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
            part = np.ascontiguousarray(array).view(f"u{unit}").byteswap().tobytes()
            crc = _native.crc32c(part)
        head = checkpoint_entries.encode_kind(row, array.shape)
        place = 0, len(data), len(part), leveldb.mask(crc)
        entries[name.encode()] = _native.bundle_entry(head, *place)
        data += part
    with open_sink(f"{prefix}.index", durable=False) as sink:
        leveldb.write(list(entries), list(entries.values()), sink)
    Path(f"{prefix}.data-00000-of-00001").write_bytes(data)


def test_big_endian(tf, tmp_path):
    """Checkpoints of big-endian machines have the values that TensorFlow reads in them."""
    tensors = {
        row.name: from_bits(row, (2, 3), bytes(range(6 * row.numpy.itemsize))) for row in NUMERIC
    }
    tensors["string"] = np.array([b"ab", b"", b"c"], object)
    swapped(tmp_path / "model", tensors)

    found = read_all(tmp_path / "model")
    assert all(same(found[name], array) for name, array in tensors.items())
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    for name in ("float32", "int16", "float64", "complex64", "string", "bool"):
        assert same(found[name], np.asarray(reader.get_tensor(name), found[name].dtype))


def test_snappy_index(tf, tmp_path):
    """Blocks compressed by snappy, as old versions wrote them."""
    save_v2(tf, tmp_path / "model", {f"v{n}": tf.constant(n) for n in range(50)})
    path = tmp_path / "model.index"
    block = next(leveldb.Table(open_source(path)).blocks()).data
    body = bytes(cramjam.snappy.compress_raw(block)) + b"\x01"
    data = body + struct.pack("<I", leveldb.mask(_native.crc32c(body)))
    empty = struct.pack("<II", 0, 1)
    handle = b"\0" + protobuf.varint(len(body) - 1)
    index = b"\0\x01" + bytes([len(handle)]) + b"w" + handle + empty
    places = []
    for part in (empty, index):
        places += [protobuf.varint(len(data)), protobuf.varint(len(part))]
        crc = leveldb.mask(_native.crc32c(part + b"\0"))
        data += part + b"\0" + struct.pack("<I", crc)
    path.write_bytes(data + b"".join(places).ljust(40, b"\0") + leveldb.MAGIC)

    assert tf.train.load_checkpoint(str(tmp_path / "model")).get_tensor("v7") == 7
    assert {name: int(array) for name, array in read_all(path).items()} == {
        f"v{n}": n for n in range(50)
    }


def test_remote(s3, tmp_path):
    """A checkpoint in a store is written, found, listed and read in part."""
    url = s3.url("run")
    big = np.arange(1 << 18, dtype=np.int32).reshape(512, 512)
    for step in range(3):  # the second and third replace the one before
        checkpoint.save_tensors({"a/b": big + step, "s": np.array([b"x"], object)}, f"{url}/ckpt")

    for path in (f"{url}/ckpt", f"{url}/ckpt.index", f"{url}/checkpoint", url):
        assert resolve(path) == f"{url}/ckpt"
    with checkpoint.open_checkpoint(Place(url)) as opened:
        assert list(opened.stored) == ["a/b", "s"]
        s3.clear()
        part = opened.stored["a/b"].read_part(np.s_[3, 4:6])
        assert part.tolist() == (big + 2)[3, 4:6].tolist()
        assert same(opened.stored["a/b"].read(), big + 2)
        assert opened.stored["s"].read().tolist() == [b"x"]
    assert resolve(f"{url}/other") is None


GOLDEN = sorted((ROOT / "tests/golden/checkpoints").glob("tensorflow-*"))


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda folder: folder.name)
def test_golden(folder):
    """Checkpoints of TensorFlow 1.15 to 2.21 have the values that each reads itself."""
    for name, answers in json.loads((folder / "expected.json").read_text()).items():
        found = read_all(folder / name, names="keys")
        assert answers.keys() <= found.keys()
        for key, (dtype, shape, values) in answers.items():
            array = found.pop(key)
            assert list(array.shape) == shape
            if dtype == "string":
                assert [value.hex() for value in array.ravel().tolist()] == values
            else:
                assert (array.dtype.name, array.tobytes().hex()) == (dtype, values)
        assert not found or name == "old.ckpt"


@pytest.mark.parametrize(
    ("version", "path", "variable"),
    [
        ("1.15.0", "model/layer-0/kernel", "sequential/dense/kernel"),
        ("2.4.4", "model/layer_with_weights-0/kernel", "dense/kernel"),
        ("2.13.1", "model/layer_with_weights-0/kernel", "dense/kernel"),
        ("2.21.0", "model/_functional/_operations/1/_kernel", "sequential/dense/kernel"),
    ],
)
def test_golden_names(version, path, variable):
    """What the kernel of a Keras model is called, by its path and by its own name."""
    folder = ROOT / f"tests/golden/checkpoints/tensorflow-{version}"
    with (
        checkpoint.open_checkpoint(Place(folder / "objects-1")) as by_path,
        checkpoint.open_checkpoint(Place(folder / "objects-1"), names="variables") as by_name,
    ):
        assert same(by_path.stored[path].read(), by_name.stored[variable].read())
        assert by_path.keys[path] == by_name.keys[variable]
        assert by_path.graph.full_names()[by_path.keys[path]] == variable
        if version in ("1.15.0", "2.4.4"):  # later optimizers have variables of their own
            assert by_path.slots[f"optimizer/m/{path}"] == (path, "optimizer", "m")
            assert by_name.slots[f"Adam/{variable}/m"] == (path, "optimizer", "m")
        else:
            assert by_path.slots == {}


def test_names_of_deep_variables(tf, tmp_path):
    """A variable is named by its place in the model, not by its number in the optimizer."""
    keras = tf.keras

    class Deep(keras.Model):
        def __init__(self):
            super().__init__()
            self.first = keras.layers.Bidirectional(keras.layers.GRU(2))
            self.out = keras.layers.Dense(1)

        def call(self, x):
            return self.out(self.first(x))

    model = Deep()
    model.compile("adam", "mse")
    model.fit(np.ones((2, 3, 1), np.float32), np.ones((2, 1), np.float32), verbose=0)
    prefix = tf.train.Checkpoint(model=model).write(str(tmp_path / "deep"))
    reader = tf.train.load_checkpoint(prefix)
    kernel = "model/first/forward_layer/cell/kernel"
    with checkpoint.open_checkpoint(Place(prefix)) as opened:
        assert "/_trainable_variables/" in opened.keys[kernel]
        assert not any("_trainable_variables" in name for name in opened.stored)
        for name, stored in opened.stored.items():
            np.testing.assert_array_equal(stored.read(), reader.get_tensor(opened.keys[name]))
        cell = model.first.forward_layer.cell
        np.testing.assert_array_equal(opened.stored[kernel].read(), cell.kernel)


def test_ways_through_long_graphs():
    """Names are looked for in a graph of any depth, in bounded time and memory."""
    count = 100_000
    nodes = [checkpoint_graph.Node({"x" * 20: number + 1}) for number in range(count)]
    key = "a/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE"
    last = checkpoint_graph.Node(attributes=[("VARIABLE_VALUE", "", key)])
    keys = [key.replace("0", str(number)) for number in range(100)]
    nodes[-100:] = [
        checkpoint_graph.Node(node.children, [("VARIABLE_VALUE", "", own)])
        for node, own in zip(nodes[-100:], keys, strict=True)
    ]
    graph = checkpoint_graph.Graph(b"")
    graph.nodes = [*nodes, last]
    names, _ = checkpoint_graph.names_of(keys, lambda: graph)
    assert list(names.values()) == keys
    assert sum(map(len, names)) < 2 * checkpoint_graph.MAX_WAYS
