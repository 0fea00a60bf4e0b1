"""Dataclasses and named tuples that are made quickly: the same as the original ones."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import typing
from typing import Any, ClassVar

import pytest

from tensorferry import _native, classes

MAKERS = (classes, dataclasses)


def points(maker: Any, **given: bool) -> Any:
    @maker.dataclass(**given)
    class Point:
        """A point."""

        x: int
        y: int = 2
        names: list[str] = maker.field(default_factory=list)
        hidden: str = maker.field(default="no", repr=False, compare=False)
        count: ClassVar[int] = 0

        def sum(self) -> int:
            return self.x + self.y

    return Point


GIVEN = [
    {"frozen": frozen, "slots": slots, "eq": eq, "kw_only": kw_only}
    for frozen in (True, False)
    for slots in (True, False)
    for eq in (True, False)
    for kw_only in (True, False)
]


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_classes_are_those_of_dataclasses(given):
    """Objects, their texts, signatures, hashes, slots and fields are those of the original."""
    ours, theirs = (points(maker, **given) for maker in MAKERS)
    one, other = (cls(x=1, y=3) for cls in (ours, theirs))

    assert repr(one) == repr(other)
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__qualname__ == theirs.__qualname__
    assert ours.__doc__ == theirs.__doc__
    assert hasattr(one, "__dict__") == hasattr(other, "__dict__")
    assert (one == ours(x=1, y=3)) == (other == theirs(x=1, y=3))
    assert one == ours(x=1, y=3, hidden="yes") or not given["eq"]
    assert one != ours(x=2, y=3)
    assert (one == other) is False
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    assert one.sum() == 4
    assert one.names == []
    assert one.names is not ours(x=1).names
    assert dataclasses.is_dataclass(ours)
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    assert [field.name for field in dataclasses.fields(one)] == ["x", "y", "names", "hidden"]
    assert list(map(str, dataclasses.fields(ours))) == list(map(str, dataclasses.fields(theirs)))


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_replace(given):
    """Replacing a field leaves the others, with either function."""
    found = points(classes, **given)(x=1, names=["a"])

    for replace in (classes.replace, dataclasses.replace):
        changed = replace(found, x=5)
        assert (changed.x, changed.y, changed.names) == (5, 2, ["a"])
    with pytest.raises(TypeError):
        classes.replace(found, z=5)
    original = points(dataclasses, **given)(x=1)
    assert classes.replace(original, x=4).x == 4


@pytest.mark.parametrize("slots", [True, False])
def test_frozen_objects_stay(slots):
    """Fields of a frozen object are neither assigned nor deleted."""
    cls = points(classes, frozen=True, slots=slots)
    point = cls(1)

    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert hash(points(classes, frozen=True)(1, names=())) == hash((1, 2, ()))

    class Own(cls):
        def __init__(self) -> None:
            super().__init__(1)
            self.more = 3

    own = Own()
    own.more = 4
    assert (own.x, own.more) == (1, 4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        own.x = 2


@pytest.mark.parametrize("subclass", MAKERS, ids=lambda maker: maker.__name__)
def test_subclasses(subclass):
    """A subclass has the fields of its bases first, whichever decorator makes it."""
    base = points(classes, frozen=True, slots=True)

    @subclass.dataclass(frozen=True, slots=True)
    class Higher(base):
        """A point in a room."""

        z: int = 7
        y: int = 9

    higher = Higher(1)
    assert (higher.x, higher.y, higher.z) == (1, 9, 7)
    assert [field.name for field in dataclasses.fields(Higher)] == [
        *("x", "y", "names", "hidden", "z")
    ]
    assert Higher.__slots__ == ("z",)
    assert not hasattr(higher, "__dict__")


@classes.dataclass(frozen=True, slots=True)
class Kept:
    """Something that is pickled."""

    x: int
    y: Any = None


def test_copies_and_pickles():
    """Objects with slots are pickled and copied, whether or not others were made before."""
    for again in (copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
        assert again(Kept(1, [2])) == Kept(1, [2])


def test_post_init_and_own_methods():
    """What a class defines itself stays, and `__post_init__` runs."""

    @classes.dataclass(frozen=True)
    class Own:
        """A class with methods of its own."""

        x: int
        double: int = classes.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "double", 2 * self.x)

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    assert (Own(2).double, repr(Own(2)), Own(1) == Own(2), hash(Own(1))) == (4, "mine", True, 5)


@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize(
    ("positional", "named"),
    [((), {}), ((), {"y": 1}), ((1, 2, 3, 4, 5), {}), ((), {"x": 1, "z": 3}), ((1,), {"x": 1})],
)
def test_wrong_arguments(given, positional, named):
    """What is said of missing, repeated and unknown arguments is what the original says."""
    said = []
    for maker in MAKERS:
        with pytest.raises(TypeError) as caught:
            points(maker, **given)(*positional, **named)
        said.append(str(caught.value).rpartition("Point.")[2])

    assert said[0].removeprefix("Point.") == said[1]


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_the_first_objects_are_those_that_follow(given):
    """Objects before and behind the compiled `__init__` are equal, and so is what is refused."""
    cls = points(classes, **given)
    made = []
    for _ in range(2 * classes._FEW):
        made.append(cls(x=1, hidden="yes"))
        if made[1:]:  # whose failure compiles nothing that is not there already
            with pytest.raises(TypeError):
                cls(x=1, z=3)

    assert len({repr(point) for point in made}) == 1
    assert {(point.x, point.y, point.hidden) for point in made} == {(1, 2, "yes")}
    assert all(point == made[0] for point in made) or not given["eq"]
    assert len({id(point.names) for point in made}) == len(made)


def test_refused():
    """A default that all objects would share, and a base of the other decorator, are refused."""
    with pytest.raises(ValueError, match="share"):

        @classes.dataclass
        class Shared:
            """With a list."""

            names: list[str] = []  # noqa: RUF012

    with pytest.raises(TypeError, match="another decorator"):

        @classes.dataclass(frozen=True)
        class Mixed(points(dataclasses, frozen=True)):
            """Of another."""


def test_recursive_repr():
    """An object that holds itself is shown."""
    point = points(classes)(1)
    point.names.append(point)

    assert repr(point).endswith("names=[...])")


def test_dataclasses_is_not_imported():
    """Making classes and objects, comparing and replacing them imports no `dataclasses`."""
    code = """
import sys
from tensorferry.dtypes import DType, TABLE
from tensorferry.classes import replace
assert TABLE[0] == replace(TABLE[0]) and repr(TABLE[0]) and hash(TABLE[0])
print([name for name in ("dataclasses", "inspect") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def pairs(maker: Any) -> Any:
    class Pair(maker.NamedTuple):
        """Two of them."""

        x: int
        y: int = 2

        @property
        def sum(self) -> int:
            """Both together."""
            return self.x + self.y

    return Pair


class KeptPair(classes.NamedTuple):
    """A tuple that is pickled."""

    x: int
    y: Any = None


def test_named_tuples_are_those_of_typing():
    """Tuples, their texts, signatures, defaults and methods are those of the original."""
    ours, theirs = (pairs(maker) for maker in (classes, typing))
    one, other = ours(1), theirs(1)

    assert (one, *one) == (other, *other)
    assert (repr(one), one.sum, hash(one)) == (repr(other), other.sum, hash(other))
    assert (one.x, one.y) == (other.x, other.y) == (1, 2)
    assert str(inspect.signature(ours)) == "(x: 'int', y: 'int' = 2)"
    assert typing.get_type_hints(ours) == typing.get_type_hints(theirs)
    assert inspect.getdoc(ours.x) == inspect.getdoc(theirs.x)
    for name in ("_fields", "_field_defaults", "__match_args__", "__doc__", "__mro__", "__slots__"):
        found = [vars(cls).get(name, None) for cls in (ours, theirs)]
        assert found[0] == found[1], name
    assert ours.__qualname__ == theirs.__qualname__
    assert ours.__module__ == theirs.__module__
    assert one._asdict() == other._asdict()
    assert type(one._replace(y=5)) is ours
    assert one._replace(y=5) == other._replace(y=5)
    assert ours._make([3, 4]) == theirs._make([3, 4])
    assert not hasattr(one, "__dict__")
    assert isinstance(ours(y=1, x=2), tuple)


def test_wrong_named_tuples():
    """Wrong arguments, fields and classes are refused as the original refuses them."""
    for maker in (classes, typing):
        cls = pairs(maker)
        for positional, named in (((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})):
            with pytest.raises(TypeError):
                cls(*positional, **named)
        with pytest.raises(TypeError, match="xpected 2"):
            cls._make([1])
        with pytest.raises((ValueError, TypeError), match="nexpected field names"):
            cls(1)._replace(z=1)  # a TypeError from Python 3.13 on
        with pytest.raises(AttributeError):
            cls(1).x = 3
        with pytest.raises(TypeError, match="default"):

            class Late(maker.NamedTuple):
                """Its second field has no default."""

                x: int = 1
                y: int

        with pytest.raises(ValueError, match="underscore"):

            class Hidden(maker.NamedTuple):
                """Its field would be one of the methods."""

                _make: int


def test_named_tuples_are_kept():
    """Tuples are copied and pickled, before and after the first one is made."""
    for again in (copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
        found = again(KeptPair(1, [2]))
        assert (found, type(found)) == (KeptPair(1, [2]), KeptPair)


def test_many_at_once():
    """Objects made together are those that calls of the class would be."""
    made = points(classes, frozen=True, slots=True)
    rows = [(x, x + 1, [str(x)], "no") for x in range(100)]

    found = classes.make_many(made, iter(rows))

    assert found == [made(*row) for row in rows]
    assert [repr(each) for each in found[:2]] == [repr(made(*row)) for row in rows[:2]]
    assert hash(classes.make_many(made, [(1, 2, (), "")])[0]) == hash(made(1, 2, ()))
    assert pickled(found[0]) == ((0, 1, ["0"], "no"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found[0].x = 3


def pickled(point: Any) -> tuple[Any, ...]:
    """The fields of an object that was copied."""
    found = copy.copy(point)
    return found.x, found.y, found.names, found.hidden


class _Base:
    __slots__ = ("x",)


class _Text(str):
    __slots__ = ()


class _Made:
    __slots__ = ("x",)

    def __new__(cls) -> Any:
        raise AssertionError("nobody asked for it")


def test_many_of_no_class_with_slots():
    """What is more than its slots, and what has none of these, is refused."""

    def failing() -> Any:
        yield (1,)
        raise OSError("no more")

    for kind, slots, rows in (
        (5, ("x",), []),
        (_Text, (), [()]),
        (int, (), [()]),
        (_Made, ("x",), [(1,)]),
        (_Base, ("x", "__class__"), [(1, int)]),
        (_Base, ("x",), [()]),
        (_Base, ("x",), [(1, 2)]),
        (_Base, ("x",), [[1]]),
        (_Base, ("x",), 5),
    ):
        with pytest.raises(TypeError):
            _native.make_objects(kind, slots, rows)
    with pytest.raises(AttributeError):
        _native.make_objects(_Base, ("y",), [])
    with pytest.raises(OSError, match="no more"):
        _native.make_objects(_Base, ("x",), failing())
