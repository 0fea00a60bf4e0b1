"""The reference of all commands, docs/cli.md, made of the commands themselves.

python -m tensorferry.cli.reference > docs/cli.md
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from tensorferry.cli.application import COMMANDS, application

INTRODUCTION = """\
# The command `ferry`

This page is made by `python -m tensorferry.cli.reference`; the tests hold that it is up to date.

A path is a file, a glob in quotes, a directory, `name@10` for a set of shards, a URL, or `-` for
the standard input. TFRecord files of one pattern, directory or set are one input. `ferry FILE`
alone is `ferry info FILE`.

Results go to the standard output, everything else to the standard error. On a terminal tables fit
its width; in a pipe nothing is cut, and `head`, `tail` and `cat` write one JSON object a line.
Every command has `--json`: one document with the fields `version` (1) and `command`. Colours and
progress are for terminals, and `NO_COLOR` turns colours off. An error is one to three lines;
`--debug` shows where it came from.

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
    yield inspect.cleandoc(command.help or "")
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    yield ""
    yield "| option | |"
    yield "|---|---|"
    for option in options:
        value = "" if option.is_flag else f" {_value(option)}"
        help_text = (option.help or "").replace("|", "\\|")
        yield f"| `{', '.join(option.opts)}{value}` | {help_text} |"


def _value(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "\\|".join(map(str, option.type.choices))
    return "NUMBER" if option.type.name.startswith(("int", "float")) else "TEXT"


if __name__ == "__main__":
    print(reference(), end="")
