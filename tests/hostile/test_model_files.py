"""The files of a SavedModel: what was judged is what is loaded, from a private copy."""

from __future__ import annotations

import gc
import os
import shutil
import stat

import numpy as np
import pytest
import tensorflow as tf
from hostile.graphs import refused, write

import tensorferry as ferry
from tensorferry.errors import FormatError
from tensorferry.models import private


def test_the_judged_bytes_are_loaded(tmp_path, monkeypatch):
    """A file that is replaced after it was judged changes nothing: a private copy is loaded."""
    path = write(tmp_path / "model", lambda x, module: {"y": x + module.value})
    trace = tmp_path / "trace"

    def leave_trace(x, module):
        with tf.control_dependencies([tf.io.write_file(str(trace), "here")]):
            return {"y": x * 100}

    evil = write(tmp_path / "evil", leave_trace)
    copy = private.copy_savedmodel
    copies = []

    def race(program, *, links):
        made = copy(program, links=links)
        copies.append(made.path)
        assert stat.S_IMODE(os.stat(os.path.dirname(made.path)).st_mode) == 0o700
        shutil.rmtree(path)
        shutil.copytree(evil, path)
        return made

    monkeypatch.setattr(private, "copy_savedmodel", race)
    model = ferry.load_model(path)
    assert model(np.float32(1))["y"].tolist() == [2, 3]
    assert not trace.exists()
    assert model.path == str(path)
    del model
    gc.collect()
    assert not os.path.exists(copies[0])


def test_no_copy_stays_behind(tmp_path, monkeypatch):
    """A refused model, and a damaged one, leave no copy; errors name the file of the caller."""
    path = write(tmp_path / "model", lambda x, module: {"y": tf.io.read_file("/x")})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert str(refused(path, "read")).startswith(f"{path}: ")
    index = path / "variables/variables.index"
    index.write_bytes(index.read_bytes()[:-9])
    with pytest.raises(FormatError) as caught:
        ferry.load_model(path, allow=True)
    assert caught.value.path == str(index)
    assert os.listdir(tmp_path / "temporary") == []


def test_assets_live_as_long_as_the_model(vocabulary, tmp_path):
    """What was loaded can be saved again, with its assets."""
    model = ferry.load_model(vocabulary)
    shutil.rmtree(vocabulary)
    tf.saved_model.save(model.model, str(tmp_path / "again"))
    assert ferry.load_model(tmp_path / "again")(["b"]).tolist() == [1]


def test_files_with_holes(tmp_path):
    """A file that is all hole takes no room in the copy, and its bytes are what they are."""
    path = write(tmp_path / "model", lambda x, module: {"y": x + module.value})
    (path / "assets").mkdir(exist_ok=True)
    with open(path / "assets/sparse", "wb") as file:
        for place in (0, 3 << 20, 1 << 40):
            file.seek(place)
            file.write(b"data")
    copy = private.copy_savedmodel(str(path / "saved_model.pb"), links=False)
    found = os.stat(f"{copy.path}/assets/sparse")
    assert found.st_size == (1 << 40) + 4
    assert found.st_blocks * 512 < 1 << 20
    with open(f"{copy.path}/assets/sparse", "rb") as file:
        for place in (0, 3 << 20, 1 << 40):
            file.seek(place)
            assert file.read(5) in (b"data\0", b"data")
    copy.remove()
    model = ferry.load_model(path)
    assert model(np.float32(1))["y"].tolist() == [2, 3]


def test_children_leave_the_copy(vocabulary, monkeypatch):
    """A forked process that ends does not take the files of its parent's model along."""
    copy = private.copy_savedmodel(str(vocabulary / "saved_model.pb"), links=False)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        copy.remove()
    assert os.path.exists(copy.path)
    copy.remove()
    assert not os.path.exists(os.path.dirname(copy.path))


def test_links_in_a_model(tmp_path):
    """Variables that are a link out of the model are refused; inside of it, links are fine."""
    path = write(tmp_path / "model", lambda x, module: {"y": x + module.value})
    index = path / "variables/variables.index"
    index.rename(path / "kept")
    index.symlink_to("../kept")
    assert ferry.load_model(path)(np.float32(1))["y"].tolist() == [2, 3]
    index.unlink()
    (path / "kept").rename(tmp_path / "elsewhere")
    index.symlink_to(tmp_path / "elsewhere")
    error = refused(path, "asset")
    assert (
        "it is a link that leads out of the model (in variables/variables.index)" in error.message
    )
    assert ferry.load_model(path, allow="asset")(np.float32(1))["y"].tolist() == [2, 3]


def test_links_of_a_cache(tmp_path):
    """A snapshot of Hugging Face is made of links to blobs, which are its own files."""
    snapshot = tmp_path / "models--me--it/snapshots/0123"
    blobs = tmp_path / "models--me--it/blobs"
    blobs.mkdir(parents=True)
    write(snapshot, lambda x, module: {"y": x + module.value})
    for number, file in enumerate(sorted(snapshot.rglob("*"))):
        if file.is_file():
            file.rename(blobs / str(number))
            file.symlink_to(os.path.relpath(blobs / str(number), file.parent))
    assert ferry.load_model(snapshot)(np.float32(1))["y"].tolist() == [2, 3]


def test_files_that_are_none(tmp_path, vocabulary):
    """Pipes and devices among the files of a model are not opened and waited for."""
    asset = vocabulary / "assets/words.txt"
    asset.unlink()
    os.mkfifo(asset)
    with pytest.raises(FormatError, match="is no regular file"):
        ferry.load_model(vocabulary, allow=True)
    asset.unlink()
    asset.write_text("a\n")
    (vocabulary / "saved_model.pb").unlink()
    os.mkfifo(vocabulary / "saved_model.pb")
    with pytest.raises(FormatError, match="is no regular file"):
        ferry.load_model(vocabulary, allow=True)
