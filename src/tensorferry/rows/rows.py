"""Rows: the verbs that every format of rows has.

    with ferry.open("train-*.tfrecord") as rows:
        rows.schema                         # what the columns are
        len(rows), rows[7], rows[2:5], rows[[3, 1, 4]]
        for batch in rows.batches(1024):    # a dict of columns
            ...

`Rows` is the common base class. Formats subclass it: TFRecords are `tensorferry.formats.tfrecord`
(`Records`), Arrow, Parquet and others made of columns are `tensorferry.formats.tables` (`Table`).
"""

from __future__ import annotations

import difflib
import itertools
import operator
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex, overload

import numpy as np

from tensorferry import frameworks
from tensorferry.classes import dataclass
from tensorferry.errors import Problem, UnknownFeatureError, UnsupportedError
from tensorferry.rows import preview
from tensorferry.rows.arrow import AsArrow
from tensorferry.rows.columns import Batch as Batch, part_of, slice_rows
from tensorferry.signposts import signposted
from tensorferry.storage.place import Place
from tensorferry.tensors.infos import TensorInfo
from tensorferry.tensors.values import Array

if TYPE_CHECKING:
    from tensorferry.formats.contract import Facts, Progress, RowOptions
    from tensorferry.rows.schema import Schema
    from tensorferry.rows.splits import Part, Split

ROWS = 1024
"""Number of rows of a batch, unless the caller says it."""

To = Literal["numpy", "tensorflow", "torch", "jax", "arrow"]

Row = dict[str, Any]
Indices = Sequence[SupportsIndex] | np.ndarray[Any, Any]

Gathered = tuple[Batch, list[int]]
"""The columns of batches, one behind the other, and the row behind the last of each batch."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Something in a file that was skipped or kept though it is damaged.

    Attributes:
        path: The file.
        record: Its number in the file, from 0; whatever was skipped before it counts as one.
        offset: Where it begins, in the decompressed file.
        size: Number of bytes that were skipped or kept.
        problem: What is wrong with them.
        kept: Whether the row was given out all the same.
    """

    path: str
    record: int
    offset: int
    size: int
    problem: str
    kept: bool = False


class Damages(list[Damage]):
    """Damages, each of them once, however often the files are read; a pickled one is empty."""

    def __init__(self) -> None:
        super().__init__()
        self._known: set[Damage] = set()

    def __reduce__(self) -> tuple[type[Damages], tuple[()]]:
        return Damages, ()

    def append(self, damage: Damage) -> None:
        """Adds a damage that is not known yet."""
        if damage not in self._known:
            self._known.add(damage)
            super().append(damage)


@signposted
class Rows(AsArrow):
    """An ordered set of rows with columns, over one or many files, read on demand.

    Iterating yields rows (dicts), and `batches(n)` yields dicts of columns. Rows that were opened
    by a path can be pickled; other processes open the files again.

    Attributes:
        facts: The facts of the format.
        places: The files, in order.
        damages: The damage that was skipped or kept so far, if `on_error` is not "raise".
        notes: Remarks on how the file is read.
        version: The version of the format, if the files have one.
        compression: The format's own compression, if the files use one.
        packed: How the first file is compressed as a whole.
        raw: Whether rows are returned as bytes instead of dicts.

    Examples:
        >>> with ferry.writer("train.tfrecord") as out:
        ...     out.write_batch({"id": np.arange(5)})
        >>> rows = ferry.open("train.tfrecord")
        >>> (len(rows), int(rows[3]["id"]), [len(batch["id"]) for batch in rows.batches(2)])
        (5, 3, [2, 2, 1])
    """

    def __init__(self, places: Sequence[Place], how: RowOptions, *, facts: Facts) -> None:
        self.facts = facts
        self.places = list(places)
        self.damages: list[Damage] = Damages()
        self.notes: list[str] = []
        self.packed: str | None = None
        self.raw = False
        self._how = how

    @classmethod
    @abstractmethod
    def of_parts(cls, parts: Sequence[Part], how: RowOptions, *, facts: Facts) -> Rows:
        """The rows of some parts of files, in their order."""

    # What there is

    @property
    def place(self) -> Place:
        """The first of the files."""
        return self.places[0]

    @property
    def format(self) -> str:
        """The name of the format."""
        return self.facts.name

    @property
    def files(self) -> Sequence[str]:
        """The paths of the files, in order."""
        return [place.path for place in self.places]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the user kept with it."""
        return {}

    @property
    def version(self) -> str | None:
        """The version of the format, where the files say one."""
        return None

    @property
    def compression(self) -> str | None:
        """The format's own compression, if the files use one."""
        return None

    @property
    def checksums(self) -> bool:
        """Whether checksums cover the values, so that a changed bit is detected."""
        return self.facts.checksums

    @property
    def is_stream(self) -> bool:
        """Whether the rows can be read only once, in order."""
        return any(place.is_stream for place in self.places)

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """What the columns are."""

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The names of the columns."""

    @abstractmethod
    def infos(self) -> Mapping[str, TensorInfo]:
        """Returns dtype and shape of each column, without reading it."""

    @property
    @abstractmethod
    def optional(self) -> frozenset[str]:
        """The columns that rows may lack; in a batch they have zero or one value per row."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def count(self, progress: Progress | bool | None = None) -> int | None:
        """Number of rows; None if counting would require reading everything.

        Args:
            progress: True shows a bar; a function receives the number of rows counted.
        """

    # Rows and batches

    @abstractmethod
    def __iter__(self) -> Iterator[Any]: ...

    @abstractmethod
    def batches(
        self,
        rows: int = ROWS,
        *,
        columns: Sequence[str] | None = None,
        to: To = "numpy",
        drop_remainder: bool = False,
    ) -> Iterator[Any]:
        """Yields batches of `rows` rows, across file boundaries; the last batch may be shorter.

        Args:
            rows: Number of rows in a batch.
            columns: The columns to read; by default those the rows were opened with.
            to: The framework of the columns; "arrow" returns a `pyarrow.RecordBatch`.
            drop_remainder: Leave out a shorter last batch.
        """

    @abstractmethod
    def select(self, columns: Sequence[str]) -> Rows:
        """Returns the same rows with some of their columns, over the same open files."""

    @abstractmethod
    def __getitems__(self, indices: Indices) -> list[Any]:
        """Several rows, in the order asked for; PyTorch and grain call it by this name."""

    def take(self, indices: Indices) -> list[Any]:
        """Returns several rows, in the given order."""
        return self.__getitems__(indices)

    def between(self, start: int, stop: int) -> Rows:
        """Returns a range of consecutive rows, as rows.

        Raises:
            UnsupportedError: The rows can only be read in order (`is_seekable`).
        """
        raise UnsupportedError(
            f"rows of {self.format} files can only be read from their start", path=self.place.path
        )

    @abstractmethod
    def portion(self, start: int, stop: int) -> Rows:
        """Returns a range of consecutive rows, read in order.

        Unlike `between`, it always works: if the first row cannot be located, the rows before it
        are skipped.
        """

    @property
    def is_seekable(self) -> bool:
        """Whether any row can be read without reading the rows before it."""
        return False

    def gathered(self, wanted: Iterable[Array], *, to: To = "numpy") -> Iterator[Any]:
        """Yields a batch for each list of row numbers, in the given order.

        Args:
            wanted: The numbers of each batch: int64, from 0 to the number of rows.
            to: The framework whose tensors the columns are.

        Raises:
            UnsupportedError: The rows can only be read in order (`is_seekable`).
        """
        return _dealt(self.gathered_together(wanted), to)

    @property
    def reads_ahead(self) -> bool:
        """Whether `gathered_together` reads ahead by itself, in threads of its own."""
        return False

    def gathered_together(self, wanted: Iterable[Array], *, ahead: int = 0) -> Iterator[Gathered]:
        """Yields the same batches as NumPy columns, several consecutive batches at a time.

        Args:
            wanted: The numbers of each batch: int64, from 0 to the number of rows.
            ahead: Number of bytes, about, that threads may read before they are asked for.

        Raises:
            UnsupportedError: The rows can only be read in order (`is_seekable`).
        """
        raise UnsupportedError(
            f"rows of {self.format} files can only be read in order", path=self.place.path
        )

    @overload
    def __getitem__(self, where: SupportsIndex) -> Row: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, where: slice | Indices) -> list[Row]: ...
    @overload
    def __getitem__(self, where: str) -> Any: ...
    def __getitem__(self, where: Any) -> Any:
        """A row by its number, a list of rows for a slice or a list, a whole column by its name."""
        if isinstance(where, str):
            return self.column(where)
        if isinstance(where, slice):
            return self.__getitems__(range(*where.indices(len(self))))
        if isinstance(where, (list, np.ndarray, Sequence)):  # lists are quick this way
            return self.__getitems__(where)
        return self.__getitems__([where])[0]

    def column(self, name: str) -> Any:
        """Reads a whole column."""
        self.check_names([name])
        return self.select([name]).value()[name]

    def part(self, name: str, index: tuple[Any, ...]) -> Any:
        """Reads a slice of a column; later rows are not read."""
        self.check_names([name])
        first = index[0] if index else slice(None)
        if isinstance(first, int) and first >= 0:
            stop: int | None = first + 1
        else:
            backward = not isinstance(first, slice) or (first.start or 0) < 0
            stop = None if backward or (first.step or 1) < 0 else first.stop
        if stop is not None and stop >= 0:
            for batch in self.batches(max(stop, 1), columns=[name]):
                return part_of(batch[name], index)
        return part_of(self.column(name), index)

    @abstractmethod
    def value(self, *, to: To = "numpy") -> Batch:
        """Reads all columns."""

    def bytes_of_records(self) -> Iterator[bytes]:
        """Yields the bytes of each row, if rows are stored as records.

        Raises:
            UnsupportedError: Rows of the format have no bytes of their own (`facts.records`).
        """
        raise UnsupportedError(
            f"rows of {self.format} have no bytes of their own", path=self.place.path
        )

    # Parts of it

    @abstractmethod
    def splits(self, count: int) -> list[Split]:
        """Divides the rows into up to `count` parts that can be read independently.

        Rows are divided by file, by row group or record batch, and inside large uncompressed
        TFRecord files. Each split can be pickled and opened anywhere. In order, the splits are
        exactly the rows.
        """

    @abstractmethod
    def problems(self, progress: Progress | bool | None = None) -> Iterator[Problem]:
        """Reads everything, and yields what is damaged.

        Args:
            progress: True shows a bar; a function receives the number of rows read.
        """

    # Names

    def check_names(self, names: Sequence[str]) -> None:
        """Raises an error if a column does not exist.

        Raises:
            UnknownFeatureError: There is no such column; the error suggests similar names.
        """
        known = self.columns
        for name in names:
            if name not in known:
                raise self.unknown(name)

    def unknown(self, name: str) -> UnknownFeatureError:
        """The error for a column that does not exist."""
        near = difflib.get_close_matches(name, self.columns, n=3)
        hint = f"did you mean {', '.join(map(repr, near))}?" if near else None
        if not near:
            hint = f"there are {', '.join(self.columns)[:200]}" if self.columns else None
        return UnknownFeatureError(f"no column is called {name!r}", path=self.place.path, hint=hint)

    # The end

    def close(self) -> None:
        """Closes the files; values that were returned stay valid."""
        for place in self.places:
            place.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return preview.card(self, values=False).line()

    def _repr_html_(self) -> str:
        return preview.card(self, values=True).html()

    def _ipython_key_completions_(self) -> list[str]:
        if self.is_stream:
            return []
        return [name for name in self.columns if name.isprintable()]

    def known_count(self) -> int | None:
        """Number of rows, if it is known without further reading."""
        return self.count()


def check_rows(rows: SupportsIndex) -> int:
    """The number of rows of a batch.

    Raises:
        ValueError: It is less than 1.
    """
    number = operator.index(rows)
    if number < 1:
        raise ValueError(f"batches of {number} rows, expected 1 or more")
    return number


def _dealt(groups: Iterable[Gathered], to: To) -> Iterator[Any]:
    """Each batch for itself."""
    for columns, ends in groups:
        if len(ends) == 1:
            yield hand(columns, to)
            continue
        for start, stop in itertools.pairwise([0, *ends]):
            yield hand(slice_rows(columns, start, stop), to)


def hand(batch: Any, to: To) -> Any:
    """A batch with its columns as a framework's tensors; Arrow's stays as it is."""
    return batch if to in ("numpy", "arrow") else frameworks.give(batch, to)
