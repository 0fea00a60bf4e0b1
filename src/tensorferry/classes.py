"""Dataclasses and named tuples that are made quickly.

`dataclasses` writes and compiles up to eight methods for each class, which takes a millisecond, and
imports more than all else that a look into a file needs. The decorator here makes the same classes
in a tenth of that: `__init__` is compiled when a class has many objects, and the other methods are
shared by all classes.

    from tensorferry.classes import NamedTuple, dataclass, field

    @dataclass(frozen=True, slots=True)
    class Asset:
        name: str
        size: int | None = None

    class Span(NamedTuple):
        start: int
        end: int

It knows as much of `dataclasses` as this package uses, and its classes are dataclasses to everybody
else: `dataclasses.fields`, `replace`, `asdict` and a subclass made by the original find what they
look for, which is made when they do. Annotations have to be texts, as
`from __future__ import annotations` leaves them.

`make_many` makes thousands of objects at once, without a call for each attribute.

`NamedTuple` does what that of `typing` does, in a quarter of the time: `__new__` is compiled when
the first tuple is made.
"""

from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined]
from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

_MISSING: Any = object()
_FACTORY: Any = type("_FACTORY", (), {"__repr__": lambda self: "<factory>"})()


class _Field:
    """What a class says of a field, in the words of `dataclasses.field`."""

    def __init__(
        self,
        *,
        default: Any = _MISSING,
        default_factory: Any = _MISSING,
        init: bool = True,
        repr: bool = True,
        compare: bool = True,
        kw_only: bool = False,
    ) -> None:
        self.default = default
        self.default_factory = default_factory
        self.init = init
        self.repr = repr
        self.compare = compare
        self.kw_only = kw_only
        self.type = ""


class _About:
    """How a class was made: its fields, and what the decorator was given."""

    def __init__(self, fields: dict[str, _Field], given: dict[str, bool]) -> None:
        self.fields = fields
        self.given = given


# The attribute that has it, and those by which `dataclasses` knows its classes.
_ABOUT = "__tensorferry_about__"
_TWINS = ("__dataclass_fields__", "__dataclass_params__")


def _dataclass(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Any:
    given = {"frozen": frozen, "slots": slots, "eq": eq, "repr": repr, "kw_only": kw_only}

    def make(cls: type) -> type:
        return _make(cls, _About(_find_fields(cls, kw_only), given))

    return make if cls is None else make(cls)


def make_many(cls: Any, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Objects of a class with slots, in a fifth of the time that calling it takes.

    Nobody checks the values, and `__post_init__` is not called.

    Args:
        cls: The class, which inherits no slots.
        rows: The values of all fields of each object, in their order.
    """
    found: list[Any] = _maker()(cls, cls.__slots__, rows)
    return found


@cache
def _maker() -> Callable[..., list[Any]]:
    from tensorferry import _native  # imported late: most classes are made before it is needed

    return _native.make_objects


def _find_fields(cls: type, kw_only: bool) -> dict[str, _Field]:
    """The fields of a class, those of its bases first."""
    found: dict[str, _Field] = {}
    for base in reversed(cls.__mro__[1:]):
        if _ABOUT in base.__dict__:
            found.update(base.__dict__[_ABOUT].fields)
        elif "__dataclass_fields__" in base.__dict__:
            raise TypeError(f"{cls.__qualname__}: {base.__qualname__} is made by another decorator")
    for name, kind in cls.__annotations__.items():
        if kind.startswith("ClassVar"):
            continue
        own = cls.__dict__.get(name, _MISSING)
        described = own if isinstance(own, _Field) else _Field(default=own)
        if described.default.__class__.__hash__ is None:
            raise ValueError(f"{name} of {cls.__qualname__}: every object would share its default")
        described.type = kind
        described.kw_only = described.kw_only or kw_only
        found[name] = described
    return found


def _make(cls: type, about: _About) -> type:
    """The class with all that its fields ask for."""
    fields, given = about.fields, about.given
    made: dict[str, Any] = {}
    own = cls.__dict__
    if given["repr"]:
        made["__repr__"] = _repr_of([name for name, each in fields.items() if each.repr])
    compared = tuple(name for name, each in fields.items() if each.compare)
    if given["eq"]:
        made["__eq__"] = _equal_by(_getter(compared))
        if "__hash__" not in own or ("__eq__" in own and own["__hash__"] is None):
            made["__hash__"] = _hash_by(_getter(compared)) if given["frozen"] else None
    made["__match_args__"] = tuple(
        name for name, each in fields.items() if each.init and not each.kw_only
    )
    made["__replace__"] = _replace
    if given["slots"] and given["frozen"]:
        made["__getstate__"], made["__setstate__"] = _state_by(tuple(fields))
    made = {name: value for name, value in made.items() if name not in own or name == "__hash__"}
    later: dict[str, _Init | _Twin] = {name: _Twin(name) for name in _TWINS}
    if "__init__" not in own:
        later["__init__"] = _Init()
    made |= later
    made[_ABOUT] = about
    if given["slots"]:
        cls = _with_slots(cls, tuple(fields), made)
    else:
        for name, each in fields.items():
            if isinstance(own.get(name), _Field):  # as `dataclasses` leaves it
                if each.default is _MISSING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, each.default)
        for name, value in made.items():
            setattr(cls, name, value)
    if given["frozen"]:
        _freeze(cls, frozenset(fields))
    for value in later.values():
        value.cls = cls
    return cls


def _with_slots(cls: type, names: tuple[str, ...], made: dict[str, Any]) -> type:
    """The class once more: slots are there from the beginning, or not at all."""
    inherited = {
        slot for base in cls.__mro__[1:] for slot in _listed(base.__dict__.get("__slots__", ()))
    }
    body = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in names and name not in ("__dict__", "__weakref__")
    }
    body |= made
    body["__qualname__"] = cls.__qualname__
    body["__slots__"] = tuple(name for name in names if name not in inherited)
    return type(cls)(cls.__name__, cls.__bases__, body)


def _listed(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


# What makes a new one in a third of the time that a call takes.
_EMPTY: dict[Any, str] = {dict: "{}", list: "[]"}

# As many objects are made by a loop over fields, as most classes have in a process that looks into
# one file: compiling `__init__` takes longer.
_FEW = 16


class _Init:
    """`__init__` until a class has more than a few objects, or somebody asks for its signature.

    Attributes:
        cls: The class.
    """

    cls: Any
    _made = 0

    def __get__(self, instance: Any, owner: type) -> Any:
        self._made += 1
        # From Python 3.13 on, who asks for the signature passes the class.
        if instance is None or self._made > _FEW or isinstance(instance, type):
            return self._compile().__get__(instance, owner)
        return lambda *values, **named: self._fill(instance, values, named)

    def _compile(self) -> Any:
        self.cls.__init__ = found = _compile_init(self.cls, self.cls.__dict__[_ABOUT])
        return found

    def _fill(self, instance: Any, values: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Sets the fields of an object; wrong arguments are refused by the compiled method."""
        about: _About = self.cls.__dict__[_ABOUT]
        taken = [name for name, each in about.fields.items() if each.init and not each.kw_only]
        given = dict(zip(taken, values, strict=False)) | named
        fits = len(given) == len(values) + len(named)
        found: dict[str, Any] = {}
        for name, each in about.fields.items():
            if each.init and name in given:
                found[name] = given.pop(name)
            elif each.default_factory is not _MISSING:
                found[name] = each.default_factory()
            elif each.default is not _MISSING:
                found[name] = each.default
            else:
                fits = fits and not each.init
        if not fits or given:
            self._compile()(instance, *values, **named)
            return
        put = object.__setattr__ if about.given["frozen"] else setattr
        for name, value in found.items():
            put(instance, name, value)
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()


def _compile_init(cls: type, about: _About) -> Callable[..., None]:
    """`__init__`, as somebody would write it: a loop over fields would take several times as long.

    All of its text stands here and in the class: names of fields, which Python has parsed.
    """
    known: dict[str, Any] = {"_FACTORY": _FACTORY, "_put": object.__setattr__}
    taken: dict[bool, list[str]] = {False: [], True: []}
    body = []
    for name, each in about.fields.items():
        value = name
        if each.default_factory is not _MISSING:
            known[f"_make_{name}"] = each.default_factory
            known[f"_default_{name}"] = _FACTORY
            is_given = f"{name} if {name} is not _FACTORY else " if each.init else ""
            value = is_given + _EMPTY.get(each.default_factory, f"_make_{name}()")
        elif each.default is not _MISSING:
            known[f"_default_{name}"] = each.default
        elif not each.init:
            continue  # which `__post_init__` sets
        default = f"_default_{name}"
        if each.init:
            taken[each.kw_only].append(f"{name}={default}" if default in known else name)
        elif each.default_factory is _MISSING:
            value = default
        if not about.given["frozen"]:
            body.append(f"self.{name}={value}")
        elif about.given["slots"]:
            known[f"_put_{name}"] = _slot(cls, name)
            body.append(f"_put_{name}(self,{value})")
        else:
            body.append(f"_put(self,{name!r},{value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    star = ["*"] if taken[True] else []
    parameters = ",".join(["self", *taken[False], *star, *taken[True]])
    exec(f"def __init__({parameters}):\n {';'.join(body) or 'pass'}", known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {n: each.type for n, each in about.fields.items() if each.init}
    init.__annotations__["return"] = None
    return init


def _slot(cls: type, name: str) -> Any:
    """What puts a value into a slot, whatever `__setattr__` says."""
    return next(each.__dict__[name] for each in cls.__mro__ if name in each.__dict__).__set__


def _getter(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """What gives the values of some fields, to be compared and hashed."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda value: ()
    one = attrgetter(*names)
    return lambda value: (one(value),)


def _equal_by(values: Callable[[Any], Any]) -> Callable[..., Any]:
    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return equal


def _hash_by(values: Callable[[Any], Any]) -> Callable[[Any], int]:
    def hashed(self: Any) -> int:
        return hash(values(self))

    return hashed


def _repr_of(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def show(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({shown})"

    return show


def _state_by(names: tuple[str, ...]) -> tuple[Callable[..., Any], Callable[..., None]]:
    """How objects with slots that cannot be assigned are pickled and copied."""

    def get(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def put(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return get, put


def _freeze(cls: Any, names: frozenset[str]) -> None:
    """Refuses to assign and to delete fields; a subclass may have attributes of its own."""

    def assign(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise _frozen(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise _frozen(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__ = assign
    cls.__delattr__ = delete


def _frozen(text: str) -> Exception:
    from dataclasses import FrozenInstanceError

    return FrozenInstanceError(text)


def _replace(value: Any, /, **changes: object) -> Any:
    """The same object with other values of some fields."""
    about: _About | None = getattr(type(value), _ABOUT, None)
    if about is None:
        from dataclasses import replace

        return replace(value, **changes)
    kept = {
        name: getattr(value, name)
        for name, each in about.fields.items()
        if each.init and name not in changes
    }
    return type(value)(**kept, **changes)


class _Twin:
    """An attribute by which `dataclasses` knows a class, made when it is asked for.

    Args:
        name: Of the attribute.

    Attributes:
        cls: The class.
    """

    cls: Any

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        import dataclasses

        about: _About = self.cls.__dict__[_ABOUT]
        fields = [_described(name, each) for name, each in about.fields.items()]
        given: dict[str, Any] = dict(about.given, slots=False, kw_only=False)
        twin = dataclasses.make_dataclass(self.cls.__name__, fields, **given)
        for name in _TWINS:
            setattr(self.cls, name, vars(twin)[name])
        return vars(twin)[self._name]


def _described(name: str, field: _Field) -> tuple[str, Any, Any]:
    """A field, as `dataclasses.make_dataclass` takes it."""
    import dataclasses

    given = {key: value for key, value in vars(field).items() if value is not _MISSING}
    kind = given.pop("type")
    return name, kind, dataclasses.field(**given)


# Named tuples


class _TupleMaker(type):
    """Makes a tuple of the class whose body names its fields."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, body)
        fields = tuple(body.get("__annotations__", ()))
        defaults = {field: body[field] for field in fields if field in body}
        if list(defaults) != list(fields[len(fields) - len(defaults) :]):
            raise TypeError(f"{name}: a field without a default follows one with a default")
        if any(field.startswith("_") for field in fields):
            raise ValueError(f"{name}: a field starts with an underscore")
        new = _New(fields, defaults)
        made: dict[str, Any] = {
            "__slots__": (),
            "_fields": fields,
            "_field_defaults": defaults,
            "__match_args__": fields,
            "__new__": new,
            "_make": classmethod(_make_tuple),
            "_replace": _replace_tuple,
            "__replace__": _replace_tuple,
            "_asdict": _dict_of_tuple,
            "__repr__": _show_tuple,
            "__getnewargs__": _plain_tuple,
        }
        for place, field in enumerate(fields):
            made[field] = _tuplegetter(place, f"Alias for field number {place}")
        new.cls = type(name, (tuple,), made | {n: v for n, v in body.items() if n not in fields})
        return new.cls


class _New:
    """`__new__` until the first tuple is made.

    Attributes:
        cls: The class.
    """

    cls: Any

    def __init__(self, fields: tuple[str, ...], defaults: dict[str, Any]) -> None:
        self._fields = fields
        self._defaults = defaults

    def __get__(self, instance: Any, owner: type) -> Any:
        # As in `_compile_init`, all of the text are names that Python has parsed.
        known: dict[str, Any] = {"_new": tuple.__new__}
        names = "".join(f"{field}, " for field in self._fields)
        exec(f"def __new__(_cls, {names}):\n return _new(_cls, ({names}))", known)
        found: Any = known["__new__"]
        found.__defaults__ = tuple(self._defaults.values()) or None
        found.__qualname__ = f"{self.cls.__qualname__}.__new__"
        found.__module__ = self.cls.__module__
        found.__annotations__ = dict(self.cls.__annotations__)
        self.cls.__new__ = staticmethod(found)
        return found


def _make_tuple(cls: Any, values: Any) -> Any:
    """A tuple of some values, one for each field."""
    found = tuple.__new__(cls, values)
    if len(found) != len(cls._fields):
        raise TypeError(f"expected {len(cls._fields)} values, got {len(found)}")
    return found


def _replace_tuple(value: Any, /, **changes: object) -> Any:
    """The same tuple with other values of some fields."""
    found = value._make(map(changes.pop, value._fields, value))
    if changes:
        raise ValueError(f"got unexpected field names: {list(changes)!r}")
    return found


def _dict_of_tuple(value: Any) -> dict[str, Any]:
    """The values by the names of their fields."""
    return dict(zip(value._fields, value, strict=True))


def _plain_tuple(value: Any) -> tuple[Any, ...]:
    """The values, by which a tuple is pickled and copied."""
    return tuple(value)


def _show_tuple(value: Any) -> str:
    shown = ", ".join(f"{name}={each!r}" for name, each in zip(value._fields, value, strict=True))
    return f"{value.__class__.__name__}({shown})"


class _Fields(metaclass=_TupleMaker):
    """The base of a class whose body names fields."""


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass, field as field, replace as replace
    from typing import NamedTuple as NamedTuple
else:
    dataclass, field, replace, NamedTuple = _dataclass, _Field, _replace, _Fields
