"""What a stranger leaves where a job keeps its own notes: nothing elsewhere is read or written."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import storage
from tensorferry.feeds import counts
from tensorferry.files.find import resolve
from tensorferry.operations.convert import sets
from tensorferry.storage import cache, journal, leftovers, system, temporary
from tensorferry.storage.staging import PLAN, staged

DEEP = "[" * 200_000
STRANGER = 4242


@pytest.fixture
def precious(tmp_path):
    """A folder of the user's, elsewhere, and what is in it."""
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / PLAN).write_text("mine")
    (folder / "x-00000-of-00002").write_text("mine, too")
    return folder


def unchanged(precious):
    """Whether all of it is as it was."""
    found = {path.name: path.read_text() for path in precious.iterdir()}
    return found == {PLAN: "mine", "x-00000-of-00002": "mine, too"}


@pytest.fixture
def out(tmp_path):
    """Where files are written."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def run(out, *, plan=None, fail=False):
    """Writes two files together; gives the names that an earlier run had finished."""
    names = [str(out / f"x-{number:05}-of-00002") for number in range(2)]
    found = []
    with staged(str(out / "x"), names, plan=plan or {"a": 1}, keep=True) as stage:
        for name in names:
            if stage.finished(name) is not None:
                found.append(os.path.basename(name))
                continue
            with storage.open_sink(stage.path(name), durable=False) as sink:
                sink.write(b"whole")
            stage.finish(name, {"rows": 1})
        if fail:
            raise KeyError
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "x-00000-of-00002": "whole",
        "x-00001-of-00002": "whole",
    }
    return found


@pytest.fixture
def parts(out):
    """The folder that an earlier run left, with two finished files."""
    with pytest.raises(KeyError):
        run(out, fail=True)
    return out / ".x.ferry-parts"


def test_the_folder_itself_is_a_link(out, precious):
    """A link in the place of the folder is not followed, neither to write nor to remove."""
    (out / ".x.ferry-parts").symlink_to(precious)
    with pytest.raises(PermissionError, match="is not a folder of this user"):
        run(out)
    assert unchanged(precious)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_the_folder_is_somebody_elses(out, parts):
    """Parts in a folder of somebody else are not taken for ours, and not removed."""
    os.chown(parts, STRANGER, STRANGER)
    with pytest.raises(PermissionError, match="is not a folder of this user"):
        run(out)
    assert len(list(parts.iterdir())) == 5


def test_files_in_the_folder_are_links(out, parts, precious):
    """A part or note that is a link is thrown away, and its target is neither read nor changed."""
    for name in ("x-00000-of-00002", "x-00000-of-00002.json", PLAN):
        (parts / name).unlink()
        (parts / name).symlink_to(precious / "x-00000-of-00002")
        assert run(out) == []
        assert unchanged(precious)
        for path in out.iterdir():
            path.unlink()
        with pytest.raises(KeyError):
            run(out, fail=True)


@pytest.mark.parametrize("name", [PLAN, "x-00000-of-00002.json"])
def test_notes_that_are_none(out, parts, name):
    """Pipes, folders, texts without end and other JSON are as good as no note."""

    def pipe(path):
        os.mkfifo(path)

    def folder(path):
        path.mkdir()

    def huge(path):
        with open(path, "wb") as file:
            file.truncate(leftovers.LARGEST + 1)

    def text(content):
        return lambda path: path.write_text(content)

    for make in (
        pipe,
        folder,
        huge,
        text(DEEP),
        text('{"tensorferry":' * 100_000),
        text("[]"),
        text("\0"),
        text('{"version": 1, "note": []}'),
        text('{"tensorferry": 1, "plan": {}}'),
        text("1" * 5000),
    ):
        (parts / name).unlink()
        make(parts / name)
        assert len(run(out)) < 2
        for path in out.iterdir():
            path.unlink()
        with pytest.raises(KeyError):
            run(out, fail=True)
    assert run(out) == ["x-00000-of-00002", "x-00001-of-00002"]


@pytest.mark.parametrize("content", [DEEP, "{}", '{"files": {}, "version": 2}', '{"files": 1}'])
def test_lists_of_converted_files(tmp_path, content):
    """A list of finished files that is none means that nothing is finished."""
    np.save(tmp_path / "a.npy", np.arange(3))
    target = tmp_path / "to"
    target.mkdir()
    (target / sets.LIST).write_text(content)
    sets.convert_all([resolve(tmp_path / "a.npy")], str(target), format="safetensors", resume=True)
    assert ferry.load(target / "a.safetensors").tolist() == [0, 1, 2]


def test_a_list_that_is_a_link(tmp_path, precious):
    """The list is not written through a link."""
    np.save(tmp_path / "a.npy", np.arange(3))
    target = tmp_path / "to"
    target.mkdir()
    (target / sets.LIST).symlink_to(precious / PLAN)
    with pytest.raises(PermissionError, match="is not a file of this user"):
        sets._Finished(str(target / sets.LIST), {}, "npz")
    assert unchanged(precious)


# Journals


def forge(folder, *, links=False, owner=None):
    """A journal that lets a file of a stranger take the place of "kept"."""
    hidden = f".kept.ferry-{temporary.system()}00000000.tmp"
    path = folder / hidden
    if links:
        (folder / "elsewhere").write_text("a stranger's")
        path.symlink_to("elsewhere")
    else:
        path.write_text("a stranger's")
    found = os.stat(path)
    member = journal.Member("kept", hidden, temporary.identity(found))
    text = journal.Journal(str(folder), "kept", temporary.system(), (member,)).encode()
    mark = Path(journal.path_of(str(folder / "kept")))
    mark.write_bytes(text)
    if owner is not None:
        os.chown(mark, owner, owner)
        os.chown(path, owner, owner)
    return mark


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_journals_of_strangers(tmp_path, monkeypatch):
    """In a folder that all may write into, nobody's journal replaces what another one owns."""
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "kept").write_text("mine")
    os.chown(folder / "kept", STRANGER + 1, STRANGER + 1)
    folder.chmod(0o1777)
    os.chown(folder, STRANGER + 2, STRANGER + 2)
    monkeypatch.setattr(system, "user", lambda: (STRANGER + 1, STRANGER + 1))
    mark = forge(folder, owner=STRANGER)
    assert journal.read(str(folder / "kept")) is None
    journal.recover(str(folder), os.listdir(folder))
    assert (folder / "kept").read_text() == "mine"
    # Where he may rename the files himself, nothing is gained by asking us to.
    os.chown(mark, STRANGER + 1, STRANGER + 1)
    assert journal.read(str(folder / "kept")) is not None


def test_journals_that_name_links(tmp_path):
    """A link is not given a name because a journal lists the file behind it."""
    (tmp_path / "kept").write_text("mine")
    forge(tmp_path, links=True)
    journal.recover(str(tmp_path), os.listdir(tmp_path))
    assert (tmp_path / "kept").read_text() == "mine"
    assert not (tmp_path / "kept").is_symlink()


def test_journals_that_are_too_deep(tmp_path):
    """A journal that nests without end is no journal."""
    Path(journal.path_of(str(tmp_path / "kept"))).write_text(DEEP)
    assert journal.read(str(tmp_path / "kept")) is None
    ferry.save({"a": np.zeros(2)}, tmp_path / "kept.npz")
    assert ferry.load(tmp_path / "kept.npz")["a"].tolist() == [0, 0]


# The cache


@pytest.fixture
def cached(s3, tmp_path, monkeypatch):
    """The folder of the cache, the copy of an object, and a function that reads the object."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    s3.put("x.bin", b"bytes")

    def fetch():
        with storage.open_source(s3.url("x.bin"), options={"cache": True}) as source:
            return bytes(source.everything())

    assert fetch() == b"bytes"
    folder = tmp_path / "cache/objects"
    (copy,) = folder.iterdir()
    return folder, copy, fetch


def test_copies_that_are_none(cached, precious):
    """A link or a pipe in the place of a copy, or of its lock, leads nowhere."""
    folder, copy, fetch = cached
    copy.unlink()
    (precious / "five").write_text("12345")
    copy.symlink_to(precious / "five")
    assert fetch() == b"bytes"
    assert not copy.is_symlink()
    copy.unlink()
    os.mkfifo(copy)
    assert fetch() == b"bytes"
    assert stat.S_ISREG(copy.lstat().st_mode)
    copy.unlink()
    Path(f"{copy}.lock").symlink_to(precious / "new")
    with pytest.raises(OSError, match="symbolic links"):
        fetch()
    assert not (precious / "new").exists()
    Path(f"{copy}.lock").unlink()
    copy.mkdir()
    with pytest.raises(IsADirectoryError):
        fetch()
    assert sorted(path.name for path in folder.iterdir()) == [copy.name]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_the_cache_is_somebody_elses(cached):
    """A cache that another user made, or that others may write into, is not used."""
    folder, copy, fetch = cached
    copy.unlink()
    above = folder.parent
    above.chmod(0o1777)  # as /tmp: others may add folders, and rename none
    assert fetch() == b"bytes"
    copy.unlink()
    for change in (
        lambda: above.chmod(0o777),
        lambda: (above.chmod(0o755), os.chown(above, STRANGER, STRANGER)),
        lambda: (os.chown(above, 0, 0), os.chown(folder, STRANGER, STRANGER)),
        lambda: (os.chown(folder, 0, 0), folder.chmod(0o777)),
        lambda: (folder.rmdir(), folder.symlink_to(folder.parent.parent)),
    ):
        change()
        with pytest.raises(PermissionError, match="others could put files into the cache"):
            fetch()


def test_trimming_follows_no_links(cached, precious, monkeypatch):
    """What is removed to make room is the link, and the file behind it stays."""
    folder, copy, fetch = cached
    copy.unlink()
    (folder / ("0" * 64)).symlink_to(precious / PLAN)
    (folder / ("1" * 64)).write_bytes(bytes(100))
    monkeypatch.setattr(ferry.limits, "cache", 6)
    assert fetch() == b"bytes"
    assert unchanged(precious)
    assert not (folder / ("1" * 64)).exists()


def test_counts_of_rows(tmp_path, monkeypatch):
    """A count that somebody else wrote down in another way is counted again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "x.tfrecord.gz"
    with ferry.writer(path) as out:
        for number in range(3):
            out.write({"a": number})
    with ferry.open(path) as rows:
        pieces = rows.splits(1)
    assert counts.of(pieces) == [3]
    (known,) = (tmp_path / "tensorferry/counts").iterdir()
    assert json.loads(known.read_text())["rows"] == 3
    for content in (DEEP, "{}", "[]", '{"rows": "x"}', '{"rows": -1}', '{"rows": true}', "\0"):
        known.write_text(content)
        assert counts.of(pieces) == [3]
        assert json.loads(known.read_text())["rows"] == 3
