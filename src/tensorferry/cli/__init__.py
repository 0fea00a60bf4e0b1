"""The command `ferry`: parses, calls one operation, renders what it gives, sets the exit code.

`running` has the way of every run, `application` the commands, `options` what they have in common,
`text` and `plain` turn results into tables and JSON; each other module is a command or a few.
Exit codes: 0 fine, 1 differences or problems found, 2 wrong use or unreadable input, 3 a missing
extra, 130 interrupted.
"""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False  # without `typing`, of which asking for the version needs nothing
if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = (["--version"], ["-V"])
"""The arguments that are answered before anything is imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command, and gives its exit code.

    Args:
        arguments: By default those of the process, which is then about to end.
    """
    collects = gc.isenabled()
    gc.disable()  # imports make no garbage, but objects in which it would be looked for
    try:
        if list(sys.argv[1:] if arguments is None else arguments) in VERSION:
            from tensorferry import __version__

            sys.stdout.write(f"ferry {__version__}\n")
            sys.stdout.flush()
            return 0
        from tensorferry.cli import running

        return running.run(arguments, collects=collects)
    except KeyboardInterrupt:
        return 130
    finally:
        if collects:
            gc.enable()
        if arguments is None:
            gc.freeze()  # Python would look through all objects twice before it ends
