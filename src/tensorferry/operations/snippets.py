"""Snippets: what to type to get what is on a screen, in Python and on a command line.

of_tensor("model.npz", "kernel", (0, slice(None))).python
# import tensorferry as ferry ... bundle.slice('kernel', np.s_[0, :])
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tensorferry.classes import dataclass

Index = Sequence[int | slice]

_IMPORT = "import tensorferry as ferry\n\n"


@dataclass(frozen=True)
class Snippet:
    """The same question in two languages.

    Attributes:
        python: A program.
        command: A line for a shell.
    """

    python: str
    command: str


def of_file(path: str) -> Snippet:
    """What is in a file."""
    return Snippet(f"{_IMPORT}info = ferry.inspect({path!r})\n", _line("info", path))


def of_tensor(path: str, name: str, index: Index = ()) -> Snippet:
    """A tensor of a bundle, or a slice of it."""
    if not index:
        program = f"{_IMPORT}with ferry.open({path!r}) as bundle:\n    tensor = bundle[{name!r}]\n"
        return Snippet(program, _line("show", path, name))
    text = ", ".join(map(_step, index))
    program = (
        f"import numpy as np\n\n{_IMPORT}with ferry.open({path!r}) as bundle:\n"
        f"    part = bundle.slice({name!r}, np.s_[{text}])\n"
    )
    return Snippet(program, _line("show", path, f"{name}[{text.replace(' ', '')}]"))


def of_statistics(path: str) -> Snippet:
    """Statistics of all tensors or columns."""
    program = (
        f"{_IMPORT}for found in ferry.stats({path!r}).columns:\n"
        "    print(found.name, found.values.minimum, found.values.maximum, found.values.mean)\n"
    )
    return Snippet(program, _line("stats", path))


def of_rows(path: str, start: int, stop: int, where: str | None = None) -> Snippet:
    """Some rows of a file, or those for which a condition holds."""
    if where:
        program = (
            "from tensorferry.operations.select import select\n\n"
            f"rows = list(select({path!r}, where={where!r}, limit={stop - start}))\n"
        )
        return Snippet(program, _line("head", path, "--where", where, "-n", str(stop - start)))
    program = f"{_IMPORT}with ferry.open({path!r}) as rows:\n    some = rows[{start}:{stop}]\n"
    return Snippet(program, _line("head", path, "-n", str(stop)))


def of_column(path: str, name: str) -> Snippet:
    """The statistics of one column."""
    program = f"{_IMPORT}(found,) = ferry.stats({path!r}, select=[{name!r}]).columns\n"
    return Snippet(program, _line("stats", path, "--select", name))


def of_comparison(a: str, b: str, name: str | None = None, key: str | None = None) -> Snippet:
    """What differs between two files."""
    keywords, options = "", []
    if name is not None:
        keywords, options = f", match=[{name!r}]", ["--select", name]
    if key is not None:
        keywords, options = f"{keywords}, key={key!r}", [*options, "--key", key]
    program = f"{_IMPORT}report = ferry.diff({a!r}, {b!r}{keywords})\nreport.equal\n"
    return Snippet(program, _line("diff", a, b, *options))


def _step(step: int | slice) -> str:
    if isinstance(step, int):
        return str(step)
    start = "" if step.start is None else step.start
    stop = "" if step.stop is None else step.stop
    return f"{start}:{stop}"


def _line(command: str, *arguments: str) -> str:
    # A path or name that starts with a dash is no option.
    parts = [
        part if not part.startswith("-") or place else f"./{part}"
        for place, part in enumerate(arguments)
    ]
    return shlex.join(["ferry", command, *parts])
