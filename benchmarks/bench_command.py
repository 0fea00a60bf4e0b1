"""How long does the command take, from start to end, beside importing NumPy and beside TensorFlow?

Small files show what starting costs. Files of 1 GB, a checkpoint and records, are looked at as
`ferry info` and `ferry ls` do, and as a program does that imports TensorFlow for the same answer:
the names of the variables, the number of the records. The answers are compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import Report, duration

import tensorferry as ferry

ROUNDS = 15
LARGE_ROUNDS = 5

# What takes longer, in seconds, is run once.
SLOW = 30

VARIABLES = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
for name, shape in tf.train.list_variables(sys.argv[1]):
    print(name, shape)
"""

COUNT = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
print(sum(1 for _ in tf.data.TFRecordDataset(sys.argv[1])))
"""

COUNT_BATCHES = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
print(sum(len(batch) for batch in tf.data.TFRecordDataset(sys.argv[1]).batch(4096)))
"""

COMMAND = [sys.executable, "-m", "tensorferry"]


def take_turns(
    processes: dict[str, list[str]], rounds: int, environment: dict[str, str]
) -> tuple[dict[str, float], dict[str, str]]:
    """The shortest time of each process, and what it printed."""
    times, printed = dict.fromkeys(processes, float("inf")), {}
    for process in processes.values():
        if process[:3] == COMMAND:  # compiled by the first run
            subprocess.run(process, check=True, env=environment, stdout=subprocess.DEVNULL)
    for number in range(rounds):
        for name, process in processes.items():
            if number and times[name] > SLOW:
                continue
            start = time.perf_counter()
            done = subprocess.run(
                process, check=True, env=environment, stdout=subprocess.PIPE, text=True
            )
            times[name] = min(times[name], time.perf_counter() - start)
            printed[name] = done.stdout
    return times, printed


def bench_start(report: Report, folder: Path, environment: dict[str, str]) -> None:
    npy, records = folder / "a.npy", folder / "a.tfrecord"
    ferry.save(np.zeros((3, 4), np.float32), npy)
    with ferry.writer(records) as out:
        out.write_batch({"id": np.arange(100), "x": np.zeros((100, 3), np.float32)})
    processes = {
        "import numpy": [sys.executable, "-c", "import numpy"],
        "ferry --help": [*COMMAND, "--help"],
        "ferry formats": [*COMMAND, "formats"],
        "ferry info a.npy": [*COMMAND, "info", str(npy)],
        "ferry info a.tfrecord": [*COMMAND, "info", str(records)],
        "ferry head a.tfrecord": [*COMMAND, "head", str(records)],
    }
    times, _ = take_turns(processes, ROUNDS, environment)
    for name, seconds in times.items():
        ratio = seconds / times["import numpy"]
        report.add(process=name, time=duration(seconds), to_numpy=ratio, to_ferry="")


def bench_checkpoint(report: Report, folder: Path, environment: dict[str, str]) -> None:
    generator = np.random.default_rng(0)
    value = {
        f"layer/{n}/kernel": generator.standard_normal((2048, 2048), dtype=np.float32)
        for n in range(64)
    }
    prefix = str(folder / "x.ckpt")
    ferry.save(value, prefix, durable=False)
    del value
    processes = {
        "ferry info, a checkpoint of 1 GB": [*COMMAND, "info", prefix],
        "ferry ls, a checkpoint of 1 GB": [*COMMAND, "ls", "--all", prefix],
        "tensorflow, tf.train.list_variables": [sys.executable, "-c", VARIABLES, prefix],
    }
    times, printed = take_turns(processes, LARGE_ROUNDS, environment)
    theirs = sorted(line.split()[0] for line in printed[list(processes)[2]].splitlines())
    ours = sorted(line.split()[0] for line in printed[list(processes)[1]].splitlines()[1:-1])
    assert ours == theirs
    _add(report, times, next(iter(processes)))


def bench_records(report: Report, folder: Path, environment: dict[str, str]) -> None:
    path = str(folder / "x.tfrecord")
    rows = 10_000
    generator = np.random.default_rng(0)
    batch = {
        "id": np.arange(rows),
        "embedding": generator.standard_normal((rows, 256), dtype=np.float32),
    }
    parts = 1_000_000_000 // (rows * 1060)
    with ferry.writer(path, durable=False) as out:
        for _ in range(parts):
            out.write_batch(batch)
    processes = {
        "ferry info, records of 1 GB": [*COMMAND, "info", path],
        "ferry ls, records of 1 GB": [*COMMAND, "ls", path],
        "tensorflow, counting a TFRecordDataset": [sys.executable, "-c", COUNT, path],
        "tensorflow, counting it in batches": [sys.executable, "-c", COUNT_BATCHES, path],
    }
    times, printed = take_turns(processes, LARGE_ROUNDS, environment)
    names = list(processes)
    assert f"records  {rows * parts:,}" in printed[names[0]]
    assert int(printed[names[2]]) == int(printed[names[3]]) == rows * parts
    _add(report, times, names[0])


def _add(report: Report, times: dict[str, float], own: str) -> None:
    for name, seconds in times.items():
        ratio = seconds / times[own]
        report.add(process=name, time=duration(seconds), to_numpy="", to_ferry=ratio)


def main() -> None:
    report = Report("The command from start to end: the shortest of several runs, taking turns")
    for bench in (bench_start, bench_checkpoint, bench_records):
        with tempfile.TemporaryDirectory() as folder:
            # As it is installed: compiled once, not in every process.
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            environment["PYTHONPYCACHEPREFIX"] = os.path.join(folder, "bytecode")
            bench(report, Path(folder), environment)
    report.notes += [
        "`ferry info` of records counts them, as the programs with TensorFlow do; it finds their "
        "features, too.",
        "Files are in the system's cache.",
    ]
    report.finish("command")


if __name__ == "__main__":
    main()
