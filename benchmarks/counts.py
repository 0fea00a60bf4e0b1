"""How many instructions do the hot loops take, and has that changed?

    python benchmarks/counts.py [JOB ...]            compares with counts.json
    python benchmarks/counts.py --write [JOB ...]    writes it

Times on a shared machine are noise, counts of instructions are not. Each job runs under valgrind's
callgrind twice, with some rounds and with more: the difference is the work, without the start of
Python. A change of more than 5% is printed, and the exit code is then 1. The counts are those of
one compiler and one Python, which counts.json names: other machines write their own first.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tensorferry as ferry
from tensorferry import kernels
from tensorferry.cli import documents
from tensorferry.codecs import protobuf
from tensorferry.codecs.protobuf import Span
from tensorferry.codecs.quantization import quantize
from tensorferry.formats.savedmodel.graph import read_graph
from tensorferry.formats.savedmodel.messages import TABLES, Reader

HERE = Path(__file__).parent
COUNTS = HERE / "counts.json"
CHANGE = 0.05
ROUNDS = 2

Work = Callable[[], Any]


def rows(count: int) -> list[dict[str, Any]]:
    """Rows of five features."""
    generator = np.random.default_rng(0)
    return [
        {
            "id": number,
            "label": number % 10,
            "embedding": generator.standard_normal(16, dtype=np.float32),
            "tokens": generator.integers(0, 30_000, 5 + number % 20),
            "text": b"sentence number %d of the set" % number,
        }
        for number in range(count)
    ]


def plain(row: dict[str, Any]) -> dict[str, Any]:
    lists = {name: row[name].tolist() for name in ("embedding", "tokens")}
    return {**row, **lists}


def write(folder: str, given: list[dict[str, Any]]) -> str:
    path = f"{folder}/rows.tfrecord"
    with ferry.writer(path, durable=False) as out:
        for row in given:
            out.write(row)
    return path


def write_plain_rows(folder: str) -> tuple[int, Work]:
    given = list(map(plain, rows(2000)))
    return len(given), lambda: write(folder, given)


def write_rows_of_arrays(folder: str) -> tuple[int, Work]:
    given = rows(2000)
    return len(given), lambda: write(folder, given)


def read_rows(folder: str) -> tuple[int, Work]:
    path = write(folder, rows(2000))
    return 2000, lambda: sum(1 for _ in ferry.Records(path, threads=1))


def pick_a_row(folder: str) -> tuple[int, Work]:
    records = ferry.Records(write(folder, rows(500)))
    return 500, lambda: [records[number] for number in range(500)]


def pick_64_rows(folder: str) -> tuple[int, Work]:
    records = ferry.Records(write(folder, rows(640)))
    lists = [[(7 * number) % 640 for number in range(64)] for _ in range(10)]
    return 640, lambda: [records[some] for some in lists]


def read_columns(folder: str) -> tuple[int, Work]:
    path = write(folder, rows(2000))
    return 2000, lambda: list(ferry.Records(path, threads=1).batches(1000))


def write_columns(folder: str) -> tuple[int, Work]:
    columns = ferry.Records(write(folder, rows(2000)), threads=1).value()

    def work() -> None:
        with ferry.writer(f"{folder}/columns.tfrecord", durable=False) as out:
            out.write_batch(columns)

    return 2000, work


def verify_records(folder: str) -> tuple[int, Work]:
    path = write(folder, rows(2000))
    return 2000, lambda: ferry.Records(path, threads=1).verify()


def dump_a_tensor(_: str) -> tuple[int, Work]:
    tensor = np.arange(64, dtype=np.float32)
    return 500, lambda: [ferry.dumps(tensor) for _ in range(500)]


def load_a_tensor(_: str) -> tuple[int, Work]:
    data = ferry.dumps(np.arange(64, dtype=np.float32))
    return 500, lambda: [ferry.loads(data) for _ in range(500)]


def numbers() -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(0).standard_normal(1 << 16, dtype=np.float32)


def quantize_to_int8(_: str) -> tuple[int, Work]:
    given = numbers()
    return given.size, lambda: quantize(given, "int8")


def quantize_to_float8(_: str) -> tuple[int, Work]:
    given = numbers()
    return given.size, lambda: quantize(given, "float8_e4m3fn")


def sum_up_numbers(_: str) -> tuple[int, Work]:
    given = numbers()
    return given.size, lambda: kernels.moments(given)


def compare_numbers(_: str) -> tuple[int, Work]:
    given = numbers()
    other = given + np.float32(0.5)
    return given.size, lambda: kernels.compare(given, other)


def print_rows(_: str) -> tuple[int, Work]:
    given = rows(500)
    return len(given), lambda: list(documents.lines(given))


def tensors(count: int) -> dict[str, Any]:
    """Small tensors by name."""
    values = np.arange(64 * count, dtype=np.float32).reshape(count, 64)
    return {f"layers/dense_{number}/vars/0": values[number] for number in range(count)}


def dump_a_list(_: str) -> tuple[int, Work]:
    given = list(tensors(500).values())
    return len(given), lambda: ferry.dumps(given)


def load_a_list(_: str) -> tuple[int, Work]:
    data = ferry.dumps(list(tensors(500).values()))
    return 500, lambda: ferry.loads(data)


def saving(folder: str, ending: str) -> tuple[int, Work]:
    given, path = tensors(500), f"{folder}/tensors{ending}"
    return len(given), lambda: ferry.save(given, path, durable=False)


def loading(folder: str, ending: str) -> tuple[int, Work]:
    path = f"{folder}/tensors{ending}"
    ferry.save(tensors(500), path, durable=False)
    return 500, lambda: ferry.load(path)


def load_safetensors(folder: str) -> tuple[int, Work]:
    return loading(folder, ".safetensors")


def load_npz(folder: str) -> tuple[int, Work]:
    return loading(folder, ".npz")


def load_hdf5(folder: str) -> tuple[int, Work]:
    return loading(folder, ".weights.h5")


def load_a_checkpoint(folder: str) -> tuple[int, Work]:
    return loading(folder, ".ckpt")


def save_hdf5(folder: str) -> tuple[int, Work]:
    return saving(folder, ".weights.h5")


def save_a_checkpoint(folder: str) -> tuple[int, Work]:
    return saving(folder, ".ckpt")


def walk_a_graph(_: str) -> tuple[int, Work]:
    """Nodes that multiply what others gave."""
    schema = protobuf.Writer(TABLES)
    dtype = {"key": "T", "value": {"type": 1}}
    nodes = [
        {"name": f"dense_{n}/MatMul", "op": "MatMul", "input": [f"x_{n}", "w"], "attr": [dtype]}
        for n in range(500)
    ]
    data = schema.encode("GraphDef", node=nodes)
    return len(nodes), lambda: read_graph(Reader(data), Span(0, len(data)))


JOBS: dict[str, Callable[[str], tuple[int, Work]]] = {
    job.__name__.replace("_", " "): job
    for job in (
        write_plain_rows,
        write_rows_of_arrays,
        read_rows,
        pick_a_row,
        pick_64_rows,
        read_columns,
        write_columns,
        verify_records,
        dump_a_tensor,
        load_a_tensor,
        quantize_to_int8,
        quantize_to_float8,
        sum_up_numbers,
        compare_numbers,
        print_rows,
        dump_a_list,
        load_a_list,
        load_safetensors,
        load_npz,
        load_hdf5,
        load_a_checkpoint,
        save_hdf5,
        save_a_checkpoint,
        walk_a_graph,
    )
}


def run(job: str, rounds: int) -> None:
    """Does the work of a job: what callgrind looks at."""
    with tempfile.TemporaryDirectory() as folder:
        _, work = JOBS[job](folder)
        for _ in range(rounds):
            work()


def instructions(job: str, rounds: int) -> int:
    """How many instructions a process takes for some rounds."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        program = [sys.executable, __file__, "--run", job, str(rounds)]
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
        result = subprocess.run(
            [*command, *program], env=environment, capture_output=True, text=True, check=True
        )
    found = re.search(r"Collected : (\d+)", result.stderr)
    assert found is not None, result.stderr
    return int(found[1])


def count(job: str) -> int:
    """Instructions for each item of a job."""
    with tempfile.TemporaryDirectory() as folder:
        items, _ = JOBS[job](folder)
    few, many = instructions(job, 1), instructions(job, 1 + ROUNDS)
    return round((many - few) / (ROUNDS * items))


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--run"]:
        run(arguments[1], int(arguments[2]))
        return 0
    writing = "--write" in arguments
    jobs = [job for job in arguments if job != "--write"] or list(JOBS)
    known = json.loads(COUNTS.read_text()) if COUNTS.exists() else {"instructions": {}}
    changed = False
    for job in jobs:
        found, before = count(job), known["instructions"].get(job)
        known["instructions"][job] = found
        change = 0.0 if before is None else found / before - 1
        mark = f"{change:+.1%}, was {before:,}" if abs(change) > CHANGE else ""
        changed |= bool(mark)
        print(f"{job:24}{found:>12,}  {mark}".rstrip(), flush=True)
        if writing:  # after each, since each takes a minute
            machine = f"{platform.machine()}, Python {platform.python_version()}"
            content = {"machine": machine, "instructions": known["instructions"]}
            COUNTS.write_text(json.dumps(content, indent=2) + "\n")
    return int(changed and not writing)


if __name__ == "__main__":
    sys.exit(main())
