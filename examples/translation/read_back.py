"""Reads the predictions back without TensorFlow, from every file, and compares them.

`translation.py` runs it in a process of its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tensorferry as ferry


def same(left: Any, right: Any) -> bool:
    """Whether two predictions agree in every bit."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, ferry.RaggedTensor):
        return same(left.flat_values, right.flat_values) and left.to_list() == right.to_list()
    if left.dtype == object:
        return bool(left.tolist() == right.tolist())
    return bool(left.dtype == right.dtype and left.shape == right.shape and (left == right).all())


def read_records(path: Path) -> dict[str, Any]:
    with ferry.open(path) as records:
        assert isinstance(records, ferry.Rows)
        batch: dict[str, Any] = next(records.batches(1000))
        return batch


def main() -> None:
    folder = Path(sys.argv[1])
    expected = ferry.load(folder / "predictions.safetensors")
    scores, attention = {"scores": expected["scores"]}, {"attention": expected["attention"]}
    cases: dict[str, tuple[Callable[[Path], Any], dict[str, Any]]] = {
        "predictions.safetensors": (ferry.load, expected),
        "predictions.npz": (ferry.load, expected),
        "predictions.arrow": (ferry.load, expected),
        "predictions.structure": (ferry.load, expected),
        "predictions.ckpt": (ferry.load, expected),
        "predictions.tfrecord": (read_records, expected),
        "scores.npy": (lambda path: {"scores": ferry.load(path)}, scores),
        "scores.pb": (lambda path: {"scores": ferry.load(path)}, scores),
        "attention.npy": (lambda path: {"attention": np.load(path)}, attention),
        "attention.pb": (lambda path: {"attention": ferry.load(path)}, attention),
    }
    for name, (read, wanted) in cases.items():
        start = time.perf_counter()
        found = read(folder / name)
        took = time.perf_counter() - start
        nbytes = ferry.inspect(folder / name).nbytes
        good = same(wanted, found)
        print(f"  {'✓' if good else '✗'} {name:<26} {nbytes:>9,} B {took * 1e3:8.2f} ms")
        if not good:
            raise SystemExit(1)
    assert "tensorflow" not in sys.modules
    longest = max(map(len, expected["ids"].to_list()))
    print(f"  ids: {len(expected['ids'].to_list())} sentences of up to {longest} words")


if __name__ == "__main__":
    main()
