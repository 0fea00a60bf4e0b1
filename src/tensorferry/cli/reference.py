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

`python -m tensorferry.cli.reference` makes this page, and the tests check that it is up to date.

A path is a file, a quoted glob, a directory, `name@10` for a set of shards, a URL, or `-` for the
standard input. TFRecord files of one pattern, directory or set are one input. `ferry FILE` is short
for `ferry info FILE`.

Results go to the standard output, everything else to the standard error. On a terminal, tables fit
the width; in a pipe nothing is cut, and `head`, `tail` and `cat` write one JSON object per line.
Every command has `--json`, which prints one document with the fields `version` (1) and `command`.

Colours, progress and the pager (`PAGER`, `--no-pager`) are used on terminals only. A table that is
too wide is printed as one block of lines per row, as with `-x`. `--no-color` and `NO_COLOR` turn
colours off, `FORCE_COLOR` keeps them in a pipe, and `-q` (`--quiet`) prints only results and
errors. `--limit memory=16GB` raises a limit on what a file may use. Errors take one to three lines;
`--debug` shows the traceback. `ferry help COMMAND` is the same as `ferry COMMAND --help`, and
`ferry -V` prints the version.

Short options mean the same everywhere: `-o` names the output instead of the argument OUT, `-f`
replaces existing files, and `-s` (`--select`) chooses tensors or columns. `--select` takes names
and patterns, separated by commas or given several times: `*`, `?` and `[abc]` as for files, and
braces as `ferry ls` prints them, `'layers.{0..11}.*'` or `'*.{kernel,bias}'`. Quote patterns, so
that the shell does not expand them. `--match` and `--columns` are former names of `--select` and
still work.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | differences or problems found |
| 2 | wrong use, or input that cannot be read |
| 3 | a package is missing; the message says how to install it |
| 130 | interrupted; nothing is left half-written |

A condition (`--where`) compares columns with values: `label == 3 and not (len(tokens) > 9 or
language != "de")`. It can use `== != < <= > >= in`, `and`, `or`, `not`, parentheses, `name[2]`,
`len(name)` and `null`. Put names with characters other than letters, digits and `_./-` in
backquotes.

The digest of `ferry hash` covers names, dtypes, shapes and values, and does not depend on the
format; `tensorferry/operations/hash.py` describes how it is computed.
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
