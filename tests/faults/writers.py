"""Every writer of tensorferry, each writing a value that is one number throughout.

Whatever is read after a fault or a kill, there must be one number in it: two are a mixture.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorferry as ferry
from tensorferry.operations.reshard import repair
from tensorferry.storage.directory import replacing_path

ROWS = 12


@dataclass(frozen=True)
class Writer:
    """A way to write.

    Attributes:
        write: Writes a number into a folder.
        read: The numbers in what a folder has.
        several: Whether that is several files.
    """

    write: Callable[[str, int], Any]
    read: Callable[[str], set[int]]
    several: bool = False


def numbers(value: Any) -> set[int]:
    """All numbers in a value."""
    if isinstance(value, dict):
        return {n for one in value.values() for n in numbers(one)}
    return {int(n) for n in np.ravel(np.asarray(value)).tolist()}


def tensors(number: int) -> dict[str, Any]:
    """Named tensors."""
    return {name: np.full(ROWS, number, np.float32) for name in ("a", "b", "c")}


def weights(number: int) -> dict[str, Any]:
    """Tensors by paths of Keras."""
    return {f"layers/{n}/vars/0": np.full(ROWS, number, np.float32) for n in ("one", "two", "six")}


def _saves(name: str, make: Callable[[int], Any], several: bool = False, **options: Any) -> Writer:
    reading = {k: options.pop(k) for k in ("columns",) if k in options}

    def write(folder: str, number: int) -> None:
        ferry.save(make(number), f"{folder}/{name}", **options)

    def read(folder: str) -> set[int]:
        return numbers(ferry.load(f"{folder}/{name}", **reading))

    return Writer(write, read, several)


def _of_metadata(name: str, **options: Any) -> Writer:
    """A file with a sidecar, which says the same as the file."""

    def write(folder: str, number: int) -> None:
        value = np.full(ROWS, number, np.int32)
        ferry.save(value, f"{folder}/{name}", metadata={"number": number}, **options)

    def read(folder: str) -> set[int]:
        with ferry.open(f"{folder}/{name}") as bundle:
            return numbers(bundle.value()) | {int(bundle.metadata["number"])}

    return Writer(write, read, several=True)


def _rows(number: int) -> Iterator[dict[str, int]]:
    return ({"x": number, "y": number} for _ in range(ROWS))


def _shards(name: str, **options: Any) -> Writer:
    """Rows, one by one, into a set of shards."""

    def write(folder: str, number: int) -> None:
        with ferry.writer(f"{folder}/{name}", **options) as out:
            for row in _rows(number):
                out.write(row)

    def read(folder: str) -> set[int]:
        value = ferry.load(f"{folder}/{name}")
        assert [len(column) for column in value.values()] == [ROWS, ROWS]
        return numbers(value)

    return Writer(write, read, "@" in name)


def _converted(source: str, target: str, several: bool, **options: Any) -> Writer:
    def write(folder: str, number: int) -> None:
        given = f"{os.path.dirname(folder)}/{number}-{source}"  # outside: it does not fail
        if not os.path.exists(given):
            ferry.save({"x": np.full(ROWS, number), "y": np.full(ROWS, number)}, given)
        ferry.convert(given, f"{folder}/{target}", force=True, **options)

    def read(folder: str) -> set[int]:
        value = ferry.load(f"{folder}/{target}")
        assert [len(column) for column in value.values()] == [ROWS, ROWS]
        return numbers(value)

    return Writer(write, read, several)


def _repaired() -> Writer:
    def write(folder: str, number: int) -> None:
        given = f"{os.path.dirname(folder)}/{number}-damaged.tfrecord"
        if not os.path.exists(given):
            ferry.save({"x": np.full(ROWS, number)}, given)
            with open(given, "ab") as file:
                file.write(b"rest")
        repair(given, f"{folder}/x.tfrecord")

    return Writer(write, lambda folder: numbers(ferry.load(f"{folder}/x.tfrecord")))


def _directory() -> Writer:
    """A model of several files, written by somebody else's code to a path."""

    def write(folder: str, number: int) -> None:
        with replacing_path(f"{folder}/model") as path:
            os.makedirs(f"{path}/variables")
            for name in ("saved_model.pb", "variables/index", "variables/data"):
                with open(f"{path}/{name}", "w") as file:
                    json.dump([number] * ROWS, file)

    def read(folder: str) -> set[int]:
        found: set[int] = set()
        for name in ("saved_model.pb", "variables/index", "variables/data"):
            with open(f"{folder}/model/{name}") as file:
                found |= set(json.load(file))
        return found

    return Writer(write, read, several=True)


WRITERS: dict[str, Writer] = {
    "npy": _saves("x.npy", lambda n: np.full(ROWS, n)),
    "npy with a sidecar": _of_metadata("x.npy"),
    "raw with a sidecar": _of_metadata("x.bin"),
    "npz": _saves("x.npz", tensors),
    "npy in gzip": _saves("x.npy.gz", lambda n: np.full(ROWS, n)),
    "safetensors": _saves("x.safetensors", tensors),
    "safetensors in shards": _saves("x.safetensors", tensors, several=True, shard_size=60),
    "arrow": _saves("x.arrow", tensors),
    "parquet": _saves("x.parquet", tensors),
    "csv": _saves("x.csv", tensors),
    "jsonlines": _saves("x.jsonl", tensors),
    "tensorproto": _saves("x.tensor", lambda n: np.full(ROWS, n), format="tensorproto"),
    "structure": _saves("x.structure", tensors, format="structure"),
    "json": _saves("x.json", tensors),
    "tfrecord": _shards("x.tfrecord"),
    "tfrecord in gzip": _shards("x.tfrecord.gz"),
    "tfrecord in shards": _shards("x@3.tfrecord"),
    "parquet in shards": _shards("x@3.parquet"),
    "arrow in shards": _shards("x@2.arrow"),
    "checkpoint": _saves("x", tensors, several=True, format="checkpoint"),
    "checkpoint in shards": _saves("x", tensors, several=True, format="checkpoint", shards=2),
    "savedmodel": _saves("x", tensors, several=True, format="savedmodel"),
    "keras": _saves("x.weights.h5", weights),
    "keras in shards": _saves("x.weights.json", weights, several=True, shard_size=60),
    "npz, not durable": _saves("x.npz", tensors, durable=False),
    "npy with a sidecar, not durable": _of_metadata("x.npy", durable=False),
    "shards, not durable": _shards("x@3.tfrecord", durable=False),
    "checkpoint, not durable": _saves(
        "x", tensors, several=True, format="checkpoint", durable=False
    ),
    "convert": _converted("x.npz", "x.parquet", several=False),
    "convert into shards": _converted("x.tfrecord", "x@3.tfrecord", several=True),
    "repair": _repaired(),
    "directory": _directory(),
}
