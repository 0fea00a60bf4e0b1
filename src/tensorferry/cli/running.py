"""A run of the command, from its arguments to its exit code.

An error is one to three lines on the standard error; `--debug` adds where it came from. What
`tensorferry.cli.glance` cannot answer is for `tensorferry.cli.application`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from tensorferry.cli import glance, output, signals
from tensorferry.cli.text import MANNER

FINE, INTERRUPTED = 0, 130


def run(arguments: Sequence[str] | None = None, *, collects: bool) -> int:
    """Runs the command, and gives its exit code.

    Args:
        arguments: By default those of the process.
        collects: Collect garbage, of which a glance makes none.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a name of a file may be half a character
    MANNER.reset()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "_FERRY_COMPLETE" in os.environ:
        from tensorferry.cli import shells
        from tensorferry.cli.application import application

        shells.register()
        application.main(given, prog_name="ferry")
    debug = "--debug" in given
    # Everywhere, not only before the command.
    given = [argument for argument in given if argument != "--debug"]
    try:
        with signals.raised():
            code = None if debug else glance.info(given)
            if code is None:
                from tensorferry.cli import application as commands

                if collects:
                    gc.enable()
                code = commands.invoke(given, debug=debug)
            output.SCREEN.end()
        sys.stdout.flush()
    except BrokenPipeError:
        output.SCREEN.end()
        # Who reads has what it wants. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        _clean()
        output.SCREEN.end()
        output.say("interrupted")
        return INTERRUPTED
    except signals.Ended as end:
        _clean()
        output.say(f"ended by {end}")
        return end.code
    except Exception as error:
        if debug:
            import traceback

            output.notes("".join(traceback.format_exception(error)).rstrip())
        from tensorferry.cli.failures import fail

        return fail(error)
    return code


def _clean() -> None:
    """Removes temporary files of which nobody knows yet, because the signal came too early."""
    from tensorferry.storage.temporary import remove_all

    remove_all()
