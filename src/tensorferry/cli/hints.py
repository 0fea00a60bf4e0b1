"""Hints: what the library says to those who write Python, for those who write commands.

A hint in the words of a command line works when it is typed: it names the file that the error is
about, and options that commands have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

TERMS = {
    'as in loads(data, format="raw", dtype="float32", shape=[-1, 3])': (
        "as in --option dtype=float32 --option shape=[-1,3]"
    ),
    "name the format: format=...": "name the format with --format; `ferry formats` lists them",
    "format=...": "--format NAME",
    "pass format=, one": "name it with --format or --to: one",
    "name it with --to or format=: one": "name it with --to: one",
    "on_error='skip'": "`--option on_error=skip`",
    "tensorferry.repair(path, target)": "`ferry repair IN OUT`",
    "verify=False gives": "`--option verify=false` gives",
    ", pass paths=, or write like a file": ": --rename 'OLD=layers/dense/vars/0'",
    "use shard_size": "use --shard-size",
    "dtype= makes": "--dtype makes",
    'format="arrow" reads': "--format arrow reads",
    "columns=[...] names those to read": "--select names those to read",
    "leave it out: select= or --select names the others": "leave it out: --select names the others",
    "choose a wider dtype, or quantize=": "choose a wider --dtype, or --quantize",
    "raw=True": "`--option raw=true`",
    'hdf5="h5py" reads': "`--option hdf5=h5py` reads",
    "tags= chooses": "`--option tags=NAME` chooses",
    "drop, rename, set, cast or metadata says what": (
        "--drop, --rename, --set, --cast or --metadata says what"
    ),
    "-o OUT (target=)": "-o OUT",
    "a number of rows is an integer": "-n is a number of rows",
    "raise tensorferry.limits.memory": "raise the limit with --limit memory=16GB",
    "raise tensorferry.limits.stream": "raise the limit with --limit stream=16GB",
    "raise tensorferry.limits.depth": "raise the limit with --limit depth=1000",
    "and keep it with tensorferry.save": "and write safetensors",
    "and keep its arrays with tensorferry.save": "and write its arrays as npz or safetensors",
    "tensorferry.convert turns": "`ferry convert` turns",
}


_OPTION = re.compile(r"`(--option [^`]+)`")


class Vocabulary:
    """The options of the command that runs: a hint names no others."""

    def __init__(self) -> None:
        self._options: frozenset[str] | None = None

    def begin(self, options: Iterable[str]) -> None:
        """Takes the options of a command."""
        self._options = frozenset(options)

    def has(self, option: str) -> bool:
        """Whether the command has an option; without a command, all are there."""
        return self._options is None or option in self._options


VOCABULARY = Vocabulary()


def for_command(hint: str | None, path: str | None = None) -> str | None:
    """A hint in the words of a command line.

    Args:
        hint: As the library has it.
        path: The file that the error is about.
    """
    for python, command in TERMS.items():
        hint = hint and hint.replace(python, command)
    if hint and not VOCABULARY.has("--option"):
        # Another command has it, and writes a file that this one takes.
        hint = _OPTION.sub(r"`ferry convert IN OUT \1`", hint)
    if hint and path:
        import shlex

        hint = hint.replace(" IN OUT", f" {shlex.quote(path)} OUT")
    return hint
