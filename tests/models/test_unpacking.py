"""Archives of Keras are unpacked, judged and loaded as folders: nothing is lost on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.errors import ChecksumError, FormatError
from tensorferry.models import private

WORDS = np.array([["ja", "nein"]])


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A model with an asset, and with a name that is not ASCII."""
    path = tmp_path_factory.mktemp("archive") / "x.keras"
    words = keras.layers.StringLookup(name="Wörter", output_mode="multi_hot")
    words.adapt(["ja", "nein", "vielleicht"])
    keras.Sequential([keras.Input((2,), dtype="string"), words, keras.layers.Dense(2)]).save(path)
    return path


def rewritten(path, target, change):
    """A copy of an archive with other members."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(target, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return target


def test_what_keras_would_load(archive):
    """The model is the one that Keras loads from the archive, assets included."""
    loaded, theirs = ferry.load_model(archive), keras.saving.load_model(archive)

    np.testing.assert_array_equal(loaded(WORDS), theirs(WORDS))
    assert loaded.model.layers[0].get_vocabulary() == theirs.layers[0].get_vocabulary()
    assert [layer.name for layer in loaded.model.layers] == [layer.name for layer in theirs.layers]


def test_the_folder(archive):
    """The folder has the members with their bytes, and a config that every locale reads alike."""
    copy = private.unpack_archive(str(archive))
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            with open(os.path.join(copy.path, name), "rb") as written:
                found = written.read()
            if name == "config.json":
                assert found.isascii()
                assert json.loads(found) == json.loads(file.read(name))
            else:
                assert found == file.read(name)
    assert os.stat(copy.path).st_mode & 0o077 == 0
    copy.remove()
    assert not os.path.exists(copy.path)


def test_another_locale(archive):
    """A name that is not ASCII is the same where the encoding of files is not UTF-8."""
    code = f"""
import tensorferry as ferry
print(ascii(ferry.load_model({str(archive)!r}).model.layers[0].name))
"""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [ascii("Wörter")]


def test_keras_that_loads_no_folders(archive, monkeypatch):
    """An old Keras is given an archive of the very files that were judged."""
    seen = []
    load = keras.saving.load_model
    monkeypatch.setattr(keras, "__version__", "3.5.0")
    monkeypatch.setattr(
        keras.saving, "load_model", lambda path, **how: seen.append(path) or load(path, **how)
    )
    loaded = ferry.load_model(archive, allow="version")

    np.testing.assert_array_equal(loaded(WORDS), load(archive)(WORDS))
    assert [os.path.basename(path) for path in seen] == ["model.keras"]
    assert not os.path.exists(seen[0])


def test_zeros_take_no_disk(archive, tmp_path):
    """Blocks of zeros become holes, which read as what they were."""
    size = 3 << 20
    target = tmp_path / "x.keras"
    rewritten(archive, target, lambda members: members.update({"assets/zeros": bytes(size) + b"x"}))
    copy = private.unpack_archive(str(target))
    path = os.path.join(copy.path, "assets", "zeros")

    with open(path, "rb") as file:
        assert file.read() == bytes(size) + b"x"
    assert os.stat(path).st_blocks * 512 < size
    copy.remove()


@pytest.mark.parametrize("name", ["config.json", "metadata.json", "model.weights.h5", "other"])
def test_damage(archive, tmp_path, name):
    """The checksum of every member is compared, also of those that nobody reads."""
    target = rewritten(
        archive, tmp_path / "x.keras", lambda members: members.update(other=b"12345678")
    )
    data = bytearray(target.read_bytes())
    with zipfile.ZipFile(target) as file:
        place = file.getinfo(name).header_offset + 30 + len(name) + 7
    data[place] ^= 1
    target.write_bytes(data)

    with pytest.raises(ChecksumError, match=f"member '{name}' is corrupt") as caught:
        ferry.load_model(target)
    assert caught.value.path == str(target)


def test_a_file_that_is_a_folder(archive, tmp_path):
    """Members whose names are a file and a folder at once are refused."""
    for more in ({"assets/a": b"", "assets/a/b": b""}, {"assets/a/b": b"", "assets/a": b""}):
        target = rewritten(archive, tmp_path / "x.keras", lambda members, m=more: members.update(m))
        with pytest.raises(FormatError, match="are a file and its folder"):
            ferry.load_model(target)


def test_weights_have_no_config_of_their_own(archive, tmp_path):
    """The config of an archive is the one that is judged, whatever its weights bring along."""
    import io

    import h5py

    def change(members):
        weights = io.BytesIO(members["model.weights.h5"])
        with h5py.File(weights, "a") as file:
            file.attrs["model_config"] = json.dumps({"class_name": "Lambda", "config": {}})
        members["model.weights.h5"] = weights.getvalue()

    target = rewritten(archive, tmp_path / "x.keras", change)
    assert ferry.load_model(target)(WORDS).shape == (1, 2)
