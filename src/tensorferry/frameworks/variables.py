"""Variables: what a model of any framework holds that can be read and set in place.

A model is a Keras model or layer, a `tf.Module` or another object that TensorFlow tracks, a torch
module, or any Python object, dict, list or tuple with variables somewhere inside. Each variable has
the name that its framework would give it, and the other names under which files may have it.

The frameworks' modules have these verbs besides those of `tensorferry.frameworks`:

    is_variable(value)           whether it is one that can be set
    make_variable(value, name)   as a `Variable`
    is_model(value)              whether `list_variables` knows more of it than its attributes
    list_variables(value)        the variables of such a model

Python objects are walked by their instance attributes and slots. Properties are not called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tensorferry import dtypes, frameworks, limits
from tensorferry.errors import LimitError, UnsupportedError
from tensorferry.tensors.values import SCALARS, Array, as_tensor, is_namedtuple

# Keras before TensorFlow: its models are objects that TensorFlow tracks.
NAMES = ("keras", "torch", "tensorflow")

# What is never looked into. The attributes of a class are those of all its instances.
_OPAQUE = (
    *SCALARS,
    complex,
    type,
    np.generic,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
)


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable of a model.

    Attributes:
        name: In the terms of its framework, and of no other variable of the model.
        shape: None for a dimension, or for all of it, that is not fixed.
        dtype: Our name of it.
        read: Gives its value; shares memory where possible.
        assign: Sets its value to an array of that shape and dtype.
        trainable: Whether training changes it by gradients.
        optimizer: Whether it is the state of an optimizer.
        spellings: Its names in files of a kind: "keras" (.weights.h5) and "checkpoint".
        aliases: Its other names.
        tied: The places besides its own where the model has it, too; files may have it at each.
        automatic: The parts of its name that the framework made up and numbered: they differ from
            one copy of the model to the next.
        fixed: Why it cannot be set, if it cannot.
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str
    read: Callable[[], Array] = field(repr=False)
    assign: Callable[[Array], None] = field(repr=False)
    trainable: bool = True
    optimizer: bool = False
    spellings: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    tied: tuple[str, ...] = ()
    automatic: frozenset[str] = frozenset()
    fixed: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All of its names, its own first."""
        return tuple(
            dict.fromkeys((self.name, *self.tied, *self.spellings.values(), *self.aliases))
        )

    def under(self, prefix: str) -> Variable:
        """The same variable as a part of a larger model."""
        if not prefix:
            return self
        return replace(
            self,
            name=f"{prefix}/{self.name}",
            spellings={kind: f"{prefix}/{name}" for kind, name in self.spellings.items()},
            aliases=tuple(f"{prefix}/{name}" for name in self.aliases),
            tied=tuple(f"{prefix}/{name}" for name in self.tied),
        )


def list_variables(model: Any, *, build_optimizer: bool = False) -> list[Variable]:
    """The variables of a model in the order in which it has them, each of them once.

    Args:
        model: See the top of this module.
        build_optimizer: Let an optimizer that was not used yet make its variables.

    Raises:
        UnsupportedError: There is none in it, or some were not made yet.
        LimitError: It nests deeper than `limits.depth`.
    """
    if isinstance(model, _OPAQUE):
        raise UnsupportedError(
            f"{type(model).__name__} holds no variables",
            hint="expected a model, a variable, or an object, dict or list with variables inside",
        )
    variables = find_variables(model, build_optimizer=build_optimizer).variables
    if not variables:
        raise UnsupportedError(
            f"no variables were found in {type(model).__name__}",
            hint="a model makes them when it is built or called for the first time; NumPy arrays, "
            "tf.Variable, keras.Variable and torch tensors count, Python numbers do not",
        )
    return variables


@dataclass(frozen=True)
class Held:
    """What a walk through a model met.

    Attributes:
        variables: Its variables, each once.
        holders: The framework's or NumPy's own objects that they are, in the same order.
        objects: Whatever else was looked into; of models of a framework only the outermost.
    """

    variables: list[Variable]
    holders: list[Any] = field(repr=False)
    objects: list[Any] = field(repr=False)


def find_variables(model: Any, *, build_optimizer: bool = False) -> Held:
    """As `list_variables`, with the objects that the variables are; there may be none."""
    walk = _Walk(build_optimizer)
    walk.visit(model, "", None, limits.depth)
    variables = list(walk.found.values())
    paths = _object_paths(model)
    for place, (identity, variable) in enumerate(walk.found.items()):
        known = paths.get(identity, ())
        if known:
            variables[place] = replace(
                variable,
                spellings={**variable.spellings, "checkpoint": known[0]},
                aliases=(*variable.aliases, *known[1:]),
            )
    holders = [walk.seen[identity] for identity in walk.found]
    others = [held for identity, held in walk.seen.items() if identity not in walk.found]
    return Held(_uniquely_named(variables), holders, others)


def _object_paths(model: Any) -> dict[int, list[str]]:
    """The paths in checkpoints of what TensorFlow tracks: in a model, or in a dict of such."""
    tensorflow = used("tensorflow")
    if tensorflow is None:
        return {}
    if tensorflow.is_tracked(model):
        found: dict[int, list[str]] = tensorflow.object_paths(model)
        return found
    paths: dict[int, list[str]] = {}
    for key, part in model.items() if isinstance(model, Mapping) else ():
        if tensorflow.is_tracked(part):
            for identity, inner in tensorflow.object_paths(part).items():
                under = [f"{key}/{path}" if path else str(key) for path in inner]
                paths.setdefault(identity, []).extend(under)
    return paths


def _uniquely_named(variables: list[Variable]) -> list[Variable]:
    """Of several with one name, those that have another one use it; the rest is numbered."""
    taken: dict[str, int] = {}
    for variable in variables:
        taken[variable.name] = taken.get(variable.name, 0) + 1
    used: set[str] = {name for name, count in taken.items() if count == 1}
    result = []
    for variable in variables:
        if taken[variable.name] > 1:
            numbered = (f"{variable.name}_{number}" for number in range(1, len(variables) + 2))
            choices = (*variable.spellings.values(), variable.name, *numbered)
            name = next(choice for choice in choices if choice not in used)
            variable = replace(variable, name=name, aliases=(*variable.aliases, variable.name))
            used.add(name)
        result.append(variable)
    return result


def used(name: str) -> Any:
    """The module of a framework, if the program uses it."""
    if sys.modules.get(name) is None:
        return None
    return import_module(f"tensorferry.frameworks.{frameworks.HOMES.get(name, name)}")


class _Walk:
    """Finds variables, by identity, in the order of their first places."""

    def __init__(self, build_optimizer: bool) -> None:
        self.found: dict[int, Variable] = {}
        self._build_optimizer = build_optimizer
        self._modules = [module for module in map(used, NAMES) if module is not None]
        # Ids stand for objects as long as these live.
        self.seen: dict[int, Any] = {}

    def visit(
        self, value: Any, path: str, replace_with: Callable[[Any], None] | None, depth: int
    ) -> None:
        """Takes a variable, or looks into what may hold some."""
        if isinstance(value, _OPAQUE):
            return
        variable = self._as_variable(value, path or "variable", replace_with)
        if variable is not None:
            self._take(value, variable)
            return
        if id(value) in self.seen:
            return
        if depth == 0:
            raise LimitError(f"the model nests deeper than {limits.depth}", tensor=path[:60])
        self.seen[id(value)] = value
        for module in self._modules:
            if module.is_model(value):
                listed = module.list_variables(value, build_optimizer=self._build_optimizer)
                for held, variable in listed:
                    self._take(held, variable.under(path))
                return
        for name, child, setter in self._children(value):
            self.visit(child, f"{path}/{name}" if path else name, setter, depth - 1)

    def _take(self, held: Any, variable: Variable) -> None:
        known = self.found.get(id(held))
        self.seen[id(held)] = held
        if known is not None:
            # TensorFlow's files have a variable once, others at each of its places.
            tensorflow = used("tensorflow")
            if tensorflow is None or not tensorflow.is_tracked(held):
                known = replace(known, tied=(*known.tied, variable.name))
            variable = replace(known, aliases=(*known.aliases, *variable.names))
        self.found[id(held)] = variable

    def _as_variable(
        self, value: Any, name: str, replace_with: Callable[[Any], None] | None
    ) -> Variable | None:
        if isinstance(value, np.ndarray):
            return _numpy_variable(value, name)
        for module in self._modules:
            if module.is_variable(value):
                found: Variable = module.make_variable(value, name)
                return found
        jax = used("jax")
        return _jax_variable(value, name, replace_with) if jax and jax.owns(value) else None

    def _children(self, value: Any) -> Iterator[tuple[str, Any, Callable[[Any], None] | None]]:
        if isinstance(value, Mapping):
            put = getattr(value, "__setitem__", None)
            for key, child in list(value.items()):
                yield str(key), child, None if put is None else partial(put, key)
        elif is_namedtuple(value):
            for name, child in zip(value._fields, value, strict=True):
                yield name, child, None
        elif isinstance(value, list | tuple):
            put = getattr(value, "__setitem__", None)
            for place, child in enumerate(value):
                yield str(place), child, None if put is None else partial(put, place)
        elif not any(module.owns(value) for module in self._modules if hasattr(module, "owns")):
            tracked = used("tensorflow")
            if tracked is not None and tracked.is_tracked(value):
                for name, child in tracked.tracked_children(value).items():
                    yield name, child, None
            else:
                for name, child in attributes(value):
                    yield name, child, partial(setattr, value, name)


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Instance attributes and slots; descriptors of the class are not asked."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:  # it has slots only
        own = None
    if isinstance(own, dict):
        yield from [(name, child) for name, child in own.items() if isinstance(name, str)]
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if name in ("__dict__", "__weakref__"):
                continue
            mangled = name.startswith("__") and not name.endswith("__")
            known = f"_{kind.__name__.lstrip('_')}{name}" if mangled else name
            try:
                yield known, object.__getattribute__(value, known)
            except AttributeError:  # a slot that was not set
                continue


def _numpy_variable(array: Array, name: str) -> Variable | None:
    try:
        dtype = dtypes.from_numpy(as_tensor(array[:0] if array.ndim else array).dtype)
    except UnsupportedError:  # arrays of objects, dates and records are data of another kind
        return None
    fixed = None if array.flags.writeable else "the array is read-only"
    assign = partial(_fill, array)
    return Variable(name, array.shape, dtype.name, partial(as_tensor, array), assign, fixed=fixed)


def _fill(array: Array, value: Array) -> None:
    array[...] = value


def _jax_variable(
    value: Any, name: str, replace_with: Callable[[Any], None] | None
) -> Variable | None:
    """JAX's arrays never change: another one takes the place in what holds it."""
    fixed = None
    if replace_with is None:
        fixed = "JAX's arrays never change, and this one lies in a tuple or stands alone"

    def assign(array: Array) -> None:
        assert replace_with is not None
        replace_with(frameworks.give(array, "jax"))

    return Variable(
        name,
        tuple(value.shape),
        dtypes.as_dtype(str(value.dtype)).name,
        lambda: np.asarray(frameworks.accept(value)),
        assign,
        fixed=fixed,
    )
