"""Subjects: what an operation works on, a bundle or rows, under the name that the user gave it.

    with open_one("train.tfrecord") as subject:
        subject.infos                   # a TensorInfo of each tensor or column
        subject.tensor("label")         # all of it
        subject.batches(["label"])      # dicts of columns; the tensors of a bundle come whole

`Bundle` and `Rows` differ in their verbs; here they have those that operations share. Records that
are not Examples have one column, "record", with their bytes. `tensorferry.files.find` resolves
names, and `tensorferry.files.open` opens files.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from tensorferry.classes import replace
from tensorferry.errors import Problem, UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.find import resolve
from tensorferry.files.open import Reading
from tensorferry.formats.contract import Facts
from tensorferry.operations.glance import total_size
from tensorferry.operations.names import Renaming, is_match, is_renamed
from tensorferry.progress import Progress
from tensorferry.rows.columns import part_of
from tensorferry.rows.rows import ROWS, Rows
from tensorferry.storage.pages import release
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.infos import TensorInfo
from tensorferry.tensors.values import SparseTensor, check_budget, check_lists

Holds = Literal["tensors", "records", "rows"]


class Subject:
    """A bundle or rows, with the verbs that operations share.

    Attributes:
        name: As the user named it.
        opened: The bundle or the rows.
    """

    def __init__(self, name: str, opened: Bundle | Rows) -> None:
        self.name = name
        self.opened = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files; values that were returned stay valid."""
        self.opened.close()

    # What there is

    @property
    def facts(self) -> Facts:
        """The facts of the format."""
        return self.opened.facts

    @property
    def format(self) -> str:
        """The name of the format."""
        return self.facts.name

    @property
    def holds(self) -> Holds:
        """What it is made of; formats of tables hold tensors of any shapes, too."""
        return "tensors" if isinstance(self.opened, Bundle) else holds(self.facts)

    @property
    def noun(self) -> str:
        """What each of `infos` is called."""
        return "column" if isinstance(self.opened, Rows) else "tensor"

    @property
    def is_stream(self) -> bool:
        """Whether it can be read only once."""
        return isinstance(self.opened, Rows) and self.opened.is_stream

    @property
    def compression(self) -> str | None:
        """How the file is compressed: as a whole, or inside by its format."""
        return self.opened.packed or self.opened.compression

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The user's metadata."""
        return self.opened.metadata

    @property
    def files(self) -> tuple[str, ...]:
        """The files."""
        return tuple(self.opened.files)

    @cached_property
    def infos(self) -> Mapping[str, TensorInfo]:
        """Facts about each tensor or column, known without reading it."""
        return self.opened.infos()

    def stored(self) -> Mapping[str, TensorInfo]:
        """The same as `infos`, with sizes only where they are sizes in the file.

        Nothing says how much of a file that is compressed as a whole a tensor takes.
        """
        if self.opened.packed is None:
            return self.infos
        return {name: replace(info, nbytes=None) for name, info in self.infos.items()}

    @cached_property
    def unreadable(self) -> Mapping[str, str]:
        """The tensors or columns that cannot be read, each with the reason."""
        return {name: info.unreadable for name, info in self.infos.items() if info.unreadable}

    @property
    def optional(self) -> frozenset[str]:
        """The columns that rows may lack; in a batch they have zero or one value per row."""
        return self.opened.optional if isinstance(self.opened, Rows) else frozenset()

    def damages(self) -> list[Problem]:
        """The damage that was skipped since the rows were opened."""
        if not isinstance(self.opened, Rows):
            return []
        return [
            Problem(damage.problem, damage.path, damage.record, damage.offset)
            for damage in self.opened.damages
        ]

    def count(self, progress: Progress | None = None) -> int | None:
        """Number of tensors or rows; None where only reading everything would tell.

        Args:
            progress: Is told how many are counted.
        """
        return self.opened.count(progress)

    def known_count(self) -> int | None:
        """Number of tensors or rows, if telling it takes no time."""
        opened = self.opened
        return opened.known_count() if isinstance(opened, Rows) else opened.count()

    def nbytes(self) -> int | None:
        """Number of bytes of the files; None for a stream."""
        opened = self.opened
        if isinstance(opened, Rows):
            return total_size(opened.places)
        # Of a compressed file, the place is what it was unpacked into.
        own = None if opened.packed else opened.place.path
        return total_size(
            opened.place if path == own else opened.place.at(path) for path in opened.files
        )

    def matching(self, patterns: Sequence[str]) -> dict[str, TensorInfo]:
        """The tensors or columns whose names fit one of some patterns; without patterns, all.

        Raises:
            UnsupportedError: A pattern fits no name: it is a typing error.
        """
        if not patterns:
            return dict(self.infos)
        loose = [pattern for pattern in patterns if pattern not in self.infos]
        for pattern in loose:
            if not any(is_match(name, [pattern]) for name in self.infos):
                raise self._unfit(pattern)
        exact = set(patterns)
        return {
            name: info
            for name, info in self.infos.items()
            if name in exact or (loose and is_match(name, loose))
        }

    def renaming(self, given: Iterable[str] | Mapping[str, str] | None) -> Renaming:
        """Rules for new names.

        Raises:
            UnsupportedError: A rule is none, or fits no name.
        """
        found = Renaming.parse(given)
        for old, _ in found.rules:
            if not any(is_renamed(name, old) for name in self.infos):
                raise self._unfit(old)
        return found

    def _unfit(self, pattern: str) -> UnsupportedError:
        return UnsupportedError(
            f"no {self.noun} fits {pattern!r}", path=self.name, hint=self.nearest([pattern])
        )

    def check_names(self, names: Iterable[str]) -> None:
        """Refuses names that are not there.

        Raises:
            UnsupportedError: One of them is not; near ones are named.
        """
        for name in names:
            if name not in self.infos:
                raise self._unknown(name)

    def _unknown(self, name: str) -> UnsupportedError:
        return UnsupportedError(
            f"no {self.noun} is called {name!r}", path=self.name, hint=self.nearest([name])
        )

    def nearest(self, wanted: Sequence[str]) -> str:
        """A hint for those who asked for names that are not there: near ones, or the first."""
        return nearest(wanted, self.infos) or f"there is no {self.noun} in it"

    def check_readable(self, names: Iterable[str]) -> None:
        """Refuses tensors or columns that cannot be read.

        Raises:
            UnsupportedError: One of them cannot; the message has the reason.
        """
        reasons = self.unreadable
        for name in names:
            if name in reasons:
                raise UnsupportedError(
                    f"the {self.noun} cannot be read: {reasons[name]}",
                    path=self.name,
                    tensor=name,
                    hint="leave it out: select= or --select names the others",
                )

    # Values

    def tensor(self, name: str) -> Any:
        """A tensor, or a whole column."""
        self.check_names([name])
        opened = self.opened
        return opened.column(name) if isinstance(opened, Rows) else opened[name]

    def tensors(self, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Names and whole tensors or columns, one by one; the reads of a bundle are planned.

        What was given is let go of when the next is asked for.
        """
        opened = self.opened
        if isinstance(opened, Bundle):
            for name, tensor in opened.read_many(names):
                yield name, tensor
                release(tensor)
        elif opened.is_stream:
            yield from opened.select(names).value().items()
        else:
            for name in names:
                yield name, opened.column(name)

    def part(self, name: str, index: tuple[Any, ...]) -> Any:
        """A slice of a tensor or column; only that is read, where the file allows it."""
        self.check_names([name])
        opened = self.opened
        if isinstance(opened, Rows):
            return opened.part(name, index)
        if self.infos[name].kind in ("ragged", "list"):
            return part_of(opened[name], index)
        return opened.slice(name, index)

    def batches(self, names: Sequence[str], *, rows: int = ROWS) -> Iterator[dict[str, Any]]:
        """Dicts of columns, so many rows each; the tensors of a bundle come one by one, whole."""
        if isinstance(self.opened, Rows):
            yield from self.opened.batches(rows, columns=names)
        else:
            for name, tensor in self.tensors(names):
                yield {name: tensor}

    def rows(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """One row after the other; tensors have to be of one length."""
        opened = self.opened
        if isinstance(opened, Rows):
            yield from opened.select(names)
            return
        length = rows_in(self, names)
        tensors = dict(opened.read_many(names))
        columns: dict[str, Any] = {
            name: list(tensor.rows()) if isinstance(tensor, SparseTensor) else tensor
            for name, tensor in tensors.items()
        }
        for row in range(length):
            yield {name: column[row] for name, column in columns.items()}


def open_one(
    given: Any,
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    options: keywords.Opening | None = None,
    verify: bool = True,
    thorough: bool = False,
    lenient: bool = False,
    few: bool = False,
) -> Subject:
    """Opens the one thing that a name stands for.

    Args:
        given: What `tensorferry.open` takes, or what `tensorferry.files.find` found.
        format: By default detected from the bytes.
        storage_options: Options for the store of a URL.
        options: As the user gave them; the format must have them.
        verify: Whether to check checksums, unless the options say it.
        thorough: Look at all records to find their features, not only at the first, where they can
            be read twice: a feature that comes late is not left out.
        lenient: Skip rows that are damaged.
        few: Only some rows are wanted: no file is read as a whole to find which columns lack values
            in any row.

    Raises:
        FormatError: The file is damaged, or its format is unknown.
        OptionError: The format has no such option.
    """
    chosen = keywords.given(options or {})
    preferred: dict[str, Any] = {"fallback": True}
    if thorough:
        preferred["infer"] = "all"
    if lenient:
        preferred["on_error"] = "skip"
    if few:
        preferred["optional"] = "all"
    how = Reading(
        verify=chosen.pop("verify", verify),
        dequantize=chosen.pop("dequantize", True),
        parts=chosen.pop("parts", False),
        given=chosen,
        preferred=preferred,
    )
    small = None if format is not None else how.look(given, storage_options)
    if small is not None:
        return Subject(small.path, how.open_found(small))
    found = resolve(given, format=format, options=storage_options)
    return Subject(found.name, how.open_any(found))


def holds(facts: Facts) -> Holds:
    """What files of a format are made of."""
    if facts.opens == "tensors":
        return "tensors"
    return "records" if facts.records else "rows"


def nearest(wanted: Iterable[str], there: Iterable[str]) -> str | None:
    """A hint for those who asked for names that are not there; None if there are no others.

    Args:
        wanted: The names asked for.
        there: The names that there are.
    """
    names = list(there)
    found = [near for name in wanted for near in difflib.get_close_matches(name, names, n=3)]
    near = list(dict.fromkeys(found)) or names[: 1 if len(names) == 1 else 0]
    if near:
        return f"did you mean {' or '.join(map(repr, near[:3]))}?"
    return f"there are {some(names)}" if names else None


def some(names: Sequence[str], most: int = 5) -> str:
    """The first of some names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def rows_in(subject: Subject, names: Sequence[str]) -> int:
    """Number of rows of tensors, if they are columns.

    Raises:
        LimitError: They are rows without end that hold nothing.
        UnsupportedError: Their first dimensions differ.
    """
    shapes = {name: subject.infos[name].shape for name in names}
    lengths = {name: shape[0] if shape else None for name, shape in shapes.items()}
    if len(set(lengths.values())) != 1 or None in lengths.values():
        found = ", ".join(f"{name}: {length}" for name, length in list(lengths.items())[:4])
        raise UnsupportedError(
            f"the tensors are no columns of one length ({found or 'there are none'})",
            path=subject.name,
            hint="choose some that are with --select, or look at one: `ferry show`",
        )
    length = next(length for length in lengths.values() if length is not None)
    # A row takes time and space wherever it goes, though a tensor of shape [2**40, 0] takes none.
    held = sum(subject.infos[name].nbytes or 0 for name in names)
    check_budget((length,), np.dtype(np.int64), what=f"{length} rows of nothing", held=held)
    for shape in shapes.values():
        check_lists([1 if size is None else size for size in shape])
    return length
