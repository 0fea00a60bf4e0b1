"""`ferry info FILE`, or `ferry FILE`, of what is known at a glance: without click.

Importing click takes longer than looking into a SavedModel, a checkpoint or a header. A call with
one local file and no option is answered here, if nothing is wrong with it. Everything else, and
every error, is for `tensorferry.cli.application`.
"""

from __future__ import annotations

from tensorferry.cli import output, signals
from tensorferry.cli.facts import render

COMMAND = "info"


def info(given: list[str]) -> int | None:
    """Prints what is in a file, and gives the exit code; None if that is not for a glance.

    Args:
        given: The arguments of the command.
    """
    path = _path_in(given)
    if path is None or "://" in path:
        return None
    with signals.cuts_raised():
        try:
            from tensorferry.operations.fileinfo import glance_at
            from tensorferry.operations.glance import find_one

            with output.waiting(path):
                found = glance_at(find_one(path))
        except Exception:  # which comes again, where it is told
            return None
    if found is None:
        return None
    output.SCREEN.begin(COMMAND)
    output.lines(render(found))
    return 1 if found.problems else 0


def _path_in(given: list[str]) -> str | None:
    """The file of a call that has nothing else."""
    if len(given) == 2 and given[0] == COMMAND:
        return None if given[1].startswith("-") else given[1]
    if len(given) != 1 or given[0].startswith("-"):
        return None
    # No command has such a name.
    return given[0] if "/" in given[0] or "." in given[0] else None
