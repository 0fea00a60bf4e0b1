"""Files as on Windows, on Linux: a program that `test_system.py` starts in a folder of its own.

Calls that Windows does not have are taken away before tensorferry is imported. Directories cannot
be opened, and a file that is open or mapped can be neither renamed, replaced nor removed.
"""

from __future__ import annotations

import concurrent.futures
import ctypes  # noqa: F401  # before the system is another one
import errno
import gc
import mmap
import os
import platform
import shutil
import sys
import tempfile  # noqa: F401
import threading  # noqa: F401
import urllib.parse  # noqa: F401
import zipfile  # noqa: F401

import h5py  # noqa: F401
import numpy as np
import pyarrow.compute
import pyarrow.csv
import pyarrow.fs
import pyarrow.json
import pyarrow.parquet  # noqa: F401

MISSING = (
    *("pread", "preadv", "pwrite", "pwritev", "fchmod", "fchown", "geteuid", "getegid", "uname"),
    *("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "SEEK_DATA", "SEEK_HOLE", "copy_file_range"),
    *("posix_fallocate", "listxattr", "getxattr", "setxattr", "mkfifo", "fork"),
)


def in_use() -> set[str]:
    """The paths of all files that this process has open or mapped."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:  # the descriptor of the list itself
            continue
    with open("/proc/self/maps") as maps:
        found |= {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if "/" in line}
    return found


def refusing(call, *, both):
    """A system call that fails where a file is in use, or a directory that holds one."""

    def refuse(*paths, **options):
        gc.collect()
        used = in_use()
        for path in paths if both else paths[:1]:
            real = os.path.realpath(path)
            if any(one == real or one.startswith(real + "/") for one in used):
                raise PermissionError(errno.EACCES, "the file is in use", path)
        return call(*paths, **options)

    return refuse


def become_windows() -> None:
    """Changes the system."""
    platform.uname()  # is kept
    for name in MISSING:
        delattr(os, name)
    del mmap.MADV_DONTNEED
    sys.modules["fcntl"] = None
    shutil._use_fd_functions = False
    real = os.open

    def open_file(path, flags, *rest, **options):
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "a directory", path)
        return real(path, flags, *rest, **options)

    os.open = open_file
    os.O_BINARY = 0
    for name in ("rename", "replace"):
        setattr(os, name, refusing(getattr(os, name), both=True))
    for name in ("unlink", "remove"):
        setattr(os, name, refusing(getattr(os, name), both=False))
    sys.platform = "win32"


VALUE = {"a": np.arange(12.0).reshape(3, 4), "b": np.arange(5)}
ROWS = {"id": np.arange(100), "score": np.arange(100) / 4}


def check_tensors(ferry) -> None:
    """Every format of tensors is written, replaced, mapped and read."""
    for name in ("v.npz", "v.safetensors", "v.json", "v.arrow", "v.ckpt", "v.weights.h5"):
        value = {"layers/dense/vars/0": VALUE["a"]} if name.endswith(".h5") else VALUE
        for _ in range(2):
            ferry.save(value, name)
        for options in ({}, {"mmap": False}):
            with ferry.open(name, **options) as bundle:
                for key, array in value.items():
                    assert (bundle[key] == array).all(), name
    ferry.save(np.zeros(1 << 20), "large.npy")
    ferry.save(np.ones(1 << 20), "large.npy")
    for _ in range(2):
        ferry.save(VALUE, "s.safetensors", shard_size=64)
    assert (ferry.load("s.safetensors.index.json")["b"] == VALUE["b"]).all()


def check_rows(ferry) -> None:
    """Every format of rows is, and sets of shards are one."""
    for name in ("r.tfrecord", "r.tfrecord.gz", "r.parquet", "r.csv", "r.jsonl", "r@3.tfrecord"):
        for _ in range(2):
            with ferry.writer(name) as out:
                out.write_batch(ROWS)
        with ferry.open(name) as rows:
            assert len(rows) == 100, name
            assert sum(int(batch["id"].sum()) for batch in rows.batches(30)) == 4950
    with ferry.writer("r.tfrecord", append=True) as out:
        out.write({"id": 100, "score": 0.0})
    with ferry.open("r.tfrecord") as rows:
        assert len(rows) == 101


def check_failures(ferry) -> None:
    """A write that fails leaves the old file, and so does one onto a mapped file."""
    try:
        with ferry.writer("r.tfrecord") as out:
            out.write({"id": 1, "score": 0.0})
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    small, large = ferry.load("v.npz"), {"a": np.arange(100_000)}
    ferry.save(large, "v.npz")  # a small file is not mapped
    assert (small["a"] == VALUE["a"]).all()
    held = ferry.load("v.npz")
    try:
        ferry.save({"a": np.zeros(3)}, "v.npz")
    except PermissionError as error:
        assert "mapped" in str(error), error
        assert "mmap=False" in str(error), error
        assert error.filename.endswith("v.npz"), error
    else:
        raise AssertionError("the mapped file was replaced")
    assert (held["a"] == large["a"]).all()
    del held
    ferry.save({"a": np.zeros(3)}, "v.npz")


def check_threads() -> None:
    """Threads share a descriptor, whose position the fallback moves."""
    from tensorferry.storage.local import open_unmapped

    data = np.arange(200_000).tobytes()
    with open("t.bin", "wb") as file:
        file.write(data)
    spans = [(start, start + 10_000) for start in range(0, len(data), 10_000)]
    with open_unmapped("t.bin") as source, concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert b"".join(pool.map(lambda span: source.fetch(*span), spans)) == data


def check_directories() -> None:
    """A directory is replaced as a whole."""
    from tensorferry.storage.directory import replacing_path

    for text in ("old", "new"):
        with replacing_path("model") as path:
            os.makedirs(f"{path}/variables")
            with open(f"{path}/variables/data", "w") as file:
                file.write(text)
    with open("model/variables/data") as file:
        assert file.read() == "new"


def main() -> None:
    """Runs all checks; prints what is left in the folder."""
    become_windows()
    import tensorferry as ferry
    from tensorferry.storage.url import is_url, localize

    check_tensors(ferry)
    check_rows(ferry)
    check_failures(ferry)
    check_threads()
    check_directories()
    assert localize("file:///C:/data/a%20b.npy") == "C:/data/a b.npy"
    assert not is_url("C://data")
    left = [name for name in os.listdir(".") if name.startswith(".")]
    assert not left, left
    print("as on Windows")


if __name__ == "__main__":
    main()
