"""A walk over a living object: everything it holds, with the expression that leads to each part.

A path is a Python expression: `model.encoder.layers[2].tokenizer._lock` evaluates to the object at
that path. The parts of a function are its closure, its defaults and the globals it uses; the parts
of other objects are their items, instance attributes and slots. Properties and `__getattr__` are
not called, so a walk changes nothing and always ends.

The walk is breadth-first. It meets each object once, by its shortest path.
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
from typing import Any

import numpy as np

from tensorferry.classes import NamedTuple
from tensorferry.frameworks.variables import attributes
from tensorferry.tensors.values import is_namedtuple

# Types whose values hold nothing.
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

# The number of objects, the depth and the seconds after which a walk stops. A larger object is
# mostly data, and looking at more of it helps nobody. Picklers do not go as deep.
OBJECTS = 300_000
DEPTH = 10_000
PATIENCE = 3.0


# The part of a step that calls the method by which pickle reduces an object.
MADE = ".__reduce_ex__("


class Part(NamedTuple):
    """Something that an object holds.

    Attributes:
        step: The expression that leads to it, with `{}` for the object that holds it.
        value: The part itself.
        wanted: Whether a walk records it even if it holds nothing.
    """

    step: str
    value: Any
    wanted: bool = False


class Node(NamedTuple):
    """An object that was met.

    Attributes:
        value: The object; holding it keeps its id from being reused.
        holder: The place of the object that holds it on the shortest path; None for the root.
        step: See `Part`.
        depth: The number of steps from the root.
    """

    value: Any
    holder: int | None
    step: str
    depth: int


class Walk:
    """Everything that can be reached from an object.

    Args:
        root: The object to start from.
        parts: Returns the parts of an object.
        name: The expression for the root.

    Attributes:
        nodes: The objects in the order in which they were met.
        places: The place of each object in `nodes`, by id.
        complete: Whether the walk ended by itself; false if there was too much.
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
        # Met last, so that an object that is also an attribute gets the attribute's name.
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
        """The objects on the path to an object, from the root to the object itself."""
        found = [place]
        while (holder := self.nodes[found[-1]].holder) is not None:
            found.append(holder)
        return found[::-1]

    def above(self, places: Iterable[int]) -> set[int]:
        """The objects from which one of these can be reached, including these."""
        found = set(places)
        queue = deque(found)
        while queue:
            for holder, _ in self._holders[queue.popleft()]:
                if holder not in found:
                    found.add(holder)
                    queue.append(holder)
        return found

    def circles(self) -> Iterator[tuple[int, str, int]]:
        """Circular references: an object, its step back, and the ancestor that it leads to."""
        sizes = [1] * len(self.nodes)
        for place in range(len(self.nodes) - 1, 0, -1):
            sizes[self._holders[place][0][0]] += sizes[place]
        # The descendants of an object have the `sizes[object] - 1` numbers after its own.
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
    """The parts of an object; None if looking at it raises, as a user's dict may."""
    try:
        return list(parts(value))
    except Exception:
        return None


def is_atom(value: Any) -> bool:
    """Whether a value holds nothing, like a number or a text."""
    return type(value) in _ATOMS


def parts(value: Any) -> Iterator[Part]:
    """The parts of an object."""
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
    # Subclasses of list and dict also have attributes.
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
    """The objects in an object array."""
    if array.dtype != object:
        return
    for index, item in np.ndenumerate(array):
        yield Part(f"{{}}[{', '.join(map(str, index)) or '()'}]", item)


def function_parts(function: FunctionType) -> Iterator[Part]:
    """The objects that a function needs besides its code."""
    for index, cell in enumerate(function.__closure__ or ()):
        try:
            yield Part(f"{{}}.__closure__[{index}].cell_contents", cell.cell_contents)
        except ValueError:  # the variable has no value yet
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
    """The name of the closure variable that a step leads to; None for any other step."""
    if not step.startswith("{}.__closure__[") or not isinstance(function, FunctionType):
        return None
    return function.__code__.co_freevars[int(step.split("[")[1].split("]")[0])]


def used_globals(code: CodeType) -> list[str]:
    """The names of globals in a function's code, including nested functions."""
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
    """All names in a function's code: attributes, globals and closure variables."""
    found = {*code.co_names, *code.co_freevars}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= used_names(constant)
    return found
