"""Directories that are replaced as a whole: by kills, by failures, and without an exchange."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tensorferry.storage import system, temporary
from tensorferry.storage.directory import replacing_path

TEMPORARY = re.compile(r"\.model\.ferry-[0-9a-f]{16}\.tmp")

# Replaces a directory of files that all say the same again and again; is killed, again and again.
KILLED = """
import os, random, signal, sys, time
from tensorferry.storage import directory, system
path, exchanges = sys.argv[1], sys.argv[2] == "yes"
choose = random.Random(5)
if not exchanges:
    system.exchange = lambda one, other: False

def replace():
    for round in range(1, 10**9):
        with directory.replacing_path(path, durable=round % 8 == 0) as temporary:
            os.makedirs(f"{temporary}/variables")
            for name in ("saved_model.pb", "variables/variables.index", "variables/data"):
                with open(f"{temporary}/{name}", "w") as file:
                    file.write(f"{round} " * 2000)

outcomes = []
for _ in range(120):
    child = os.fork()
    if child == 0:
        replace()
    time.sleep(choose.random() / 60)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = set()
    if not os.path.isdir(path):
        outcomes.append("gone")
        continue
    count = 0
    for place, _, files in os.walk(path):
        for name in files:
            count += 1
            found |= set(open(os.path.join(place, name)).read().split())
    outcomes.append("whole" if count == 3 and len(found) == 1 else f"mixed {count} {found}")
print(" ".join(sorted(set(outcomes))))
"""


def make(path, text):
    """A directory with a file and one below."""
    os.makedirs(path / "variables")
    (path / "saved_model.pb").write_text(text)
    (path / "variables/data").write_text(text)


def run(path, exchanges):
    """The outcomes of many kills."""
    command = [sys.executable, "-c", KILLED, str(path), exchanges]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_killed_at_any_moment(tmp_path):
    """A kill -9 leaves the old or the new directory, whole, and never a mixture of both."""
    path = tmp_path / "model"
    path.mkdir()
    for name in ("saved_model.pb", "index", "data"):
        (path / name).write_text("0 " * 2000)

    outcomes = run(path, "yes")
    beside = set(os.listdir(tmp_path)) - {"model"}
    assert outcomes == {"whole"}
    assert all(TEMPORARY.fullmatch(name) for name in beside)


def test_killed_without_an_exchange(tmp_path):
    """Where names cannot be exchanged, the worst is that nothing has the name; never a mixture."""
    path = tmp_path / "model"
    path.mkdir()
    for name in ("saved_model.pb", "index", "data"):
        (path / name).write_text("0 " * 2000)
    assert run(path, "no") <= {"whole", "gone"}


@pytest.mark.parametrize("exchanges", [True, False])
def test_replaced(tmp_path, monkeypatch, exchanges):
    """The new one is there, all of the old one is gone, and permissions are handed on."""
    if not exchanges:
        monkeypatch.setattr(system, "exchange", lambda one, other: False)
    path = tmp_path / "model"
    make(path, "old")
    (path / "older").write_text("older")
    path.chmod(0o750)
    with replacing_path(str(path)) as temporary:
        os.mkdir(temporary)
        with open(f"{temporary}/saved_model.pb", "w") as file:
            file.write("new")
        assert (path / "saved_model.pb").read_text() == "old"

    assert os.listdir(path) == ["saved_model.pb"]
    assert path.stat().st_mode & 0o777 == 0o750
    assert os.listdir(tmp_path) == ["model"]


def test_new_directories_files_and_links(tmp_path):
    """What was not there appears; a file is replaced by a file; a link stays a link."""
    with replacing_path(str(tmp_path / "new")) as temporary:
        os.mkdir(temporary)
    assert (tmp_path / "new").is_dir()
    (tmp_path / "x.keras").write_text("old")
    with replacing_path(str(tmp_path / "x.keras"), suffix=".keras") as temporary:
        assert temporary.endswith(".keras")
        with open(temporary, "w") as file:
            file.write("new")
    assert (tmp_path / "x.keras").read_text() == "new"
    (tmp_path / "link").symlink_to(tmp_path / "new")
    with replacing_path(str(tmp_path / "link")) as temporary:
        os.mkdir(temporary)
        open(f"{temporary}/inside", "w").close()
    assert (tmp_path / "link").is_symlink()
    assert os.listdir(tmp_path / "new") == ["inside"]


def test_failures_leave_nothing(tmp_path):
    """A block that raises, or leaves nothing behind, changes nothing."""
    path = tmp_path / "model"
    make(path, "old")
    with pytest.raises(KeyError), replacing_path(str(path)) as temporary:
        os.makedirs(f"{temporary}/half")
        raise KeyError
    with pytest.raises(FileNotFoundError), replacing_path(str(path)):
        pass
    assert os.listdir(tmp_path) == ["model"]
    assert (path / "saved_model.pb").read_text() == "old"


def test_a_folder_that_cannot_be_synced(tmp_path, monkeypatch):
    """Where a folder may be written and not read, that is said before anything is written."""

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(system, "open_folder", refuse)
    with pytest.raises(PermissionError), replacing_path(str(tmp_path / "model")):
        pytest.fail("nothing is to be written")
    with replacing_path(str(tmp_path / "model"), durable=False) as new:
        make(Path(new), "new")
    assert os.listdir(tmp_path) == ["model"]


def test_a_folder_that_is_swept_at_once(tmp_path, monkeypatch):
    """A temporary directory that another writer removes before it is locked is made again."""
    swept = []
    lock = temporary.open_folder

    def sweep_first(path):
        if not swept:
            swept.append(path)
            os.rmdir(path)
        return lock(path)

    monkeypatch.setattr(temporary, "open_folder", sweep_first)
    with replacing_path(str(tmp_path / "model")) as new:
        make(Path(new), "new")

    assert len(swept) == 1
    assert os.listdir(tmp_path) == ["model"]


def test_what_is_replaced_is_checked(tmp_path, monkeypatch):
    """The check is given the path that is replaced, before and after; nothing has no name."""
    monkeypatch.chdir(tmp_path)
    checked = []
    with replacing_path("missing/../model", check=checked.append) as new:
        make(Path(new), "new")
    assert checked == [str(tmp_path / "model")] * 2

    def refuse(path):
        if os.path.exists(os.path.join(path, "mine")):
            raise KeyError

    with pytest.raises(KeyError), replacing_path("model", check=refuse) as new:
        make(Path(new), "newer")
        (tmp_path / "model" / "mine").write_text("meanwhile")
    assert (tmp_path / "model" / "mine").read_text() == "meanwhile"
    with pytest.raises(FileNotFoundError), replacing_path(""):
        pass
    assert os.listdir(tmp_path) == ["model"]


def test_a_rename_that_fails_is_taken_back(tmp_path, monkeypatch):
    """Without an exchange, the old directory gets its name back if the new one cannot have it."""
    monkeypatch.setattr(system, "exchange", lambda one, other: False)
    path = tmp_path / "model"
    make(path, "old")
    rename = os.rename

    def refuse(one, other):
        if other == str(path) and Path(one, "saved_model.pb").read_text() == "new":
            raise PermissionError
        rename(one, other)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(PermissionError), replacing_path(str(path)) as temporary:
        os.mkdir(temporary)
        with open(f"{temporary}/saved_model.pb", "w") as file:
            file.write("new")
    assert (path / "saved_model.pb").read_text() == "old"
    assert os.listdir(tmp_path) == ["model"]


def test_exchange(tmp_path):
    """Two names change places in one step, or the system says why not."""
    make(tmp_path / "one", "1")
    make(tmp_path / "two", "2")
    if not system.exchange(str(tmp_path / "one"), str(tmp_path / "two")):
        pytest.skip("this file system exchanges no names")
    assert (tmp_path / "one/saved_model.pb").read_text() == "2"
    with pytest.raises(FileNotFoundError):
        system.exchange(str(tmp_path / "one"), str(tmp_path / "three"))
