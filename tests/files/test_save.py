"""save, load and open: every value through every format that can carry it, and what goes along."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import assume, example, given, settings, strategies as st
from strategies import arrays, ragged_tensors, same, sparse_tensors, with_arrays

import tensorferry as ferry
from tensorferry import _native, dtypes, storage
from tensorferry.files.pouring import is_table

leaves = st.one_of(
    arrays(),
    ragged_tensors(),
    sparse_tensors(),
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=5),
    st.binary(max_size=5),
)
keys = st.from_regex(r"[a-z$][a-z0-9_$]{0,5}", fullmatch=True)
structures = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3),
        st.tuples(inner, inner),
    ),
    max_leaves=6,
)
# Those that carry every structure.
WHOLE = [
    "x.npz",
    "x.safetensors",
    "x.json",
    "x.structure",
    "x.npz.zst",
    "x.safetensors.gz",
    "x.arrow",
    "x.arrows",
    "x.parquet",
    "x.ckpt",
]
# Those that hold Python's values as such.
VALUES = ("json", "structure")


def unordered(value):
    """The value, with dicts in one order: that of safetensors is by dtype."""
    if isinstance(value, dict):
        return {key: unordered(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [unordered(element) for element in value]
    return tuple(map(unordered, value)) if type(value) is tuple else value


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=60)
@given(value=structures)
@example(value={"a": [False], "a0": None})
@example(value=[{"a": np.array([b"x", b"y"], object)}])
def test_structures(name, value, tmp_path_factory):
    """What is saved is loaded: nesting, kinds, dtypes, shapes and every bit."""
    has_rows = name.startswith(("x.arrow", "x.parquet"))
    assume(not (has_rows and isinstance(value, list) and is_table(value)))
    path = tmp_path_factory.getbasetemp() / name
    wanted = value if name.split(".")[1] in VALUES else with_arrays(value)

    ferry.save(value, path, durable=False)

    assert same(unordered(ferry.load(path)), unordered(wanted))


@pytest.mark.parametrize("name", [*WHOLE, "x.npy", "x.pb", "x.raw", "x.npy.zst", "x.pb.gz"])
def test_metadata(name, tmp_path):
    """Strings, numbers and lists are kept in every format."""
    metadata = {"model": "en-de", "epoch": 3, "scores": [0.5, None], "näme": "ü"}
    array = np.arange(6, dtype=np.float32).reshape(2, 3)

    saved = ferry.save(array, tmp_path / name, metadata=metadata, durable=False)

    files = [path for path in tmp_path.iterdir() if path.name not in ("checkpoint", f"{name}.json")]
    assert saved.nbytes == sum(path.stat().st_size for path in files)
    with ferry.open(tmp_path / name) as bundle:
        assert bundle.metadata == metadata
        (info,) = bundle.info.values()
        assert (info.dtype, info.shape, info.kind) == ("float32", (2, 3), "dense")
    assert same(ferry.load(tmp_path / name), array)


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors", "x.json", "x.npy", "x.pb", "x.raw"])
def test_small_dtypes(name, tmp_path):
    """bfloat16, float8 and int4 survive, and so do quantized kinds."""
    for dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "qint8"):
        numpy_dtype = dtypes.as_dtype(dtype).numpy
        array = np.array([1, 2, 3], np.int8)
        array = array.view(numpy_dtype) if dtype == "qint8" else array.astype(numpy_dtype)

        ferry.save(array, tmp_path / name, durable=False)

        assert same(ferry.load(tmp_path / name), array)


def test_a_plain_file_has_nothing_beside_it(tmp_path):
    """Without metadata there is no sidecar, and an old one goes."""
    path = tmp_path / "x.npy"
    ferry.save(np.ones(2), path, metadata={"k": "v"}, durable=False)
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "x.npy.json"]

    ferry.save(np.ones(2), path, durable=False)

    assert os.listdir(tmp_path) == ["x.npy"]
    assert ferry.open(path).metadata == {}


def test_a_writer_that_dies_leaves_a_pair(tmp_path, monkeypatch):
    """Wherever the writer stops, the file has its own metadata: the old one's or the new one's."""
    path = tmp_path / "x.npy"
    old, new = np.zeros(4, ml_dtypes.bfloat16), np.ones(4, np.float16)
    real = storage.open_sink
    for first in (True, False):
        for steps in range(4):
            for left in tmp_path.iterdir():
                left.unlink()
            ferry.save(old, path, metadata={"is": "old"} if first else None, durable=False)
            files = []

            def counted(target, steps=steps, files=files, **options):
                files.append(target)
                if len(files) > steps:
                    raise KeyboardInterrupt
                return real(target, **options)

            monkeypatch.setattr(storage, "open_sink", counted)
            with contextlib.suppress(KeyboardInterrupt):
                ferry.save(new, path, metadata={"is": "new"}, durable=False)
            monkeypatch.setattr(storage, "open_sink", real)

            value, metadata = ferry.load(path), ferry.open(path).metadata
            if value.dtype == np.float16:
                assert same(value, new)
                assert metadata == {"is": "new"}
            else:
                assert same(value, old)
                assert metadata == ({"is": "old"} if first else {})


def test_a_changed_file_is_noticed(tmp_path):
    """A file that is not what its sidecar is about is damaged, or another one."""
    path = tmp_path / "x.npy"
    ferry.save(np.ones(4), path, metadata={"k": "v"}, durable=False)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    with pytest.raises(ferry.ChecksumError, match="checksum"):
        ferry.load(path)
    assert ferry.load(path, verify=False).shape == (4,)

    path.write_bytes(data[:-1])
    with pytest.raises(ferry.FormatError):
        ferry.load(path)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"tensorferry": 2, "files": []}',
        '{"tensorferry": 1, "files": 3}',
        '{"tensorferry": 1, "files": [{}]}',
        '{"tensorferry": 1, "files": [{"size": 144, "crc32c": -1, "metadata": {}, "options": 1}]}',
        '{"tensorferry": 1, "files": [{"size": 1, "crc32c": 1, "metadata": {}, "options": {}}]}',
        '{"tensorferry": 1, "files": [{"size": 144, "crc32c": 1, "metadata": {}, '
        '"options": {"verify": false}}]}',
        '{"tensorferry": 1, "files": [{"size": 144, "crc32c": 1, "metadata": {}, '
        '"options": {"dtype": "int8", "shape": ["x"], "byteorder": "big", "order": "C"}}]}',
    ],
)
def test_sidecars_that_lie(text, tmp_path):
    """A sidecar that is none of ours is refused."""
    np.save(tmp_path / "x.npy", np.ones(2))
    (tmp_path / "x.npy.json").write_text(text)

    with pytest.raises(ferry.FormatError):
        ferry.load(tmp_path / "x.npy")


def test_json_of_others_is_no_sidecar(tmp_path):
    """A file of that name that somebody else keeps is left alone."""
    np.save(tmp_path / "x.npy", np.ones(2))
    (tmp_path / "x.npy.json").write_text('{"mine": 1}')

    assert ferry.load(tmp_path / "x.npy").tolist() == [1, 1]


def test_name_and_device(tf, tmp_path):
    """TensorFlow's device, and a variable's name, are kept, and restored on request."""
    with tf.device("/CPU:0"):
        value = {"v": tf.Variable([1.0, 2.0], name="kernel"), "t": tf.constant([[3]])}
    for name in ("x.safetensors", "x.npz"):
        ferry.save(value, tmp_path / name, durable=False)

        with ferry.open(tmp_path / name) as bundle:
            assert bundle.info["v"].origin["name"] == "kernel"
            assert "CPU:0" in bundle.info["t"].origin["device"]
        found = ferry.load(tmp_path / name, to="tensorflow", placed=True)
        assert isinstance(found["v"], tf.Variable)
        assert found["v"].name == value["v"].name
        assert found["t"].device == value["t"].device
        assert not isinstance(ferry.load(tmp_path / name, to="tensorflow")["v"], tf.Variable)

    ferry.save(value["t"], tmp_path / "x.npy", durable=False)
    assert "CPU:0" in ferry.open(tmp_path / "x.npy").info["tensor"].origin["device"]
    assert np.load(tmp_path / "x.npy").tolist() == [[3]]


def test_a_device_that_is_not_here(tf, tmp_path):
    """A device that this machine lacks is an error that says how to go on."""
    tensor = tf.constant([1.0])
    ferry.save({"x": tensor}, tmp_path / "x.safetensors", durable=False)
    data = (tmp_path / "x.safetensors").read_bytes().replace(b"CPU:0", b"GPU:7")
    (tmp_path / "x.safetensors").write_bytes(data)

    with pytest.raises(ferry.UnsupportedError, match="GPU:7"):
        ferry.load(tmp_path / "x.safetensors", to="tensorflow", placed=True)
    assert ferry.load(tmp_path / "x.safetensors", to="tensorflow")["x"].numpy() == [1]


@pytest.mark.parametrize("name", ["x.safetensors", "x.npz", "x.npy", "x.json", "x.pb"])
@pytest.mark.parametrize("kind", ["int8", "uint8", "float16", "bfloat16", "float8_e4m3fn"])
def test_quantizing(name, kind, tmp_path):
    """Floats come back within the error that is reported; the file is smaller."""
    array = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)

    saved = ferry.save(array, tmp_path / name, quantize=kind, durable=False)
    found = ferry.load(tmp_path / name)

    (report,) = saved.quantized.values()
    assert found.dtype == np.float32
    assert np.abs(found - array).max() == pytest.approx(report.largest_error, rel=1e-6)
    assert report.nbytes_after <= report.nbytes_before / 2 + 16
    assert str(ferry.load(tmp_path / name, dequantize=False).dtype) == kind
    (info,) = ferry.open(tmp_path / name).info.values()
    assert (info.dtype, info.quantized) == ("float32", kind)


def test_quantizing_by_channel_and_slices(tmp_path):
    """A slice of channels has each channel's own scale."""
    array = (np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 5) * 10
    spec = {"kind": "int8", "axis": 1, "scheme": "affine"}
    ferry.save({"w": array, "s": np.float32(3)}, tmp_path / "x.npz", quantize=spec, durable=False)

    with ferry.open(tmp_path / "x.npz") as bundle:
        whole = bundle["w"]
        for index in (np.s_[1], np.s_[:, 1:], np.s_[..., 2], np.s_[0, 2, 3], np.s_[:, ::-1, 1:3]):
            assert same(bundle.slice("w", index), np.asarray(whole[index]))


def test_quantizing_within_a_bound(tmp_path):
    """A bound that would be exceeded stops it, and nothing is written."""
    array = np.linspace(-100, 100, 1000, dtype=np.float32)

    with pytest.raises(ferry.FerryError, match="error"):
        ferry.save(array, tmp_path / "x.npz", quantize=("int8", 0.01), durable=False)
    assert os.listdir(tmp_path) == []
    ferry.save(array, tmp_path / "x.npz", quantize=("int8", 1.0), durable=False)


def test_quantizing_ragged_and_others(tmp_path):
    """The floats inside ragged and sparse tensors are quantized, integers and strings are not."""
    value = {
        "r": ferry.RaggedTensor.from_rows([[1.0, -2.0], [0.5]]),
        "s": ferry.SparseTensor([[1, 1]], np.array([4.0]), [2, 2]),
        "i": np.arange(3),
        "t": np.array([b"x"], object),
    }
    saved = ferry.save(value, tmp_path / "x.safetensors", quantize="float16", durable=False)

    assert set(saved.quantized) == {"r", "s"}
    assert same(unordered(ferry.load(tmp_path / "x.safetensors")), unordered(value))


def test_shards(tmp_path):
    """Several files and their index, as Hugging Face keeps models."""
    value = {f"t{i}": np.full(250, i, np.float32) for i in range(5)}
    path = tmp_path / "model.safetensors"

    ferry.save(value, path, shard_size="2kB", metadata={"step": 7}, durable=False)

    names = sorted(os.listdir(tmp_path))
    assert names == [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)] + [
        "model.safetensors.index.json"
    ]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 5000
    for name, file in index["weight_map"].items():
        assert safetensors.numpy.load_file(tmp_path / file)[name][0] == value[name][0]
    for given_path in (path, tmp_path / "model.safetensors.index.json"):
        with ferry.open(given_path) as bundle:
            assert bundle.metadata == {"step": 7}
            assert same(dict(bundle), value)


def test_shards_are_replaced_as_a_whole(tmp_path):
    """New files have new names while the old index is there; afterwards the old ones are gone."""
    path = tmp_path / "model.safetensors"
    ferry.save({"a": np.zeros(9), "b": np.zeros(9)}, path, shard_size=80, durable=False)
    with ferry.open(path) as bundle:
        ferry.save({"a": np.ones(9), "b": np.ones(9)}, path, shard_size=80, durable=False)
        assert bundle["b"].sum() == 0
    assert ferry.load(path)["b"].sum() == 9
    assert len(os.listdir(tmp_path)) == 3


@pytest.mark.parametrize(
    ("index", "match"),
    [
        ("[]", "weight_map"),
        ('{"weight_map": {"a": "../x.safetensors"}}', "beside"),
        ('{"weight_map": {"a": 5}}', "beside"),
        ('{"weight_map": {"b": "one.safetensors"}}', "tensor of the index"),
        ('{"weight_map": {"a": "one.safetensors"}, "metadata": 3}', "metadata"),
    ],
)
def test_indexes_that_lie(index, match, tmp_path):
    """An index that does not fit its files, or leads elsewhere."""
    safetensors.numpy.save_file({"a": np.ones(2)}, tmp_path / "one.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(index)

    with pytest.raises(ferry.FormatError, match=match):
        ferry.load(tmp_path / "model.safetensors.index.json")


def test_content_decides(tmp_path):
    """A file is recognised by its bytes, whatever its name."""
    for name in ("x.npy", "x.npz", "x.safetensors", "x.npy.zst"):
        ferry.save(np.ones(2), tmp_path / name, durable=False)
        os.replace(tmp_path / name, tmp_path / "other")

        assert same(ferry.load(tmp_path / "other"), np.ones(2))

    with pytest.raises(ferry.UnknownFormatError, match="format="):
        (tmp_path / "other").write_bytes(b"\xff\xfe nothing")
        ferry.load(tmp_path / "other")
    with pytest.raises(ferry.UnknownFormatError, match="format="):
        ferry.save(np.ones(2), tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        ferry.load(tmp_path / "nothing.npz")


def test_compression_is_named(tmp_path):
    """Compressed as a whole only where the name says so; npz deflates inside."""
    zeros = np.zeros(10_000)
    for name, compression in (("x.npy.zst", None), ("x.npy.zst", "zstd"), ("x.npz", "deflate")):
        saved = ferry.save(zeros, tmp_path / name, compression=compression, durable=False)
        assert saved.nbytes < 1000
        assert same(ferry.load(tmp_path / name), zeros)
    for name, compression in (("x.npy", "zstd"), ("x.npy", "lzma"), ("x.safetensors", "deflate")):
        with pytest.raises(ferry.UnsupportedError):
            ferry.save(zeros, tmp_path / name, compression=compression, durable=False)


@pytest.mark.parametrize("format", ["npz", "tfrecord", "checkpoint", "safetensors"])
def test_a_slash_at_the_end(tmp_path, monkeypatch, format):
    """The name of a folder is refused, whether it is there or not: no file has such a name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    for name in ("new/", "there/", "missing/x.npz/"):
        with pytest.raises(IsADirectoryError, match="name of a folder"):
            ferry.save({"x": np.arange(3)}, name, format=format)
    assert [file.name for file in tmp_path.rglob("*")] == ["there"]


def test_several_files_are_not_compressed(tmp_path):
    """What is several files is refused with the name of a format that is one."""
    for name, options in (
        ("x.ckpt", {}),
        ("x.ckpt.zst", {}),
        ("model", {"format": "savedmodel"}),
    ):
        compression = None if name.endswith(".zst") else "zstd"
        with pytest.raises(ferry.UnsupportedError, match="and not compressed") as caught:
            ferry.save({"x": [1.0]}, tmp_path / name, compression=compression, **options)
        assert "safetensors" in caught.value.hint
    assert not list(tmp_path.iterdir())


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    """What decompresses to more than the budget is refused before it is all there."""
    ferry.save(np.zeros(4 << 20, np.uint8), tmp_path / "x.npy.zst", durable=False)
    monkeypatch.setattr(ferry.limits, "memory", 1 << 20)

    with pytest.raises(ferry.LimitError, match="allowed"):
        ferry.load(tmp_path / "x.npy.zst")


def test_file_objects_and_streams(tmp_path):
    """Binary file objects, the standard output and the standard input."""
    out = io.BytesIO()
    ferry.save({"x": np.arange(3)}, out, format="npz")
    assert same(ferry.load(io.BytesIO(out.getvalue())), {"x": np.arange(3)})

    code = (
        "import sys, numpy as np, tensorferry as ferry;"
        "value = ferry.load('-'); ferry.save(value['x'] + 1, '-', format='npy')"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], input=out.getvalue(), capture_output=True, check=True
    )
    assert ferry.loads(result.stdout).tolist() == [1, 2, 3]
    with pytest.raises(ferry.UnsupportedError, match="no place"):
        ferry.save(np.ones(2, ml_dtypes.bfloat16), io.BytesIO(), format="npy")


def test_a_bundle_is_saved_lazily(tmp_path):
    """A bundle goes into another format with its structure and metadata, tensor by tensor."""
    value = {"a": [np.arange(3), {"b": np.array([b"x"], object)}], "n": None}
    ferry.save(value, tmp_path / "x.npz", metadata={"k": 1}, durable=False)

    with ferry.open(tmp_path / "x.npz") as bundle:
        ferry.save(bundle, tmp_path / "x.safetensors", durable=False)

    assert same(ferry.load(tmp_path / "x.safetensors"), value)
    assert ferry.open(tmp_path / "x.safetensors").metadata == {"k": 1}


def test_generators(tmp_path):
    """Pairs of a name and a tensor; anything else is refused."""
    for name in ("x.npz", "x.safetensors", "x.json"):
        pairs = ((f"t{i}", np.full(2, i)) for i in range(3))
        ferry.save(pairs, tmp_path / name, durable=False)
        assert [int(t[0]) for t in ferry.load(tmp_path / name).values()] == [0, 1, 2]
    with pytest.raises(TypeError, match="pairs"):
        ferry.save(iter([np.ones(2)]), tmp_path / "x.npz")
    with pytest.raises(ferry.UnsupportedError, match="tensor"):
        ferry.save(iter([("a", None)]), tmp_path / "x.npz")
    with pytest.raises(ferry.UnsupportedError, match="there already"):
        ferry.save(iter([("a", np.ones(1)), ("a", np.ones(1))]), tmp_path / "x.npz")


def test_tfrecords(tmp_path):
    """Columns are saved as Examples and loaded as columns."""
    columns = {"id": np.arange(5), "text": np.array([b"a", b"b", b"c", b"", b"e"], object)}
    for name in ("x.tfrecord", "x.tfrecord.gz"):
        ferry.save(columns, tmp_path / name, durable=False)

        assert same(ferry.load(tmp_path / name), columns)
        assert isinstance(ferry.open(tmp_path / name), ferry.Records)
    ferry.save([b"one", b"two"], tmp_path / "raw.tfrecord", durable=False)
    assert ferry.load(tmp_path / "raw.tfrecord", raw=True) == [b"one", b"two"]


def test_errors_name_file_and_tensor(tmp_path):
    """An error says which file and which tensor."""
    ferry.save({"a": {"b": np.ones(100)}}, tmp_path / "x.npz", durable=False)
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[300] ^= 1
    (tmp_path / "x.npz").write_bytes(data)

    with pytest.raises(ferry.ChecksumError) as caught:
        ferry.load(tmp_path / "x.npz")
    assert caught.value.path == str(tmp_path / "x.npz")
    assert caught.value.tensor == "a/b"


def test_what_cannot_be_carried(tmp_path):
    """Every refusal names what to do, and leaves nothing behind."""
    for value, name in (
        ({"a": np.ones(1)}, "x.npy"),
        ({"a": np.ones(1)}, "x.pb"),
        (np.array([b"x"], object), "x.raw"),
        ({"a": object()}, "x.npz"),
        ({1.5: np.ones(1)}, "x.npz"),
        (np.array([None]), "x.safetensors"),
    ):
        with pytest.raises(ferry.UnsupportedError):
            ferry.save(value, tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_raw_needs_no_arguments(tmp_path):
    """The sidecar has dtype, shape and byte order."""
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    ferry.save(array, tmp_path / "x.raw", byteorder="big", order="F", durable=False)

    assert (tmp_path / "x.raw").read_bytes() == array.T.astype(">i2").tobytes()
    assert same(ferry.load(tmp_path / "x.raw"), array)
    os.unlink(tmp_path / "x.raw.json")
    with pytest.raises(TypeError, match="dtype"):
        ferry.load(tmp_path / "x.raw")


def test_the_checksum_of_a_sidecar(tmp_path):
    """It is the crc32c of the file."""
    ferry.save(np.ones(3), tmp_path / "x.npy", metadata={"k": "v"}, durable=False)
    (about,) = json.loads((tmp_path / "x.npy.json").read_text())["files"]

    assert about["crc32c"] == _native.crc32c((tmp_path / "x.npy").read_bytes())


KILLED = """
import os, random, signal, sys, time
import numpy as np
import tensorferry as ferry
path, choose = sys.argv[1], random.Random(7)
values = {
    "a": {"x": np.full(30_000, 1.0), "text": np.array([b"one"] * 50, object)},
    "b": {"x": np.full(20_000, 2.0, np.float32), "text": np.array([b"two"] * 90, object)},
}

def value(kind):
    return values[kind]["x"] if path.endswith(".npy") else values[kind]

def replace():
    while True:
        for kind in values:
            ferry.save(value(kind), path, metadata={"kind": kind}, durable=False)

ferry.save(value("a"), path, metadata={"kind": "a"}, durable=False)
for _ in range(25):
    child = os.fork()
    if child == 0:
        replace()
    time.sleep(0.002 + choose.random() / 50)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with ferry.open(path) as bundle:
        kind, found = bundle.metadata["kind"], bundle.value()
    expected = value(kind)
    if isinstance(expected, dict):
        assert found["text"].tolist() == expected["text"].tolist()
        found, expected = found["x"], expected["x"]
    assert found.dtype == expected.dtype and np.array_equal(found, expected)
"""


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.safetensors", "x.npz.zst"])
def test_killed_while_saving(name, tmp_path):
    """A writer that is killed at any moment leaves the old or the new file, with its metadata."""
    command = [sys.executable, "-c", KILLED, str(tmp_path / name)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)

    assert result.returncode == 0, result.stderr


def test_readers_while_saving(tmp_path):
    """Whoever reads while a file is replaced sees all of the old or all of the new one."""
    code = KILLED.split('ferry.save(value("a")')[0] + "replace()\n"
    path = tmp_path / "x.npy"
    ferry.save(np.full(30_000, 1.0), path, metadata={"kind": "a"}, durable=False)
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)])
    seen = set()
    try:
        for _ in range(300):
            with ferry.open(path) as bundle:
                found, kind = bundle.value(), bundle.metadata["kind"]
            assert (found == (1.0 if kind == "a" else 2.0)).all()
            seen.add(kind)
    finally:
        writer.kill()
        writer.wait()


def test_columns_of_different_shapes(tmp_path):
    """With rows=True a list of arrays is a column of Arrow's variable-shape tensors."""
    images = [np.ones((2, 3), np.uint8), np.zeros((1, 5), np.uint8)]
    for name in ("x.arrow", "x.parquet"):
        path = tmp_path / name
        ferry.save({"image": images, "label": [3, 4]}, path, rows=True, durable=False)

        found = ferry.load(path)

        assert [same(a, b) for a, b in zip(found["image"], images, strict=True)] == [True, True]
        with ferry.open(path) as table:
            assert table.info["image"].kind == "list"
            assert table[1]["image"].shape == (1, 5)
            assert len(table) == 2


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.npz", "a.npy"])
def test_no_compression(name, tmp_path):
    """Compression "none" is none, also where a format has one by default; convert does the same."""
    ferry.save({"x": np.zeros(5000)} if name != "a.npy" else np.zeros(5000), tmp_path / name,
               compression="none", durable=False)  # fmt: skip

    assert ferry.inspect(tmp_path / name).compression is None
    assert (tmp_path / name).stat().st_size > 100
