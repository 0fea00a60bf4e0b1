"""Shuffling: all rows in a random order, in a new file.

    shuffle("train-*.tfrecord.gz", "mixed.tfrecord", seed=7)

The order is a function of the seed and the number of rows alone. Uncompressed TFRecords are read in
that order. Other files can only be read from their start: what does not fit into memory is
scattered over temporary files, each of which holds the rows of one stretch of the new order, and
is sorted in memory afterwards.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from tensorferry.files import keywords
from tensorferry.operations.freight import (
    Batches,
    Carried,
    Freight,
    Outputs,
    RowsReport,
    carried,
    numbered,
    scratch,
)
from tensorferry.progress import Progress, following
from tensorferry.rows.permutation import Permutation
from tensorferry.tensors.values import Array

if TYPE_CHECKING:
    import pyarrow as pa

# About how many bytes of rows are held at a time, and how many temporary files there are at most.
HELD = 64 << 20
MOST_FILES = 256
# How many rows are written at a time.
TOGETHER = 1024


@keywords.shown(Carried)
def shuffle(
    source: Any,
    target: str | os.PathLike[str],
    *,
    seed: int = 0,
    progress: Progress | bool | None = None,
    **how: Unpack[Carried],
) -> RowsReport:
    """Writes all rows to a new file in random order.

        ferry.shuffle("train-*.tfrecord", "mixed.tfrecord", seed=7)

    The same seed gives the same order, whatever the format and compression. About 100 MB are kept
    in memory. Larger datasets use temporary files beside the target, except uncompressed TFRecords,
    which are read directly in the new order.

    Args:
        source: Rows of any format, as `tensorferry.open` takes them.
        target: A path or URL, or "-" for the standard output.
        seed: Chooses the order.
        progress: True shows a bar; a function is told how many rows are done, and how many there
            are.
        **how: How rows are read and written: see `tensorferry.operations.freight.Carried`.

    Raises:
        FileExistsError: The target exists, and `force` is not set.
        UnsupportedError: The source has no rows.

    Examples:
        >>> with ferry.writer("train.tfrecord") as out:
        ...     out.write_batch({"id": np.arange(4)})
        >>> report = ferry.shuffle("train.tfrecord", "mixed.tfrecord", seed=1)
        >>> sorted(int(row["id"]) for row in ferry.open("mixed.tfrecord"))
        [0, 1, 2, 3]
    """
    path = os.fspath(target)
    with (
        carried(source, [path], how) as (freight, outputs),
        following(progress, path, "rows") as tell,
    ):
        order = Permutation(freight.count(), (seed,))
        if freight.is_seekable:
            _pick(freight, outputs, order, tell)
        else:
            with ExitStack() as stack:
                _Scattering(freight, order, path, stack).write(outputs, tell)
    return outputs.reports()[0]


def _pick(freight: Freight, outputs: Outputs, order: Permutation, tell: Progress | None) -> None:
    """Reads the rows in their new order."""
    for start in range(0, order.size, TOGETHER):
        stop = min(start + TOGETHER, order.size)
        outputs.add(freight.at(order.at(np.arange(start, stop))))
        if tell is not None:
            tell(stop, order.size)


class _Scattering:
    """Rows that are read in one order, and written in another.

    Args:
        freight: The rows.
        order: Their new order.
        target: The file that they will be in.
        stack: Is closed when they are.
    """

    def __init__(self, freight: Freight, order: Permutation, target: str, stack: ExitStack) -> None:
        self._freight = freight
        self._order = order
        self._target = target
        self._stack = stack

    def write(self, outputs: Outputs, tell: Progress | None) -> None:
        """Writes the rows in their new order."""
        parts = numbered(self._freight.parts(), self._freight)
        held: list[tuple[Array, Any]] = []
        size = 0
        for first, part in parts:
            held.append((self._places(first, part), part))
            size += self._freight.nbytes(part)
            if size > HELD:
                break
        else:
            for some in self._sorted(held):
                outputs.add(some)
            return
        rows = max(1, sum(len(places) for places, _ in held))
        # So many rows fit, and not all are as large as the first.
        stretch = max(1, rows // 2, -(-self._order.size // MOST_FILES))
        self._scatter(held, parts, stretch, outputs, tell)

    def _scatter(
        self,
        held: list[tuple[Array, Any]],
        parts: Iterator[tuple[int, Any]],
        stretch: int,
        outputs: Outputs,
        tell: Progress | None,
    ) -> None:
        folder = Path(self._stack.enter_context(scratch(self._target)))
        count = -(-self._order.size // stretch)
        kind = _ArrowPile if isinstance(self._freight, Batches) else _BytesPile
        piles: list[_Pile] = [kind(folder / str(number)) for number in range(count)]
        for pile in piles:
            self._stack.callback(pile.close)
        done = 0
        while held:
            places, part = held.pop(0)
            self._deal(places, part, piles, stretch)
            done += len(places)
        for first, part in parts:
            self._deal(self._places(first, part), part, piles, stretch)
            done = first + self._freight.length(part)
            if tell is not None:
                tell(done // 2, self._order.size)
        for pile in piles:
            places, pieces = pile.take()
            for some in self._sorted([(places, self._freight.joined(pieces))] if pieces else []):
                outputs.add(some)
            done += len(places)
            if tell is not None:
                tell(done // 2, self._order.size)

    def _places(self, first: int, part: Any) -> Array:
        return self._order.places(np.arange(first, first + self._freight.length(part)))

    def _deal(self, places: Array, part: Any, piles: list[_Pile], stretch: int) -> None:
        """Puts the rows of a part on the piles that they belong to."""
        numbers = np.argsort(places, kind="stable")
        piles_of = places[numbers] // stretch
        ends = np.flatnonzero(np.diff(piles_of, append=-1)) + 1
        start = 0
        for end in ends.tolist():
            chosen = numbers[start:end]
            piles[piles_of[start]].add(places[chosen], self._freight.taken(part, chosen))
            start = end

    def _sorted(self, held: list[tuple[Array, Any]]) -> Iterator[Any]:
        """Rows that are in memory, in their new order, some at a time."""
        if not held:
            return
        whole = self._freight.joined([part for _, part in held])
        numbers = np.argsort(np.concatenate([places for places, _ in held]), kind="stable")
        yield self._freight.taken(whole, numbers[:0])  # a table without rows has columns, too
        for start in range(0, len(numbers), TOGETHER):
            yield self._freight.taken(whole, numbers[start : start + TOGETHER])


class _Pile:
    """Rows of one stretch of the new order, in temporary files, with their places in it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _file(self, suffix: str) -> Path:
        return self._path.with_suffix(suffix)

    def _append(self, suffix: str, data: bytes) -> None:
        # Not kept open: there may be more files than a process may open.
        with open(self._file(suffix), "ab") as file:
            file.write(data)

    def _numbers(self, suffix: str) -> Array:
        path = self._file(suffix)
        if not path.exists():
            return np.zeros(0, np.int64)
        found: Array = np.fromfile(path, np.int64)
        path.unlink()
        return found

    def add(self, places: Array, part: Any) -> None:
        """Puts rows on it."""
        self._append(".places", places.astype(np.int64).tobytes())
        self._put(part)

    def take(self) -> tuple[Array, list[Any]]:
        """All rows and their places, for the last time."""
        return self._numbers(".places"), self._get()

    def close(self) -> None:
        """Closes what is open."""

    @abstractmethod
    def _put(self, part: Any) -> None: ...

    @abstractmethod
    def _get(self) -> list[Any]: ...


class _BytesPile(_Pile):
    """Concatenated records, and their lengths."""

    def _put(self, part: list[bytes]) -> None:
        self._append(".lengths", np.array([len(one) for one in part], np.int64).tobytes())
        self._append(".data", b"".join(part))

    def _get(self) -> list[Any]:
        lengths = self._numbers(".lengths").tolist()
        if not lengths:
            return []
        with open(self._file(".data"), "rb") as file:
            records = [file.read(length) for length in lengths]
        self._file(".data").unlink()
        return [records]


class _ArrowPile(_Pile):
    """Record batches, in Arrow's stream format."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._writer: Any = None

    def _put(self, part: pa.RecordBatch) -> None:
        import pyarrow as pa

        if self._writer is None:
            self._writer = pa.ipc.new_stream(str(self._file(".batches")), part.schema)
        self._writer.write_batch(part)

    def _get(self) -> list[Any]:
        import pyarrow as pa

        if self._writer is None:
            return []
        self.close()
        with pa.OSFile(str(self._file(".batches")), "rb") as file:
            found = list(pa.ipc.open_stream(file))
        self._file(".batches").unlink()
        return found

    def close(self) -> None:
        """Closes the file."""
        if self._writer is not None:
            self._writer.close()
