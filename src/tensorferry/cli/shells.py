"""Shells: what bash inserts when it completes a name that came out of a file.

click's script for bash inserts names as they are: Enter behind a tensor called `a;touch x` would
run `touch`. Here every character that bash may take for more than itself has a backslash before it,
and the script hands names on without splitting or expanding them. zsh and fish quote names
themselves.
"""

from __future__ import annotations

import re

from click.shell_completion import BashComplete, CompletionItem, add_completion_class

_SPECIAL = re.compile(r"[^\w./:=@%+,\-]", re.ASCII)

_SCRIPT = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=',' read -r type value; do
        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=("$value")
        fi
    done < <(IFS=$'\\n'; env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
        %(complete_var)s=bash_complete "$1")
    return 0
}

%(complete_func)s_setup() {
    complete -o nosort -F %(complete_func)s %(prog_name)s
}

%(complete_func)s_setup;
"""


class Bash(BashComplete):
    """Completion for bash, with names that are quoted."""

    source_template = _SCRIPT

    def format_completion(self, item: CompletionItem) -> str:
        """A line of the answer."""
        return f"{item.type},{quote(item.value) if item.type == 'plain' else item.value}"


def quote(name: str) -> str:
    r"""A name as bash reads it back: `a\;touch\ x`."""
    return _SPECIAL.sub(lambda found: _quoted(found[0]), name)


def _quoted(character: str) -> str:
    return f"\\{character}" if character.isascii() else character


def register() -> None:
    """Makes click answer bash in this way."""
    add_completion_class(Bash)
