"""Hints: what the library says to those who write Python, for those who write commands."""

from __future__ import annotations

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
}


def for_command(hint: str | None) -> str | None:
    """A hint in the words of a command line."""
    for python, command in TERMS.items():
        hint = hint and hint.replace(python, command)
    return hint
