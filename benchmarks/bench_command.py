"""How long does the command take, from start to end, beside importing NumPy and beside TensorFlow?

Small files show what starting costs, beside parquet-tools, h5glance and saved_model_cli on the same
files, where these are installed. Files of 1 GB, a checkpoint and records, are looked at as
`ferry info` and `ferry ls` do, and as a program does that imports TensorFlow for the same answer:
the names of the variables, the number of the records. Numbers of 1 GB are summed up, hashed and
compared, beside a program that makes the passes with NumPy. The answers are compared, and notes say
which goals were met.

COMMAND_BYTES in the environment is another size of the large files.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measure import Report, duration

import tensorferry as ferry

# Each process runs so many times, or until it took so many seconds in all.
ROUNDS = 9
SECONDS = 2.0

# Number of bytes of the large files.
LARGE = int(os.environ.get("COMMAND_BYTES", 1_000_000_000))
SIZE = f"{LARGE / 1e9:g} GB"

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
print(sum(len(batch) for batch in tf.data.TFRecordDataset(sys.argv[1]).batch(4096)))
"""

STATISTICS = """
import sys
import numpy as np
array = np.load(sys.argv[1], mmap_mode="r")
finite = np.isfinite(array)
print(array.min(), array.max(), array.mean(dtype=np.float64), array.std(dtype=np.float64))
print(array.size - np.count_nonzero(array), np.isnan(array).sum(), np.isinf(array).sum())
"""

LENGTHS = """
import sys
import numpy as np
from tensorferry import open as open_file
texts = open_file(sys.argv[1])["text"].tolist()
lengths = np.fromiter(map(len, texts), np.int64)
print(lengths.min(), lengths.max(), lengths.mean(), lengths.std(), len(set(texts)))
"""

SHA = """
import hashlib, sys
import numpy as np
for path in sys.argv[1:]:
    print(hashlib.sha256(np.load(path, mmap_mode="r")).hexdigest())
"""

EQUAL = """
import sys
import numpy as np
one, two = (np.load(path, mmap_mode="r") for path in sys.argv[1:])
print((one != two).sum(), np.abs(one - two).max())
"""

ROWS = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
for record in tf.data.TFRecordDataset(sys.argv[1]).as_numpy_iterator():
    features = tf.train.Example.FromString(record).features.feature
    row = {}
    for name, feature in sorted(features.items()):
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value)
        row[name] = [v.decode() for v in values] if kind == "bytes_list" else values
    print(json.dumps(row))
"""

COMMAND = [sys.executable, "-m", "tensorferry"]


@dataclass(frozen=True)
class Run:
    """A run of a process from start to end.

    Attributes:
        seconds: How long it took.
        cores: How many processors it kept busy, on average.
        printed: What it printed.
    """

    seconds: float
    cores: float
    printed: str

    @classmethod
    def of(cls, process: list[str], environment: dict[str, str]) -> Run:
        """Runs a process."""
        with tempfile.TemporaryFile("w+") as out:
            start = time.perf_counter()
            running = subprocess.Popen(process, env=environment, stdout=out)
            _, status, used = os.wait4(running.pid, 0)
            seconds = time.perf_counter() - start
            running.returncode = os.waitstatus_to_exitcode(status)
            # The exit code of a difference is 1.
            if running.returncode not in (0, 1 if "diff" in process else 0):
                raise subprocess.CalledProcessError(running.returncode, process)
            out.seek(0)
            return cls(seconds, (used.ru_utime + used.ru_stime) / seconds, out.read())


def take_turns(
    processes: dict[str, list[str]], environment: dict[str, str]
) -> tuple[dict[str, Run], dict[str, str]]:
    """The shortest run of each process, and what it printed."""
    runs: dict[str, list[Run]] = {name: [] for name in processes}
    for process in processes.values():
        if process[:3] == COMMAND:  # compiled by the first run
            Run.of(process, environment)
    for _ in range(ROUNDS):
        for name, process in processes.items():
            if sum(run.seconds for run in runs[name]) <= SECONDS:
                runs[name].append(Run.of(process, environment))
    found = {name: min(taken, key=lambda run: run.seconds) for name, taken in runs.items()}
    return found, {name: run.printed for name, run in found.items()}


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
    runs, _ = take_turns(processes, environment)
    for name in runs:
        _add_row(report, runs, name, to_numpy=True)


def bench_checkpoint(report: Report, folder: Path, environment: dict[str, str]) -> None:
    side = round((LARGE / 256) ** 0.5)
    value = {f"layer/{n}/kernel": np.zeros((side, side), np.float32) for n in range(64)}
    prefix = str(folder / "x.ckpt")
    ferry.save(value, prefix, durable=False)
    del value
    processes = {
        f"ferry info, a checkpoint of {SIZE}": [*COMMAND, "info", prefix],
        f"ferry ls, a checkpoint of {SIZE}": [*COMMAND, "ls", "--all", prefix],
        "tensorflow, tf.train.list_variables": [sys.executable, "-c", VARIABLES, prefix],
    }
    times, printed = take_turns(processes, environment)
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
    parts = max(LARGE // (rows * 1060), 1)
    with ferry.writer(path, durable=False) as out:
        for _ in range(parts):
            out.write_batch(batch)
    processes = {
        f"ferry info, records of {SIZE}": [*COMMAND, "info", path],
        f"ferry ls, records of {SIZE}": [*COMMAND, "ls", path],
        f"ferry verify, records of {SIZE}": [*COMMAND, "verify", path],
        "tensorflow, counting batches of a TFRecordDataset": [sys.executable, "-c", COUNT, path],
    }
    times, printed = take_turns(processes, environment)
    names = list(processes)
    assert f"records  {rows * parts:,}" in printed[names[0]]
    assert f"{rows * parts:,} records" in printed[names[2]]
    assert int(printed[names[3]]) == rows * parts
    _add(report, times, names[0])


def bench_small(report: Report, folder: Path, environment: dict[str, str]) -> None:
    """Small files of other tools, which look at the same."""
    import tensorflow as tf

    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    ferry.save({"w": array}, folder / "a.safetensors")
    ferry.save({"layers/dense/vars/0": array}, folder / "a.weights.h5")
    ferry.save({"id": np.arange(1000), "x": np.ones(1000)}, folder / "a.parquet")
    module = tf.Module()
    module.w = tf.Variable(array, name="w")
    call = tf.function(lambda x: x @ module.w, [tf.TensorSpec([None, 3], tf.float32)])
    tf.saved_model.save(module, str(folder / "model"), {"serving_default": call})
    show = ["show", "--dir", str(folder / "model"), "--all"]
    tables = str(folder / "a.parquet")
    h5 = str(folder / "a.weights.h5")
    groups = (
        {"import numpy": [sys.executable, "-c", "import numpy"]},
        {"ferry info a.safetensors": [*COMMAND, "info", str(folder / "a.safetensors")]},
        {
            "ferry info a.weights.h5": [*COMMAND, "info", h5],
            "h5glance a.weights.h5": _tool("h5glance", [h5]),
        },
        {
            "ferry head a.parquet": [*COMMAND, "head", tables],
            "parquet-tools show a.parquet": _tool(
                "parquet-tools", ["show", "--head", "10", tables]
            ),
        },
        {
            "ferry info model": [*COMMAND, "info", str(folder / "model")],
            "saved_model_cli show": _tool("saved_model_cli", show),
        },
    )
    processes = {
        name: process for group in groups for name, process in group.items() if process is not None
    }
    times, printed = take_turns(processes, environment)
    answers = {"info model": "serving_default", "saved_model_cli": "serving_default"}
    answers |= {"info a.weights.h5": "[3, 4]", "h5glance": "[float32: 3"}
    answers |= {"head a.parquet": '{"id": 9, "x": 1.0}', "parquet-tools": "|    9 |   1 |"}
    for name, text in printed.items():
        assert all(answer in text for word, answer in answers.items() if word in name), name
    for group in groups[1:]:
        own = next(iter(group))
        for name in group:
            if name in times:
                _add_row(report, times, name, to_numpy=True, own=None if name == own else own)
            else:
                report.notes.append(f"{name.partition(' ')[0]} is not installed.")


def _tool(name: str, arguments: list[str]) -> list[str] | None:
    """How a tool is called: the one of this environment, or of the path; None if there is none."""
    beside = str(Path(sys.executable).parent)
    script = shutil.which(name, path=beside) or shutil.which(name)
    return None if script is None else [script, *arguments]


def bench_numbers(report: Report, folder: Path, environment: dict[str, str]) -> None:
    """Numbers of 1 GB in four files."""
    generator = np.random.default_rng(0)
    paths = [str(folder / f"{n}.npy") for n in range(4)]
    for path in paths:
        np.save(path, generator.standard_normal(LARGE // 16, dtype=np.float32))
    whole, other = str(folder / "whole.npy"), str(folder / "other.npy")
    array = np.concatenate([np.load(path) for path in paths])
    np.save(whole, array)
    array[LARGE // 8] += 1
    np.save(other, array)
    del array
    bundle = str(folder / "all.safetensors")
    ferry.save({path: np.load(path, mmap_mode="r") for path in paths}, bundle, durable=False)

    python = [sys.executable, "-c"]
    names = f"ferry stats, {SIZE} of float32", "numpy, the same passes"
    times, printed = take_turns(
        {names[0]: [*COMMAND, "stats", "--json", whole], names[1]: [*python, STATISTICS, whole]},
        environment,
    )
    found = json.loads(printed[names[0]])["files"][0]["columns"][0]["values"]
    theirs = [float(number) for number in printed[names[1]].split()]
    ours = [found[key] for key in ("minimum", "maximum", "mean", "deviation", "zeros", "nan")]
    assert np.allclose(ours, theirs[:6], rtol=1e-6, atol=1e-9)
    _add(report, times, names[0])

    names = f"ferry hash, {SIZE} in 4 tensors", "hashlib, sha256 of 4 arrays"
    times, _ = take_turns(
        {names[0]: [*COMMAND, "hash", bundle], names[1]: [*python, SHA, *paths]},
        environment,
    )
    _add(report, times, names[0])

    names = f"ferry hash, {SIZE} in one tensor", "hashlib, sha256 of an array"
    times, _ = take_turns(
        {names[0]: [*COMMAND, "hash", whole], names[1]: [*python, SHA, whole]}, environment
    )
    _add(report, times, names[0])

    names = f"ferry diff, {SIZE} and {SIZE}", "numpy, differing and largest difference"
    compare = [*COMMAND, "diff", "--json", whole, other]
    times, printed = take_turns(
        {names[0]: compare, names[1]: [*python, EQUAL, whole, other]}, environment
    )
    found = json.loads(printed[names[0]])["tensors"][0]
    theirs = [float(number) for number in printed[names[1]].split()]
    assert np.allclose([found["differing"], found["largest"]], theirs)
    _add(report, times, names[0])


def bench_rows(report: Report, folder: Path, environment: dict[str, str]) -> None:
    """200,000 records, all of them printed, and their texts summed up."""
    path, rows = str(folder / "x.tfrecord"), 200_000
    generator = np.random.default_rng(0)
    splits = np.concatenate([[0], np.cumsum(5 + np.arange(rows) % 20)])
    tokens = ferry.RaggedTensor(generator.integers(0, 30_000, splits[-1]), (splits,))
    with ferry.writer(path, durable=False) as out:
        out.write_batch(
            {
                "embedding": generator.standard_normal((rows, 16), dtype=np.float32),
                "id": np.arange(rows),
                "text": np.array([b"sentence number %d" % n for n in range(rows)], object),
                "tokens": tokens,
            }
        )
    names = "ferry cat, 200,000 records", "tensorflow, json of each Example"
    times, printed = take_turns(
        {names[0]: [*COMMAND, "cat", path], names[1]: [sys.executable, "-c", ROWS, path]},
        environment,
    )
    ours, theirs = (json.loads(printed[name].splitlines()[-1]) for name in names)
    assert [ours["id"]] == theirs["id"]
    assert ours["tokens"] == theirs["tokens"]
    assert printed[names[0]].count("\n") == printed[names[1]].count("\n") == rows
    _add(report, times, names[0])

    names = "ferry stats of 200,000 texts", "python, lengths and different texts"
    times, printed = take_turns(
        {
            names[0]: [*COMMAND, "stats", "--json", "--select", "text", path],
            names[1]: [sys.executable, "-c", LENGTHS, path],
        },
        environment,
    )
    found = json.loads(printed[names[0]])["files"][0]["columns"][0]["values"]
    keys = ("minimum", "maximum", "mean", "deviation", "distinct")
    assert np.allclose([found[key] for key in keys], list(map(float, printed[names[1]].split())))
    _add(report, times, names[0])


def _add(report: Report, runs: dict[str, Run], own: str) -> None:
    for name in runs:
        _add_row(report, runs, name, own=own)


def _add_row(
    report: Report,
    runs: dict[str, Run],
    name: str,
    *,
    to_numpy: bool = False,
    own: str | None = None,
) -> None:
    """A row of the table: a process beside the import of NumPy, or beside that of the command."""
    run = runs[name]
    report.add(
        process=name,
        time=duration(run.seconds),
        cores=round(run.cores, 1),
        to_numpy=run.seconds / runs["import numpy"].seconds if to_numpy else "",
        to_ferry="" if own is None else run.seconds / runs[own].seconds,
    )
    MEASURED[name] = run


MEASURED: dict[str, Run] = {}


def judge(report: Report) -> None:
    """Says in notes which goals were met."""
    numpy = MEASURED["import numpy"].seconds

    def time_of(start: str) -> float:
        return next(run.seconds for name, run in MEASURED.items() if name.startswith(start))

    def cores_of(start: str) -> float:
        return next(run.cores for name, run in MEASURED.items() if name.startswith(start))

    files = ("a.npy", "a.safetensors", "a.weights.h5")
    found = [
        (f"info {name} at most 1.4 x import numpy", time_of(f"ferry info {name}") / numpy, 1.4)
        for name in files
    ]
    numbers = time_of("ferry stats, ") / time_of("numpy, the same passes")
    texts = time_of("ferry stats of ") / time_of("python, lengths")
    found += [
        ("cat of 200,000 records at most 1.5 s", time_of("ferry cat"), 1.5),
        ("stats of numbers at most 2 x the passes of NumPy", numbers, 2.0),
        ("stats of texts at most 2 x the passes they need", texts, 2.0),
    ]
    for goal, value, most in found:
        report.notes.append(f"{goal}: {value:.2f}, {'met' if value <= most else 'NOT MET'}")
    for name in ("hash", "diff", "verify", "stats"):
        busy, wanted = cores_of(f"ferry {name}, "), 0.7 * (os.cpu_count() or 1)
        verdict = "met" if busy >= wanted else "NOT MET"
        report.notes.append(f"{name} on all cores: {busy:.1f} of {os.cpu_count()}, {verdict}")


def main() -> None:
    report = Report("The command from start to end: the shortest of several runs, taking turns")
    benches = (bench_start, bench_small, bench_checkpoint, bench_records, bench_numbers, bench_rows)
    for bench in benches:
        with tempfile.TemporaryDirectory() as folder:
            # As it is installed: compiled once, not in every process.
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            environment["PYTHONPYCACHEPREFIX"] = os.path.join(folder, "bytecode")
            bench(report, Path(folder), environment)
    judge(report)
    report.notes += [
        "`ferry info` of records counts them, as the programs with TensorFlow do; it finds their "
        "features, too.",
        "Files are in the system's cache.",
    ]
    report.finish("command")


if __name__ == "__main__":
    main()
