"""The command `ferry`: parses, calls one operation, renders what it gives, sets the exit code.

`application` has the commands and what happens to errors, `options` what commands have in common,
`text` and `plain` turn results into tables and JSON; each other module is a command or a few.
Exit codes: 0 fine, 1 differences or problems found, 2 wrong use or unreadable input, 3 a missing
extra, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command, and gives its exit code.

    Args:
        arguments: By default those of the process.
    """
    try:
        from tensorferry.cli import application
    except KeyboardInterrupt:
        return 130
    return application.run(arguments)
