from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry

NAMES = {"checkpoint": "model.ckpt-7", "safetensors": "model.safetensors"}

everywhere = pytest.mark.parametrize("where", ["local", "s3"])
formats = pytest.mark.parametrize("format", list(NAMES))


@pytest.fixture
def base(where, tmp_path, s3):
    return str(tmp_path) if where == "local" else s3.url("run")


def share_of(number, count, scale=1.0):
    """Every count-th tensor of a model of seven."""
    return {
        f"layer{n}/kernel": np.full((n + 1, 3), n * scale, np.float32)
        for n in range(number, 7, count)
    }


def whole(scale=1.0):
    return share_of(0, 1, scale)


def same(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@everywhere
@formats
def test_many_writers_one_file(base, format, s3):
    """Nothing is there before `finish`, and all of it afterwards; nothing else is left."""
    path = f"{base}/{NAMES[format]}"
    for number in range(3):
        ferry.save(share_of(number, 3), path, shard=(number, 3))
    with pytest.raises((FileNotFoundError, ferry.FerryError)):
        ferry.load(path)
    saved = ferry.finish(path, metadata={"step": 7})

    with ferry.open(path) as bundle:
        same(bundle.value(), whole())
        assert bundle.metadata == {"step": 7}
    names = {os.path.basename(name) for name in saved.files}
    listed = s3.keys() if base.startswith("s3") else os.listdir(base)
    assert {os.path.basename(name) for name in listed} - {"checkpoint"} == names


@everywhere
@formats
def test_a_new_save_replaces_an_old_one(base, format):
    """Until the second `finish` readers see the first save, whole; then the second one."""
    path = f"{base}/{NAMES[format]}"
    for scale, workers in ((1.0, 2), (2.0, 2), (3.0, 3)):
        for number in range(workers):
            ferry.save(share_of(number, workers, scale), path, shard=(number, workers))
            if scale > 1:
                same(ferry.load(path), whole(scale - 1))
        ferry.finish(path)
        same(ferry.load(path), whole(scale))


@formats
def test_a_worker_may_save_again(tmp_path, monkeypatch, format):
    """A worker that failed and runs again replaces its own share."""
    monkeypatch.chdir(tmp_path)
    path = NAMES[format]
    ferry.save(share_of(0, 2, 9.0), path, shard=(0, 2, "step 7"))
    ferry.save(share_of(1, 2), path, shard=(1, 2, "step 7"))
    ferry.save(share_of(0, 2), path, shard=(0, 2, "step 7"))
    ferry.finish(path)

    same(ferry.load(path), whole())


@formats
def test_missing_shares_are_refused(tmp_path, format):
    """A share that is not there is named, and nothing becomes visible."""
    path = str(tmp_path / NAMES[format])
    with pytest.raises(ferry.FormatError, match="no share to finish"):
        ferry.finish(path)
    for number in (0, 2):
        ferry.save(share_of(number, 4), path, shard=(number, 4))
    with pytest.raises(ferry.FormatError, match="found 2 of 4 shares, missing 1, 3"):
        ferry.finish(path)
    with pytest.raises((FileNotFoundError, ferry.FerryError)):
        ferry.load(path)


@formats
def test_shares_of_different_saves_are_refused(tmp_path, format):
    """Shares of two saves are not mixed, whether their steps or their numbers differ."""
    path = str(tmp_path / NAMES[format])
    ferry.save(share_of(0, 2), path, shard=(0, 2, "step 6"))
    ferry.save(share_of(1, 2), path, shard=(1, 2, "step 7"))
    with pytest.raises(ferry.FormatError, match=r"different saves: .*step 6.*step 7"):
        ferry.finish(path)
    with pytest.raises(ferry.FormatError, match="missing 0"):
        ferry.finish(path, save="step 7")

    ferry.save(share_of(0, 2), path, shard=(0, 2, "step 7"))
    ferry.finish(path, save="step 7")
    same(ferry.load(path), whole())


@formats
def test_a_share_from_before_the_last_finish_is_refused(tmp_path, format):
    """A worker that was late by a whole save does not get its tensors into the next one."""
    path = str(tmp_path / NAMES[format])
    for number in range(2):
        ferry.save(share_of(number, 2), path, shard=(number, 2))
    kept = {
        name: (tmp_path / name).read_bytes()
        for name in os.listdir(tmp_path)
        if "00001-of" in name or "00002-of" in name
    }
    ferry.finish(path)
    for name, data in kept.items():
        (tmp_path / name).write_bytes(data)
    ferry.save(share_of(0, 2, 2.0), path, shard=(0, 2))

    with pytest.raises(ferry.FormatError, match="found 1 of 2 shares, missing 1"):
        ferry.finish(path)
    same(ferry.load(path), whole())


@formats
def test_a_tensor_in_two_shares_is_refused(tmp_path, format):
    """Two workers that save the same tensor are named."""
    path = str(tmp_path / NAMES[format])
    ferry.save(share_of(0, 2), path, shard=(0, 2))
    ferry.save({**share_of(1, 2), "layer0/kernel": np.zeros(2)}, path, shard=(1, 2))
    with pytest.raises(ferry.FormatError, match=r"layer0/kernel.*workers 0 and 1"):
        ferry.finish(path)


@formats
def test_every_kind_of_tensor(tmp_path, format):
    """Strings, ragged and sparse tensors and quantized floats come back from shares as well."""
    path = str(tmp_path / NAMES[format])
    ragged = ferry.RaggedTensor.from_rows([[1, 2], [], [3]])
    ferry.save({"names": np.array([b"a", b"bc"], object)}, path, shard=(0, 3))
    ferry.save({"ragged": ragged}, path, shard=(1, 3))
    ferry.save({"weights": np.linspace(-1, 1, 64)}, path, shard=(2, 3), quantize="int8")
    ferry.finish(path)

    with ferry.open(path) as bundle:
        assert bundle["names"].tolist() == [b"a", b"bc"]
        assert bundle["ragged"].to_list() == [[1, 2], [], [3]]
        np.testing.assert_allclose(bundle["weights"], np.linspace(-1, 1, 64), atol=0.02)


@pytest.mark.parametrize("layout", ["names", "objects"])
def test_tensorflow_reads_the_checkpoint(tmp_path, tf, layout):
    """TensorFlow loads and restores a checkpoint of several workers as its own."""
    path = str(tmp_path / "model.ckpt-7")
    for number in range(3):
        ferry.save(share_of(number, 3), path, shard=(number, 3), layout=layout)
    ferry.finish(path)
    reader = tf.train.load_checkpoint(path)

    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    for name, value in whole().items():
        key = name if layout == "names" else f"{name}/.ATTRIBUTES/VARIABLE_VALUE"
        np.testing.assert_array_equal(reader.get_tensor(key), value)
    if layout == "objects":
        layers = {
            f"layer{n}": tf.train.Checkpoint(kernel=tf.Variable(np.zeros((n + 1, 3), np.float32)))
            for n in range(7)
        }
        tf.train.Checkpoint(**layers).read(path).assert_consumed()
        np.testing.assert_array_equal(layers["layer5"].kernel, whole()["layer5/kernel"])


def test_safetensors_reads_the_files(tmp_path):
    """The index names files that the safetensors package reads, each tensor in one of them."""
    from safetensors import safe_open

    path = str(tmp_path / "model.safetensors")
    for number in range(2):
        ferry.save(share_of(number, 2), path, shard=(number, 2))
    ferry.finish(path)
    index = json.loads(Path(f"{path}.index.json").read_bytes())

    assert index["metadata"]["total_size"] == sum(value.nbytes for value in whole().values())
    assert index["weight_map"].keys() == whole().keys()
    for name, file in index["weight_map"].items():
        with safe_open(tmp_path / file, "np") as opened:
            np.testing.assert_array_equal(opened.get_tensor(name), whole()[name])


def test_wrong_use(tmp_path):
    """What has no shares, or no sense, is refused with the way to do it."""
    with pytest.raises(ferry.OptionError, match="expected the number of this worker"):
        ferry.save(whole(), tmp_path / "x.safetensors", shard=(2, 2))
    with pytest.raises(ferry.OptionError, match="npz has no option 'shard'"):
        ferry.save(whole(), tmp_path / "x.npz", shard=(0, 2))
    with pytest.raises(ferry.UnsupportedError, match="other parts"):
        ferry.save({"a": {"b": np.zeros(2)}, "c": 1}, tmp_path / "x.safetensors", shard=(0, 2))
    with pytest.raises(ferry.UnsupportedError, match="metadata is of the whole"):
        ferry.save(whole(), tmp_path / "x.safetensors", shard=(0, 2), metadata={"a": "b"})
    with pytest.raises(ferry.UnsupportedError, match="by one worker only"):
        ferry.finish(tmp_path / "x.npz")
    assert os.listdir(tmp_path) == []
