"""Options that several commands have, and how they print."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tensorferry.cli import completing, output

if TYPE_CHECKING:
    from tensorferry.files.find import Found

Function = TypeVar("Function", bound=Callable[..., Any])


def as_json(function: Function) -> Function:
    """`--json`: the result as one JSON document."""
    option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    return option(function)


def reading(function: Function) -> Function:
    """How inputs are read: `--format` and `--option`."""
    function = click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_parse_options,
        help="Of the format, as in --option dtype=float32 --option shape=[2,3] for raw bytes.",
    )(function)
    return click.option(
        "--format", metavar="NAME", help="The format, if it is not recognised: see `ferry formats`."
    )(function)


def paths(function: Function) -> Function:
    """The inputs of a command."""
    return click.argument(
        "paths",
        nargs=-1,
        required=True,
        metavar="PATH...",
        shell_complete=completing.files,
    )(function)


def _parse_options(context: Any, parameter: Any, given: tuple[str, ...]) -> dict[str, Any]:
    import json

    options: dict[str, Any] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--option {pair!r} is not of the form NAME=VALUE")
        try:
            options[name] = json.loads(text)
        except ValueError:
            options[name] = text
    return options


def echo(lines: Iterable[str]) -> None:
    """Prints lines."""
    output.lines(lines)


def echo_json(command: str, **parts: Any) -> None:
    """Prints a JSON document."""
    from tensorferry.cli import documents

    output.block(documents.document(command, **parts))


def parse_sizes(text: str) -> tuple[int, ...]:
    """The shape in "2,3" or "[2, 3]"."""
    try:
        return tuple(int(part) for part in text.strip("[]() ").split(",") if part.strip())
    except ValueError:
        raise click.UsageError(f"a shape is {text!r}, expected numbers as in 2,3") from None


def one_input(path: str) -> Found:
    """The one input that a path names.

    Raises:
        UsageError: It names several.
    """
    from tensorferry.files import find as inputs

    found = inputs.find([path])
    if len(found) > 1:
        raise click.UsageError(
            f"{path} is {len(found)} files, expected one\nhint: such as {found[0].name}"
        )
    return found[0]


def together(inputs: list[Found]) -> Found | None:
    """Several inputs as one: those of rows of one format, in their order; None if they are not."""
    from tensorferry.files.find import Found, rows_format

    if len(inputs) == 1:
        return inputs[0]
    places = tuple(place for found in inputs for place in found.places)
    formats = {rows_format(place.path) for place in places}
    if len(formats) != 1 or None in formats:
        return None
    return Found(f"{places[0].path} and {len(places) - 1} more", places, *formats)
