"""Completing: what a shell offers behind a command: files, and the names inside of one.

A shell asks while a person types: whatever is wrong with a file, the answer is silence.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# More than anyone reads; a shell would ask before it shows them.
MOST = 2000

DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")


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
    several = parameter.name in ("select", "by", "drop")
    before, comma, last = typed.rpartition(",") if several else ("", "", typed)
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


def old_names(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """The names of tensors in front of a sign: OLD of OLD=NEW."""
    return [] if "=" in typed else names(context, parameter, typed)


def formats(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The formats."""
    from tensorferry.formats.table import TABLE

    return _fitting(TABLE, typed)


def formats_of_rows(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """The formats that rows are written in."""
    from tensorferry.formats import table

    return _fitting(table.streamable(), typed)


def compressions(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """How files of any format are compressed."""
    from tensorferry.formats.table import TABLE

    own = sorted({kind for facts in TABLE.values() for kind in facts.compressions})
    return _fitting([*own, "none"], typed)


def dtypes(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The dtypes that tensors are cast to; behind a name as in NAME=DTYPE, too."""
    before, equals, _last = typed.rpartition("=") if parameter.name == "casts" else ("", "", typed)
    if parameter.name == "casts" and not equals:
        return names(context, parameter, typed)
    return _fitting([f"{before}{equals}{name}" for name in DTYPES], typed)


def quantizations(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """How floats are made smaller."""
    from tensorferry.codecs.quantization import KINDS

    return _fitting(KINDS, typed)


def limits(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The limits that can be raised, with a size."""
    return _fitting(["memory=16GB", "stream=16GB", "depth=1000"], typed)


def reading_options(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """The options that formats are read with, and their values where they are few."""
    from typing import get_args, get_type_hints

    from tensorferry.files.keywords import Opening

    found: list[str] = []
    for name, hint in get_type_hints(Opening).items():
        choices = [one for part in get_args(hint) for one in get_args(part) if one is not None]
        kinds = get_args(hint) or (hint,)
        if bool in kinds:
            choices = ["true", "false"]
        words = [one for one in choices if isinstance(one, str)]
        found += [f"{name}={word}" for word in words] or [f"{name}="]
    return _fitting(found, typed)


def _fitting(values: Iterable[str], typed: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(value) for value in values if value.startswith(typed)]


def _path_in(context: click.Context) -> str | None:
    """The file among the arguments of a command."""
    given: dict[str, Any] = context.params
    for key in ("path", "first", "source"):
        if isinstance(given.get(key), str):
            return str(given[key])
    # Behind an option whose value is being typed, arguments are left as they are.
    paths = given.get("paths") or context.args
    return str(paths[0]) if paths else None
