"""What does the stable ABI cost, beside a module that is built for one Python?

    python benchmarks/bench_abi.py                       builds both for Python 3.12
    python benchmarks/bench_abi.py ONE.whl STABLE.whl    takes these

The released wheel for Python 3.12 and later is built once and serves them all. It has to call
Python where another module looks into objects: see native/objects.h. Both modules take turns in
many short processes, and the shortest time of each job counts. What they give is compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
APIS = ("", "cp312")  # for one Python, and for all from 3.12 on
ROUNDS = 15
SECONDS = 0.15  # for each job of a process


def measure(folder: str) -> dict[str, tuple[str, float]]:
    """In a process of its own: a digest of what came out, and the shortest time, of each job."""
    from measure import best

    jobs = make_jobs(folder)
    digests = {name: digest(job()) for name, job in jobs.items()}
    times: dict[str, float] = {}
    for name, job in jobs.items():
        times |= best({name: job}, seconds=SECONDS)
    return {name: (digests[name], times[name]) for name in jobs}


def digest(value: Any) -> str:
    """The same for equal values, in every process."""
    import numpy as np

    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        value = [{name: np.asarray(item).tolist() for name, item in row.items()} for row in value]
    return hashlib.sha256(repr(value).encode()).hexdigest()


def make_jobs(folder: str) -> dict[str, Callable[[], Any]]:
    """What is measured: small tensors, strings, rows one by one and in batches."""
    import numpy as np

    import tensorferry as ferry

    generator = np.random.default_rng(0)
    small = generator.standard_normal((3, 4), dtype=np.float32)
    strings = np.array([b"word %d" % i for i in range(10_000)], object)
    rows = [
        {
            "id": number,
            "embedding": generator.standard_normal(16, dtype=np.float32).tolist(),
            "tokens": generator.integers(0, 30_000, 12).tolist(),
            "text": b"sentence number %d of the set" % number,
        }
        for number in range(2_000)
    ]
    path = f"{folder}/rows.tfrecord"
    columns = {"text": strings, "id": np.arange(len(strings))}
    texts = f"{folder}/texts.tfrecord"
    plain = f"{folder}/records.tfrecord"
    records = [b"record %d" % i * 4 for i in range(10_000)]

    def write_rows() -> bytes:
        with ferry.writer(path, durable=False) as out:
            for row in rows:
                out.write(row)
        return Path(path).read_bytes()

    def write_records() -> bytes:
        with ferry.writer(plain, durable=False) as out:
            for record in records:
                out.write(record)
        return Path(plain).read_bytes()

    def write_columns() -> bytes:
        with ferry.writer(texts, durable=False) as out:
            out.write_batch(columns)
        return Path(texts).read_bytes()

    def read_columns() -> Any:
        rows = ferry.open(texts)
        assert isinstance(rows, ferry.Rows)
        return next(iter(rows.batches(len(strings))))["text"]

    write_rows(), write_columns(), write_records()
    small_bytes, string_bytes = ferry.dumps(small), ferry.dumps(strings)
    opened, picked = ferry.open(path), (5, 17, 900, 1_500)
    assert isinstance(opened, ferry.Rows)
    return {
        "dumps, 12 floats": partial(ferry.dumps, small),
        "loads, 12 floats": partial(ferry.loads, small_bytes),
        "dumps, 10,000 strings": partial(ferry.dumps, strings),
        "loads, 10,000 strings": partial(ferry.loads, string_bytes),
        "write 2,000 rows one by one": write_rows,
        "read 2,000 rows one by one": lambda: list(ferry.open(path)),
        "pick 4 rows": lambda: [opened[i] for i in picked],
        "write 10,000 records of bytes": write_records,
        "read 10,000 records of bytes": lambda: list(ferry.open(plain, raw=True)),
        "write 10,000 strings as a column": write_columns,
        "read 10,000 strings as a column": read_columns,
    }


def install(python: Path, folder: Path, what: list[str]) -> str:
    """The interpreter of a new environment that has the package."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    inside = str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
    pip = [inside, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-cache-dir"]
    subprocess.run([*pip, *what], check=True)
    return inside


def take_turns(insides: list[str], scratch: str) -> dict[str, list[float]]:
    """The shortest times of each job, one for each interpreter."""
    best: dict[str, list[float]] = {}
    answers: dict[str, set[str]] = {}
    for _ in range(ROUNDS):
        for turn, inside in enumerate(insides):
            command = [inside, str(Path(__file__).resolve()), "--measure", scratch]
            run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            for job, (found, seconds) in json.loads(run.stdout).items():
                answers.setdefault(job, set()).add(found)
                times = best.setdefault(job, [seconds] * len(insides))
                times[turn] = min(times[turn], seconds)
    assert all(len(found) == 1 for found in answers.values()), answers
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheels", nargs="*", help="of one Python, and of the stable ABI")
    parser.add_argument("--python", default="3.12", help="version or path of an interpreter")
    parser.add_argument("--measure", metavar="FOLDER", help="what each process is called with")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    from measure import Report, duration

    sys.path.append(str(ROOT / "release"))
    from pythons import find_python, version_of

    python = find_python(arguments.python)
    if python is None:
        raise SystemExit(f"no Python {arguments.python} is found")
    given = [[wheel] for wheel in arguments.wheels]
    sources = given or [[f"-Cwheel.py-api={api}", str(ROOT)] for api in APIS]
    with tempfile.TemporaryDirectory() as scratch:
        insides = [install(python, Path(scratch) / str(i), what) for i, what in enumerate(sources)]
        best = take_turns(insides, scratch)
    report = Report(f"The stable ABI beside a module for Python {version_of(python)} alone")
    for job, (one, stable) in best.items():
        report.add(job=job, one=duration(one), stable=duration(stable), ratio=stable / one)
    report.finish("abi")


if __name__ == "__main__":
    main()
