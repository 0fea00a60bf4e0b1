"""Variables: everything in a model of any framework that can be read and set in place.

    for variable in list_variables(model):
        print(variable.name, variable.shape, variable.dtype)

A model is a Keras model or layer, a `tf.Module` or another object that TensorFlow tracks, a torch
module, or any Python object, dict, list or tuple with variables somewhere inside. Each variable
has the name that its framework would give it, and the other names that files may have for it.

`contract.Variables` says what the variables of a framework are. Python objects are walked by their
instance attributes and slots. Properties are not called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tensorferry import dtypes, limits
from tensorferry.classes import dataclass, field, replace
from tensorferry.errors import LimitError, UnsupportedError
from tensorferry.frameworks import table
from tensorferry.frameworks.contract import Foreign, Put, Variable
from tensorferry.tensors.values import SCALARS, Array, as_tensor, is_namedtuple

# Values of these types are never looked into. A class' attributes belong to all its instances.
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


def list_variables(model: Foreign, *, build_optimizer: bool = False) -> list[Variable]:
    """The variables of a model in the model's order, each of them once.

    Args:
        model: See the top of this module.
        build_optimizer: Let an optimizer that was not used yet create its variables.

    Raises:
        UnsupportedError: The model has no variables, or was not built yet.
        LimitError: The model nests deeper than `limits.depth`.

    Examples:
        >>> [variable.name for variable in list_variables({"w": np.zeros(3)})]
        ['w']
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
    """Everything that a walk through a model found.

    Attributes:
        variables: The variables of the model, each once.
        holders: The framework's or NumPy's own object of each variable, in the same order.
        objects: The other objects that the walk looked into. Of a framework's model that is the
            model itself, without its parts.
    """

    variables: list[Variable]
    holders: list[Foreign] = field(repr=False)
    objects: list[Foreign] = field(repr=False)


def find_variables(model: Foreign, *, build_optimizer: bool = False) -> Held:
    """As `list_variables`, with the frameworks' own objects; finding no variable is no error."""
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


def _object_paths(model: Foreign) -> dict[int, list[str]]:
    """The paths in checkpoints to the parts of a tracked model, or of a dict of such models."""
    if not table.in_use("tensorflow"):
        return {}
    objects = table.objects()
    if objects.is_tracked(model):
        return objects.object_paths(model)
    paths: dict[int, list[str]] = {}
    for key, part in model.items() if isinstance(model, Mapping) else ():
        if objects.is_tracked(part):
            for identity, inner in objects.object_paths(part).items():
                under = [f"{key}/{path}" if path else str(key) for path in inner]
                paths.setdefault(identity, []).extend(under)
    return paths


def _uniquely_named(variables: list[Variable]) -> list[Variable]:
    """Variables that share a name use another name of theirs, or else get a number."""
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


class _Walk:
    """Finds variables by identity, in the order in which they are first met."""

    def __init__(self, build_optimizer: bool) -> None:
        self.found: dict[int, Variable] = {}
        self._build_optimizer = build_optimizer
        self._frameworks = table.variables_in_use()
        self._tensors = [table.tensors(name) for name in table.NAMES if table.in_use(name)]
        self._objects = table.objects() if table.in_use("tensorflow") else None
        # Holds the objects, so that no id is used a second time.
        self.seen: dict[int, Any] = {}

    def visit(self, value: Foreign, path: str, put: Put | None, depth: int) -> None:
        """Takes a variable, or looks into an object that may hold variables."""
        if isinstance(value, _OPAQUE):
            return
        variable = self._as_variable(value, path or "variable", put)
        if variable is not None:
            self._take(value, variable)
            return
        if id(value) in self.seen:
            return
        if depth == 0:
            raise LimitError(f"the model nests deeper than {limits.depth}", tensor=path[:60])
        self.seen[id(value)] = value
        for framework in self._frameworks:
            if framework.is_model(value):
                listed = framework.list_variables(value, build_optimizer=self._build_optimizer)
                for held, variable in listed:
                    self._take(held, variable.under(path))
                return
        for name, child, setter in self._children(value):
            self.visit(child, f"{path}/{name}" if path else name, setter, depth - 1)

    def _take(self, held: Foreign, variable: Variable) -> None:
        known = self.found.get(id(held))
        self.seen[id(held)] = held
        if known is not None:
            # TensorFlow's files have a variable once, others have it at each of its places.
            if not self._is_tracked(held):
                known = replace(known, tied=(*known.tied, variable.name))
            variable = replace(known, aliases=(*known.aliases, *variable.names))
        self.found[id(held)] = variable

    def _is_tracked(self, value: Foreign) -> bool:
        return self._objects is not None and self._objects.is_tracked(value)

    def _as_variable(self, value: Foreign, name: str, put: Put | None) -> Variable | None:
        if isinstance(value, np.ndarray):
            return _numpy_variable(value, name)
        for framework in self._frameworks:
            if framework.is_variable(value):
                return framework.make_variable(value, name, put)
        return None

    def _children(self, value: Foreign) -> Iterator[tuple[str, Any, Put | None]]:
        if isinstance(value, Mapping):
            store = value.__setitem__ if isinstance(value, MutableMapping) else None
            for key, child in list(value.items()):
                yield str(key), child, None if store is None else partial(store, key)
        elif is_namedtuple(value):
            for name, child in zip(value._fields, value, strict=True):
                yield name, child, None
        elif isinstance(value, list | tuple):
            for place, child in enumerate(value):
                put = partial(value.__setitem__, place) if isinstance(value, list) else None
                yield str(place), child, put
        elif not any(tensors.owns(value) for tensors in self._tensors):
            if self._objects is not None and self._objects.is_tracked(value):
                for name, child in self._objects.tracked_children(value).items():
                    yield name, child, None
            else:
                for name, child in attributes(value):
                    yield name, child, partial(setattr, value, name)


def attributes(value: Foreign) -> Iterator[tuple[str, Foreign]]:
    """The instance attributes and slots of an object; descriptors of its class are not called."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:  # the object has slots only
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
    except UnsupportedError:  # arrays of objects, dates and records are no variables
        return None
    fixed = None if array.flags.writeable else "the array is read-only"
    assign = partial(_fill, array)
    return Variable(name, array.shape, dtype.name, partial(as_tensor, array), assign, fixed=fixed)


def _fill(array: Array, value: Array) -> None:
    array[...] = value
