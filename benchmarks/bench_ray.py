"""How fast do TFRecords become a dataset of Ray, and datasets TFRecords, beside Ray's own way?

All on this machine, in one run, with Ray up and its workers warm. Ray's own reader and writer take
minutes for the whole file, so they get two parts of it. What more rows cost them is taken from the
difference, so that what they pay once a job is not scaled. All answers are compared first. Ray's
writer needs the package crc32c.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import ray
from measure import Report

import tensorferry as ferry
from tensorferry import ray as ferry_ray
from tensorferry.rows.splits import Part
from tensorferry.storage.place import Place

ROWS = int(os.environ.get("BENCH_ROWS", 200_000))
PEER_ROWS = int(os.environ.get("BENCH_PEER_ROWS", 4_000))
PLANNED = 100_000
ROUNDS = 3


def write_examples(path: str, rows: int) -> None:
    """Five features: two integers, 16 floats, 5 to 24 integers, a text."""
    random = np.random.default_rng(0)
    lengths = random.integers(5, 25, rows)
    tokens = np.split(random.integers(0, 30_000, lengths.sum()), np.cumsum(lengths)[:-1])
    ferry.save(
        {
            "id": np.arange(rows),
            "label": random.integers(0, 10, rows),
            "embedding": random.standard_normal((rows, 16), np.float32),
            "tokens": ferry.RaggedTensor.from_rows(tokens),
            "text": np.array([f"row {n}".encode() for n in range(rows)], object),
        },
        path,
        format="tfrecord",
    )


def shortest(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def scaled(few: float, many: float) -> float:
    """The time for all rows, from that for a quarter of the peer's rows and that for all."""
    return few + (many - few) / (PEER_ROWS * 3 // 4) * (ROWS - PEER_ROWS // 4)


def ids_of(dataset: Any) -> list[int]:
    return sorted(int(row["id"]) for row in dataset.select_columns(["id"]).take_all())


def reading(report: Report, whole: str, part: str) -> None:
    ours, theirs = ferry_ray.read(part), ray.data.read_tfrecords(part)
    assert ids_of(ours) == ids_of(theirs) == list(range(PEER_ROWS))
    one, other = (sorted(ds.take_all(), key=lambda row: row["id"])[7] for ds in (ours, theirs))
    np.testing.assert_array_equal(one["embedding"], np.asarray(other["embedding"], np.float32))
    np.testing.assert_array_equal(one["tokens"], other["tokens"])

    mine = shortest(lambda: ferry_ray.read(whole).materialize())
    few = part + "-few"
    write_examples(few, PEER_ROWS // 4)
    peer = scaled(
        shortest(lambda: ray.data.read_tfrecords(few).materialize(), 2),
        shortest(lambda: ray.data.read_tfrecords(part).materialize(), 1),
    )
    add(report, "read, materialised", mine, peer)


def writing(report: Report, whole: str, part: str, folder: Path) -> None:
    large = ferry_ray.read(whole).materialize()
    small = ferry_ray.read(part).materialize()

    def write(dataset: Any) -> list[str]:
        sink = ferry_ray.Sink(folder / "ours" / "out.tfrecord")
        dataset.write_datasink(sink)
        return sink.paths

    paths = write(small)
    theirs = folder / "theirs"
    few = small.limit(PEER_ROWS // 4).materialize()
    few.write_tfrecords(str(folder / "warm"))  # its workers import TensorFlow
    peer = scaled(
        shortest(lambda: few.write_tfrecords(str(folder / "few")), 2),
        shortest(lambda: small.write_tfrecords(str(theirs)), 1),
    )
    found = [
        sorted(ferry.load([str(path) for path in files], format="tfrecord")["id"].tolist())
        for files in (paths, sorted(theirs.iterdir()))
    ]
    assert found[0] == found[1] == list(range(PEER_ROWS))
    add(report, "write", shortest(lambda: write(large)), peer)


def add(report: Report, work: str, mine: float, peer: float) -> None:
    report.add(
        work=f"{work}, {ROWS:,} Examples",
        tensorferry=f"{mine:.2f} s",
        **{"Ray's own (scaled)": f"{peer:.0f} s", "times": f"{peer / mine:.0f}"},
    )


def shards(report: Report, folder: Path) -> None:
    """The same number of rows a shard, in more and more shards."""
    columns = {"id": np.arange(200), "x": np.ones((200, 64), np.float32)}
    for count in (10, 100, 1000):
        place = folder / f"shards{count}"
        place.mkdir()
        for number in range(count):
            name = place / f"x-{number:05}-of-{count:05}.tfrecord"
            ferry.save(columns, name, durable=False)
        pattern = str(place / "x-*.tfrecord")
        assert ferry_ray.read(pattern).count() == 200 * count
        took = shortest(lambda pattern=pattern: ferry_ray.read(pattern).materialize(), 2)  # type: ignore[misc]
        report.add(
            work=f"read {count:,} shards of 200 rows",
            tensorferry=f"{took:.2f} s",
            **{"Ray's own (scaled)": "", "times": f"{took / count * 1000:.1f} ms a shard"},
        )


def resident() -> int:
    """Number of bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def planning(report: Report, whole: str) -> None:
    """The read tasks for very many shards: their sizes are known, and no shard is there."""
    source = ferry_ray.Source(whole)
    source.estimate_inmemory_data_size()
    rows = ferry.open(whole)
    assert isinstance(rows, ferry.Rows)
    (split,) = rows.splits(1)
    before = resident()
    start = time.perf_counter()
    parts = [
        Part(Place(f"s3://bucket/train-{n:06}-of-{PLANNED}.tfrecord"), nbytes=100 << 20)
        for n in range(PLANNED)
    ]
    source.__dict__["_sized"] = split.kind.of_parts(parts, split.how, facts=split.facts)
    tasks = source.get_read_tasks(10_000)
    took = time.perf_counter() - start
    grown = resident() - before
    assert sum(len(task.metadata.input_files) for task in tasks) == PLANNED
    report.add(
        work=f"plan {PLANNED:,} shards as {len(tasks):,} tasks",
        tensorferry=f"{took:.2f} s, {grown / 1e6:.0f} MB",
        **{"Ray's own (scaled)": "", "times": ""},
    )


def main() -> None:
    report = Report("TFRecords to and from Ray Data, on the processors of this machine")
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole, part = str(folder / "whole.tfrecord"), str(folder / "part.tfrecord")
        write_examples(whole, ROWS)
        write_examples(part, PEER_ROWS)
        planning(report, whole)
        reading(report, whole, part)
        writing(report, whole, part, folder)
        shards(report, folder)
    report.notes = [
        f"Ray's own reader and writer were given {PEER_ROWS // 4:,} and {PEER_ROWS:,} rows, and "
        f"their time for {ROWS:,} was worked out from both.",
        "The plan is simulated: sizes are given, as a store tells them, and no shard is opened. "
        "Starting Ray is not measured.",
    ]
    report.finish("ray")
    ray.shutdown()


if __name__ == "__main__":
    main()
