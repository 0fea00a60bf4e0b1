"""What is left beside files: nothing by those who end, and by those who are killed not for long."""

from __future__ import annotations

import os
import signal
import stat
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import storage
from tensorferry.storage import journal, sweeping, temporary
from tensorferry.storage.directory import replacing_path

ACL = "system.posix_acl_access"
WRITES = """
import sys, time
from tensorferry import storage
with storage.open_sink(sys.argv[1]) as sink:
    sink.write(bytes(100))
    print("written", flush=True)
    time.sleep(600)
"""


CLAIMS = WRITES.replace(
    "    print(",
    "    from tensorferry.storage.journal import path_of\n"
    "    assert sink.claim(path_of(sys.argv[1]))\n"
    "    print(",
)


def begun(path, program=WRITES):
    """A process that is writing a file."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "written\n"
    return process


def names(folder):
    """The files of a folder."""
    return sorted(os.listdir(folder))


def test_dead_claims_are_swept(tmp_path):
    """The only writer of a file that was killed leaves two names, which the next writer removes."""
    living, dead = begun(tmp_path / "living.npy", CLAIMS), begun(tmp_path / "dead.npy", CLAIMS)
    dead.kill()
    dead.wait()
    try:
        assert len(names(tmp_path)) == 4
        ferry.save(np.zeros(3), tmp_path / "x.npy")
        left = set(names(tmp_path)) - {"x.npy"}
        assert len(left) == 2
        assert all(name.startswith(".living.npy.") for name in left)
    finally:
        living.kill()
        living.wait()
    sweeping._swept.clear()
    ferry.save(np.zeros(3), tmp_path / "x.npy")
    assert names(tmp_path) == ["x.npy"]


def test_private_files_are_not_claimed(tmp_path):
    """The lock of a private file is a file of its own, which others can open."""
    path = tmp_path / "x.npy"
    ferry.save(np.zeros(3), path)
    for mode, claimed in ((0o600, False), (0o640, False), (0o644, True)):
        path.chmod(mode)
        with storage.open_sink(path) as sink:
            assert sink.claim(journal.path_of(str(path))) is claimed
        assert names(tmp_path) == ["x.npy"]
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_claim_after_the_rename(tmp_path):
    """A writer that was killed after the rename leaves its file, and a name that is removed."""
    for name in ("x.npy", "y.npy"):  # by whoever writes this file, or another one
        ferry.save(np.ones(3), tmp_path / "x.npy")
        os.link(tmp_path / "x.npy", journal.path_of(str(tmp_path / "x.npy")))
        sweeping._swept.clear()
        ferry.save(np.zeros(2), tmp_path / name)
        assert names(tmp_path) == sorted({"x.npy", name})
    assert ferry.load(tmp_path / "x.npy").tolist() == [1, 1, 1]


def test_dead_writers_are_swept(tmp_path):
    """A writer that was killed leaves a file, which the next writer removes; not a living one's."""
    dead, living = begun(tmp_path / "dead.npy"), begun(tmp_path / "living.npy")
    dead.kill()
    dead.wait()
    assert len(names(tmp_path)) == 2
    try:
        ferry.save(np.zeros(3), tmp_path / "x.npy")
        (left,) = set(names(tmp_path)) - {"x.npy"}
        assert left.startswith(".living.npy.ferry-")
    finally:
        living.kill()
        living.wait()
    sweeping._swept.clear()
    ferry.save(np.zeros(3), tmp_path / "x.npy")
    assert names(tmp_path) == ["x.npy"]


def test_only_our_own_are_swept(tmp_path):
    """Files of other names, and of other systems until they are a day old, are left alone."""
    others = [".x.0123456789abcdef.tmp", "x.tmp", ".x.swp", f".x.ferry-{temporary.system()}.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    foreign = tmp_path / ".x.npy.ferry-0123456789abcdef.tmp"
    foreign.write_bytes(b"")
    os.mkfifo(tmp_path / f".x.ferry-{temporary.system()}00000000.tmp")
    ferry.save(np.zeros(3), tmp_path / "x.npy")
    assert foreign.exists()
    os.utime(foreign, (time.time() - 2 * sweeping.DAY,) * 2)
    sweeping._swept.clear()
    ferry.save(np.zeros(3), tmp_path / "x.npy")
    assert not foreign.exists()
    assert {*others} < {*names(tmp_path)}


def test_sweeping_takes_little_time(tmp_path, monkeypatch):
    """A folder is not listed again before a hundred times as long as that took has passed."""
    sweeping.sweep(str(tmp_path))
    sweeping._swept[str(tmp_path)] = time.monotonic(), 10.0
    listed = []
    monkeypatch.setattr(os, "listdir", listed.append)
    sweeping.sweep(str(tmp_path))
    assert not listed


def test_a_directory_that_was_moved_away_comes_back(tmp_path, monkeypatch):
    """Where names cannot be exchanged, a killed writer leaves the old model in its own folder."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "saved_model.pb").write_text("old")
    code = """
import os, signal, sys
from tensorferry.storage import directory, system
system.exchange = lambda one, other: False
real = os.rename
def rename(one, other):
    if other == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
    real(one, other)
os.rename = rename
with directory.replacing_path(sys.argv[1]) as path:
    os.mkdir(path)
"""
    done = subprocess.run([sys.executable, "-c", code, str(model)], capture_output=True)
    assert done.returncode == -9, done.stderr
    assert not model.exists()
    ferry.save(np.zeros(3), tmp_path / "x.npy")
    assert (model / "saved_model.pb").read_text() == "old"
    assert names(tmp_path) == ["model", "x.npy"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_end_the_command(tmp_path, number):
    """SIGTERM and SIGHUP are as clean as Ctrl-C: nothing is left, and the target is as it was."""
    source = tmp_path.parent / f"{number}.tfrecord"

    def undo_nohup():
        """Signals end the command even where whoever runs the tests ignores them."""
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    (tmp_path / "out.tfrecord").write_bytes(b"old")
    command = [sys.executable, "-m", "tensorferry", "convert", "-", tmp_path / "out.tfrecord"]
    process = subprocess.Popen(
        [*map(str, command), "--force", "--to", "tfrecord"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=undo_nohup,
    )
    ferry.save({"x": np.zeros(5000)}, source)
    process.stdin.write(source.read_bytes() * 6)  # more than a pipe holds: it is being read
    process.stdin.flush()
    ends = time.monotonic() + 600
    while len(names(tmp_path)) == 1 and time.monotonic() < ends:
        time.sleep(0.01)
    assert len(names(tmp_path)) == 2
    process.send_signal(number)
    _, error = process.communicate(timeout=600)

    assert process.returncode == 128 + number, error
    assert names(tmp_path) == ["out.tfrecord"]
    assert (tmp_path / "out.tfrecord").read_bytes() == b"old"


def test_the_mode_from_the_first_moment(tmp_path, monkeypatch):
    """A private file's replacement is private before its first byte is written."""
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o600)
    modes = []
    real = os.open

    def watched(name, flags, mode=0o777, **options):
        descriptor = real(name, flags, mode, **options)
        if flags & os.O_CREAT:
            modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    with storage.open_sink(path) as sink:
        sink.write(b"new")
    assert modes == [0o600]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def acl(*entries):
    """An access control list as the system keeps it."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def set_attributes(path):
    """Gives a file attributes that a new one would not have; what the system cannot do is left."""
    given = {}
    if os.geteuid() == 0:
        os.chown(path, 1234, 2345)
        given["owner"] = (1234, 2345)
    os.chmod(path, 0o640)
    # Owner rw, user 1111 r, group none, mask r, others none.
    listed = acl(
        (1, 6, 2**32 - 1), (2, 4, 1111), (4, 0, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1)
    )
    for name, value in {"user.origin": b"lab", ACL: listed}.items():
        try:
            os.setxattr(path, name, value)
            given[name] = value
        except OSError as error:
            assert error.errno in (95, 22), error
    return given


def attributes(path, given):
    """The same attributes of a file."""
    found = {name: os.getxattr(path, name) for name in given if name != "owner"}
    if "owner" in given:
        about = os.stat(path)
        found["owner"] = (about.st_uid, about.st_gid)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="has extended attributes of its own")
@pytest.mark.parametrize("kind", ["file", "set", "directory", "sidecar"])
def test_attributes_survive(tmp_path, kind):
    """Owner, mode, ACL and extended attributes of what is replaced are those of the new file."""

    def write(number):
        if kind == "set":
            with ferry.writer(tmp_path / "x@2.tfrecord") as out:
                out.write({"x": number})
            return [tmp_path / f"x-0000{n}-of-00002.tfrecord" for n in range(2)]
        if kind == "directory":
            with replacing_path(str(tmp_path / "model")) as path:
                os.mkdir(path)
                with open(f"{path}/saved_model.pb", "w") as file:
                    file.write(str(number))
            return [tmp_path / "model/saved_model.pb", tmp_path / "model"]
        ferry.save(np.full(3, number), tmp_path / "x.npy", metadata={"n": number})
        return [tmp_path / ("x.npy" if kind == "file" else "x.npy.json")]

    given = {path: set_attributes(path) for path in write(1)}
    # Open, because the number of a file that is gone may be that of the next one.
    old = {path: os.open(path, os.O_RDONLY) for path in given}
    write(2)
    for path, expected in given.items():
        assert not os.path.samestat(path.stat(), os.fstat(old[path]))
        os.close(old[path])
        assert attributes(path, expected) == expected
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_group_that_cannot_be_kept(tmp_path, monkeypatch):
    """Where only root gives files away, our own group gets no more rights than everybody."""
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o664)
    if os.geteuid() == 0:
        os.chown(path, 1234, 2345)

    def refuse(*arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    with storage.open_sink(path) as sink:
        sink.write(b"new")
    found = path.stat()
    if found.st_gid != 2345 and os.geteuid() == 0:
        assert stat.S_IMODE(found.st_mode) == 0o644
