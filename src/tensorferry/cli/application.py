"""The application: the table of commands, which load on first use.

`tensorferry.cli.running` runs it.
"""

from __future__ import annotations

import inspect
import os
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING

import click

from tensorferry.cli import options, output, signals
from tensorferry.cli.examples import EXAMPLES
from tensorferry.cli.failures import DEBUG, FINE
from tensorferry.cli.hints import VOCABULARY

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "info": ("info", "what is in files: format, tensors or records, metadata"),
    "ls": ("listing", "tensors, features or columns with dtype, shape and size"),
    "tree": ("listing", "the same as a tree, repeated layers once"),
    "show": ("show", "the values of a tensor or of a slice of it"),
    "view": ("view", "all of it in a browser; two files are compared"),
    "head": ("rows", "the first rows of records or tables"),
    "tail": ("rows", "the last rows"),
    "cat": ("rows", "all rows"),
    "count": ("count", "the number of rows or tensors"),
    "verify": ("verify", "check every checksum, offset and length"),
    "diff": ("diff", "what differs between two files, whatever their formats"),
    "hash": ("hash", "a digest of the content that no format changes"),
    "convert": ("convert", "from one format into another"),
    "edit": ("edit", "drop, rename, set or cast tensors of a file, and its metadata"),
    "stats": ("stats", "range, mean, quantiles, zeros and NaN of each tensor or column"),
    "schema": ("schema", "what records and tables are made of: tf, tfmd, arrow, json"),
    "repair": ("records", "keep every whole record of a damaged TFRecord file"),
    "index": ("records", "write an index beside TFRecord files"),
    "slice": ("arranging", "some rows into a new file: by number, or by a condition"),
    "sample": ("arranging", "some rows at random into a new file"),
    "shuffle": ("arranging", "all rows in a random order"),
    "split": ("arranging", "rows into several files: at random by a ratio, or as shards"),
    "merge": ("arranging", "files of rows into one"),
    "sql": ("sql", "a query over files of rows"),
    "bench": ("bench", "a file or a tensor in every format: size, times, what to choose"),
    "formats": ("formats", "what can be read and written here"),
    "help": ("help", "what a command does, and its options"),
    "completion": ("completion", "completion for bash, zsh and fish"),
}
"""Of each command: its module, and one line about it."""


class Application(click.Group):
    """The group of all commands; a path in the place of a command means `info`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Loads a command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"tensorferry.cli.{COMMANDS[cmd_name][0]}")
        command = vars(module)[f"{cmd_name}_command"]
        assert isinstance(command, click.Command)
        if not any("--quiet" in param.opts for param in command.params):
            command.params += options.common()
            lines = "\n".join(f"  {example}" for example in EXAMPLES.get(cmd_name, ()))
            # Click leaves the lines behind \b as they are.
            command.help = f"\b\n{lines}\n\n{inspect.cleandoc(command.help or '')}"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands, and files: `ferry FILE` is a command, too."""
        from click.shell_completion import CompletionItem

        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            return found
        # First, because bash's script forgets what came before it.
        return [CompletionItem(incomplete, type="file"), *found]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant: `ferry FILE` is `ferry info FILE`."""
        name = args[0]
        if name not in COMMANDS:
            if not _is_path(name):
                import difflib

                near = difflib.get_close_matches(name, COMMANDS, n=1)
                hint = f"did you mean `ferry {near[0]}`?" if near else "see `ferry --help`"
                raise click.UsageError(f"no file or command is called {name!r}\nhint: {hint}")
            args = ["info", *args]
        output.SCREEN.begin(args[0])
        found = super().resolve_command(ctx, args)
        if found[1] is not None:
            VOCABULARY.begin(
                _options_of(found[1]), lambda: _options_of(self.get_command(ctx, "convert"))
            )
        return found


def _options_of(command: click.Command | None) -> list[str]:
    return [name for param in command.params for name in param.opts] if command else []


def _is_path(name: str) -> bool:
    return (
        name == "-"
        or os.path.lexists(name)
        or any(mark in name for mark in ("/", ".", "*", "@", os.sep))
    )


@click.group(
    cls=Application,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("-V", "--version", is_flag=True, help="Print the version.")
@click.option("--debug", is_flag=True, help="Show where an error came from.")
@click.pass_context
def application(context: click.Context, version: bool, debug: bool) -> int:
    """Tensors, datasets and models: what is in files, whether they are sound, and conversion.

    `ferry FILE` alone is `ferry info FILE`. A path may be a file, a glob, a directory, "name@10"
    for a set of shards, a URL, or "-" for the standard input.
    """
    if version:
        import tensorferry

        click.echo(f"ferry {tensorferry.__version__}")
    elif context.invoked_subcommand is None:
        click.echo(context.get_help())
    return FINE


application.params += options.common()


_PRINTING = frozenset({"help", "completion", "formats", "--version", "-V", "--help", "-h"})


def _reads(given: list[str]) -> bool:
    """Whether files may be read; what only prints something is to be quick."""
    return _PRINTING.isdisjoint(given)


def invoke(given: list[str], *, debug: bool) -> int:
    """Runs the command that arguments name, and gives its exit code."""
    try:
        with (
            options.limits_kept(),
            application.make_context("ferry", given, obj=DEBUG if debug else None) as context,
            signals.cuts_raised() if _reads(given) else nullcontext(),
        ):
            code = application.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return code if isinstance(code, int) else FINE
