"""Questions about tensors: distributions, and what a screen shows of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Literal

from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.operations import exports, planes, snippets
from tensorferry.operations.cells import expand, present
from tensorferry.operations.distribution import distribution
from tensorferry.operations.subject import Subject
from tensorferry.tensors.infos import TensorInfo
from tensorferry.viewer.answers import Answer, of_arrays, of_json
from tensorferry.viewer.files import File
from tensorferry.viewer.jobs import Job
from tensorferry.viewer.listing import NAMED, listed
from tensorferry.viewer.queries import Query
from tensorferry.viewer.shown import Question, Shown, safe_name

SAMPLED = 1 << 22
"""Up to how many values a distribution is exact at once; of more, a sample comes first."""

ROWS = 500
"""The most rows of a tensor that are listed at once."""


class TensorQuestions:
    """Answers questions about tensors."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def questions(self) -> Mapping[str, Question]:
        """The questions by name."""
        return {
            "tensor": self.tensor,
            "distribution": self.distribution,
            "plane": self.plane,
            "line": self.line,
            "picture": self.picture,
            "filters": self.filters,
            "values": self.values,
            "statistics": self.statistics,
            "download": self.download,
        }

    def _tensor(self, query: Query, subject: Subject, file: File) -> tuple[str, TensorInfo]:
        name = file.name_at(query.number("tensor", 0))
        subject.check_names([name])  # the file may have been replaced
        return name, subject.infos[name]

    def tensor(self, query: Query) -> Answer:
        """What a tensor is, and how its values are spread, at once."""
        file = self._shown.file(query)
        with file.reading() as subject:
            name, info = self._tensor(query, subject, file)
            found = None
            if info.unreadable is None:
                found = distribution(subject, name, most=SAMPLED)
            return of_json(
                {
                    **listed(query.number("tensor", 0), info),
                    "origin": expand(dict(info.origin))[0],
                    "arrangement": planes.arrangement(info),
                    "distribution": found,
                    "copy": snippets.of_tensor(file.name, name),
                }
            )

    def distribution(self, query: Query) -> Answer:
        """How all values of a large tensor are spread: a job."""
        file, number = self._shown.file(query), query.number("tensor", 0)
        name = file.name_at(number)

        def work(job: Job) -> Iterator[Any]:
            with file.open() as subject:
                yield distribution(subject, name, progress=job.progress)

        job = self._shown.jobs.get(("distribution", file.key, number), work)
        return of_json(job.since(query.number("after", 0)))

    def plane(self, query: Query) -> Answer:
        """A heat map of a window of two axes."""
        file = self._shown.file(query)
        with file.reading() as subject:
            name, _ = self._tensor(query, subject, file)
            found = planes.plane(subject, name, **plane_options(query))
        head = {
            "window": found.window,
            "steps": found.steps,
            "whole": found.whole,
            "shape": found.shape,
            "copy": snippets.of_tensor(file.name, name, index_of(query, found)),
        }
        return of_arrays(head, values=found.values)

    def line(self, query: Query) -> Answer:
        """The values of a tensor of one axis."""
        file = self._shown.file(query)
        window = query.numbers("window", most=2)
        with file.reading() as subject:
            name, _ = self._tensor(query, subject, file)
            chosen = None if window is None or len(window) != 2 else (window[0], window[1])
            points = query.number("points", 1024, least=1, most=4096)
            found = planes.line(subject, name, window=chosen, most=points)
        head = {"window": found.window, "step": found.step, "size": found.size}
        return of_arrays(head, low=found.low, high=found.high)

    def picture(self, query: Query) -> Answer:
        """The pixels of a tensor that is an image."""
        file = self._shown.file(query)
        with file.reading() as subject:
            name, info = self._tensor(query, subject, file)
            arranged = planes.arrangement(info)
            if arranged.look != "image":
                raise UnsupportedError("the tensor is no image", tensor=name[:NAMED])
            most = query.number("most", 512, least=1, most=1024)
            found = planes.picture(subject, name, arranged, at=query.axes("at"), most=most)
        return of_arrays({"shape": info.shape}, values=found)

    def filters(self, query: Query) -> Answer:
        """Filters of a convolution."""
        file = self._shown.file(query)
        with file.reading() as subject:
            name, info = self._tensor(query, subject, file)
            arranged = planes.arrangement(info)
            if arranged.look != "tiles":
                raise UnsupportedError("the tensor has no filters", tensor=name[:NAMED])
            first = query.numbers("first", most=2) or [0, 0]
            most = query.numbers("most", most=2) or [16, 16]
            sizes = (min(max(most[0], 1), 64), min(max(most[-1], 1), 64))
            found = planes.filters(subject, name, arranged, first=(first[0], first[-1]), most=sizes)
        return of_arrays({"shape": info.shape}, values=found)

    def values(self, query: Query) -> Answer:
        """The values of a tensor that is no plane of numbers, row by row."""
        file = self._shown.file(query)
        start, count = query.number("start", 0), query.number("count", 100, most=ROWS)
        with file.reading() as subject:
            name, _ = self._tensor(query, subject, file)
            found = planes.entries(subject, name, start, count)
            cells = list(map(present, found.values))
        return of_json({"size": found.size, "places": found.places, "cells": cells})

    def statistics(self, query: Query) -> Answer:
        """Statistics of all tensors, one after the other: a job."""
        file = self._shown.file(query)

        def work(job: Job) -> Iterator[Any]:
            with file.open() as subject:
                for number, name in enumerate(file.names):
                    job.progress(number, len(file.names))
                    if name not in subject.unreadable:
                        yield {"tensor": number, **_statistics(subject, name)}
            job.progress(len(file.names), len(file.names))

        job = self._shown.jobs.get(("statistics", file.key), work)
        found = job.since(query.number("after", 0))
        return of_json({**found, "copy": snippets.of_statistics(file.name)})

    def download(self, query: Query) -> Answer:
        """A tensor as a npy file."""
        file = self._shown.file(query)
        name = file.name_at(query.number("tensor", 0))
        pieces = _npy(file, name)
        first = next(pieces)  # a tensor that cannot be written is refused before anything is sent
        return Answer(chain([first], pieces), "application/x-npy", name=safe_name(name, "npy"))


def _statistics(subject: Subject, name: str) -> Mapping[str, Any]:
    try:
        found = distribution(subject, name)
    except FerryError as error:
        return {"error": error.message[:500]}
    return {"values": found.summary}


def plane_options(query: Query) -> Any:
    """The options of a plane, as a question has them."""
    window = query.numbers("window", most=4)
    most = query.numbers("most", most=2) or [96, 96]
    reduce: Literal["mean", "largest"] = "largest" if query.text("reduce") == "largest" else "mean"
    return {
        "rows": None if query.text("rows") == "" else query.number("rows", 0),
        "columns": None if query.text("columns") == "" else query.number("columns", 0),
        "at": query.axes("at"),
        "window": None if window is None or len(window) != 4 else tuple(window),
        "most": (min(max(most[0], 1), 1024), min(max(most[-1], 1), 1024)),
        "reduce": reduce,
    }


def index_of(query: Query, found: planes.Plane) -> list[int | slice]:
    """The index of a plane in its tensor, to be copied; empty for all of a matrix."""
    at, rows, columns = query.axes("at"), query.text("rows"), query.text("columns")
    rank = query.number("rank", 2, most=64)
    if rank < 2:
        return []
    down = int(rows) if rows.isdecimal() else rank - 2
    across = int(columns) if columns.isdecimal() else rank - 1
    first, last, left, right = found.window
    index: list[int | slice] = [at.get(axis, 0) for axis in range(rank)]
    whole = (first, last, left, right) == (0, found.shape[0], 0, found.shape[1])
    if whole and rank == 2:
        return []
    if down < rank:
        index[down] = slice(None) if last - first == found.shape[0] else slice(first, last)
    if across < rank:
        index[across] = slice(None) if right - left == found.shape[1] else slice(left, right)
    return index


def _npy(file: File, name: str) -> Iterator[bytes]:
    with file.open() as subject:
        yield from exports.npy(subject, name)
