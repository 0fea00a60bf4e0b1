"""Hints: what the library says to those who write Python, for those who write commands.

A hint in the words of a command line works when it is typed: it names the file that the error is
about, and options that the command has, or says which command has them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from tensorferry.expressions import expression

TERMS = {
    'as in loads(data, format="raw", dtype="float32", shape=[-1, 3])': (
        "as in `--option dtype=float32 --option shape=[-1,3]`"
    ),
    "name the format: format=...": "name the format with --format; `ferry formats` lists them",
    "pass format=, one": "name it with --format or --to: one",
    "name it with --to or format=: one": "name it with --to: one",
    "tensorferry.repair(path, target)": "`ferry repair IN OUT`",
    ", or pass paths=;": ": `--rename OLD=layers/dense/vars/0`;",
    "use shard_size": "use --shard-size",
    "dtype= makes": "--dtype makes",
    'format="arrow" reads': "--format arrow reads",
    "columns=[...] names those to read": "--select names those to read",
    "leave it out: select= or --select names the others": "leave it out: --select names the others",
    "choose a wider dtype, or quantize=": "choose a wider --dtype, or --quantize",
    "pass a schema= that fits, infer": "infer",
    "say what it holds in schema=; ": "",
    "a schema= of the others leaves it out; ": "",
    "say which in schema=, or read": "read",
    "pass a schema= that says what it is to be, or give": "give",
    "pass a schema=, or arrays, which have a dtype": "give every row the same type",
    "leave engine= out": "leave --engine out",
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
    "or use tensorferry.save": "or use `ferry convert`",
    "tensorferry.convert turns": "`ferry convert` turns",
    "tensorferry.open(path) has all of them": "`ferry ls` lists all of them",
    "as in array.astype('float32')": "with --dtype float32",
    "as in array.astype('float64')": "with --dtype float64",
}
"""What is said in Python, and in the words of a command."""

# `format="npz", "structure" and "json"`: in a hint they are what to write.
_FORMATS = expression(r'(?:format=)?"([a-z]+)"')
_OPTIONS = expression(r"\b([a-z0-9_]+)=(?:(True|False)\b|['\"]([a-z0-9]+)['\"])")
_QUANTIZE = expression(r"quantize=(\{[^}]*\})")
_QUOTED = expression(r"`(--(?:option|rename) [^`]+)`|`[^`]*`|--[a-z-]+")


class Vocabulary:
    """The options of the command that runs: a hint says of all others which command has them."""

    def __init__(self) -> None:
        self._options: frozenset[str] | None = None
        self._converting: Callable[[], Iterable[str]] = tuple

    def begin(self, options: Iterable[str], converting: Callable[[], Iterable[str]]) -> None:
        """Takes the options of a command, and what gives those of `convert`."""
        self._options = frozenset(options)
        self._converting = converting

    def has(self, option: str) -> bool:
        """Whether the command that runs has an option."""
        return self._options is not None and option in self._options

    def is_of_convert(self, option: str) -> bool:
        """Whether `convert` has an option, and the command has it not."""
        if self._options is None or option in self._options:
            return False
        return option in self._converting()


VOCABULARY = Vocabulary()


# What Click says, and what a person would say.
CLICKS: dict[re.Pattern[str], str | Callable[[re.Match[str]], str]] = {
    expression(r" is not a valid integer( range)?\b"): " is no whole number",
    expression(r" is not a valid float( range)?\b"): " is no number",
    expression(
        r"^Got unexpected extra arguments? \((.*)\)", re.DOTALL
    ): r"expected no more arguments, found \1",
    expression(r"\. Choose from:\s+"): ": ",
    expression(r",\s*\n\s*"): ", ",
    expression(r"\.$"): "",
    # A word in capitals is a name.
    expression(r"^[A-Z](?![A-Z])"): lambda found: found[0].lower(),
}


def in_our_words(message: str) -> str:
    """What Click says about wrong use, in the words of all other errors."""
    for pattern, words in CLICKS.items():
        message = pattern.sub(words, message)
    return message


def for_missing(path: str) -> str | None:
    """A hint for somebody who named a file that is not there: the nearest one, or another word."""
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    try:
        stems = {there.partition(".")[0]: there for there in sorted(os.listdir(folder or "."))}
    except OSError:
        stems = {}
    near = get_close_matches(name.partition(".")[0], stems, n=1, cutoff=0.7)
    if near:
        return f"did you mean {os.path.join(folder, stems[near[0]])!r}?"
    if VOCABULARY.has("--select") and not set(path) & set("./*"):
        return f"`-s {path}` chooses tensors or columns by name"
    return None


def for_command(hint: str | None, path: str | None = None) -> str | None:
    """A hint in the words of a command line.

    Args:
        hint: As the library has it.
        path: The file that the error is about.
    """
    if not hint:
        return hint
    from tensorferry.files.keywords import Opening
    from tensorferry.formats.table import TABLE

    for python, command in TERMS.items():
        hint = hint.replace(python, command)

    def typed(found: re.Match[str]) -> str:
        is_option = found[1] in Opening.__annotations__
        return f"`--option {found[1]}={(found[2] or found[3]).lower()}`" if is_option else found[0]

    hint = _QUANTIZE.sub(lambda found: f"--quantize '{found[1].replace('True', 'true')}'", hint)
    hint = _OPTIONS.sub(typed, hint)
    hint = _FORMATS.sub(lambda found: found[1] if found[1] in TABLE else found[0], hint)
    hint = _QUOTED.sub(_somewhere, hint)
    if path:
        import shlex

        hint = hint.replace(" IN OUT", f" {shlex.quote(path)} OUT")
    return hint


def _somewhere(found: re.Match[str]) -> str:
    """An option, with the command that has it if this one does not: `convert` has nearly all."""
    option = (found[1] or found[0]).split()[0]
    if not VOCABULARY.is_of_convert(option):
        return found[0]
    return (
        f"{option} of `ferry convert`" if found[1] is None else f"`ferry convert IN OUT {found[1]}`"
    )
