"""Pickling: what pickle and cloudpickle do with a living object, without writing it anywhere.

pickle asks each object how to reduce it: to a callable, its arguments and a state. `Pickling` does
the same for one object after another, with the pickler's own reducers. It finds every object that
refuses, and not only the first one. The pickler itself has the last word on the whole object.

Nothing large is copied. Arrays and tensors are known to pickle, so they are skipped. Models of
Keras pickle as Keras' files, and the caller knows the result. The pickler's output is thrown away,
and nothing is ever unpickled.
"""

from __future__ import annotations

import copyreg
import operator
import pickle
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from importlib import import_module
from itertools import islice
from types import (
    BuiltinFunctionType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    SimpleNamespace,
)
from typing import Any, Literal

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.diagnosis.object_walk import (
    MADE,
    OBJECTS,
    Part,
    Walk,
    attribute_parts,
    function_parts,
    held,
    is_atom,
    parts,
)

# How many seconds pickling the whole object may take.
PATIENCE = 5.0

# An object that is nested deeper than this is too deep even without a circular reference.
DEEP = 100

# The longest error text in a reason; some errors of TensorFlow fill pages.
LONGEST = 200

# Containers, which are not to blame for the objects inside of them.
_OPEN = (
    dict,
    list,
    tuple,
    set,
    frozenset,
    deque,
    partial,
    np.ndarray,
    SimpleNamespace,
    MethodType,
    BuiltinFunctionType,
)
_NEUTRAL = ("collections", "types", "functools", "dataclasses", "argparse", "typing", "enum")
_FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "numpy", "wrapt")

# Attributes that every class has.
_GIVEN = frozenset(
    ("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "_abc_impl", "__slots__")
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of an object that cannot be pickled.

    Attributes:
        step: The step to the part from the object that was asked: see `object_walk`.
        value: The part.
        reason: Why it cannot be pickled.
    """

    step: str
    value: Any
    reason: str


@dataclass(frozen=True, slots=True)
class StandIn:
    """What is known about an object without pickling it.

    Attributes:
        problems: The parts that cannot be pickled.
        kind: The class that unpickling has to find, if the object is pickled by name.
    """

    problems: tuple[Problem, ...] = ()
    kind: type | None = None


class _RefusedError(Exception):
    """A stand-in that has problems."""


class _TooLongError(Exception):
    """Pickling the whole object takes longer than `PATIENCE`."""


class _Nowhere:
    """A file that discards everything, and raises when time is up."""

    def __init__(self) -> None:
        self._end = time.monotonic() + PATIENCE

    def write(self, data: Any) -> int:
        if time.monotonic() > self._end:
            raise _TooLongError
        return len(data)


class Pickling:
    """One pickler's view of an object.

    Args:
        root: The object.
        way: The pickler.
        stand_in: Returns what is known about an object that must not be pickled; None otherwise.

    Attributes:
        blamed: Why objects cannot be pickled, by place in the walk.
        kept: The steps to the parts of the root that the pickler keeps.
        unfinished: Why the whole object was not judged; None if it was.
        main: Classes and functions in `__main__` that are pickled by name.
    """

    def __init__(
        self,
        root: Any,
        way: Literal["pickle", "cloudpickle"],
        stand_in: Callable[[Any], StandIn | None],
    ) -> None:
        self._stand_in = stand_in
        self._pickler = _pickler_kind(way, self._reduce_stand_in)
        self._idle = self._pickler(_Nowhere())
        self._found: list[tuple[Any, Problem]] = []
        self._leaves: set[int] = set()
        self._root = root
        self.main: dict[str, None] = {}
        self.blamed: dict[int, str] = {}
        self.unfinished: str | None = None
        self.kept = {part.step for part in held(self._parts, root) or ()}
        self._judge()

    @cached_property
    def walk(self) -> Walk:
        """The walk over everything that the pickler would look at."""
        self._found.clear()
        return Walk(self._root, self._parts)

    def _judge(self) -> None:
        """Lets the pickler decide; only if it refuses, looks for the objects to blame."""
        failure: Exception | None = None
        try:
            self._pickler(_Nowhere()).dump(self._root)
            return
        except _TooLongError:
            self.unfinished = f"pickling takes more than {PATIENCE:g} s: not all of it was tried"
        except Exception as error:  # objects may raise anything
            failure = error
        self.walk  # noqa: B018
        self._place_blame()
        if failure is None:
            return
        if isinstance(failure, RecursionError) or isinstance(failure.__cause__, RecursionError):
            place, reason = self._deepest()
            self.blamed.setdefault(place, f"{reason}: {describe(failure)}")
        elif not self.blamed:
            self.blamed[0] = describe(failure)

    def _place_blame(self) -> None:
        for holder, problem in self._found:
            if not problem.step and self._is_fine(problem.value):
                continue
            place = self.walk.places.get(id(problem.value))
            if place is None or not problem.step:
                place = self.walk.places[id(holder)]
            node = self.walk.nodes[place]
            # If a class cannot be found, its instance is to blame.
            if node.step == "type({})" and node.holder is not None:
                place = node.holder
            sealed = self._sealed(place)
            reason = problem.reason
            if sealed != place:
                inside = self.walk.path(place).removeprefix(self.walk.path(sealed))
                reason = f"{reason} (at {inside})" if inside.startswith(".") else reason
            self.blamed.setdefault(sealed, reason)

    def _is_fine(self, value: Any) -> bool:
        """Whether the pickler does pickle a value after all."""
        try:
            self._pickler(_Nowhere()).dump(value)
        except Exception:
            return False
        return True

    def _sealed(self, place: int) -> int:
        """The library object, such as a thread or queue, that an object is an inner part of."""
        found = place
        if id(self.walk.nodes[place].value) in self._leaves:
            return found
        for at in reversed(self.walk.line(place)[1:]):
            value = self.walk.nodes[at].value
            if isinstance(value, FunctionType | type):
                if not _is_library(value.__module__):
                    break
            elif not isinstance(value, _OPEN):
                if not _is_library(type(value).__module__):
                    break
                found = at
        return found

    def _deepest(self) -> tuple[int, str]:
        """The attribute of the root that is nested most deeply, and why."""
        nodes = self.walk.nodes
        line = self.walk.line(max(range(len(nodes)), key=lambda place: nodes[place].depth))
        circle = next(self.walk.circles(), None)
        if circle is not None and len(line) < DEEP:
            return circle[0], f"it leads back to {self.walk.path(circle[2])}"
        return line[min(1, len(line) - 1)], f"it nests {len(line)} deep"

    def _parts(self, value: Any) -> Iterator[Part]:
        if id(value) in self._leaves:
            return
        if isinstance(value, np.ndarray) and type(value) is np.ndarray:
            yield from parts(value)
            return
        known = self._stand_in(value)
        if known is not None:
            self._found += [(value, problem) for problem in known.problems]
            for problem in known.problems:
                if problem.value is not value:
                    self._leaves.add(id(problem.value))
                    yield Part(problem.step, problem.value, wanted=True)
            if known.kind is not None:
                yield Part("type({})", known.kind)
        elif type(value) in (dict, list, tuple, set, frozenset, partial):
            yield from parts(value)
        elif isinstance(value, FunctionType | type):
            yield from self._parts_by_name(value)
        else:
            yield from self._parts_of_reduced(value)

    def _blame(self, value: Any, error: Exception) -> None:
        self._found.append((value, Problem("", value, describe(error))))

    def _parts_by_name(self, value: Any) -> Iterator[Part]:
        """Parts of functions and classes: none if pickled by name, all if pickled by value."""
        reduced = self._idle.reduce_by_value(value)
        if reduced is NotImplemented:
            try:
                self._pickler(_Nowhere()).dump(value)
            except Exception as error:
                self._blame(value, error)
        elif isinstance(value, FunctionType):
            yield from function_parts(value)
        elif len(reduced) > 2:  # otherwise it is a type without a module, pickled by name
            for name, part in vars(value).items():
                if name not in _GIVEN:
                    plain = isinstance(part, FunctionType) or not hasattr(part, "__get__")
                    yield Part(f"{{}}.{name}" if plain else f"{{}}.__dict__[{name!r}]", part)
            for index, base in enumerate(value.__bases__):
                yield Part(f"{{}}.__bases__[{index}]", base)

    def _parts_of_reduced(self, value: Any) -> Iterator[Part]:
        pickler = self._idle
        try:
            reduce = pickler.dispatch_table.get(type(value))
            reduced = value.__reduce_ex__(pickler.protocol) if reduce is None else reduce(value)
            if isinstance(reduced, str):
                self._pickler(_Nowhere()).dump(value)
                return
            function, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
            call = f"{{}}{MADE}{pickler.protocol})"
            yield from self._named(
                value,
                (
                    Part(f"{call}[0]", function),
                    *(Part(f"{call}[1][{at}]", part) for at, part in enumerate(arguments)),
                ),
            )
            yield from self._state_parts(value, state, call)
            for index, item in enumerate(islice(items or (), OBJECTS)):
                yield Part(f"{{}}[{index}]", item)
            yield from parts(dict(islice(pairs or (), OBJECTS)))
        except Exception as error:
            self._blame(value, error)

    def _state_parts(self, value: Any, state: Any, call: str) -> Iterator[Part]:
        """The parts of a state, by attribute names if the state consists of attributes."""
        states = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        if isinstance(state, list):
            listed = (Part(f"{call}[2][{at}]", one) for at, one in enumerate(state))
            yield from self._named(value, listed)
            return
        if state is None or not all(one is None or isinstance(one, dict) for one in states):
            yield from self._named(value, (Part(f"{call}[2]", state),))
            return
        own = {part.step: part.value for part in attribute_parts(value)}
        for at, one in enumerate(states):
            start = f"{call}[2][{at}]" if len(states) == 2 else f"{call}[2]"
            for name, part in (one or {}).items():
                step = f"{{}}.{name}" if str(name).isidentifier() else f"{{}}.__dict__[{name!r}]"
                yield Part(step if own.get(step) is part else f"{start}[{name!r}]", part)

    def _named(self, value: Any, found: Iterable[Part]) -> Iterator[Part]:
        """The parts under the names of the attributes that hold them."""
        own = {id(part.value): part.step for part in attribute_parts(value)}
        for kind in type(value).__mro__:
            for name, one in vars(kind).items():
                # Classes written in C have these instead of slots.
                if isinstance(one, MemberDescriptorType):
                    with suppress(AttributeError):
                        own.setdefault(id(one.__get__(value)), f"{{}}.{name}")
        method = getattr(value, "__self__", None) if callable(value) else None
        for step, part, _ in found:
            if part is type(value):
                yield Part("type({})", part)
            elif _has_items_of(part, value):
                yield from parts(part)
            elif part is method and part is not None:
                yield Part("{}.__self__", part)
            else:
                yield Part(step if is_atom(part) else own.get(id(part), step), part)

    def _reduce_stand_in(self, value: Any) -> Any:
        if isinstance(value, FunctionType | type):
            if value.__module__ == "__main__" and "<" not in value.__qualname__:
                self.main[value.__qualname__] = None
            return NotImplemented
        if type(value) is np.ndarray and value.dtype != object:
            return int, ()
        known = self._stand_in(value)
        if known is None:
            return NotImplemented
        if known.problems:
            raise _RefusedError
        return tuple, ((known.kind,),)


def _has_items_of(part: Any, value: Any) -> bool:
    """Whether a list or dict is the inner storage of another one."""
    if not isinstance(part, list | dict) or not isinstance(value, type(part)):
        return False
    items = part.values() if isinstance(part, dict) else part
    others = value.values() if isinstance(value, dict) else value
    return len(part) == len(value) and all(map(operator.is_, items, others))


def _is_library(module: Any) -> bool:
    package = str(module).split(".")[0]
    if package in _NEUTRAL:
        return False
    return package in _FRAMEWORKS or (package in sys.stdlib_module_names and package != "__main__")


def describe(error: BaseException) -> str:
    """An error in one line."""
    text = re.sub(r" at 0x[0-9a-f]+", "", " ".join(str(error).split()))
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def has_cloudpickle() -> bool:
    """Whether cloudpickle is installed."""
    try:
        import_module("cloudpickle")
    except ImportError:
        return False
    return True


def _pickler_kind(way: str, override: Callable[[Any], Any]) -> Any:
    """A class of picklers that ask `override` first."""
    by_value = way == "cloudpickle"
    base = import_module("cloudpickle").CloudPickler if by_value else pickle.Pickler

    class Pickler(base):  # type: ignore[misc, valid-type]
        protocol = pickle.HIGHEST_PROTOCOL if by_value else pickle.DEFAULT_PROTOCOL
        if not by_value:
            dispatch_table = copyreg.dispatch_table

        def reduce_by_value(self, value: Any) -> Any:
            return super().reducer_override(value) if by_value else NotImplemented

        def reducer_override(self, value: Any) -> Any:
            reduced = override(value)
            return self.reduce_by_value(value) if reduced is NotImplemented else reduced

    return Pickler
