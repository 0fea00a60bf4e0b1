"""What `ferry info` prints of a file, as lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tensorferry.cli import text
from tensorferry.errors import Problem

if TYPE_CHECKING:
    from tensorferry.operations.fileinfo import FileInfo
    from tensorferry.operations.list import Entry, Node

NOUNS = {"tensors": "tensor", "records": "record", "rows": "row"}

# The most columns and problems that are named.
NAMED = 12

# What the columns are called where there is more room.
WORDS = {"size": "size in the file", "count": "tensors"}


def render(info: FileInfo) -> Iterable[str]:
    """A file, as lines."""
    model_fields: Iterable[tuple[str, Any]] = ()
    model_lines: Iterable[str] = ()
    if info.model is not None:
        from tensorferry.cli import model

        model_fields, model_lines = model.fields(info.model), model.lines(info.model)
    yield text.paint(text.clean(info.path), "bold")
    yield from text.fields(
        [
            ("format", " ".join(filter(None, (info.format, info.version)))),
            ("compression", info.compression),
            ("size", _size(info)),
            (info.holds, "" if info.count is None else text.number(info.count)),
            ("values", text.number(info.elements) if info.holds == "tensors" else ""),
            ("dtypes", ", ".join(f"{n} ({count})" for n, count in info.dtypes.items())),
            ("times", ", ".join(f"{name} ({kind})" for name, kind in _times(info).items())),
            ("metadata", _metadata(info)),
            *model_fields,
        ]
    )
    yield from model_lines
    yield from _parts(info)
    for note in info.notes:
        yield text.paint(f"note: {text.clean(note)}", "yellow")
    for problem in info.problems[:NAMED]:
        yield text.paint(f"problem: {describe(problem)}", "red")
    if len(info.problems) > NAMED:
        more = f"and {len(info.problems) - NAMED} problems more: ferry verify {_quoted(info)}"
        yield text.paint(more, "red")


def describe(problem: Problem) -> str:
    """A problem, on one line: where, and what."""
    return str(problem)


def _quoted(info: FileInfo) -> str:
    import shlex

    return text.clean(shlex.quote(info.path))


def _size(info: FileInfo) -> str:
    found = text.size(info.nbytes)
    if len(info.files) > 1:
        found = f"{found} in {text.plural(len(info.files), 'file')}"
    return found


TIME = "tensorferry.type."
"""Stands before the name of a column of times, in the metadata of rows that were opened."""


def _times(info: FileInfo) -> dict[str, str]:
    """The types of columns of times, whose values are integers."""
    found = info.metadata.items() if info.holds == "rows" else ()
    return {name.removeprefix(TIME): kind for name, kind in found if name.startswith(TIME)}


def _metadata(info: FileInfo) -> str:
    if not info.metadata:
        return ""
    import json

    times = _times(info)
    return ", ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, default=str)}"
        for name, value in info.metadata.items()
        if name.removeprefix(TIME) not in times
    )


def _parts(info: FileInfo) -> Iterable[str]:
    """The first tensors or features; `ferry ls` has them all."""
    if not info.tensors:
        return
    from tensorferry.operations.list import collapse

    noun = {"tensors": "tensor", "records": "feature", "rows": "column"}[info.holds]
    # The state of an optimizer is worth the least room.
    entries = sorted(collapse(info.tensors), key=lambda entry: entry.optimizer)
    headers = (noun, "dtype", "shape", "count", "size", "in memory")
    table = text.Table(headers, right=(3, 4, 5), wider=WORDS)
    for entry in entries[:NAMED]:
        sizes = entry.shape if info.holds == "tensors" else entry.shape[1:]
        many = f"{entry.count} x" if entry.count > 1 else ""
        size, memory = text.size(entry.nbytes), in_memory(entry)
        table.add(entry.name, entry.dtype, text.shape(sizes), many, size, memory)
    yield ""
    yield from table.lines()
    yield from unreadable(entries[:NAMED])
    if len(entries) > NAMED:
        more = sum(entry.count for entry in entries[NAMED:])
        yield text.paint(f"and {more:,} more: ferry ls {_quoted(info)}", "dim")


def unreadable(entries: Iterable[Entry]) -> Iterable[str]:
    """The reasons why tensors cannot be read, in full."""
    for entry in entries:
        if entry.unreadable:
            yield text.paint(
                text.clean(f"cannot be read: {entry.name}: {entry.unreadable}"), "yellow"
            )


def in_memory(entry: Entry | Node) -> str:
    """How much the values take in memory, where that is not what they take in the file."""
    return "" if entry.memory == entry.nbytes else text.size(entry.memory)
