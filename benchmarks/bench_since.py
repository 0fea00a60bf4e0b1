"""What has become slower or faster since another version?

    git worktree add ../old v0.1.0          # and build it there, in the same manner
    python benchmarks/bench_since.py ../old/src [--write] [WORD ...]

Both versions do the same jobs on the same files, which the old one has made. Processes of the two
take turns, and a time is the shortest of all calls in all processes of a version. The ratio is the
time of this version by that of the other: above 1, it has become slower. Words choose the jobs that
have all of them in their name; `--write` puts the table into docs/performance.md.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
from measure import Report, duration, markdown
from run import publish

import tensorferry as ferry

HERE = Path(__file__).parent
TURNS = 4
# For so long a job is repeated in each process, and at least so often.
SECONDS, CALLS = 0.3, 5
# What takes no longer is called so often between two looks at the clock.
SHORT, TOGETHER = 2e-5, 100
ROWS = 200_000

Jobs = Iterator[tuple[str, Callable[[], Any]]]


def tensors(count: int) -> dict[str, Any]:
    """Small tensors by name."""
    return {f"layer_{n}/kernel": np.arange(8, dtype=np.float32) + n for n in range(count)}


def columns() -> dict[str, Any]:
    """The columns of a table, strings among them."""
    texts = [b"sentence %d" % n for n in range(ROWS)]
    numbers = np.arange(ROWS)
    return {"id": numbers, "score": numbers.astype(np.float32), "text": np.array(texts, object)}


def make(folder: Path) -> None:
    """Makes the files that both versions read."""
    import tensorflow as tf

    ferry.save(np.arange(64, dtype=np.float32), folder / "x.npy")
    for suffix in ("npz", "safetensors", "parquet", "arrow", "ckpt"):
        ferry.save(tensors(64), folder / f"many.{suffix}")
    numbers = {name: column for name, column in columns().items() if name != "text"}
    ferry.save(numbers, folder / "rows.tfrecord")
    ferry.save(columns(), folder / "rows.parquet", rows=True)
    module = tf.Module()
    module.kernel = tf.Variable(tf.zeros((4, 4)))
    module.call = tf.function(lambda x: x @ module.kernel, [tf.TensorSpec((None, 4))])
    tf.saved_model.save(module, str(folder / "model"))


def jobs(folder: Path) -> Jobs:
    """What is timed, by name; everything in it is in both versions."""
    yield from of_bytes()
    yield from of_tensors(folder)
    yield from of_rows(folder)
    yield "inspect a SavedModel", partial(ferry.inspect, folder / "model")


def of_bytes() -> Jobs:
    """Values to bytes and back."""
    array = np.arange(64, dtype=np.float32)
    for what, value in (("64 floats", array), ("a structure of two tensors", [array, array])):
        yield f"`dumps`, {what}", partial(ferry.dumps, value)
        yield f"`loads`, {what}", partial(ferry.loads, ferry.dumps(value))


def of_tensors(folder: Path) -> Jobs:
    """Files of named tensors."""
    saved = folder / "saved"

    def save(value: Any, name: str) -> Callable[[], Any]:
        return partial(ferry.save, value, saved / name, durable=False)

    def listed() -> Any:
        bundle: Any = ferry.open(folder / "many.ckpt")
        with bundle:
            return [bundle.info[name] for name in bundle]

    many = tensors(64)
    yield "save npy, 64 floats, not durable", save(np.arange(64, dtype=np.float32), "x.npy")
    yield "load npy, 64 floats", partial(ferry.load, folder / "x.npy")
    for suffix in ("safetensors", "npz", "ckpt"):
        yield f"save {suffix}, 64 small tensors, not durable", save(many, f"x.{suffix}")
    for suffix in ("safetensors", "npz", "arrow", "parquet", "ckpt"):
        yield f"load {suffix}, 64 small tensors", partial(ferry.load, folder / f"many.{suffix}")
    yield "checkpoint, open and list 64 tensors", listed
    large = {"x": np.zeros(1 << 24, np.float32)}
    yield "save safetensors, 64 MB, not durable", save(large, "large.safetensors")
    yield "inspect an npz", partial(ferry.inspect, folder / "many.npz")
    yield "verify an npz", partial(ferry.verify, folder / "many.npz")


def of_rows(folder: Path) -> Jobs:
    """TFRecords and tables."""
    records, table = folder / "rows.tfrecord", folder / "rows.parquet"
    opened: Any = ferry.open(records)
    numbers = ferry.load(records)
    yield f"TFRecord, {ROWS:,} Examples to columns", partial(ferry.load, records)
    yield "TFRecord, one thread", partial(ferry.load, records, threads=1)
    yield (
        "TFRecord, columns to a file",
        partial(ferry.save, numbers, folder / "saved/rows.tfrecord", durable=False),
    )
    yield "TFRecord, `verify`", partial(ferry.verify, records)
    yield "TFRecord, `records[i]`", lambda: opened[ROWS // 2]
    yield f"Parquet, {ROWS:,} rows with strings to columns", partial(ferry.load, table)


def shortest(job: Callable[[], Any]) -> float:
    """The seconds that the shortest call takes."""
    start = time.perf_counter()
    job()
    once = time.perf_counter() - start
    count = TOGETHER if once < SHORT else 1
    best, ends, turn = once, time.perf_counter() + SECONDS, 0
    while turn < CALLS or time.perf_counter() < ends:
        start = time.perf_counter()
        for _ in range(count):
            job()
        best = min(best, (time.perf_counter() - start) / count)
        turn += 1
    return best


def measure(folder: Path, words: list[str]) -> None:
    """Times all jobs in this process, and prints them as JSON."""
    (folder / "saved").mkdir(exist_ok=True)
    gc.disable()
    chosen = ((name, job) for name, job in jobs(folder) if all(word in name for word in words))
    print(json.dumps({name: shortest(job) for name, job in chosen}))


def run(source: str, *arguments: str) -> str:
    """Runs this script with one of the two versions."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((source, str(HERE)))}
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def compare(old: str, words: list[str]) -> Report:
    """The table of all jobs, those that have become slower first."""
    versions = {"old": old, "new": str(Path(ferry.__file__).parent.parent)}
    times: dict[str, dict[str, float]] = {version: {} for version in versions}
    with tempfile.TemporaryDirectory() as folder:
        run(old, "--make", folder)
        for turn in range(TURNS):
            print(f"turn {turn + 1} of {TURNS}", file=sys.stderr, flush=True)
            for version, source in versions.items():
                for name, seconds in json.loads(run(source, "--measure", folder, *words)).items():
                    known = times[version].get(name, seconds)
                    times[version][name] = min(known, seconds)
    report = Report("Jobs in another version and in this one: the shortest of all calls")
    ratios = {name: times["new"][name] / before for name, before in times["old"].items()}
    for name in sorted(ratios, key=lambda name: -ratios[name]):
        before, now = duration(times["old"][name]), duration(times["new"][name])
        report.add(work=name, before=before, now=now, ratio=f"{ratios[name]:.2f}")
    report.notes.append(f"{TURNS} processes of each version took turns.")
    return report


def main() -> int:
    given = [argument for argument in sys.argv[1:] if argument != "--write"]
    if not given:
        print("the folder of another version's package is needed: see the top of this file")
        return 2
    if given[0] == "--make":
        make(Path(given[1]))
    elif given[0] == "--measure":
        measure(Path(given[1]), given[2:])
    else:
        report = compare(os.path.abspath(given[0]), given[1:])
        report.keep("since")
        print(f"\n{report.question}\n\n{markdown(report.rows)}\n")
        if "--write" in sys.argv:
            publish("since")
    return 0


if __name__ == "__main__":
    sys.exit(main())
