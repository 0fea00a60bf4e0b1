"""A path is opened once, whatever an operation asks of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import storage
from tensorferry.files import plain
from tensorferry.formats import headers
from tensorferry.operations.list import list_tensors
from tensorferry.operations.schema import schema_of
from tensorferry.operations.select import select
from tensorferry.operations.show import excerpt
from tensorferry.storage import place

NAMES = ("values.npz", "values.safetensors", "values.tfrecord", "values.parquet", "values.npz.gz")
TARGETS = {
    "values.npz": ("values.safetensors", "values.tfrecord", "values.parquet"),
    "values.safetensors": ("values.npz", "values.parquet"),
    "values.tfrecord": ("copy.tfrecord", "values.parquet", "values.npz"),
    "values.parquet": ("values.tfrecord", "values.npz", "copy.parquet"),
    "values.npz.gz": ("values.safetensors",),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Files of the same columns."""
    folder = tmp_path_factory.mktemp("opens")
    columns = {"label": np.arange(40), "score": np.linspace(0, 1, 40, dtype=np.float32)}
    for name in NAMES:
        if "tfrecord" in name or "parquet" in name:
            with ferry.writer(folder / name, durable=False) as out:
                out.write_batch(columns)
        else:
            ferry.save(columns, folder / name, durable=False)
    return folder


@pytest.fixture
def opens(monkeypatch) -> Counter[str]:
    """How often each path was opened."""
    counts: Counter[str] = Counter()
    local = storage.open_local

    def counted(given):
        if isinstance(given, str):
            counts[given] += 1
        return local(given)

    for module in (storage, place):
        monkeypatch.setattr(module, "open_local", counted)

    def count_found(module, name):
        """Counts the paths that a function reads itself, unless it leaves them to others."""
        read = getattr(module, name)

        def looked_at(path):
            found = read(path)
            counts[path] += found is not None
            return found

        monkeypatch.setattr(module, name, looked_at)

    count_found(headers, "read")
    count_found(plain, "look")
    return counts


READING = {
    "inspect": ferry.inspect,
    "verify": ferry.verify,
    "verify nan": lambda path: ferry.verify(path, nan=True),
    "verify quick": lambda path: ferry.verify(path, quick=True),
    "hash": ferry.hash,
    "stats": ferry.stats,
    "list": list_tensors,
    "show": lambda path: excerpt(path, "score"),
    "schema": schema_of,
    "rows": lambda path: list(select(path, where="label > 3")),
    "last rows": lambda path: list(select(path, limit=3, last=True)),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verb", READING)
def test_reading(files, opens, verb, name):
    """Each verb opens the file once."""
    path = str(files / name)
    READING[verb](path)

    assert opens[path] == 1


@pytest.mark.parametrize("name", NAMES)
def test_diff(files, opens, name):
    """Both files are opened once, by position and by key."""
    paths = str(files / name), str(files / NAMES[0])
    assert ferry.diff(*paths).equal
    expected = {paths[0]: 2} if paths[0] == paths[1] else dict.fromkeys(paths, 1)
    assert {path: opens[path] for path in paths} == expected

    opens.clear()
    assert ferry.diff(*paths, key="label").equal
    assert {path: opens[path] for path in paths} == expected


@pytest.mark.parametrize("name", TARGETS)
def test_convert(files, tmp_path, opens, name):
    """The source is opened once, and again to compare it with the target, which is opened once."""
    path = str(files / name)
    for target in TARGETS[name]:
        opens.clear()
        ferry.convert(path, tmp_path / target, durable=False)
        assert opens[path] == 1
        assert opens[str(tmp_path / target)] == 0

        opens.clear()
        report = ferry.convert(path, tmp_path / target, durable=False, force=True, verify=True)
        assert report.verified
        assert (opens[path], opens[str(tmp_path / target)]) == (2, 1)


def test_several_files(files, tmp_path, opens):
    """Each of several files is opened once."""
    ferry.convert(files / "values.tfrecord", tmp_path / "rows.tfrecord", shards=3, durable=False)
    shards = sorted(str(path) for path in tmp_path.glob("rows*"))
    assert len(shards) == 3
    for verb in (ferry.inspect, ferry.verify, ferry.hash, ferry.stats):
        opens.clear()
        verb(str(tmp_path / "rows*"))
        assert {path: opens[path] for path in shards} == dict.fromkeys(shards, 1)
