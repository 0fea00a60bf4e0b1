"""Comparison: the differences between two files of any format.

    ferry.diff("model.safetensors", "model.npz", atol=1e-6).equal

Tensors are compared one at a time by name, rows of records and tables in batches by position, or
by a key. How columns of one name are compared is `tensorferry.operations.differences`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Unpack

import numpy as np

from tensorferry import display, engines
from tensorferry.cards import Card, Grid, Shown, Tone
from tensorferry.classes import dataclass, field, replace
from tensorferry.engines import Job
from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.operations.counterparts import find_renamed
from tensorferry.operations.differences import Difference, TensorDiff, add_together, are_alike
from tensorferry.operations.nulls import Missing, missing_lists
from tensorferry.operations.shares import Opening, all_processors, groups_of
from tensorferry.operations.subject import Subject, nearest, some
from tensorferry.progress import Progress, Unit, following
from tensorferry.rows.columns import length_of
from tensorferry.rows.rows import ROWS, Rows

# Tensors of at most so many bytes are compared by one call, so many at a time.
SMALL, TOGETHER = 1 << 12, 1 << 10


@dataclass(frozen=True, repr=False)
class DiffReport(Shown):
    """The differences between two files.

    Attributes:
        a: The first file, as it was given.
        b: The second file, as it was given.
        tensors: The tensors or columns that both files have.
        only_a: The names that only the first file has.
        only_b: The names that only the second file has.
        rows_a: Number of rows of the first file without a counterpart; None for tensors.
        rows_b: The same for the second file.
        renamed: Names in `only_a`, each with the name of the same content in `only_b`.
    """

    a: str
    b: str
    tensors: tuple[TensorDiff, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    rows_a: int | None = None
    rows_b: int | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)

    def _card(self) -> Card:
        differing = [found for found in self.tensors if not found.equal]
        noun = "tensor" if self.rows_a is None else "column"
        if self.equal:
            summary = f"equal, {display.plural(len(self.tensors), noun)}"
        elif differing:
            count = f"{len(differing):,} of {display.plural(len(self.tensors), noun)}"
            summary = f"different: {count} differ"
        else:
            summary = "different: not all is in both"
        cells = [_cells(found) for found in differing]
        headers = ("name", "differs in", "dtype", "shape", "values", "largest", "first at")
        lines: list[tuple[Tone, str]] = []
        for side, names, rows in (("a", self.only_a, self.rows_a), ("b", self.only_b, self.rows_b)):
            if names:
                lines.append(("note", f"only in {side}: {some(names)}"))
            if rows:
                lines.append(("note", f"{display.plural(rows, 'row')} only in {side}"))
        if self.renamed:
            pairs = [f"{old} is {new}" for old, new in self.renamed.items()]
            lines.append(("note", f"renamed: {some(pairs)}"))
        return Card(
            "DiffReport",
            f"{self.a} | {self.b}",
            summary,
            "good" if self.equal else "bad",
            grids=[Grid(headers, cells, right=(4, 5), noun=noun)],
            lines=lines,
        )

    @property
    def equal(self) -> bool:
        """Whether there is no difference beyond the tolerance."""
        alone = self.only_a or self.only_b or self.rows_a or self.rows_b
        return not alone and all(found.equal for found in self.tensors)


def _cells(found: TensorDiff) -> tuple[Any, ...]:
    """A line about tensors that differ; facts that both share are shown once."""
    dtypes = found.dtypes[:1] if found.dtypes[0] == found.dtypes[1] else found.dtypes
    shapes = found.shapes[:1] if found.shapes[0] == found.shapes[1] else found.shapes
    return (
        found.name if found.name == found.other else f"{found.name} | {found.other}",
        found.reason,
        " | ".join(dtypes),
        " | ".join(map(display.shape, shapes)),
        f"{found.differing:,} of {found.elements:,}" if found.differing else "",
        "not finite" if found.nonfinite else display.number(found.largest),
        "" if found.first is None else display.shape(found.first),
    )


@keywords.shown(keywords.Opening)
def diff(
    a: Any,
    b: Any,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    map: Mapping[str, str] | Sequence[str] | None = None,  # as the command has it
    key: str | None = None,
    ignore_dtype: bool = False,
    match: Sequence[str] = (),
    engine: engines.Choice | None = None,
    progress: Progress | bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> DiffReport:
    """Compares two files of any formats: tensors by name, rows by position or key.

    Numbers are equal if `|a - b| <= atol + rtol * |b|`, and NaN equals NaN. A tensor that cannot be
    read counts as different, with the reason "unreadable". Tensors with the same content but
    different names are reported as renamed.

        ferry.diff("model.npz", "model.safetensors").equal

    Args:
        a: Anything that `tensorferry.open` takes.
        b: The same.
        rtol: Relative tolerance, as a fraction of the number in `b`.
        atol: Absolute tolerance.
        map: Names in `a` and the names of the same tensors in `b`; or patterns such as "a/*=b.*".
        key: The column by which rows are matched, instead of by position.
        ignore_dtype: Treat equal numbers of different dtypes as equal.
        match: Patterns of names in `a`; other names are left out.
        engine: The engine that compares the parts: "local", "ray" or an engine; by default the
            calling thread. A task compares some tensors or columns; by a key, one task compares
            all.
        progress: True shows a bar; a function receives the number of tensors or rows done and the
            total, if known; with an engine, the number of tasks.
        storage_options: Options for the stores of URLs.
        **options: Options of the formats of both files: see `tensorferry.files.keywords.Opening`.

    Raises:
        UnsupportedError: The key is not a column of both files, or not unique.
        OptionError: A format has no such option.

    Examples:
        >>> a = ferry.save({"w": np.zeros(3)}, "a.npz")
        >>> b = ferry.save({"w": np.zeros(3)}, "b.ckpt")
        >>> ferry.diff("a.npz", "b.ckpt").equal
        True
    """
    opening = partial(Opening.of, storage_options=storage_options, options=options, thorough=True)
    sides = opening(a), opening(b)
    how = Comparing(rtol, atol, map, key, ignore_dtype, tuple(match))
    with sides[0].open() as first, sides[1].open() as second:
        are_rows = isinstance(first.opened, Rows) and isinstance(second.opened, Rows)
        unit: Unit = "tasks" if engine is not None else "rows" if are_rows else "tensors"
        with following(progress, first.name, unit) as tell:
            chosen = None if engine is None else engines.choose(engine)
            report = compare_opened((sides[0], first), (sides[1], second), how, chosen, tell)
            renamed = find_renamed(first, report.only_a, second, report.only_b)
            return replace(report, renamed=renamed) if renamed else report


@dataclass(frozen=True)
class Comparing:
    """How two files are compared; the attributes are arguments of `diff`."""

    rtol: float = 0.0
    atol: float = 0.0
    map: Mapping[str, str] | Sequence[str] | None = None
    key: str | None = None
    ignore_dtype: bool = False
    match: tuple[str, ...] = ()


@dataclass(frozen=True)
class DiffJob(Job["tuple[str, ...]", DiffReport, DiffReport]):
    """Compares some tensors or columns at a time.

    Attributes:
        one: How all of the first is opened.
        other: How all of the second is opened.
        first: The first opened file.
        second: The second opened file.
        how: How they are compared.
    """

    on_driver = ("first", "second")
    one: Opening
    other: Opening
    first: Subject
    second: Subject
    how: Comparing

    def plan(self, size: int) -> list[tuple[str, ...]]:
        """Names of tensors or columns that both have."""
        names = self.first.renaming(self.how.map).apply(self.first.matching(self.how.match))
        both = [old for old, new in names.items() if new in self.second.infos]
        groups = groups_of(self.first, both, size)
        groups_of(self.second, [], size)  # refuses a stream
        return groups if self.how.key is None else [tuple(both)]

    def run(self, task: tuple[str, ...], held: Any) -> DiffReport:
        """Compares some of them."""
        with self.one.again() as first, self.other.again() as second:
            return _compared(first, second, self.how, only=task)

    def merge(self, partials: Iterable[DiffReport]) -> DiffReport:
        """The combined result."""
        found = list(partials)
        tensors = tuple(tensor for one in found for tensor in one.tensors)
        return replace(found[0], tensors=tensors)


def compare_opened(
    a: tuple[Opening, Subject],
    b: tuple[Opening, Subject],
    how: Comparing,
    engine: engines.Engine | None = None,
    progress: Progress | None = None,
) -> DiffReport:
    """Compares what was opened, here or by an engine.

    Args:
        a: How the first was opened, and what was.
        b: The same of the second.
        how: How they are compared.
        engine: The engine that compares the parts; None is the calling thread.
        progress: See `diff`.
    """
    (one, first), (other, second) = a, b
    if engine is None:
        for opening, subject in (a, b):
            if isinstance(subject.opened, Rows):
                opening.surveyed(subject, all_processors(opening, subject))
        return _compared(first, second, how, progress=progress)
    one, other = one.surveyed(first, engine), other.surveyed(second, engine)
    return engines.run(DiffJob(one, other, first, second, how), engine, progress)


def _compared(
    first: Subject,
    second: Subject,
    how: Comparing,
    *,
    only: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> DiffReport:
    return compare(
        first,
        second,
        rtol=how.rtol,
        atol=how.atol,
        map=how.map,
        key=how.key,
        ignore_dtype=how.ignore_dtype,
        match=how.match,
        only=only,
        progress=progress,
    )


def compare(
    first: Subject,
    second: Subject,
    *,
    rtol: float,
    atol: float,
    map: Mapping[str, str] | Sequence[str] | None = None,
    key: str | None = None,
    ignore_dtype: bool = False,
    match: Sequence[str] = (),
    only: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> DiffReport:
    """Compares what was opened; the arguments are those of `diff`.

    With `only`, some tensors of the first file are compared; names that only one file has are all
    reported.
    """
    names = first.renaming(map).apply(first.matching(match))
    others = [name for name in second.infos if not match or name in names.values()]
    wanted = names if only is None else {old: names[old] for old in only}
    pairs = _pairs(first, second, wanted, rtol=rtol, atol=atol, ignore_dtype=ignore_dtype)
    rows = _compare(first, second, pairs, key, progress)
    if key is None:
        _compare_missing(first, second, pairs)
    taken = set(names.values())
    return DiffReport(
        first.name,
        second.name,
        tuple(pair.result() for pair in pairs.values()),
        tuple(old for old, new in names.items() if new not in second.infos),
        tuple(name for name in others if name not in taken),
        *rows,
    )


def _pairs(
    first: Subject,
    second: Subject,
    names: Mapping[str, str],
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    ignore_dtype: bool = False,
) -> dict[str, Difference]:
    """What compares each tensor or column of the first with that of its name in the second."""
    optional, other_optional = first.optional, second.optional
    return {
        old: Difference(
            old,
            new,
            first.infos[old],
            second.infos[new],
            rtol=rtol,
            atol=atol,
            ignore_dtype=ignore_dtype,
            optional=old in optional or new in other_optional,
        )
        for old, new in names.items()
        if new in second.infos
    }


def compare_each(first: Subject, second: Subject, names: Mapping[str, str]) -> Iterator[TensorDiff]:
    """Compares tensors one by one, and yields each result as soon as it is known.

    Args:
        first: A bundle that was opened.
        second: The second opened file.
        names: Names in the first, and those of the same tensors in the second.
    """
    pairs = _pairs(first, second, names)
    for pair in pairs.values():
        if not pair.is_readable:
            yield pair.result()
    readable = {name: pair for name, pair in pairs.items() if pair.is_readable}
    others = [pair.other for pair in readable.values()]
    both = zip(first.tensors(list(readable)), second.tensors(others), strict=True)
    for (name, tensor), (_, other) in both:
        readable[name].add(tensor, other)
        yield readable[name].result()


def _compare_missing(first: Subject, second: Subject, pairs: Mapping[str, Difference]) -> None:
    """Compares which lists of columns are missing, not only empty."""
    readable = {name: pair.other for name, pair in pairs.items() if pair.is_readable}
    left = missing_lists(first, list(readable))
    right = missing_lists(second, list(readable.values()))
    if not left and not right:
        return
    none = np.empty(0, np.int64)
    for name, other in readable.items():
        one, two = left.get(name, {}), right.get(other, {})
        for level in sorted(one.keys() | two.keys()):
            pairs[name].add_nulls(one.get(level, none), two.get(level, none))


def _compare(
    first: Subject,
    second: Subject,
    pairs: Mapping[str, Difference],
    key: str | None,
    progress: Progress | None,
) -> tuple[int | None, int | None]:
    """Compares what can be read; returns the number of rows that only one file has."""
    pairs = {name: pair for name, pair in pairs.items() if pair.is_readable}
    if key is not None:
        return _by_key(first, second, pairs, key, progress)
    if isinstance(first.opened, Rows) and isinstance(second.opened, Rows):
        return _by_position(first, second, pairs, progress)
    others = [pair.other for pair in pairs.values()]
    both = zip(first.tensors(list(pairs)), second.tensors(others), strict=True)
    waiting: list[tuple[Difference, Any, Any]] = []
    for number, ((name, tensor), (_, other)) in enumerate(both, 1):
        if are_alike(tensor, other) and tensor.nbytes <= SMALL:
            waiting.append((pairs[name], tensor, other))
        else:
            pairs[name].add(tensor, other)
        if len(waiting) == TOGETHER:
            add_together(waiting)
            waiting.clear()
        if progress is not None:
            progress(number, len(pairs))
    add_together(waiting)
    return None, None


def _by_position(
    first: Subject,
    second: Subject,
    pairs: Mapping[str, Difference],
    progress: Progress | None,
) -> tuple[int, int]:
    """Compares batches; returns the number of rows that only one file has."""
    counts = [0, 0]
    total = first.count() if progress is not None else None
    batches = zip_longest(
        first.batches(list(pairs)), second.batches([pair.other for pair in pairs.values()])
    )
    for left, right in batches:
        if left is not None and right is not None:
            for name, pair in pairs.items():
                pair.add(left[name], right[pair.other])
        for side, batch in enumerate((left, right)):
            counts[side] += 0 if not batch else length_of(next(iter(batch.values())))
        if progress is not None:
            progress(counts[0], total)
    both = min(counts)
    return counts[0] - both, counts[1] - both


def _by_key(
    first: Subject,
    second: Subject,
    pairs: Mapping[str, Difference],
    key: str,
    progress: Progress | None,
) -> tuple[int, int]:
    """Compares rows with the same key; returns the number of rows that only one file has."""
    if key not in pairs:
        raise UnsupportedError(
            f"the key {key!r} is no column of both", path=first.name, hint=nearest([key], pairs)
        )
    other = pairs[key].other
    places = key_places(second, other)
    lookup = row_lookup(second, [pair.other for pair in pairs.values()])
    lacking = (
        missing_lists(first, list(pairs)),
        missing_lists(second, [pair.other for pair in pairs.values()]),
    )
    missing = seen = 0
    for number, left in enumerate(first.rows(list(pairs))):
        found = hashable(left[key])
        place = places.get(found)
        if place is None:
            missing += 1
            continue
        seen += 1
        right = lookup(place)
        for name, pair in pairs.items():
            one = None if _lacks(lacking[0], name, number) else left[name]
            two = None if _lacks(lacking[1], pair.other, place) else right[pair.other]
            pair.add_row(one, two, row=number, other=place, key=found)
        if progress is not None and seen % ROWS == 0:
            progress(seen + missing, None)
    return missing, max(len(places) - seen, 0)


def _lacks(lists: Mapping[str, Missing], name: str, row: int) -> bool:
    """Whether a row has no list, which is an empty one among its values."""
    found = lists.get(name, {}).get(0)
    return found is not None and bool(np.isin(row, found))


def key_places(subject: Subject, key: str) -> dict[Any, int]:
    """The numbers of rows, by their keys."""
    if subject.is_stream:
        raise UnsupportedError(
            "rows of a stream have no order but their own",
            path=subject.name,
            hint="give the stream as the first of the two",
        )
    places: dict[Any, int] = {}
    for number, row in enumerate(subject.rows([key])):
        found = hashable(row[key])
        if found in places:
            raise UnsupportedError(
                f"rows {places[found]} and {number} have the same key {found!r:.60}",
                path=subject.name,
                hint="choose a column whose values all differ",
            )
        places[found] = number
    return places


def row_lookup(subject: Subject, columns: Sequence[str]) -> Callable[[int], Mapping[str, Any]]:
    """Gives a row by its number; of files without random access all are held in memory."""
    if isinstance(subject.opened, Rows):
        rows = subject.opened.select(columns)
        try:
            rows.take([0])
            return lambda number: rows.take([number])[0]
        except (UnsupportedError, IndexError):
            pass
    return list(subject.rows(columns)).__getitem__


def hashable(value: Any) -> Any:
    """A value of a row as a key of a dict."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes()) if value.dtype != object else tuple(value.tolist())
    return value.item() if isinstance(value, np.generic) else value
