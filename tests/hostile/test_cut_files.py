"""Files that another program cuts while they are open: an error, where nothing is mapped."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import h5py
import numpy as np

import tensorferry as ferry

# Opens each file, cuts it, and reads it: prints the error, or "read" if the values were there.
# A mapped file that is touched behind its end would end the process (SIGBUS).
PROGRAM = """
import json, os, sys
import tensorferry as ferry

found = {}
for name, options, cut in json.loads(sys.argv[1]):
    opened = ferry.open(name, **options)
    os.truncate(cut, 5000)
    try:
        opened.value()
        found[name] = "read"
    except ferry.FerryError as error:
        found[name] = type(error).__name__
print(json.dumps(found))
"""

VALUES = {"x": np.random.default_rng(0).random((1000, 100), np.float32), "y": np.arange(1000)}
ERRORS = {"TruncatedError", "FormatError"}


def outcomes(folder, names, **options):
    """What reading files gives that were cut after they were opened."""
    cases = []
    for name in names:
        data = folder / f"{name}.data-00000-of-00001"
        cut = data if data.exists() else folder / name
        assert os.path.getsize(cut) > 300_000  # more than is held of the start and the end
        cases.append([str(folder / name), options, str(cut)])
    command = [sys.executable, "-c", PROGRAM, json.dumps(cases)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return {os.path.basename(name): found for name, found in json.loads(done.stdout).items()}


def test_what_is_not_mapped(tmp_path):
    """With `mmap=False`, a file that was cut is an error, or was read when it was opened."""
    for name in ("x.safetensors", "x.npz", "x.parquet", "x.tfrecord", "x.arrow", "x.structure"):
        ferry.save(VALUES, tmp_path / name)
    ferry.save(VALUES, tmp_path / "x.ckpt", format="checkpoint")
    ferry.save(VALUES["x"], tmp_path / "x.npy")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a/vars/0"] = VALUES["x"]
    lazy = ["x.safetensors", "x.npz", "x.parquet", "x.tfrecord", "x.ckpt", "x.npy", "x.h5"]
    whole = ["x.arrow", "x.structure"]

    found = outcomes(tmp_path, [*lazy, *whole], mmap=False)

    assert {found[name] for name in lazy} <= ERRORS, found
    assert {found[name] for name in whole} == {"read"}


def test_what_is_copied_anyway(tmp_path):
    """Compressed values are read, not mapped, by default, too."""
    ferry.save(VALUES, tmp_path / "x.parquet")
    ferry.save(VALUES, tmp_path / "x.npz", compression="deflate")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a/vars/0", data=VALUES["x"], chunks=(50, 100), compression="gzip")

    found = outcomes(tmp_path, ["x.parquet", "x.npz", "x.h5"])

    assert set(found.values()) <= ERRORS, found


def test_what_is_verified_anyway(tmp_path):
    """Values that have a checksum, and were not verified before the file was cut, are an error."""
    ferry.save(VALUES, tmp_path / "x.ckpt", format="checkpoint")
    ferry.save(VALUES, tmp_path / "x.tfrecord")
    ferry.save(VALUES, tmp_path / "x.npz")

    found = outcomes(tmp_path, ["x.ckpt", "x.tfrecord", "x.npz"])

    assert set(found.values()) <= ERRORS, found


def test_lines_of_text(tmp_path):
    """Lines are parsed from a copy: none of them is looked at in a map."""
    rows = [{"a": float(number), "b": f"text {number}"} for number in range(100_000)]
    for name in ("x.csv", "x.jsonl"):
        ferry.save(rows, tmp_path / name)

    found = outcomes(tmp_path, ["x.csv", "x.jsonl"])

    assert set(found.values()) == {"TruncatedError"}, found


# Reads some records, cuts the file, and reads others.
ANYWHERE = """
import os, sys
import tensorferry as ferry

rows = ferry.open(sys.argv[1])
rows[[5, 3]]
os.truncate(sys.argv[1], 5000)
try:
    rows[[90_000, 3, 50_000]]
    print("read")
except ferry.FerryError as error:
    print(type(error).__name__)
"""


def test_records_anywhere(tmp_path):
    """Lists of records by their numbers are an error, too."""
    path = tmp_path / "x.tfrecord"
    ferry.save([{"a": float(number), "b": f"text {number}"} for number in range(100_000)], path)
    command = [sys.executable, "-c", ANYWHERE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)

    assert (done.returncode, done.stdout) == (0, "TruncatedError\n"), done.stderr[-2000:]


def test_values_are_kept(tmp_path):
    """With `mmap=False`, values are memory of their own: cutting the file changes nothing."""
    for name in ("x.safetensors", "x.npz", "x.arrow", "x.parquet"):
        path = tmp_path / name
        ferry.save(VALUES, path)
        value = ferry.load(path, mmap=False)
        os.truncate(path, 10)
        np.testing.assert_equal(dict(value), VALUES)


def test_a_file_that_was_replaced(tmp_path):
    """A file that was replaced keeps its values, also those that are read later."""
    for name in ("x.parquet", "x.npz"):
        path = tmp_path / name
        ferry.save(VALUES, path, **({"compression": "deflate"} if name == "x.npz" else {}))
        with ferry.open(path) as opened, ferry.open(path, mmap=False) as read:
            ferry.save({"x": np.zeros(3), "y": np.zeros(3)}, path)
            for one in (opened, read):
                np.testing.assert_equal(dict(one.value()), VALUES)


def test_other_places(tmp_path):
    """The option is about local files: others ignore it."""
    path = tmp_path / "x.npy"
    np.save(path, VALUES["y"])
    with open(path, "rb") as file:
        np.testing.assert_equal(ferry.load(file, mmap=False), VALUES["y"])
    np.testing.assert_equal(ferry.load(f"file://{path}", mmap=False), VALUES["y"])
    np.testing.assert_equal(ferry.load(path.read_bytes(), mmap=False), VALUES["y"])
    with open(path, "rb") as file:
        data = file.read()
    import fsspec

    fsspec.filesystem("memory").pipe("/cut/x.npy", data)
    np.testing.assert_equal(ferry.load("memory://cut/x.npy", mmap=False), VALUES["y"])
