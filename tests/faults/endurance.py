"""Kills at random moments, and readers that race with writers, for as long as it takes.

    python tests/faults/endurance.py [--kills 200] [--seconds 30] [WHAT...]

`make faults` runs all of it; the tests run a little of it. Each line tells how often the old and
the new value were found. Anything else, such as a mixture, a file that cannot be read or a file
that is left, ends the run with an error.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from writers import WRITERS, Writer

from tensorferry.storage import sweeping

RACED = [
    "tfrecord in shards",
    "parquet in shards",
    "safetensors in shards",
    "keras in shards",
    "checkpoint",
    "npy with a sidecar",
]
KILLED = [*RACED, "directory", "convert into shards"]
LARGEST = 1 << 30


def save_model() -> Writer:
    """A SavedModel, written by TensorFlow."""
    import numpy as np
    import tensorflow as tf

    import tensorferry as ferry

    def write(folder: str, number: int) -> None:
        root = tf.Module()
        root.v = [tf.Variable([float(number)] * 8, name=f"v{n}") for n in range(3)]
        given = tf.TensorSpec([8], tf.float32)
        root.f = tf.function(lambda x: x + root.v[0] + root.v[1] + root.v[2], [given])
        ferry.save_model(root, f"{folder}/model")

    def read(folder: str) -> set[int]:
        values = ferry.load(f"{folder}/model")
        return {int(n) for value in values.values() for n in np.ravel(value)}

    return Writer(write, read, several=True)


@contextmanager
def scratch(where: str | None) -> Iterator[str]:
    """A folder for one run."""
    top = tempfile.mkdtemp(dir=where)
    os.mkdir(f"{top}/folder")
    try:
        yield f"{top}/folder"
    finally:
        shutil.rmtree(top)


def forked(work: Callable[[], None]) -> int:
    """Runs something in a child, and gives its number."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f"{error!r}", file=sys.stderr, flush=True)
            os._exit(1)
    return child


def forever(writer: Writer, folder: str, first: int) -> Callable[[], None]:
    """Writes ever larger numbers."""

    def work() -> None:
        for number in range(first, LARGEST):
            writer.write(folder, number)

    return work


def one(found: set[int], what: str) -> int:
    """The one number in what was read."""
    if len(found) != 1:
        raise SystemExit(f"{what}: a mixture of {sorted(found)}")
    return next(iter(found))


def kill(name: str, writer: Writer, kills: int, where: str | None = None, seed: int = 1) -> str:
    """Kills a writer at random moments, and reads what it leaves."""
    choose = random.Random(seed)
    outcomes: Counter[str] = Counter()
    with scratch(where) as folder:
        started = time.monotonic()
        writer.write(folder, 1)
        writer.write(folder, 2)
        took = (time.monotonic() - started) / 2
        last, expected = 2, set(os.listdir(folder))
        left = 0
        for _ in range(kills):
            child = forked(forever(writer, folder, last + 1))
            time.sleep(choose.random() * took * 3)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            left += len([n for n in os.listdir(folder) if n.startswith(".")]) > 0
            number = one(writer.read(folder), name)
            if number < last:
                raise SystemExit(f"{name}: went back from {last} to {number}")
            outcomes["the old one" if number == last else "a new one"] += 1
            last = number
        sweeping._swept.clear()
        writer.write(folder, last + 1)
        one(writer.read(folder), name)
        found = set(os.listdir(folder))
        if len(found) != len(expected) or any(n.startswith(".") for n in found):
            raise SystemExit(f"{name}: left {sorted(found)}")
    told = ", ".join(f"{count} times {what}" for what, count in sorted(outcomes.items()))
    return f"{name}: {kills} kills, {told}; {left} left something, nothing in the end"


def race(
    name: str, writer: Writer, seconds: float, writers: int = 1, where: str | None = None
) -> str:
    """Reads while others write."""
    with scratch(where) as folder:
        writer.write(folder, 1)
        expected = len(os.listdir(folder))
        children = [forked(busy(writer, folder, n)) for n in range(writers)]
        reads, seen = 0, set()
        try:
            ends = time.monotonic() + seconds
            # A busy machine gives the writers no turn for a while.
            while time.monotonic() < ends or (len(seen) < 3 and time.monotonic() < ends + 150):
                seen.add(one(writer.read(folder), name))
                reads += 1
        finally:
            open(f"{folder}-stop", "w").close()
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        if any(codes):
            raise SystemExit(f"{name}: a writer failed")
        one(writer.read(folder), name)
        found = os.listdir(folder)
        if any(n.startswith(".") for n in found) or (writers == 1 and len(found) != expected):
            raise SystemExit(f"{name}: left {sorted(found)}")
    if len(seen) < 2:
        raise SystemExit(f"{name}: nothing was written meanwhile")
    by = f"by {writers} writers, " if writers > 1 else ""
    return f"{name}: {reads} reads {by}of {len(seen)} values, no mixture"


def busy(writer: Writer, folder: str, seed: int) -> Callable[[], None]:
    """Writes until it is told to stop; a set that somebody else writes is left alone."""

    def work() -> None:
        number = 2 + seed * 1_000_000
        while not os.path.exists(f"{folder}-stop"):
            try:
                writer.write(folder, number)
            except OSError as error:
                if "another writer" not in str(error):
                    raise
            number += 1

    return work


def main() -> None:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("what", nargs="*", help="names of writers, or save_model; by default all")
    given = parser.parse_args()
    for name in given.what or [*KILLED, "save_model"]:
        writer = save_model() if name == "save_model" else WRITERS[name]
        print(kill(name, writer, given.kills), flush=True)
    if not given.what or "save_model" in given.what:
        print(race("save_model", save_model(), given.seconds), flush=True)
    for name in [name for name in given.what or RACED if name in RACED]:
        print(race(name, WRITERS[name], given.seconds), flush=True)
        print(race(name, WRITERS[name], given.seconds / 3, writers=3), flush=True)


if __name__ == "__main__":
    main()
