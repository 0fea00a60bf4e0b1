"""The reference of all commands, docs/cli.md, made of the commands themselves.

python -m tensorferry.cli.reference > docs/cli.md
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from tensorferry.cli.application import COMMANDS, application
from tensorferry.cli.options import Renamed, common

INTRODUCTION = """\
# The command `ferry`

This page is made by `python -m tensorferry.cli.reference`; the tests hold that it is up to date.

A path is a file, a glob in quotes, a directory, `name@10` for a set of shards, a URL, or `-` for
the standard input. TFRecord files of one pattern, directory or set are one input. `ferry FILE`
alone is `ferry info FILE`.

Results go to the standard output, everything else to the standard error. On a terminal tables fit
its width; in a pipe nothing is cut, and `head`, `tail` and `cat` write one JSON object a line.
Every command has `--json`: one document with the fields `version` (1) and `command`.

Colours and progress are for terminals, and so is the pager (`PAGER`, `--no-pager`) for what is
longer than the screen. A table that does not fit becomes a block of lines a row, as `-x` asks for.
`--no-color` and `NO_COLOR` turn colours off, `FORCE_COLOR` keeps them in a pipe, and `-q`
(`--quiet`) leaves only results and errors. What a file may ask for is raised with `--limit`, as in
`--limit memory=16GB`. An error is one to three lines; `--debug` shows where it came from.
`ferry help COMMAND` is `ferry COMMAND --help`, and `ferry -V` prints the version.

The same letters mean the same everywhere: `-o` is the file to write, instead of the argument OUT;
`-f` replaces what is there; `-s` (`--select`) says which tensors or columns. `--select` takes names
and patterns, `a,b` or several times: `*`, `?` and `[abc]` as of files, and braces as `ferry ls`
prints them, `'layers.{0..11}.*'` or `'*.{kernel,bias}'`. Patterns stand in quotes, because a shell
has its own meaning for them. `--match` and `--columns` are former names of `--select`; they work.

| exit code | meaning |
|---|---|
| 0 | fine |
| 1 | differences or problems found |
| 2 | wrong use, or input that cannot be read |
| 3 | something has to be installed; the message has the command |
| 130 | interrupted; nothing is left half-written |

A condition (`--where`) compares columns with values: `label == 3 and not (len(tokens) > 9 or
language != "de")`. There are `== != < <= > >= in`, `and`, `or`, `not`, parentheses, `name[2]`,
`len(name)`, `null`, and backquotes around names with other characters than letters, digits and
`_./-`.

The digest of `ferry hash` covers names, dtypes, shapes and values, and does not depend on the
format; how it is made is in `tensorferry/operations/hash.py`.
"""


def reference() -> str:
    """The page."""
    context = click.Context(application, info_name="ferry")
    parts = [INTRODUCTION]
    for name, (_, about) in COMMANDS.items():
        command = application.get_command(context, name)
        assert command is not None
        parts.append("\n".join(_section(command, about)) + "\n")
    return "\n".join(parts)


def _section(command: click.Command, about: str) -> Iterator[str]:
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    names = [parameter.metavar or (parameter.name or "").upper() for parameter in arguments]
    yield f"## ferry {command.name}"
    yield ""
    yield f"`ferry {' '.join([command.name or '', *names])}`: {about}."
    yield ""
    examples, _, about_it = (command.help or "").removeprefix("\b\n").partition("\n\n")
    yield "```sh"
    yield inspect.cleandoc(examples)
    yield "```"
    yield ""
    yield about_it
    everywhere = {name for option in common() for name in option.opts}
    options = [
        parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and not everywhere & set(parameter.opts)
    ]
    yield ""
    yield "| option | |"
    yield "|---|---|"
    for option in options:
        value = "" if option.is_flag else f" {_value(option)}"
        help_text = (option.help or "").replace("|", "\\|")
        yield f"| `{', '.join(_names(option))}{value}` | {help_text} |"


def _names(option: click.Option) -> list[str]:
    return option.shown if isinstance(option, Renamed) else option.opts


def _value(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "\\|".join(map(str, option.type.choices))
    return "NUMBER" if option.type.name.startswith(("int", "float")) else "TEXT"


if __name__ == "__main__":
    print(reference(), end="")
