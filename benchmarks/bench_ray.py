"""What do many machines cost: Ray Data beside Ray's own readers, and engine="ray" beside "local"?

All on this machine, in one run, with Ray up and its workers warm. The answers are compared.

Ray's own reader and writer take a constant time for each row, which would be minutes for the whole
file. They get BENCH_PEER_ROWS rows, and a quarter of those: what more rows cost is taken from the
difference, so that what a job pays once is not scaled. Ray's own writer needs the package crc32c.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import ray
from measure import Report

import tensorferry as ferry
from tensorferry import engines, ray as ferry_ray
from tensorferry.files.splitting import splits_of
from tensorferry.rows.splits import Part
from tensorferry.storage.backend import Measured
from tensorferry.storage.place import Place

ROWS = int(os.environ.get("BENCH_ROWS", 200_000))
PEER_ROWS = int(os.environ.get("BENCH_PEER_ROWS", 20_000))
FEW = PEER_ROWS // 4
# The file so many times, and tasks of a size that makes some of it for each processor.
COPIES = 4
TASK = 16 << 20
SHARDS = (10, 100, 1000)
PLANNED = (10_000, 100_000)
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


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long a call takes, and what it gives."""
    start = time.perf_counter()
    given = work()
    return time.perf_counter() - start, given


def shortest(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """The time of the fastest of some calls."""
    return min(timed(work)[0] for _ in range(rounds))


def scaled(few: float, many: float) -> float:
    """The peer's time for all rows, from its times for a quarter of its rows and for all.

    On a busy machine the times may say nothing; then it is the time for the peer's rows.
    """
    return max(many, few + (many - few) / (PEER_ROWS - FEW) * (ROWS - FEW))


def by_id(dataset: Any) -> list[dict[str, Any]]:
    """The rows of a dataset, in the order of their ids."""
    return sorted(dataset.take_all(), key=lambda row: int(row["id"]))


def reading(report: Report, whole: str, part: str) -> None:
    """Files to a materialised dataset."""
    few = part + "-few"
    write_examples(few, FEW)
    # The first jobs of the peer import TensorFlow, in whichever worker they run.
    least = shortest(lambda: ray.data.read_tfrecords(few).materialize())
    most, theirs = timed(lambda: ray.data.read_tfrecords(part).materialize())
    ours = ferry_ray.read(part)
    pairs = list(zip(by_id(ours), by_id(theirs), strict=True))
    assert [int(row["id"]) for row, _ in pairs] == list(range(PEER_ROWS))
    for one, other in pairs:
        assert (one["id"], one["label"], one["text"]) == tuple(
            other[name] for name in ("id", "label", "text")
        )
        np.testing.assert_array_equal(one["tokens"], other["tokens"])
    for one, other in pairs[::100]:
        np.testing.assert_array_equal(one["embedding"], np.asarray(other["embedding"], np.float32))

    mine = shortest(lambda: ferry_ray.read(whole).materialize())
    add_peer(report, "read, materialised", mine, scaled(least, most))


def writing(report: Report, whole: str, part: str, folder: Path) -> None:
    """A materialised dataset to TFRecord files."""
    large, small = ferry_ray.read(whole).materialize(), ferry_ray.read(part).materialize()

    def write(dataset: Any) -> list[str]:
        sink = ferry_ray.Sink(folder / "ours" / "out.tfrecord")
        dataset.write_datasink(sink)
        return sink.paths

    paths = write(small)
    theirs = folder / "theirs"
    few = small.limit(FEW).materialize()
    least = shortest(lambda: few.write_tfrecords(str(folder / "few")))
    most = timed(lambda: small.write_tfrecords(str(theirs)))[0]
    found = [
        ferry.load([str(path) for path in files], format="tfrecord")
        for files in (paths, sorted(theirs.iterdir()))
    ]
    orders = [np.argsort(columns["id"]) for columns in found]
    for name in ("id", "label", "embedding", "text"):
        one, other = (columns[name][order] for columns, order in zip(found, orders, strict=True))
        np.testing.assert_array_equal(one, other)
    assert found[0]["id"][orders[0]].tolist() == list(range(PEER_ROWS))
    add_peer(report, "write", shortest(lambda: write(large)), scaled(least, most))


def add_peer(report: Report, work: str, mine: float, peer: float) -> None:
    """A line beside Ray's own way."""
    report.add(
        work=f"{work}, {ROWS:,} Examples",
        tensorferry=f"{mine:.2f} s",
        beside=f"{peer:.0f} s (Ray's own)",
        ratio=f"{peer / mine:.0f} times faster",
    )


def overhead(report: Report, whole: str, folder: Path) -> None:
    """The engines with the same tasks, on the same processors."""
    inputs = []
    for number in range(COPIES):
        inputs.append(str(folder / f"copy{number}.tfrecord"))
        os.link(whole, inputs[-1])
    chosen: dict[str, engines.Engine] = {
        "local": engines.Local(task_size=TASK),
        "ray": engines.Ray(task_size=TASK),
    }

    def convert(name: str, suffix: str) -> dict[str, bytes]:
        target = folder / name / f"out.{suffix}"
        report = ferry.convert(inputs, target, shards=8, force=True, engine=chosen[name])
        assert report.count == COPIES * ROWS
        return {Path(path).name: Path(path).read_bytes() for path in report.files}

    works: dict[str, Callable[[str], Any]] = {
        "stats": lambda name: ferry.stats(inputs, engine=chosen[name]),
        "convert to 8 TFRecord files": lambda name: convert(name, "tfrecord"),
        "convert to 8 Parquet files": lambda name: convert(name, "parquet"),
    }
    for work, run in works.items():
        assert run("local") == run("ray")
        times = {name: float("inf") for name in chosen}
        for _ in range(ROUNDS):
            for name in chosen:
                times[name] = min(times[name], timed(partial(run, name))[0])
        report.add(
            work=f"{work}, {COPIES * ROWS:,} Examples, engine='ray'",
            tensorferry=f"{times['ray']:.2f} s",
            beside=f"{times['local']:.2f} s (engine='local')",
            ratio=f"{times['ray'] / times['local']:.2f} times the time",
        )


def shards(report: Report, folder: Path) -> None:
    """The same number of rows a shard, in more and more shards."""
    columns = {"id": np.arange(200), "x": np.ones((200, 64), np.float32)}
    engine = engines.Ray()
    for count in SHARDS:
        place = folder / f"shards{count}"
        place.mkdir()
        for number in range(count):
            name = place / f"x-{number:05}-of-{count:05}.tfrecord"
            ferry.save(columns, name, durable=False)
        pattern = str(place / "x-*.tfrecord")
        works: dict[str, Callable[[], Any]] = {
            "read": partial(_rows_read, pattern),
            "count, engine='ray',": partial(ferry.count, pattern, engine=engine),
        }
        for work, run in works.items():
            assert run() == 200 * count
            took = shortest(run, 2)
            report.add(
                work=f"{work} {count:,} shards of 200 rows",
                tensorferry=f"{took:.2f} s",
                beside="",
                ratio=f"{took / count * 1000:.1f} ms a shard",
            )


def _rows_read(pattern: str) -> int:
    rows: int = ferry_ray.read(pattern).materialize().count()
    return rows


def resident() -> int:
    """Number of bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def planning(report: Report, whole: str) -> None:
    """The tasks for very many shards: their sizes are known as from a listing, none is there."""
    source = ferry_ray.Source(whole)
    source.estimate_inmemory_data_size()
    rows = ferry.open(whole)
    assert isinstance(rows, ferry.Rows)
    (split,) = rows.splits(1)
    for count in PLANNED:
        before, start = resident(), time.perf_counter()
        places = [Place(f"s3://bucket/train-{n:06}-of-{count:06}.tfrecord") for n in range(count)]
        for place in places:
            place.learn(Measured(place.path, 100 << 20, "tag"))
        many = split.kind.of_parts([Part(place) for place in places], split.how, facts=split.facts)
        source.__dict__["_sized"] = many
        tasks = source.get_read_tasks(count // 10)
        took, grown = time.perf_counter() - start, resident() - before
        assert sum(len(task.metadata.input_files) for task in tasks) == count
        _add_plan(report, f"Ray Data: plan {count:,} shards as {len(tasks):,} tasks", took, grown)
        del tasks
        before, start = resident(), time.perf_counter()
        splits = splits_of(many, 1 << 30)
        took, grown = time.perf_counter() - start, resident() - before
        assert sum(len(one.parts) for one in splits) == count
        _add_plan(report, f"engines: plan {count:,} shards as {len(splits):,} tasks", took, grown)


def _add_plan(report: Report, work: str, took: float, grown: int) -> None:
    report.add(work=work, tensorferry=f"{took:.2f} s", beside="", ratio=f"{grown / 1e6:.0f} MB")


def main() -> None:
    """Measures everything."""
    report = Report("Ray Data and engine='ray' on the processors of this machine, Ray being up")
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="error")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole, part = str(folder / "whole.tfrecord"), str(folder / "part.tfrecord")
        write_examples(whole, ROWS)
        write_examples(part, PEER_ROWS)
        planning(report, whole)
        overhead(report, whole, folder)
        shards(report, folder)
        reading(report, whole, part)
        writing(report, whole, part, folder)
    report.notes = [
        f"Ray's own reader and writer were given {FEW:,} and {PEER_ROWS:,} of the rows "
        f"(BENCH_PEER_ROWS); their time for {ROWS:,} is worked out from both, since a row costs "
        "them the same in every file.",
        "Plans are simulated: the sizes of shards are given, as a listing tells them, and no shard "
        "is opened. Starting Ray is not measured.",
    ]
    report.finish("ray")
    ray.shutdown()


if __name__ == "__main__":
    main()
