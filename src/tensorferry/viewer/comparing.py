"""Questions about two files: which tensors belong together, what changed, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorferry.errors import UnsupportedError
from tensorferry.operations import planes, snippets
from tensorferry.operations.branches import layer_grid
from tensorferry.operations.counterparts import counterparts
from tensorferry.operations.diff import compare_each
from tensorferry.operations.row_pairs import RowPair, differing_rows
from tensorferry.viewer.answers import Answer, of_arrays, of_json
from tensorferry.viewer.files import File
from tensorferry.viewer.jobs import Job
from tensorferry.viewer.listing import NAMED
from tensorferry.viewer.queries import Query
from tensorferry.viewer.rows import ROWS, row_cells
from tensorferry.viewer.shown import Question, Shown
from tensorferry.viewer.tensors import plane_options


class PairQuestions:
    """Answers questions about two files."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def questions(self) -> Mapping[str, Question]:
        """The questions by name."""
        return {
            "comparison": self.comparison,
            "grid": self.grid,
            "difference": self.difference,
            "row_differences": self.row_differences,
            "row_pairs": self.row_pairs,
        }

    def _both(self, query: Query) -> tuple[File, File]:
        return self._shown.file(query, "a"), self._shown.file(query, "b")

    def comparison(self, query: Query) -> Answer:
        """Which tensors belong together, and how much each changed: a job.

        The first item has the names, all others are about one tensor each.
        """
        a, b = self._both(query)

        def work(job: Job) -> Iterator[Any]:
            with a.open() as first, b.open() as second:
                found = counterparts(first, second)
                names = {name: name for name in found.same} | dict(found.renamed)
                places = [{name: n for n, name in enumerate(file.names)} for file in (a, b)]
                yield {
                    "same": len(found.same),
                    "renamed": [_side(places, *pair) for pair in found.renamed.items()],
                    "only_a": [
                        {"a": places[0][name], "name": name[:NAMED]} for name in found.only_a
                    ],
                    "only_b": [
                        {"b": places[1][name], "name": name[:NAMED]} for name in found.only_b
                    ],
                }
                for number, change in enumerate(compare_each(first, second, names)):
                    job.progress(number, len(names))
                    yield {**_side(places, change.name, change.other), "change": change}
                job.progress(len(names), len(names))

        job = self._shown.jobs.get(("comparison", a.key, b.key), work)
        found = job.since(query.number("after", 0))
        return of_json({**found, "copy": snippets.of_comparison(a.name, b.name)})

    def grid(self, query: Query) -> Answer:
        """The tensors of the first file by layer and part."""
        file, _ = self._both(query)
        return of_json(layer_grid(name[:NAMED] for name in file.names))

    def difference(self, query: Query) -> Answer:
        """A heat map of the second tensor minus the first."""
        a, b = self._both(query)
        names = a.name_at(query.number("left", 0)), b.name_at(query.number("right", 0))
        # Always in the same order, so that two threads cannot wait for each other.
        low, high = sorted((a, b), key=lambda file: file.number)
        with low.reading(), high.reading(), a.reading() as first, b.reading() as second:
            options = plane_options(query)
            found = planes.plane(first, names[0], **options, other=(second, names[1]))
        head = {
            "window": found.window,
            "steps": found.steps,
            "whole": found.whole,
            "shape": found.shape,
            "copy": snippets.of_comparison(a.name, b.name, names[0]),
        }
        return of_arrays(head, values=found.values)

    def row_differences(self, query: Query) -> Answer:
        """The rows that differ: a job."""
        a, b = self._both(query)
        key = query.text("key") or None

        def work(job: Job) -> Iterator[Any]:
            with a.open() as first, b.open() as second:
                total = first.count()
                for pair in differing_rows(first, second, key=key):
                    job.progress(pair.a if pair.a is not None else job.done, total)
                    yield _pair(pair)

        job = self._shown.jobs.get(("rows", a.key, b.key, key), work)
        found = job.since(query.number("after", 0), 50_000)
        return of_json({**found, "copy": snippets.of_comparison(a.name, b.name, key=key)})

    def row_pairs(self, query: Query) -> Answer:
        """Rows of both files, by their numbers; -1 where one has none."""
        sides: list[dict[str, list[Any]]] = []
        for name, file in zip(("left", "right"), self._both(query), strict=True):
            numbers = query.numbers(name, most=ROWS) or []
            with file.paging() as pages:
                wanted = [number for number in numbers if number >= 0]
                found = {row.number: row_cells(row, pages.columns) for row in pages.take(wanted)}
                sides.append(
                    {
                        "columns": [column[:NAMED] for column in pages.columns],
                        "rows": [found.get(number) for number in numbers],
                    }
                )
        if len(sides[0]["rows"]) != len(sides[1]["rows"]):
            raise UnsupportedError("as many rows of both files are expected")
        return of_json({"a": sides[0], "b": sides[1]})


def _side(places: list[dict[str, int]], name: str, other: str) -> dict[str, Any]:
    return {
        "a": places[0][name],
        "b": places[1][other],
        "name": name[:NAMED],
        "other": other[:NAMED],
    }


def _pair(pair: RowPair) -> list[Any]:
    return [
        -1 if pair.a is None else pair.a,
        -1 if pair.b is None else pair.b,
        [name[:NAMED] for name in pair.columns[:50]],
    ]
