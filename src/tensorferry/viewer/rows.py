"""Questions about rows: pages, values, columns, search and damage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from tensorferry.errors import UnsupportedError
from tensorferry.operations import exports, snippets
from tensorferry.operations.cells import Cell, expand, present
from tensorferry.operations.pages import Row, search
from tensorferry.viewer.answers import Answer, of_json
from tensorferry.viewer.files import File
from tensorferry.viewer.jobs import Job
from tensorferry.viewer.queries import Query
from tensorferry.viewer.shown import Question, Shown, safe_name

ROWS = 500
"""The most rows of a page."""

EXPORTED = 1_000_000
"""The most rows of a CSV file."""


class RowQuestions:
    """Answers questions about rows."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def questions(self) -> Mapping[str, Question]:
        """The questions by name."""
        return {
            "rows": self.rows,
            "row_copy": self.row_copy,
            "value": self.value,
            "media": self.media,
            "column": self.column,
            "located": self.located,
            "search": self.search,
            "damages": self.damages,
            "table": self.table,
        }

    def _file(self, query: Query) -> File:
        """The file that a question is about.

        Raises:
            UnsupportedError: It has no rows.
        """
        file = self._shown.file(query)
        if not file.holds_rows:
            raise UnsupportedError("rows of a file are expected", path=file.name)
        return file

    def rows(self, query: Query) -> Answer:
        """Rows by their numbers."""
        file = self._file(query)
        start, count = query.number("start", 0), query.number("count", 100, most=ROWS)
        numbers: Sequence[int] = query.numbers("numbers", most=ROWS) or range(start, start + count)
        with file.paging() as pages:
            found = pages.take([number for number in numbers if number >= 0])
            cells = [row_cells(row, pages.columns) for row in found]
            return of_json({"rows": cells, "total": pages.total})

    def row_copy(self, query: Query) -> Answer:
        """What to type to get some rows."""
        file, start = self._file(query), query.number("start", 0)
        stop, where = query.number("stop", start, least=start), query.text("where") or None
        return of_json({"copy": snippets.of_rows(file.name, start, stop, where)})

    def _value(self, query: Query) -> Any:
        file = self._file(query)
        with file.paging() as pages:
            column = query.number("column", 0)
            if column >= len(pages.columns):
                raise UnsupportedError(f"column {column} of {len(pages.columns)}")
            found = pages.take([query.number("row", 0)])
            if not found or found[0].problem:
                raise UnsupportedError(found[0].problem or "" if found else "there is no such row")
            return found[0].values.get(pages.columns[column])

    def value(self, query: Query) -> Answer:
        """A value of a row, as far as it is not too large."""
        found, whole = expand(self._value(query))
        return of_json({"value": found, "whole": whole})

    def media(self, query: Query) -> Answer:
        """The bytes of a picture or a sound in a row."""
        value = self._value(query)
        if not isinstance(value, bytes) and value is not None:
            items = value.reshape(-1).tolist() if isinstance(value, np.ndarray) else list(value)
            item = query.number("item", 0)
            value = items[item] if item < len(items) else None
        cell = present(value) if isinstance(value, bytes) else None
        if cell is None or cell.media is None or not isinstance(value, bytes):
            raise UnsupportedError("there is no picture and no sound")
        return Answer(value, cell.media)

    def column(self, query: Query) -> Answer:
        """How the values of a column are spread: a job."""
        from tensorferry.operations.column_spread import column_distribution

        file, number = self._file(query), query.number("column", 0)
        name = file.name_at(number)

        def work(job: Job) -> Iterator[Any]:
            with file.open() as subject:
                yield column_distribution(subject, name, progress=job.progress)

        job = self._shown.jobs.get(("column", file.key, number), work)
        found = job.since(query.number("after", 0))
        return of_json({**found, "copy": snippets.of_column(file.name, name)})

    def search(self, query: Query) -> Answer:
        """The numbers of rows that are looked for: a job."""
        file = self._file(query)
        where, text = query.text("where") or None, query.text("text") or None

        def work(job: Job) -> Iterator[Any]:
            with file.open() as subject:
                yield from search(subject, where=where, text=text, progress=job.progress)

        job = self._shown.jobs.get(("search", file.key, where, text), work)
        return of_json(job.since(query.number("after", 0), 50_000))

    def located(self, query: Query) -> Answer:
        """How many rows there are, and what is damaged between them: a job."""
        file = self._file(query)

        def work(job: Job) -> Iterator[Any]:
            yield file.locate(job.progress)

        job = self._shown.jobs.get(("located", file.key), work)
        return of_json(job.since(query.number("after", 0)))

    def damages(self, query: Query) -> Answer:
        """What is damaged: a job that reads everything."""
        file = self._file(query)

        def work(job: Job) -> Iterator[Any]:
            with file.open() as subject:
                yield from subject.opened.problems(job.progress)

        job = self._shown.jobs.get(("damages", file.key), work)
        return of_json(job.since(query.number("after", 0)))

    def table(self, query: Query) -> Answer:
        """Rows as a CSV file."""
        file = self._file(query)
        start = query.number("start", 0)
        stop = min(query.number("stop", start + EXPORTED), start + EXPORTED)
        where, text = query.text("where") or None, query.text("text") or None

        def rows() -> Iterator[Row]:
            wanted: Iterator[int] = iter(range(start, stop))
            with file.open() as subject:
                if where or text:
                    wanted = search(subject, where=where, text=text)
                while numbers := list(islice(wanted, ROWS)):
                    with file.paging() as pages:
                        found = pages.take(numbers)
                    yield from found
                    if len(found) < len(numbers):
                        break

        with file.paging() as pages:
            columns = pages.columns
        found = rows()
        # A condition that is wrong is refused before anything is sent.
        first = list(islice(found, 1))
        lines = (
            line.encode(errors="replace") for line in exports.csv_of(chain(first, found), columns)
        )
        return Answer(lines, "text/csv; charset=utf-8", name=safe_name(file.name, "csv"))


def row_cells(row: Row, columns: Sequence[str]) -> Mapping[str, Any]:
    """A row as the page gets it."""
    cells: list[Cell] = [present(row.values.get(name)) for name in columns] if row.values else []
    return {"number": row.number, "cells": cells, "problem": row.problem}
