"""What does the stable ABI cost, beside a module that is built for one Python?

The released wheel for Python 3.12 and later is built once and serves them all. It has to call
Python where another module looks into objects: see native/objects.h. Both modules are built here
for the same Python, the newest that is found, and take turns, a process each. The bytes they write
are compared before anything is timed.
"""

from __future__ import annotations

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
BUILDS = {"one Python": "-Cwheel.py-api=", "stable ABI": "-Cwheel.py-api=cp312"}
ROUNDS = 5
SECONDS = 0.4  # for each answer of a process


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


def build(python: Path, folder: Path, option: str) -> str:
    """The interpreter of a new environment that has the package, built with an option."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    inside = str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
    pip = [inside, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-cache-dir"]
    subprocess.run([*pip, option, str(ROOT)], check=True)
    return inside


def find_newest() -> Path | None:
    """The newest Python that has the stable ABI."""
    sys.path.append(str(ROOT / "release"))
    from pythons import MINORS, find_python

    found = (find_python(f"3.{minor}") for minor in reversed(MINORS) if minor >= 12)
    return next(filter(None, found), None)


def main() -> None:
    from measure import Report, duration

    python = find_newest()
    if python is None:
        print("no Python from 3.12 on is found: there is nothing to compare")
        return
    best: dict[str, dict[str, float]] = {name: {} for name in BUILDS}
    answers: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        insides = {
            name: build(python, Path(scratch) / name.replace(" ", "-"), option)
            for name, option in BUILDS.items()
        }
        for _ in range(ROUNDS):
            for name, inside in insides.items():
                command = [inside, str(Path(__file__).resolve()), scratch]
                run = subprocess.run(command, check=True, capture_output=True, text=True)
                for job, (found, seconds) in json.loads(run.stdout).items():
                    answers.setdefault(job, set()).add(found)
                    best[name][job] = min(best[name].get(job, seconds), seconds)
    assert all(len(found) == 1 for found in answers.values()), answers
    report = Report(f"The stable ABI beside a module for {python.resolve().name} alone")
    for job in answers:
        one, stable = (best[name][job] for name in BUILDS)
        report.add(job=job, one=duration(one), stable=duration(stable), ratio=stable / one)
    report.finish("abi")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
    else:
        main()
