"""Readers and writers at the same time: one value or the other, and never some of both."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from faults.endurance import RACED
from faults.writers import WRITERS, numbers

import tensorferry as ferry
from tensorferry.errors import FormatError
from tensorferry.storage import journal, sets, sweeping, temporary
from tensorferry.storage.place import Place

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from endurance import WRITERS, kill, race
where = sys.argv[3]
for name in sys.argv[4:]:
    if sys.argv[2] == "kills":
        print(kill(name, WRITERS[name], 10, where))
    else:
        print(race(name, WRITERS[name], 0.5, 2, where))
"""


@pytest.mark.parametrize("what", ["kills", "races"])
def test_a_little(tmp_path, what):
    """Kills at random moments, and readers that race with two writers, find no mixture."""
    here = str(Path(__file__).parent)
    # In memory, where syncing takes no time.
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else str(tmp_path)
    names = RACED[:3] if what == "kills" else RACED  # `make faults` kills them all
    command = [sys.executable, "-c", SCRIPT, here, what, where, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == len(names)


SETS = ["tfrecord in shards", "parquet in shards", "keras in shards", "checkpoint"]


@pytest.mark.parametrize("name", [*SETS, "safetensors in shards"])
def test_two_writers(tmp_path, name, monkeypatch):
    """While one writer is at work, another is told so, and changes nothing."""
    writer = WRITERS[name]
    writer.write(str(tmp_path), 1)
    begun, go = threading.Event(), threading.Event()
    real = temporary.create

    def slow(target, **options):
        if threading.current_thread() is first and not begun.is_set():
            begun.set()
            assert go.wait(600)
        return real(target, **options)

    monkeypatch.setattr(temporary, "create", slow)
    first = threading.Thread(target=writer.write, args=(str(tmp_path), 2))
    first.start()
    assert begun.wait(600)
    try:
        with pytest.raises(OSError, match="another writer is writing it") as caught:
            writer.write(str(tmp_path), 3)
        assert caught.value.errno == errno.EBUSY
        assert writer.read(str(tmp_path)) == {1}
    finally:
        go.set()
        first.join()

    assert writer.read(str(tmp_path)) == {2}
    assert not [found for found in os.listdir(tmp_path) if found.startswith(".")]


def shards(folder, number):
    """A set of four shards of one number."""
    with ferry.writer(folder / "x@4.tfrecord", durable=False) as out:
        for _ in range(8):
            out.write({"x": number})


def test_a_set_stays_what_it_was(tmp_path):
    """What was opened before a replacement is read to its end, however late."""
    shards(tmp_path, 1)
    rows = ferry.open(tmp_path / "x@4.tfrecord")
    shards(tmp_path, 2)
    shards(tmp_path, 3)

    assert {row["x"] for row in rows} == {1}


def test_more_shards_than_stay_open(tmp_path, monkeypatch):
    """Of a set that is too large to be held open, a shard that was replaced is an error."""
    monkeypatch.setattr("tensorferry.storage.sets.OPEN_AT_ONCE", 2)
    shards(tmp_path, 1)
    rows = ferry.open(tmp_path / "x@4.tfrecord")
    assert numbers(rows.value()) == {1}
    again = ferry.open(tmp_path / "x@4.tfrecord")
    shards(tmp_path, 2)
    with pytest.raises(FormatError, match="was replaced or changed since"):
        again.value()


def left_by_a_kill(folder, *, renamed):
    """A set of ones, of which a killed writer has replaced some shards by twos."""
    shards(folder, 1)
    code = f"""
import os, signal, sys
import tensorferry as ferry
from tensorferry.storage import sink
real, done = sink.replace, []
def replace(path, target, **known):
    if len(done) == {renamed}:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(target)
    real(path, target, **known)
sink.replace = replace
with ferry.writer(sys.argv[1] + "/x@4.tfrecord") as out:
    for _ in range(8):
        out.write({{"x": 2}})
"""
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True)
    assert done.returncode == -9, done.stderr


@pytest.mark.parametrize("renamed", [0, 1, 3])
def test_killed_between_two_names(tmp_path, renamed):
    """The new set is read from whichever names it has; the next writer gives it its own."""
    left_by_a_kill(tmp_path, renamed=renamed)
    for name in ("x@4.tfrecord", "x@*.tfrecord", "x-*.tfrecord", ""):
        assert numbers(ferry.load(tmp_path / name)) == {2}
    ferry.save(np.zeros(3), tmp_path / "other.npy")

    assert sorted(os.listdir(tmp_path)) == [
        "other.npy",
        *(f"x-{n:05}-of-00004.tfrecord" for n in range(4)),
    ]
    assert numbers(ferry.load(tmp_path / "x@4.tfrecord")) == {2}


def test_a_new_set_that_was_not_finished(tmp_path):
    """Also where there was no set before, and some names are missing."""
    left_by_a_kill(tmp_path, renamed=2)
    for n in (2, 3):
        (tmp_path / f"x-{n:05}-of-00004.tfrecord").unlink()

    assert numbers(ferry.load(tmp_path / "x@4.tfrecord")) == {2}
    assert numbers(ferry.load(tmp_path / "x-*.tfrecord")) == {2}


def test_a_copied_folder(tmp_path):
    """A copy of a half-replaced set is not taken for a sound one."""
    left_by_a_kill(tmp_path, renamed=2)
    subprocess.run(["cp", "-a", str(tmp_path), f"{tmp_path}-copy"], check=True)
    copy = Path(f"{tmp_path}-copy")
    with pytest.raises(FormatError, match="neither the old nor the new one") as caught:
        ferry.load(copy / "x@4.tfrecord")
    assert ".ferry" in caught.value.hint
    shards(copy, 3)
    assert numbers(ferry.load(copy / "x@4.tfrecord")) == {3}
    assert not [name for name in os.listdir(copy) if name.endswith(".ferry")]


def test_a_strangers_journal(tmp_path):
    """A journal that was made up renames and removes nothing, whatever it says."""
    shards(tmp_path, 1)
    (tmp_path / "precious").write_bytes(b"precious")
    hidden = tmp_path / f".x.ferry-{temporary.system()}01234567.tmp"
    main = str(tmp_path / "x-00000-of-00004.tfrecord")
    for name in ("precious", "../precious", "x-00000-of-00004.tfrecord"):
        hidden.write_bytes(b"evil")
        member = journal.Member(name, hidden.name, (1, 4, 5))
        made = journal.Journal(str(tmp_path), Path(main).name, temporary.system(), (member,))
        Path(journal.path_of(main)).write_bytes(made.encode())
        sweeping._swept.clear()
        ferry.save(np.zeros(3), tmp_path / "other.npy")
        assert (tmp_path / "precious").read_bytes() == b"precious"
    shards(tmp_path, 2)
    assert numbers(ferry.load(tmp_path / "x@4.tfrecord")) == {2}


def test_a_reader_that_comes_late(tmp_path):
    """However often the files of an index are gone when a reader gets to them, it goes on."""
    index = tmp_path / "index"
    replaced = []

    def replace(number):
        (tmp_path / f"part-{number}").write_bytes(b"x")
        (tmp_path / "new").write_text(f"part-{number}")
        os.replace(tmp_path / "new", index)
        (tmp_path / f"part-{number - 1}").unlink(missing_ok=True)

    def members():
        places = [Place(str(index)), Place(str(tmp_path / index.read_text()))]
        if len(replaced) < 8:
            replaced.append(replace(len(replaced) + 1))
        return places

    replace(0)
    found = sets.as_one(str(index), members)

    assert [os.path.basename(place.path) for place in found] == ["index", "part-8"]
    (tmp_path / "part-8").unlink()
    with pytest.raises(FileNotFoundError):
        sets.as_one(str(index), members)


def test_with_and_without_a_sidecar(tmp_path):
    """Of two writers of a file, one of them with metadata, a reader always finds what fits."""
    path = tmp_path / "x.npy"
    ferry.save(np.full(4, 0), path)
    stop = threading.Event()

    def write(metadata):
        number = 0
        while not stop.is_set():
            number += 1
            kept = {"number": number} if metadata else None
            ferry.save(np.full(4, number if metadata else -number), path, metadata=kept)

    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(write, metadata) for metadata in (True, False)]
        try:
            seen = set()
            ends = time.monotonic() + 1.5
            while time.monotonic() < ends:
                with ferry.open(path) as bundle:
                    number = int(bundle.value()[0])
                    assert bundle.metadata == ({"number": number} if number > 0 else {})
                    seen.add(number > 0)
        finally:
            stop.set()
        for writer in writers:
            writer.result()
    assert seen == {True, False}
    assert {name for name in os.listdir(tmp_path) if name.startswith(".")} == set()
