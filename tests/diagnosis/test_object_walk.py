"""Walks over living objects: every path leads to what it names, every walk ends."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque, namedtuple
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies

from tensorferry.diagnosis import object_walk
from tensorferry.diagnosis.object_walk import Part, Walk, parts, used_globals

GLOBAL = threading.Lock()


class Slots:
    __slots__ = ("__hidden", "_seen", "unset")

    def __init__(self, value):
        self.__hidden = value
        self._seen = [value]


class Lists(list):
    pass


Pair = namedtuple("Pair", "first second")


def function_of(value):
    def function(x, default=value, *, named=value):
        return value, GLOBAL, x

    function.note = value
    return function


HOLDERS = [
    lambda value: [value],
    lambda value: (1, value),
    lambda value: {"a b": value},
    lambda value: {(1, 2): value},
    lambda value: {7: value, None: [value]},
    lambda value: {id: 1, (object,): [value]},
    lambda value: deque([value]),
    lambda value: Pair(1, value),
    lambda value: OrderedDict(x=value),
    lambda value: Slots(value),
    lambda value: SimpleNamespace(**{"a": value, "no name": [value]}),
    lambda value: partial(print, value, end=value),
    lambda value: np.array([[None, value]], object).reshape(2, 1),
    lambda value: np.array(SimpleNamespace(value=value), object),
    lambda value: Slots(value).__init__,
    lambda value: frozenset([SimpleNamespaceWithHash(value)]),
    function_of,
]


class SimpleNamespaceWithHash:
    def __init__(self, value):
        self.value = value


@given(strategies.lists(strategies.sampled_from(HOLDERS), max_size=5))
def test_paths(holders):
    """A path evaluates to the object it names, through any nesting of holders."""
    target = value = SimpleNamespace()
    for hold in holders:
        value = hold(value)
    walk = Walk(value, parts)

    assert id(target) in walk.places
    for place, node in enumerate(walk.nodes):
        found = eval(walk.path(place), {"model": value})
        # Some holders make what they hold when they are asked.
        assert found is node.value or found == node.value
    assert walk.complete


def test_functions():
    """A function holds what it closes over, its defaults, its attributes and globals it uses."""
    steps = {part.step for part in parts(function_of(1))}

    assert steps == {
        "{}.__closure__[0].cell_contents",
        "{}.__defaults__[0]",
        "{}.__kwdefaults__['named']",
        "{}.__globals__['GLOBAL']",
        "{}.note",
    }
    assert used_globals((lambda: lambda: GLOBAL).__code__) == ["GLOBAL"]


def test_shortest():
    """The path is the shortest one."""
    target = SimpleNamespace()
    walk = Walk({"a": {"b": {"c": target}}, "z": target}, parts)

    assert walk.path(walk.places[id(target)]) == "model['z']"


def test_above():
    """What reaches an object is found through every way to it."""
    target = [1]
    first, second, other = [target], {"x": target}, [[2]]
    walk = Walk([first, second, other], parts)
    found = {id(walk.nodes[place].value) for place in walk.above([walk.places[id(target)]])}

    assert {id(first), id(second), id(target)} < found
    assert id(other) not in found


def test_circles():
    """Circles are what leads back to an object above, not what two objects share."""
    shared = []
    value = {"a": [shared], "b": [shared]}
    assert not list(Walk(value, parts).circles())

    value["a"].append(value)
    walk = Walk(value, parts)
    [(holder, step, target)] = walk.circles()
    assert walk.path(holder) == "model['a']"
    assert step == "{}[1]"
    assert target == 0


def test_circles_of_long_chains():
    """A long chain of objects that know both neighbours is no trouble."""
    chain = [SimpleNamespace() for _ in range(5000)]
    for first, second in pairwise(chain):
        first.next, second.previous = second, first

    assert len(list(Walk(chain[0], parts).circles())) == 4999


@pytest.mark.parametrize(("limit", "count"), [("OBJECTS", 10), ("DEPTH", 10)])
def test_limits(limit, count, monkeypatch):
    """Endless objects end the walk, which says so."""
    monkeypatch.setattr(object_walk, limit, count)

    def endless(value):
        yield Part("{}.next", [value])

    walk = Walk([], endless)
    assert not walk.complete
    assert len(walk.nodes) <= count + 1


def test_patience(monkeypatch):
    """A walk ends when time is up."""
    monkeypatch.setattr(object_walk, "PATIENCE", -1.0)
    assert not Walk([[1]], parts).complete


def test_raising():
    """A dict that refuses to be looked at is not looked into, and the walk is not complete."""

    class Refusing(dict):
        def items(self):
            raise RuntimeError("no")

    assert not Walk([Refusing(a=[1])], parts).complete
