"""Failures: what an error says on the standard error, and the exit code it means.

Of several inputs, one that cannot be read does not stop the others: its error is printed, the
command goes on, and the exit code at the end is that of the worst error.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tensorferry.cli import output
from tensorferry.cli.examples import EXAMPLES
from tensorferry.cli.hints import for_command, for_missing, in_our_words
from tensorferry.errors import FerryError, MissingExtraError, Problem

if TYPE_CHECKING:
    from tensorferry.files.find import Found

FINE, FOUND, WRONG, MISSING = 0, 1, 2, 3

# The most damages that are named.
LISTED = 20

Result = TypeVar("Result")


def fail(error: Exception) -> int:
    """Says what went wrong, and gives the exit code for it."""
    if isinstance(error, click.ClickException):
        message = _unknown(error) or in_our_words(error.format_message())
        output.say(message)
        context = error.ctx if isinstance(error, click.UsageError) else None
        if context is not None and "hint:" not in message:
            output.note(f"hint: {_example(context, message)}")
        return WRONG
    if isinstance(error, FerryError):
        error.hint = for_command(error.hint, error.path)
        output.say(str(error))
        return MISSING if isinstance(error, MissingExtraError) else WRONG
    output.say(_describe(error))
    return WRONG


def _unknown(error: click.ClickException) -> str | None:
    """What is said of an option that there is not, with the nearest one."""
    if not isinstance(error, click.NoSuchOption):
        return None
    from difflib import get_close_matches

    near = get_close_matches(error.option_name, error.possibilities or (), n=1, cutoff=0.0)
    hint = f"\nhint: did you mean {near[0]}?" if near else ""
    return f"no such option {error.option_name!r}{hint}"


def _example(context: click.Context, message: str) -> str:
    """How a command is called."""
    found = EXAMPLES.get(context.info_name or "")
    extra = message.partition("no more arguments, found ")[2].split()
    takes_one = any(param.name == "path" for param in context.command.params)
    if extra and takes_one and all(map(os.path.exists, extra)):
        # Most often the shell has made them of a pattern.
        return f"in quotes, a pattern is one input: `{context.command_path} 'train-*'`"
    more = f"`{context.command_path} --help`"
    return more if found is None else f"as in `{found[0]}`; see {more}"


def _describe(error: Exception) -> str:
    """An error that is none of ours, on one line or two."""
    if isinstance(error, OSError):
        name = error.filename
        text = (error.strerror or str(error)).replace(" (force=True)", "")
        if isinstance(error, FileNotFoundError) and "no such" not in text.lower():
            text = f"no such file: {text}"
        if error.errno == errno.ENOSPC:
            text += "\nhint: make room, or write to another place; what was there is still whole"
        elif error.errno == errno.ENOENT and isinstance(name, str):
            hint = for_missing(name)
            text += f"\nhint: {hint}" if hint else ""
        return f"{os.fsdecode(name)}: {text}" if isinstance(name, str | bytes) else text
    if isinstance(error, MemoryError):
        return "there is not enough memory for it"
    text = str(error).strip().splitlines()[0] if str(error).strip() else "no more is known"
    return f"{type(error).__name__}: {text[:300]}\nhint: run it again with --debug to see where"


class Inputs:
    """What the paths of a command name, one after the other, and the errors on the way.

    Args:
        paths: As the user gave them.
        every: A folder of checkpoints names all of them, and not only the latest.

    Attributes:
        errors: What was wrong with inputs.
        code: The exit code of the worst error so far.
    """

    def __init__(self, paths: Iterable[str], *, every: bool = False) -> None:
        self.errors: list[Problem] = []
        self.code = FINE
        self._inputs = _find(list(paths), every)

    def __len__(self) -> int:
        return len(self._inputs)

    def each(self, work: Callable[[Found | str], Result]) -> Iterator[Result]:
        """What some work gives for each input that can be read.

        Args:
            work: Takes what was found, or a path that names nothing: the error is its own.
        """
        for given in self._inputs:
            try:
                result = work(given)
            except Exception as error:
                self.note(error, name_of(given))
            else:
                yield result

    def all_found(self) -> list[Found]:
        """The inputs; the errors of paths that name nothing are printed."""
        from tensorferry.files.find import resolve

        return list(self.each(resolve))

    def readable(self) -> list[Found]:
        """The inputs that can be opened; the errors of the others are printed."""
        from tensorferry.files.find import resolve
        from tensorferry.operations.subject import open_one

        def opened(given: Found | str) -> Found:
            found = resolve(given)
            open_one(found).close()
            return found

        return list(self.each(opened))

    def leave_out(self, damages: Iterable[Problem]) -> int:
        """Prints what was left out of inputs, and gives the exit code."""
        every = list(damages)
        for damage in every[:LISTED]:
            output.say(f"left out: {damage}")
        if len(every) > LISTED:
            output.say(f"and {len(every) - LISTED} more")
        self.errors += every
        self.code = max(self.code, WRONG if every else FINE)
        return self.code

    def echo_json(self, command: str, **parts: Any) -> None:
        """Prints the JSON document of a command, with the errors if there are any.

        Nothing is printed if there was one input, which could not be read.
        """
        if self.errors and len(self) == 1:
            return
        from tensorferry.cli.options import echo_json

        errors = {"errors": self.errors} if self.errors else {}
        echo_json(command, **parts, **errors)

    def note(self, error: Exception, name: str) -> None:
        """Prints the error of an input; raises it if the command cannot go on, or with --debug."""
        is_stop = isinstance(error, BrokenPipeError | click.ClickException)
        if is_stop or click.get_current_context().find_root().obj == DEBUG:
            raise error
        sys.stdout.flush()  # so that the error stands where it belongs
        self.code = max(self.code, fail(error))
        if isinstance(error, FerryError):
            self.errors.append(Problem.of(error, name))
        else:
            self.errors.append(Problem(_describe(error), name))


def name_of(given: Found | str) -> str:
    """An input, as the user named it."""
    return given if isinstance(given, str) else given.name


def _find(paths: list[str], every: bool) -> list[Found | str]:
    from tensorferry.files.find import find

    try:
        return [*find(paths, every=every)]
    except (FerryError, OSError):
        if len(paths) == 1:
            return [*paths]
    return [given for path in paths for given in _find([path], every)]


DEBUG = "debug"
"""The object of the context of a run that shows where errors come from."""
