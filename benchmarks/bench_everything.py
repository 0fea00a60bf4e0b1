"""Who is faster, in every job that README and docs name, at every size?

    python benchmarks/bench_everything.py [--check | --write] [WORD ...]

Each job of `jobs/` is done by tensorferry and by every peer that is installed, on the same data, in
one process. The answers are compared before anything is timed. Then all take turns, five times; a
ratio is the peer's time by ours of the same run, and the table has the median of the five with the
least and the greatest. Where the machine sets the limit, the limit is measured in the same runs.
The table opens with the rows where we are not ahead. `--write` puts it into docs/performance.md,
`--check` compares the answers and times nothing; words choose the jobs that have all of them in
their name or size.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["KERAS_BACKEND"] = "tensorflow"

from jobs import Job, Work, equal, jobs, missing
from measure import Report, duration, markdown
from run import publish

RUNS = 5
# A run of what takes no time lasts as long, so that the clock can tell; most jobs last longer.
SECONDS = 0.01
# What takes as long as this is run less often.
SLOW, SLOW_RUNS = 4.0, 3
# Ratios below this are no noise.
AHEAD = 0.95
OURS, LIMIT = "tensorferry", "limit"


def chosen(words: list[str]) -> Iterator[tuple[Job, str]]:
    """The jobs that were asked for, with their sizes."""
    for job in jobs():
        for size in job.sizes:
            if all(word in f"{job.name} {size}" for word in words):
                yield job, size


def check(job: Job, size: str, work: Work) -> None:
    """Compares the answers of all ways."""
    answer = work.ours.answer(work.ours.run())
    for name, way in work.peers.items():
        if not equal(answer, way.answer(way.run())):
            raise SystemExit(f"{job.name}, {job.label(size)}: {name} has another answer")


def timed(ways: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """The seconds of a call of each way, run by run; they take turns."""
    calls, longest = {}, 0.0
    for name, run in ways.items():
        start = time.perf_counter()
        run()
        once = time.perf_counter() - start
        calls[name] = max(1, int(SECONDS / max(once, 1e-7)))
        longest = max(longest, once)
    times: dict[str, list[float]] = {name: [] for name in ways}
    gc.collect()
    gc.disable()
    try:
        for turn in range(RUNS if longest < SLOW else SLOW_RUNS):
            for place in range(len(ways)):
                name, run = list(ways.items())[(place + turn) % len(ways)]
                os.sync()  # nobody waits for what the one before left for the disk to do
                start = time.perf_counter()
                for _ in range(calls[name]):
                    run()
                times[name].append((time.perf_counter() - start) / calls[name])
    finally:
        gc.enable()
    return times


def measured(job: Job, size: str, *, only_check: bool) -> Iterator[dict[str, Any]]:
    """A row of the table for every peer."""
    with tempfile.TemporaryDirectory() as folder:
        work = job.make(Path(folder), job.sizes[size])
        check(job, size, work)
        if only_check:
            print(f"{job.name}, {job.label(size)}: {', '.join(work.peers)}", flush=True)
            return
        ways = {OURS: work.ours.run, **{name: way.run for name, way in work.peers.items()}}
        if work.limit is not None:
            ways[LIMIT] = work.limit.run
        times = timed(ways)
    limit = ""
    if work.limit is not None:
        pairs = zip(times[LIMIT], times[OURS], strict=True)
        share = statistics.median(least / own for least, own in pairs)
        limit = f"{share:.0%} of {work.limit.name}"
    for name in work.peers:
        ratios = [theirs / own for theirs, own in zip(times[name], times[OURS], strict=True)]
        yield {
            "job": job.name,
            "size": f"{size}: {job.label(size)}",
            "by": name,
            "ours": duration(statistics.median(times[OURS])),
            "theirs": duration(statistics.median(times[name])),
            "ratio": statistics.median(ratios),
            "spread": f"{shown(min(ratios))} to {shown(max(ratios))}",
            "limit": limit,
        }


def shown(ratio: float) -> str:
    """A ratio with three digits."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    report = Report(
        "Every job beside every peer: medians of five runs; a ratio is the peer's time by ours"
    )
    start = time.perf_counter()
    for job, size in chosen(words):
        for row in measured(job, size, only_check="--check" in sys.argv):
            print(f"{row['ratio']:10.3g}  {row['job']}, {row['size']}: {row['by']}", flush=True)
            report.add(**row)
    if not report.rows:
        return
    behind = sorted(
        (row for row in report.rows if row["ratio"] < AHEAD), key=lambda row: row["ratio"]
    )
    report.rows = behind + [row for row in report.rows if row["ratio"] >= AHEAD]
    report.notes = [
        f"{len(report.rows)} rows, {len(behind)} of them not ahead, which come first, worst first.",
        "A limit is what the machine alone takes: memcpy copies the values, writev writes them; "
        "100% is as fast as that.",
        "Files are in the page cache and are written without fsync, as the peers do it. A file "
        "that is there is replaced atomically by ours, and is overwritten by the peers.",
        "Readers that map a file or take views of bytes defer the reading to the first use of the "
        "values; the jobs that sum them include it.",
    ]
    if missing():
        report.notes.append(f"Not measured, because not installed: {', '.join(missing())}.")
    report.notes.append(f"All of it took {duration(time.perf_counter() - start)}.")
    report.keep("everything")
    print(f"\n{report.question}\n\n{markdown(report.rows)}\n")
    print("\n".join(f"- {note}" for note in report.notes))
    if "--write" in sys.argv:
        publish("everything")


if __name__ == "__main__":
    main()
