"""Listing: the tensors of a file, with repeated layers once and optimizer slots apart.

    collapse(infos)     # Entry("layers.{0..31}.norm.weight", count=32, ...)
    grow(infos)         # the same as a tree of nodes

Names are parted at "/" and ".". Tensors whose names differ in numbers only, and not in dtype and
shape, are one entry if these numbers are all combinations of some.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Unpack

from tensorferry.classes import dataclass, field, replace
from tensorferry.dtypes import BY_NAME
from tensorferry.errors import UnsupportedError
from tensorferry.expressions import expression
from tensorferry.files import keywords
from tensorferry.files.find import Found, resolve
from tensorferry.operations.glance import header_of, outline_of, variables_of
from tensorferry.operations.names import WIDEST, is_match
from tensorferry.tensors.infos import TensorInfo, elements_in

DEEPEST = 50
"""How many steps a name is parted into, at most: the rest of it is one."""

RUNS = 12
"""Of how many pieces a range in a name is made, at most."""

# Longer numbers are not layer numbers.
DIGITS = 9

Sort = Literal["file", "name", "size"]

# No number of thousands of digits, which Python refuses to read.
NUMBER = expression(r"(?<![0-9])[0-9]{1,18}(?![0-9])")
_SEPARATOR = expression(r"([/.])")
# What names of an optimizer's state have, which most names have not.
_OPTIMIZERS = ("optim", "exp_avg", "momentum", "adam", "rmsprop", "adagrad", "ftrl", "velocity")
_OPTIMIZER = expression(
    r"\.OPTIMIZER_SLOT|(^|[/._])(optimizer|optim|exp_avg|exp_avg_sq|momentum_buffer|adam|adamw"
    r"|rmsprop|adagrad|ftrl|momentum|velocity)([/._0-9]|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Entry:
    """Some tensors that are alike, or one.

    Attributes:
        name: With ranges in the place of numbers: "layers.{0..31}.weight".
        dtype: Of each.
        shape: Of each.
        kind: Of each.
        count: Number of tensors.
        nbytes: Number of bytes of the file they take together; None where that is not known.
        memory: Number of bytes their values take in memory; None if unknown before reading.
        elements: Number of values they have together.
        quantized: The dtype that is stored, if it is another.
        optimizer: Whether they look like the state of an optimizer.
        unreadable: Why they cannot be read, if they cannot.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    kind: str
    count: int = 1
    nbytes: int | None = None
    elements: int | None = None
    quantized: str | None = None
    optimizer: bool = False
    unreadable: str | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Listing:
    """The tensors or columns of one input.

    Attributes:
        path: The path as it was given.
        holds: "tensors", "records" or "rows".
        tensors: The selected tensors, in the given order.
        total: Number of all tensors or columns, including unselected ones.
    """

    path: str
    holds: str
    tensors: tuple[TensorInfo, ...]
    total: int


def list_tensors(
    path: Any,
    *,
    match: Sequence[str] = (),
    sort: Sort = "file",
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> Listing:
    """The tensors of a file, or the columns of its rows.

    Args:
        path: Anything that `tensorferry.open` takes.
        match: Patterns of names, of which one has to match: `encoder/*`.
        sort: As they are in the file, by name, or the largest first.
        format: By default detected from the bytes.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Opening`.

    Raises:
        UnsupportedError: A pattern matches no name.
    """
    found = resolve(path, format=format, options=storage_options)
    holds, infos = _infos(found, options)
    wanted = [info for info in infos if is_match(info.name, match)]
    for pattern in match:
        if not any(is_match(info.name, [pattern]) for info in wanted):
            from tensorferry.operations.subject import nearest

            noun = "tensor" if holds == "tensors" else "column"
            raise UnsupportedError(
                f"no {noun} fits {pattern!r}",
                path=found.name,
                hint=nearest([pattern], [info.name for info in infos]),
            )
    if sort == "name":
        wanted.sort(key=lambda info: natural(info.name))
    elif sort == "size":
        wanted.sort(key=lambda info: -(info.nbytes or memory_of(info) or 0))
    return Listing(found.name, holds, tuple(wanted), len(infos))


def _infos(found: Found, options: keywords.Opening) -> tuple[str, Sequence[TensorInfo]]:
    """What a file holds, and all of that."""
    if not keywords.given(options):
        outline = outline_of(found)
        if outline is not None:
            return "tensors", outline.describe()
        header = header_of(found)
        if header is not None:
            return "tensors", header.tensors
        variables = variables_of(found)
        if variables is not None:
            return "tensors", variables
    from tensorferry.operations.subject import open_one

    with open_one(found, options=options, verify=False) as subject:
        return subject.holds, list(subject.stored().values())


def is_optimizer(name: str) -> bool:
    """Whether a tensor of that name looks like the state of an optimizer."""
    # Letters outside of ASCII may be those of the words in another case.
    lower = name.lower() if name.isascii() else None
    if lower is not None and not any(word in lower for word in _OPTIMIZERS):
        return False
    return _OPTIMIZER.search(name) is not None


def is_slot(info: TensorInfo) -> bool:
    """Whether a tensor is, or looks like, the state of an optimizer."""
    aliases = (info.origin or {}).get("aliases", ())
    return is_optimizer(info.name) or any(".OPTIMIZER_SLOT" in alias for alias in aliases)


def natural(name: str) -> tuple[Any, ...]:
    """A key that sorts layer 2 before layer 10."""
    parts = NUMBER.split(name)
    numbers = [*map(int, NUMBER.findall(name)), 0]
    return tuple(zip(parts, numbers, strict=True))


def collapse(infos: Iterable[TensorInfo]) -> list[Entry]:
    """Entries for tensors, in the order of their first; those that are alike are one."""
    groups: dict[Any, list[TensorInfo]] = {}
    for info in infos:
        key = (NUMBER.sub("#", info.name), _signature(info))
        groups.setdefault(key, []).append(info)
    entries: list[Entry] = []
    for group in groups.values():
        name = name_ranges([info.name for info in group]) if len(group) > 1 else None
        if name is None:
            entries += [_entry(info.name, [info]) for info in group]
        else:
            entries.append(_entry(name, group))
    return entries


def collapse_names(names: Iterable[str]) -> list[str]:
    """Names, in the order of their first; those that differ in numbers are one."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(NUMBER.sub("#", name), []).append(name)
    found: list[str] = []
    for group in groups.values():
        together = name_ranges(group) if len(group) > 1 else None
        found += group if together is None else [together]
    return found


def _entry(name: str, group: list[TensorInfo]) -> Entry:
    first = group[0]
    return Entry(
        name,
        first.dtype,
        first.shape,
        first.kind,
        len(group),
        total([info.nbytes for info in group]),
        total([elements_in(info) for info in group]),
        first.quantized,
        is_slot(first),
        first.unreadable,
        total([memory_of(info) for info in group]),
    )


def memory_of(info: TensorInfo) -> int | None:
    """Number of bytes that a tensor takes in memory; None if unknown before reading."""
    count = elements_in(info)
    if count is None or info.kind != "dense" or info.dtype not in BY_NAME:
        return None
    bits = BY_NAME[info.dtype].bits  # an int4 takes a byte
    return count * max(bits, 8) // 8 if bits else None


def total(counts: Sequence[int | None]) -> int | None:
    """The sum of some numbers; None where one of them is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def name_ranges(names: Sequence[str]) -> str | None:
    """One name for several that differ in numbers; None if these are no combination of ranges."""
    rows = [tuple(NUMBER.findall(name)) for name in names]
    columns = [
        sorted(set(column), key=lambda text: (int(text), text))
        for column in zip(*rows, strict=True)
    ]
    if math.prod(map(len, columns)) != len(names) or set(itertools.product(*columns)) != set(rows):
        return None
    texts = NUMBER.split(names[0])
    parts = [texts[0]]
    for column, following in zip(columns, texts[1:], strict=True):
        parts += [_range(column), following]
    return "".join(parts)


def _range(numbers: Sequence[str]) -> str:
    """Numbers as a pattern has them: "{0..11}", "{0,2,8..11}"; "*" for many that have gaps."""
    if len(numbers) == 1:
        return numbers[0]
    runs: list[list[str]] = []
    for number in numbers:
        if runs and number == _next(runs[-1][-1]):
            runs[-1].append(number)
        else:
            runs.append([number])
    if len(runs) > RUNS or max(map(len, runs)) > WIDEST or len(numbers[-1]) > DIGITS:
        return "*"
    if len(runs) == 1:
        return f"{{{numbers[0]}..{numbers[-1]}}}"
    parts = [",".join(run) if len(run) < 3 else f"{run[0]}..{run[-1]}" for run in runs]
    return f"{{{','.join(parts)}}}"


def _next(number: str) -> str:
    """The number behind another one, with as many zeros before it."""
    return f"{int(number) + 1:0{len(number)}}"


@dataclass(frozen=True)
class Node:
    """A part of a name, with what is below it.

    Attributes:
        name: The part, with the separator behind it; ranges where siblings are alike.
        count: Number of siblings that it represents.
        tensors: How many tensors are in it, in all of those siblings.
        nbytes: Number of bytes of the file they take; 0 where that is not known.
        entry: The tensor, if it is one.
        children: The nodes below.
        memory: Number of bytes their values take in memory; None if unknown before reading.
    """

    name: str
    count: int
    tensors: int
    nbytes: int
    entry: Entry | None = None
    children: tuple[Node, ...] = field(default=())
    memory: int | None = None


def grow(infos: Iterable[TensorInfo]) -> list[Node]:
    """The tree of the names of tensors."""
    root: dict[str, Any] = {}
    for info in infos:
        parts = _SEPARATOR.split(info.name, DEEPEST)
        steps = [a + b for a, b in itertools.zip_longest(parts[::2], parts[1::2], fillvalue="")]
        place = root
        for step in steps[:-1]:
            below = place.setdefault(step, {})
            if not isinstance(below, dict):  # a tensor and a group cannot have the same step
                break
            place = below
        place[steps[-1]] = info
    return list(_nodes(root))


def _nodes(tree: Mapping[str, Any]) -> Iterator[Node]:
    groups: dict[Any, list[tuple[str, Any]]] = {}
    for step, below in tree.items():
        key = (NUMBER.sub("#", step), _signature(below))
        groups.setdefault(key, []).append((step, below))
    for members in groups.values():
        name = name_ranges([step for step, _ in members]) if len(members) > 1 else None
        for group in [members] if name else [[member] for member in members]:
            yield _node(name or group[0][0], group)


def _node(name: str, group: list[tuple[str, Any]]) -> Node:
    infos = [info for _, below in group for info in _leaves(below)]
    nbytes = sum(info.nbytes or 0 for info in infos)
    memory = total([memory_of(info) for info in infos])
    first = group[0][1]
    if isinstance(first, TensorInfo):
        return Node(name, len(group), len(infos), nbytes, _entry(name, infos), memory=memory)
    # A step with nothing beside what is below it is one line with that.
    below = list(_nodes(first))
    if len(below) == 1 and len(group) == 1:
        only = below[0]
        return replace(only, name=name + only.name, nbytes=nbytes, memory=memory)
    return Node(name, len(group), len(infos), nbytes, None, tuple(below), memory)


def _leaves(below: Any) -> Iterator[TensorInfo]:
    if isinstance(below, TensorInfo):
        yield below
    else:
        for inner in below.values():
            yield from _leaves(inner)


def likeness(info: TensorInfo) -> tuple[object, ...]:
    """A key that tensors share which differ in nothing but their names and values."""
    # Python's hash of numbers has no secret: a file can bring shapes that all have the same.
    return (info.dtype, str(info.shape), info.kind, info.quantized, info.unreadable)


def _signature(below: Any) -> Any:
    if isinstance(below, TensorInfo):
        return likeness(below)
    return tuple((step, _signature(inner)) for step, inner in below.items())
