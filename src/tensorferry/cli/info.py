"""`ferry info`: what is in files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import options as shared, output, text
from tensorferry.cli.failures import Inputs, name_of
from tensorferry.errors import Problem
from tensorferry.operations.inspect import FileInfo

if TYPE_CHECKING:
    from tensorferry.files.find import Found

NOUNS = {"tensors": "tensor", "records": "record", "rows": "row"}

# The most columns and problems that are named.
NAMED = 12


@click.command("info")
@shared.paths
@shared.reading
@shared.as_json
def info_command(
    paths: tuple[str, ...], format: str | None, options: dict[str, Any], as_json: bool
) -> int:
    """What is in files: format, number of tensors or records, dtypes, size, metadata.

    Of a model also signatures, ops and assets, and what it would do when it is loaded.

    The exit code is 1 if something is wrong at a glance; `ferry verify` looks closer.
    """
    from tensorferry.operations.inspect import inspect

    def work(given: Found | str) -> FileInfo:
        with output.waiting(name_of(given), "records") as progress:
            return inspect(given, format=format, progress=progress, **options)

    inputs = Inputs(paths)
    found: list[FileInfo] = []
    for info in inputs.each(work):
        if not as_json:
            if found:
                output.line()
            shared.echo(render(info))
        found.append(info)
    if as_json:
        from tensorferry.operations.plain import plain

        extra = [{"dtypes": info.dtypes, "elements": info.elements} for info in found]
        trees = [{**plain(info), **more} for info, more in zip(found, extra, strict=True)]
        inputs.echo_json("info", files=trees)
    return inputs.code or (1 if any(info.problems for info in found) else 0)


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
    from tensorferry.cli.listing import WORDS, in_memory, unreadable
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
