"""Completing: what a shell offers behind a command: files, and the names inside of one.

A shell asks while a person types: whatever is wrong with a file, the answer is silence.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# More than anyone reads; a shell would ask before it shows them.
MOST = 2000


def files(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The shell's own completion of files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(typed, type="file")]


def names(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The tensors or columns of the file that was named before."""
    from click.shell_completion import CompletionItem

    path = _path_in(context)
    if path is None:
        return []
    # Of several names, as in --select a,b, the last is being typed; so is OLD of OLD=NEW.
    before, comma, last = typed.rpartition(",") if parameter.name == "select" else ("", "", typed)
    found: list[str] = []
    with suppress(Exception):
        from tensorferry.operations.list import list_tensors

        found = [info.name for info in list_tensors(path).tensors]
    # A name with a dash in front would be taken for an option.
    fitting = [
        name
        for name in found
        if name.startswith(last) and name.isprintable() and not name.startswith("-")
    ]
    return [CompletionItem(f"{before}{comma}{name}") for name in fitting[:MOST]]


def _path_in(context: click.Context) -> str | None:
    """The file among the arguments of a command."""
    given: dict[str, Any] = context.params
    for key in ("path", "first", "source"):
        if isinstance(given.get(key), str):
            return str(given[key])
    # Behind an option whose value is being typed, arguments are left as they are.
    paths = given.get("paths") or context.args
    return str(paths[0]) if paths else None
