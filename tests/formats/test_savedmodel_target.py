"""What a SavedModel of tensors replaces: one of tensors alone, and nothing that is somebody's."""

from __future__ import annotations

import os

import numpy as np
import pytest
from strategies import same

import tensorferry as ferry
from tensorferry.errors import FormatError, UnsupportedError

VALUE = {"x": np.ones(2)}


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of somebody's files in the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "me.jpg").write_text("me")
    yield folder
    assert (folder / "me.jpg").read_text() == "me"


@pytest.fixture
def model(tmp_path):
    """A SavedModel of tensors."""
    ferry.save(VALUE, tmp_path / "model", format="savedmodel")
    return tmp_path / "model"


@pytest.fixture
def program(tf, tmp_path):
    """A SavedModel with a program of its own, which has one variable."""
    module = tf.Module()
    module.w = tf.Variable([1.0, 2.0])
    module.f = tf.function(lambda x: module.w * x, [tf.TensorSpec([2])])
    tf.saved_model.save(module, str(tmp_path / "program"))
    before = (tmp_path / "program" / "saved_model.pb").read_bytes()
    yield tmp_path / "program"
    assert (tmp_path / "program" / "saved_model.pb").read_bytes() == before
    assert tf.saved_model.load(str(tmp_path / "program")).f([1, 2]).numpy().tolist() == [1, 4]


@pytest.mark.parametrize(
    "path",
    ["photos", "missing/../photos", "photos/new/..", "photos/.", "link", ".", "missing/..", ""],
)
def test_a_folder_by_any_name(photos, path):
    """A folder is not replaced, however its path is written."""
    os.symlink(photos, "link")
    for write in (
        lambda: ferry.save(VALUE, path, format="savedmodel"),
        lambda: ferry.convert("a.npz", path, format="savedmodel", force=True),
    ):
        ferry.save(VALUE, "a.npz")
        with pytest.raises((FormatError, FileNotFoundError)):
            write()
    assert sorted(os.listdir()) == ["a.npz", "link", "photos"]


@pytest.mark.parametrize("path", ["photos", "missing/../photos", "photos/new/..", "."])
def test_a_folder_is_no_model(tf, photos, path):
    """`save_model` replaces it as little, nor does the URL of a file."""
    module = tf.Module()
    module.f = tf.function(lambda x: x, [tf.TensorSpec([2])])
    with pytest.raises(FormatError):
        ferry.save_model(module, path)
    with pytest.raises(FormatError):
        ferry.save(VALUE, f"file://{photos.parent}/{path}", format="savedmodel")
    assert os.listdir() == ["photos"]


def test_one_file_by_another_name(tmp_path, monkeypatch):
    """A .keras file behind ".." is one that is there."""
    keras = pytest.importorskip("keras")
    monkeypatch.chdir(tmp_path)
    small = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    ferry.save_model(small, "a.keras")
    with pytest.raises(FileExistsError, match="overwrite=False"):
        ferry.save_model(small, "missing/../a.keras", overwrite=False)


@pytest.mark.parametrize(
    "name", ["variables/notes.txt", "variables/best.index", "debug/x", "other/a"]
)
def test_files_in_its_folders(model, name):
    """Files in the folders of a model that are none of its own are kept."""
    file = model / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    with pytest.raises(FormatError, match="it has "):
        ferry.save(VALUE, model, format="savedmodel")
    with pytest.raises(FormatError, match="it has "):
        ferry.edit(model, rename={"x": "y"})
    assert file.read_text() == "mine"
    assert list(ferry.load(model)) == ["x"]


def test_links_in_its_folders(model, tmp_path):
    """Links are not followed: they may lead in circles, or to somebody's files."""
    for name in ("a", "b", "c"):
        (model / "assets").mkdir(exist_ok=True)
        os.symlink("..", model / "assets" / name)
    with pytest.raises(UnsupportedError, match="would be lost"):
        ferry.save(VALUE, model, format="savedmodel")
    for name in ("a", "b", "c"):
        (model / "assets" / name).unlink()
    (model / "assets").rmdir()
    os.rename(model / "variables", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", model / "variables")
    with pytest.raises(FormatError, match="it has variables"):
        ferry.save(VALUE, model, format="savedmodel")
    assert sorted(os.listdir(tmp_path / "elsewhere"))[-1] == "variables.index"


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_no_file(tmp_path, kind):
    """A pipe or a device called saved_model.pb is not read, which would not end."""
    folder = tmp_path / "a"
    folder.mkdir()
    if kind == "pipe":
        os.mkfifo(folder / "saved_model.pb")
    else:
        os.symlink("/dev/zero", folder / "saved_model.pb")
    with pytest.raises(FormatError, match=r"it has saved_model\.pb/"):
        ferry.save(VALUE, folder, format="savedmodel")


def test_assets_are_no_tensors(model):
    """A model with assets is more than its tensors."""
    (model / "assets").mkdir()
    (model / "assets" / "words.txt").write_text("a")
    for change in (
        lambda: ferry.edit(model, rename={"x": "y"}),
        lambda: ferry.save(VALUE, model, format="savedmodel"),
    ):
        with pytest.raises(UnsupportedError, match="would be lost"):
            change()
    assert (model / "assets" / "words.txt").read_text() == "a"


def test_a_folder_called_like_its_file(tmp_path):
    """A folder called saved_model.pb makes no model of the one it is in."""
    (tmp_path / "a" / "saved_model.pb").mkdir(parents=True)
    (tmp_path / "a" / "saved_model.pb" / "mine").write_text("mine")
    with pytest.raises(FormatError, match="no SavedModel alone"):
        ferry.save(VALUE, tmp_path / "a", format="savedmodel")
    assert (tmp_path / "a" / "saved_model.pb" / "mine").read_text() == "mine"


def test_a_program_is_not_lost(tmp_path, program):
    """A program is not replaced by tensors; elsewhere, a note says that it is left out."""
    ferry.save(VALUE, tmp_path / "a.npz")
    inside = program / "variables" / "variables"
    for change in (
        lambda: ferry.edit(program, rename={"w": "v"}),
        lambda: ferry.convert(program, f"{program}/", format="savedmodel", force=True),
        lambda: ferry.convert(inside, program, format="savedmodel", force=True),
        lambda: ferry.convert(f"{inside}.index", program, format="savedmodel", force=True),
        lambda: ferry.convert(tmp_path / "a.npz", program, format="savedmodel", force=True),
        lambda: ferry.save(ferry.open(program), program, format="savedmodel"),
        lambda: ferry.save(VALUE, program, format="savedmodel"),
    ):
        with pytest.raises(UnsupportedError, match="the program of the model would be lost"):
            change()

    report = ferry.convert(program, tmp_path / "tensors", format="savedmodel")
    assert any("the program of the model is left out" in note for note in report.notes)
    assert same(ferry.load(tmp_path / "tensors")["w"], np.float32([1, 2]))


def test_names_that_a_program_needs(tmp_path, program):
    """The checkpoint of a model keeps its names; values are set."""
    inside = program / "variables" / "variables"
    for change in ({"rename": {"w": "v"}}, {"drop": ["w"]}, {"set": {"new": np.ones(2)}}):
        with pytest.raises(UnsupportedError, match="the model beside it looks for these names"):
            ferry.edit(inside, **change)
    ferry.edit(inside, target=tmp_path / "other.ckpt", rename={"w": "v"})

    assert list(ferry.load(tmp_path / "other.ckpt")) == ["v"]
    ferry.edit(inside, set={"w": np.float32([1, 2])})


def test_the_path_of_its_file(model, tmp_path):
    """A model is written by the name of its folder, and edited by that of its file, too."""
    with pytest.raises(UnsupportedError, match="is a folder") as caught:
        ferry.save(VALUE, tmp_path / "new" / "saved_model.pb", format="savedmodel")
    assert str(tmp_path / "new") in caught.value.hint
    assert not (tmp_path / "new").exists()

    ferry.edit(model / "saved_model.pb", rename={"x": "y"})
    assert list(ferry.load(model)) == ["y"]


def test_a_checkpoint_in_a_store(s3):
    """What is there without a model is not replaced, and not removed by an error."""
    url = f"s3://{s3.bucket}/checkpoint-alone"
    ferry.save(VALUE, f"{url}/variables/variables", format="checkpoint")
    for value in ({"y": np.ones(3)}, {"graph": np.ones(3)}):
        with pytest.raises(UnsupportedError, match="cannot be replaced in one step"):
            ferry.save(value, url, format="savedmodel")
    assert list(ferry.load(f"{url}/variables/variables")) == ["x"]


@pytest.mark.parametrize(
    "name",
    [
        *("saved_model.pb", "fingerprint.pb", "keras_metadata.pb"),
        *("variables/variables.index", "variables/variables.data-00000-of-00001"),
    ],
)
def test_pipes_in_a_model(model, name):
    """Whoever opens a pipe waits for it: it is an error or a problem, and nobody waits."""
    (model / name).unlink(missing_ok=True)
    os.mkfifo(model / name)
    for verb in (ferry.inspect, ferry.load, ferry.verify):
        try:
            verb(model)
        except ferry.FerryError as error:
            assert "no regular file" in str(error)  # loading may not need it
    with pytest.raises(FormatError, match="it has "):
        ferry.save(VALUE, model, format="savedmodel")
