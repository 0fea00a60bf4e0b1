"""Names in files lead to nothing but regular files in the same folder, whatever the format."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.errors import FormatError
from tensorferry.formats.checkpoint.state import latest_checkpoint
from tensorferry.storage import names
from tensorferry.storage.place import Place

ELSEWHERE = [
    "",
    ".",
    "..",
    "-",
    "../secret",
    "a/../../secret",
    "/etc/passwd",
    "\\\\host\\share",
    "C:\\secret",
    "C:secret",
    "..\\secret",
    "file:///etc/passwd",
    "http://127.0.0.1:1/x",
    "s3://bucket/x",
    "x\0y",
    "x\ny",
    "\u202ex",
    7,
    None,
    {"x": "y"},
]
BELOW = ["folder/x", "a\\b"]


@pytest.mark.parametrize("name", [*ELSEWHERE, *BELOW])
def test_the_rule(tmp_path, name):
    """A name is refused unless it is one of a file in the folder."""
    assert names.problem_with(name)
    assert (names.problem_with(name, deep=True) is None) == (name in BELOW)
    with pytest.raises(FormatError, match="expected a name beside it"):
        Place(tmp_path / "index").beside(name)


@pytest.mark.parametrize("name", ["x?token", "x#y", "x::file", "%2e%2e%2fx", "%2E%2E/x"])
def test_in_urls(name):
    """In a URL, also what a server or another file system would take for something else."""
    with pytest.raises(FormatError, match="expected a name beside it"):
        Place("https://host/folder/index").beside(name)


@pytest.mark.parametrize("name", ["x", "x-00001-of-00002.safetensors", "%2e.x", "x y", "ü"])
def test_usual_names(tmp_path, name):
    """All else is a name."""
    assert Place(tmp_path / "index").beside(name).path == str(tmp_path / name)


def opened(monkeypatch):
    """The paths that are opened from now on."""
    from tensorferry.storage import source

    found = []
    real = source.open_local

    def watched(given):
        found.append(given)
        return real(given)

    monkeypatch.setattr("tensorferry.storage.open_local", watched)
    return found


def index_of(path, name):
    """An index of one tensor, in the file of a name."""
    tree = {"weight_map": {"a" if path.suffix != ".json" or "safe" in path.name else "/vars": name}}
    path.write_text(json.dumps(tree))
    return path


@pytest.mark.parametrize("index", ["x.safetensors.index.json", "x.weights.json"])
@pytest.mark.parametrize("name", [*ELSEWHERE, *BELOW])
def test_shard_indexes(tmp_path, monkeypatch, index, name):
    """An index leads nowhere else: nothing but the index is opened."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    path = index_of(folder / index, name)
    found = opened(monkeypatch)
    with pytest.raises(FormatError):
        ferry.load(path)
    assert set(found) <= {str(path)}


@pytest.mark.parametrize("index", ["x.safetensors.index.json", "x.weights.json"])
@pytest.mark.parametrize("special", ["pipe", "device", "folder"])
def test_special_files_beside(tmp_path, index, special):
    """A name that is a pipe or a device is not opened: it would wait for ever."""
    target = tmp_path / "part"
    if special == "pipe":
        os.mkfifo(target)
    elif special == "folder":
        target.mkdir()
    else:
        target.symlink_to("/dev/zero")
    with pytest.raises(FormatError, match="no regular file"):
        ferry.load(index_of(tmp_path / index, "part"))


def test_links_to_files(tmp_path):
    """Caches of models consist of links to files elsewhere: these are followed."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    ferry.save({"a": np.ones(3), "b": np.ones(3)}, blobs / "x.safetensors", shard_size=24)
    for name in os.listdir(blobs):
        (snapshot / name).symlink_to(f"../blobs/{name}")
    assert sorted(ferry.load(snapshot / "x.safetensors")) == ["a", "b"]


def test_pipes_beside(tmp_path):
    """Nor are files that nobody named at all: sidecars, indexes, state and data files."""
    np.save(tmp_path / "x.npy", np.ones(3))
    os.mkfifo(tmp_path / "x.npy.json")
    assert ferry.load(tmp_path / "x.npy").tolist() == [1, 1, 1]
    ferry.save({"x": np.ones(3)}, tmp_path / "x.tfrecord")
    os.mkfifo(tmp_path / "x.tfrecord.idx")
    os.mkfifo(tmp_path / "x.tfrecord.index")
    assert ferry.open(tmp_path / "x.tfrecord")[1]["x"] == 1
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    ferry.save({"v": np.ones(3)}, folder / "m", format="checkpoint")
    (folder / "checkpoint").unlink()
    os.mkfifo(folder / "checkpoint")
    assert ferry.load(folder)["v"].tolist() == [1, 1, 1]
    (folder / "m.data-00000-of-00001").unlink()
    os.mkfifo(folder / "m.data-00000-of-00001")
    with pytest.raises(FormatError, match="no regular file"):
        ferry.load(folder / "m.index")
    (folder / "m.index").unlink()
    os.mkfifo(folder / "m.index")
    with pytest.raises((FormatError, OSError)):
        ferry.load(folder / "m", format="checkpoint")


@pytest.mark.parametrize(
    "name", ["../secret/m", "/secret/m", "http://127.0.0.1:1/m", "s3://b/m", "-"]
)
def test_state_files(tmp_path, monkeypatch, name):
    """A state file leads to no checkpoint elsewhere."""
    secret, folder = tmp_path / "secret", tmp_path / "folder"
    for place in (secret, folder):
        place.mkdir()
    ferry.save({"v": np.ones(3)}, secret / "m", format="checkpoint")
    name = name.replace("/secret", str(secret)) if name.startswith("/") else name
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\n')
    found = opened(monkeypatch)
    assert latest_checkpoint(folder) is None
    assert set(found) <= {str(folder / "checkpoint")}
    with pytest.raises(FileNotFoundError, match="the folder holds no model, no checkpoint"):
        ferry.open(folder)
    with pytest.raises(FileNotFoundError, match="expected a checkpoint in its own folder"):
        ferry.open(folder, format="checkpoint")


def test_a_state_file_removes_nothing(tmp_path):
    """`keep` removes only checkpoints that are called as the new one, whatever the file says."""
    from tensorferry.formats.checkpoint.writer import save_tensors

    for name in ("precious", "ckpt-1", "ckpt-2"):
        save_tensors({"v": np.ones(3)}, tmp_path / name, state=False)
    lines = ["ckpt-2", "precious", "ckpt-1", "ckpt-2"]
    keys = ["model_checkpoint_path", *["all_model_checkpoint_paths"] * 3]
    text = "".join(f'{key}: "{name}"\n' for key, name in zip(keys, lines, strict=True))
    (tmp_path / "checkpoint").write_text(text)
    save_tensors({"v": np.ones(3)}, tmp_path / "ckpt-3", keep=1)
    left = {name.partition(".")[0] for name in os.listdir(tmp_path)}
    assert left == {"precious", "ckpt-3", "checkpoint"}
