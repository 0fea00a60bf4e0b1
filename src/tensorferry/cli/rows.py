"""`ferry head`, `tail` and `cat`: rows as a table, or a JSON object a line in a pipe."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

from tensorferry.cli import completing, documents, options as shared, output, text
from tensorferry.cli.cells import cell, is_number
from tensorferry.cli.options import Function

# Beyond so many rows a table of them would have to be made in memory: then each part has its own.
PART = 200

_COUNT = re.compile(r"^-([0-9]+)$")


class Counting(click.Command):
    """A command that takes `-5` for `-n 5`, as `head` of the system does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the arguments."""
        return super().parse_args(ctx, [_COUNT.sub(r"-n\1", argument) for argument in args])


def _row_options(limit: int | None) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        steps: tuple[Callable[[Function], Function], ...] = (
            shared.as_json,
            shared.form,
            shared.reading,
            click.option(
                "--extract", metavar="DIR", help="Save images of the rows as files into DIR."
            ),
            click.option("--raw", is_flag=True, help="See records as bytes."),
            shared.where,
            shared.selecting("Only these columns, in this order"),
            click.option(
                "-n",
                "limit",
                type=click.IntRange(0),
                default=limit,
                show_default=limit is not None,
                help="How many rows.",
            ),
            click.argument("path", shell_complete=completing.files),
        )
        for step in steps:
            function = step(function)
        return function

    return decorate


@click.command("head", cls=Counting)
@_row_options(10)
def head_command(**given: Any) -> None:
    """The first rows: a table on a terminal, one JSON object a line in a pipe.

    A condition compares columns with values: --where 'label in (3, 5) and 0 < score <= 1',
    'not len(tokens) > 9', 'name ~ "^the "', 'text is not null'.
    """
    _print("head", **given)


@click.command("tail", cls=Counting)
@_row_options(10)
def tail_command(**given: Any) -> None:
    """The last rows, as `ferry head` has the first."""
    _print("tail", last=True, **given)


@click.command("cat", cls=Counting)
@_row_options(None)
def cat_command(**given: Any) -> None:
    """All rows, as `ferry head` has the first."""
    _print("cat", **given)


def _print(
    command: str,
    path: str,
    select: tuple[str, ...],
    extract: str | None,
    options: dict[str, Any],
    as_json: bool,
    to: str | None,
    raw: bool,
    **given: Any,
) -> None:
    from tensorferry.operations.select import select as select_rows

    options = {"columns": select or None, "raw": raw or None, **options}
    rows = select_rows(shared.one_input(path), dates=True, omit=output.left_out, **given, **options)
    if extract is not None:
        from tensorferry.operations import images

        rows = images.extract(rows, extract)
    print_rows(command, rows, as_json, to)
    if extract is not None and not os.listdir(extract):
        output.report(f"{text.clean(extract)}: empty, because there is no image in these rows")


def print_rows(
    command: str, rows: Iterator[dict[str, Any]], as_json: bool, to: str | None = None
) -> None:
    """Prints rows as the user wants them: a table for a terminal, else a JSON object a line.

    Args:
        command: Whose rows they are.
        rows: Of the same columns.
        as_json: As one document.
        to: As "csv", "jsonl" or "markdown".
    """
    if as_json and to is not None:
        raise click.UsageError("--json and --to are two forms, expected one")
    if to == "csv":
        from tensorferry.operations.exports import csv_lines

        for line in csv_lines(rows):
            output.exact(line.removesuffix("\r\n"))
    elif to == "markdown":
        output.lines(_markdown(rows))
    elif as_json:
        _print_document(command, rows)
    elif to == "jsonl" or (not text.is_terminal() and not text.MANNER.expanded):
        for lines in documents.lines(rows):
            output.lines(lines)
    else:
        _print_table(rows)


def _markdown(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    """A table in Markdown, row by row."""
    for number, row in enumerate(rows):
        if not number:
            yield _piped(row)
            yield _piped("--:" if is_number(value) else "---" for value in row.values())
        yield _piped(map(cell, row.values()))


def _piped(cells: Iterable[str]) -> str:
    escaped = (text.clean(one).replace("\\", "\\\\").replace("|", "\\|") for one in cells)
    return f"| {' | '.join(escaped)} |"


def _print_document(command: str, rows: Iterator[dict[str, Any]]) -> None:
    """The document, row by row: there may be more than fit into memory.

    It begins with the first row, so that a file that cannot be read leaves nothing behind.
    """
    start = json.dumps({"version": documents.VERSION, "command": command})
    before = f'{start[:-1]}, "rows": [\n'
    for lines in documents.lines(rows):
        for line in lines:
            output.block(before + line)
            before = ","
    output.block("]}" if before == "," else f"{before}]}}")


def _print_table(rows: Iterator[dict[str, Any]]) -> None:
    """Prints a table, or one for each so many rows; what was read before an error is printed."""
    part: list[dict[str, Any]] = []
    found = False
    try:
        for row in rows:
            found = True
            part.append(row)
            if len(part) == PART:
                shared.echo(_table(part).lines())
                part = []
    finally:
        if part:
            shared.echo(_table(part).lines())
    if not found:
        output.line(text.paint("no rows", "dim"))


def _table(rows: list[dict[str, Any]]) -> text.Table:
    """Rows of the same columns: numbers to the right, and no column left out."""
    names = list(rows[0])
    right = [
        place
        for place, name in enumerate(names)
        if all(row[name] is None or is_number(row[name]) for row in rows)
    ]
    table = text.Table(names, right=right, flexible=range(len(names)), cut_ends=True, whole=True)
    for row in rows:
        table.add(*map(cell, row.values()))
    return table
