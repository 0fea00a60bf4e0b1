"""A walk over a living object: all that it holds, each with the expression that leads there.

A path is a Python expression: `model.encoder.layers[2].tokenizer._lock` evaluates to what it
names. What a function closes over, its defaults and the globals it uses are parts of it, as are
the items of containers, instance attributes and slots. Nothing is computed for it: properties and
`__getattr__` are not asked, so that a walk changes nothing and ends.

The walk is breadth-first, each object is met once, and the path is the shortest one.
"""

from __future__ import annotations

import dis
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from tensorferry.frameworks.variables import attributes
from tensorferry.tensors.values import is_namedtuple

# What holds nothing.
_ATOMS = frozenset(
    (
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        bytearray,
        range,
        type(Ellipsis),
        type(NotImplemented),
    )
)

# How many objects a walk looks at, how deep and for how many seconds: beyond, a model is data, and
# knowing more of it helps nobody. Picklers do not go as deep.
OBJECTS = 300_000
DEPTH = 10_000
PATIENCE = 3.0


# In a step, the call that an object is asked with how it is to be pickled.
MADE = ".__reduce_ex__("


class Part(NamedTuple):
    """Something that an object holds.

    Attributes:
        step: The expression that leads to it, with `{}` in place of its holder's.
        value: The thing itself.
        wanted: Whether a walk notes it even if it holds nothing.
    """

    step: str
    value: Any
    wanted: bool = False


class Node(NamedTuple):
    """An object that was met.

    Attributes:
        value: The object, which also keeps its identity from being used again.
        holder: The place in the walk of the object where it was met first; None for the root.
        step: See `Part`.
        depth: How many steps it is from the root.
    """

    value: Any
    holder: int | None
    step: str
    depth: int


class Walk:
    """All that can be reached from an object.

    Args:
        root: Where to start.
        parts: What an object holds.
        name: The root's own expression.

    Attributes:
        nodes: The objects in the order in which they were met.
        places: Their places in `nodes` by identity.
        complete: Whether nothing was left out for there being too much.
    """

    def __init__(
        self, root: Any, parts: Callable[[Any], Iterable[Part]], *, name: str = "model"
    ) -> None:
        self.nodes = [Node(root, None, name, 0)]
        self.places = {id(root): 0}
        self.complete = True
        self._holders: list[list[tuple[int, str]]] = [[]]
        end = time.monotonic() + PATIENCE
        queue = deque([0])
        # What has another name than the call that makes it is to be known by that.
        made: deque[tuple[int, Part]] = deque()
        while queue or made:
            if not queue:
                self._meet(queue, *made.popleft())
                continue
            place = queue.popleft()
            if self.nodes[place].depth >= DEPTH or (not place % 1024 and time.monotonic() > end):
                self.complete = False
                return
            found = held(parts, self.nodes[place].value)
            self.complete &= found is not None
            for part in found or ():
                if is_atom(part.value) and not part.wanted:
                    continue
                if len(self.nodes) >= OBJECTS:
                    self.complete = False
                    return
                if MADE in part.step:
                    made.append((place, part))
                else:
                    self._meet(queue, place, part)

    def _meet(self, queue: deque[int], holder: int, part: Part) -> None:
        known = self.places.get(id(part.value))
        if known is not None:
            self._holders[known].append((holder, part.step))
            return
        self.places[id(part.value)] = len(self.nodes)
        queue.append(len(self.nodes))
        depth = self.nodes[holder].depth + 1
        self.nodes.append(Node(part.value, holder, part.step, depth))
        self._holders.append([(holder, part.step)])

    def path(self, place: int) -> str:
        """The expression that leads to an object."""
        steps = []
        at: int | None = place
        while at is not None:
            steps.append(self.nodes[at].step)
            at = self.nodes[at].holder
        expression = steps.pop()
        while steps:
            expression = steps.pop().replace("{}", expression, 1)
        return expression

    def line(self, place: int) -> list[int]:
        """The objects on the way to one, the root first, itself last."""
        found = [place]
        while (holder := self.nodes[found[-1]].holder) is not None:
            found.append(holder)
        return found[::-1]

    def above(self, places: Iterable[int]) -> set[int]:
        """The objects from which one of these can be reached, themselves among them."""
        found = set(places)
        queue = deque(found)
        while queue:
            for holder, _ in self._holders[queue.popleft()]:
                if holder not in found:
                    found.add(holder)
                    queue.append(holder)
        return found

    def circles(self) -> Iterator[tuple[int, str, int]]:
        """Objects that hold one on the way to them, the step to it, and that one."""
        sizes = [1] * len(self.nodes)
        for place in range(len(self.nodes) - 1, 0, -1):
            sizes[self._holders[place][0][0]] += sizes[place]
        # What is below an object has the numbers that follow its own, as many as `sizes` says.
        numbers = [0] * len(self.nodes)
        following = [1] * len(self.nodes)
        for place in range(1, len(self.nodes)):
            holder = self._holders[place][0][0]
            numbers[place] = following[holder]
            following[holder] += sizes[place]
            following[place] = numbers[place] + 1
        for place, holders in enumerate(self._holders):
            for holder, step in holders[1:] if place else holders:
                if numbers[place] <= numbers[holder] < numbers[place] + sizes[place]:
                    yield holder, step, place


def held(parts: Callable[[Any], Iterable[Part]], value: Any) -> list[Part] | None:
    """What an object holds; None if it refuses to be looked at, as a user's dict may."""
    try:
        return list(parts(value))
    except Exception:
        return None


def is_atom(value: Any) -> bool:
    """Whether it holds nothing, and is what it is by its value alone."""
    return type(value) in _ATOMS


def parts(value: Any) -> Iterator[Part]:
    """What an object holds."""
    if isinstance(value, dict):
        yield from _items(value)
    elif is_namedtuple(value):
        for name, item in zip(value._fields, value, strict=True):
            yield Part(f"{{}}.{name}", item)
    elif isinstance(value, list | tuple | deque):
        for index, item in enumerate(list(value)):
            yield Part(f"{{}}[{index}]", item)
    elif isinstance(value, set | frozenset):
        for index, item in enumerate(list(value)):
            yield Part(f"list({{}})[{index}]", item)
    elif isinstance(value, np.ndarray):
        yield from _elements(value)
    elif isinstance(value, FunctionType):
        yield from function_parts(value)
    elif isinstance(value, MethodType):
        yield Part("{}.__self__", value.__self__)
    elif isinstance(value, partial):
        yield Part("{}.func", value.func)
        yield Part("{}.args", value.args)
        yield Part("{}.keywords", value.keywords)
    elif isinstance(value, BuiltinFunctionType):
        if not isinstance(value.__self__, ModuleType):
            yield Part("{}.__self__", value.__self__)
    elif isinstance(value, type | ModuleType | CodeType):
        return
    # Lists and dicts of a class of their own have attributes besides.
    if type(value).__module__ != "builtins" and not isinstance(value, type | ModuleType):
        yield from attribute_parts(value)


def attribute_parts(value: Any) -> Iterator[Part]:
    """The instance attributes and slots of an object."""
    for name, child in attributes(value):
        yield Part(f"{{}}.{name}" if name.isidentifier() else f"{{}}.__dict__[{name!r}]", child)


def _items(value: dict[Any, Any]) -> Iterator[Part]:
    for index, (key, item) in enumerate(list(value.items())):
        if is_atom(key):
            yield Part(f"{{}}[{key!r}]", item)
        else:
            yield Part(f"list({{}})[{index}]", key)
            yield Part(f"list({{}}.values())[{index}]", item)


def _elements(array: Any) -> Iterator[Part]:
    """The objects in an array of them."""
    if array.dtype != object:
        return
    for index, item in np.ndenumerate(array):
        yield Part(f"{{}}[{', '.join(map(str, index)) or '()'}]", item)


def function_parts(function: FunctionType) -> Iterator[Part]:
    """What a function needs besides its code."""
    for index, cell in enumerate(function.__closure__ or ()):
        try:
            yield Part(f"{{}}.__closure__[{index}].cell_contents", cell.cell_contents)
        except ValueError:  # a variable that has no value yet
            continue
    for index, item in enumerate(function.__defaults__ or ()):
        yield Part(f"{{}}.__defaults__[{index}]", item)
    for name, item in (function.__kwdefaults__ or {}).items():
        yield Part(f"{{}}.__kwdefaults__[{name!r}]", item)
    for name in used_globals(function.__code__):
        if name in function.__globals__:
            yield Part(f"{{}}.__globals__[{name!r}]", function.__globals__[name])
    yield from attribute_parts(function)


def closure_name(step: str, function: Any) -> str | None:
    """What a function calls the variable that a step leads to, if it closes over it."""
    if not step.startswith("{}.__closure__[") or not isinstance(function, FunctionType):
        return None
    return function.__code__.co_freevars[int(step.split("[")[1].split("]")[0])]


def used_globals(code: CodeType) -> list[str]:
    """The names of globals in a function's code, and in that of the functions inside of it."""
    found = {
        instruction.argval: None
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(dict.fromkeys(used_globals(constant)))
    return list(found)


def used_names(code: CodeType) -> set[str]:
    """All names in a function's code: attributes, globals and what it closes over."""
    found = {*code.co_names, *code.co_freevars}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= used_names(constant)
    return found
