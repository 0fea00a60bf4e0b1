"""Operations on all processors, beside the same in one thread."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.operations import shares, workers
from tensorferry.operations.hash import hash as hash_content
from tensorferry.operations.stats import stats

ROWS = 3000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Records and tensors, and the same with one value changed."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    columns = {
        "id": np.arange(ROWS),
        "x": rng.standard_normal((ROWS, 40), dtype=np.float32),
        "text": np.array([b"text %d" % (n % 700) for n in range(ROWS)], object),
    }
    paths = {}
    for name in ("good", "other"):
        paths[name] = str(folder / f"{name}.tfrecord")
        with ferry.writer(paths[name]) as out:
            out.write_batch(columns)
        paths[f"{name} tensors"] = str(folder / f"{name}.safetensors")
        ferry.save(columns, paths[f"{name} tensors"])
        columns["x"] = columns["x"].copy()
        columns["x"][7, 3] += 1
    damaged = bytearray((folder / "good.tfrecord").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (folder / "bad.tfrecord").write_bytes(damaged)
    paths["bad"] = str(folder / "bad.tfrecord")
    return paths


def test_answers_do_not_depend_on_threads(files, monkeypatch):
    """Digests, differences, statistics and problems are the same on all processors."""

    def answers():
        found = []
        for kind in ("good", "good tensors"):
            found.append(hash_content(files[kind]))
            found.append(ferry.diff(files[kind], files[kind.replace("good", "other")]))
            found.append(stats(files[kind]))
        return found, [ferry.verify(path) for path in files.values()]

    alone = answers()
    monkeypatch.setattr(shares, "LARGE", 0)
    monkeypatch.setattr(workers, "LEAST", 0)

    assert answers() == alone
    assert [report.sound for report in alone[1]] == [True, True, True, True, False]


def test_results_come_in_order():
    """Results come in the order of the items, and an error comes in its place."""
    gate = threading.Event()
    large = np.zeros(workers.LEAST, np.uint8)

    def work(item):
        if item[0] == 0:
            gate.wait(10)
        gate.set()
        if item[0] == 3:
            raise ValueError("three")
        return item[0]

    with workers.Workers() as team:
        found = team.in_order([(n, large) for n in range(5)], work, lambda item: item[1])
        assert [next(found) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="three"):
            next(found)


def test_memory_is_bounded(monkeypatch):
    """Items are taken only while those that are worked on fit."""
    monkeypatch.setattr(workers, "MOST", 3 * workers.LEAST)
    taken, done, most = [], [], 0

    def items():
        for number in range(20):
            taken.append(number)
            yield np.zeros(2 * workers.LEAST, np.uint8)

    with workers.Workers() as team:
        for _ in team.in_order(items(), lambda item: item.nbytes, lambda item: item):
            done.append(1)
            most = max(most, len(taken) - len(done))
    assert len(done) == 20
    assert most <= 2
