"""Parts that many write, and that appear together."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import storage
from tensorferry.engines import Local
from tensorferry.storage.staging import Stage


def parts_of(stage, count):
    """So many parts, written."""
    for number in range(count):
        with storage.open_sink(stage.path(f"{number:05}"), durable=False) as sink:
            sink.write(b"new %d" % number)


def test_local(tmp_path):
    """Parts take the place of files, and have their modes; nothing else is left."""
    names = [str(tmp_path / f"x-{number}") for number in range(3)]
    Path(names[1]).write_bytes(b"old")
    os.chmod(names[1], 0o600)
    stage, other = (Stage.anew(names[0], durable=False) for _ in range(2))
    parts_of(stage, 3)
    stage.publish({f"{number:05}": name for number, name in enumerate(names)})

    assert stage.folder != other.folder
    assert sorted(map(str, tmp_path.iterdir())) == names
    assert [Path(name).read_bytes() for name in names] == [b"new 0", b"new 1", b"new 2"]
    assert os.stat(names[1]).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("where", ["local", "s3"])
def test_missing_part(s3, tmp_path, where):
    """If a part is not there, no other appears, and the parts can be published later."""
    base = str(tmp_path) if where == "local" else s3.url("out")
    names = {f"{number:05}": f"{base}/x-{number}" for number in range(3)}
    stage = Stage.anew(f"{base}/x", durable=False)
    parts_of(stage, 2)
    with pytest.raises(FileNotFoundError):
        stage.publish(names)
    assert [name for name in names.values() if storage.exists(name)] == []

    parts_of(stage, 3)
    stage.publish(names)
    found = storage.list_directory(base)
    assert found == list(names.values())
    assert len(s3.keys()) == (0 if where == "local" else 3)


@pytest.mark.parametrize("fault", ["503", "reset"])
def test_faults(s3, fault):
    """A store that fails at every third request gets all shards, and keeps no part of them."""
    for number in range(2):
        rows = {"id": np.arange(100) + 100 * number}
        ferry.save(rows, s3.url(f"in/x-{number:05}-of-00002.tfrecord"))
    s3.faults = itertools.cycle(["", "", fault])
    ferry.convert(
        s3.url("in/x-*.tfrecord"),
        s3.url("out/y.tfrecord"),
        shards=2,
        engine=Local(workers=1, task_size=2000),
    )
    s3.faults = iter(())

    found = ferry.load(s3.url("out/y.tfrecord@2"))["id"]
    assert found.tolist() == list(range(200))
    assert len(s3.keys()) == 4
