"""Keras 3: what Keras' own files keep of a model, layer or optimizer, and what prevents that.

Keeps `contract.KerasTracking`. A .keras file has the name of the class, the result of
`get_config()`, and the variables of all layers found in attributes. The constructor creates
everything else when the file is loaded, or it is lost. Pickling such an object writes that file
into the pickle.

Steps are expressions with `{}` for the object itself: `"{}.layers[2].function"`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from functools import cache
from types import FunctionType
from typing import Any

import keras
import numpy as np

from tensorferry.frameworks.contract import Foreign, KerasProblem

# Arrays in a config that are larger than this are not tried: Keras writes out all their numbers.
LARGE = 1 << 16

_SIMPLE = (str, int, float, bool, type(None))

# Attributes that a model has once it was compiled or called.
_COMPILED = frozenset(
    (
        "optimizer",
        "loss",
        "compiled",
        "jit_compile",
        "run_eagerly",
        "steps_per_execution",
        "_functional",
    )
)


def is_saveable(value: Foreign) -> bool:
    """Whether Keras has its own way of saving an object."""
    # By its type: `__class__` may be whatever the object says.
    kinds = (keras.Operation, keras.Optimizer, keras.Metric, keras.Loss)
    return issubclass(type(value), kinds)


def backing(variable: Foreign) -> Foreign:
    """The backend's own variable behind one of Keras'."""
    return vars(variable).get("_value")


def draws_seeds(value: Foreign) -> bool:
    """Whether a value is an RNN cell with dropout, whose graph uses an untracked seed."""
    if not hasattr(type(value), "get_dropout_mask"):
        return False
    return any(vars(value).get(name) for name in ("dropout", "recurrent_dropout"))


def collections(value: Foreign) -> dict[str, Any]:
    """The lists and dicts of a layer that SavedModels have and checkpoints do not."""
    names = vars(value).get("_tracked", ()) if isinstance(value, keras.layers.Layer) else ()
    return {name: vars(value)[name] for name in names if name in vars(value)}


def is_composite(value: Foreign) -> bool:
    """Whether the config of a model is that of its layers."""
    kind = value._obj_type() if isinstance(value, keras.Model) else None
    if kind not in ("Sequential", "Functional"):
        return False
    return _is_own(_definer(type(value), "get_config"))


def is_built(value: Foreign) -> bool:
    """Whether a layer has all of its variables."""
    return not isinstance(value, keras.layers.Layer) or bool(value.built)


def build_config(value: Foreign) -> Foreign:
    """The argument for `build_from_config` of a new layer; None if it has to be called instead."""
    if not isinstance(value, keras.layers.Layer) or not value.built:
        return None
    try:
        return value.get_build_config()
    except Exception:  # the user's code may raise anything
        return None


def parts(value: Foreign) -> Iterator[tuple[str, Foreign]]:
    """What the user put into an object, without Keras' own attributes."""
    if isinstance(value, keras.Model) and value._obj_type() in ("Sequential", "Functional"):
        for number, layer in enumerate(value.layers):
            yield f"{{}}.layers[{number}]", layer
    if not isinstance(value, keras.layers.Layer):
        return
    known = _layer_attributes()
    for name, child in list(vars(value).items()):
        if name in known or not name.isidentifier() or name.startswith("_self_"):
            continue
        if _is_own(type(value)) and not _is_of_users(child):
            continue
        yield f"{{}}.{name}", child
    for kind in type(value).__mro__:
        if _is_own(kind) or kind.__module__.startswith(("tensorflow", "builtins")):
            continue
        for name, child in vars(kind).items():
            if isinstance(child, FunctionType) and name not in ("__init__", "get_config"):
                yield f"{_class_step(value, kind)}.__dict__[{name!r}]", child


def _class_step(value: Foreign, kind: type) -> str:
    place = type(value).__mro__.index(kind)
    return "type({})" if place == 0 else f"type({{}}).__mro__[{place}]"


def _is_of_users(child: Foreign) -> bool:
    """Whether an attribute of one of Keras' own layers is a layer or function of the user's."""
    if isinstance(child, FunctionType):
        return not child.__module__.startswith("keras")
    return isinstance(child, keras.layers.Layer | keras.Variable)


@cache
def _layer_attributes() -> frozenset[str]:
    """The attributes that every layer and model has; none of them is the user's."""
    # The objects get names because Keras counts those without.
    layer, model = keras.layers.Layer(name="common"), keras.Model(name="common")
    compiled = keras.Sequential(name="common")
    compiled.compile(keras.optimizers.SGD(name="common"), keras.losses.MeanSquaredError(name="mse"))
    return frozenset({*vars(layer), *vars(model), *vars(compiled), *_COMPILED})


def kept(value: Foreign) -> Iterator[tuple[str, Foreign]]:
    """The parts of an object that a file has: layers, variables, and arguments in the config."""
    variables = {id(one) for one in getattr(value, "variables", ())}
    config = _config(value)
    for step, child in parts(value):
        name = step.removeprefix("{}.")
        is_state = is_saveable(child) or id(child) in variables or _holds(child, variables)
        # A value that is not plain has another form in the config.
        is_argument = name in config and (
            not isinstance(child, _SIMPLE) or _equal(config[name], child)
        )
        if is_state or is_argument:
            yield step, child


def _equal(first: Foreign, second: Foreign) -> bool:
    try:
        return bool(first == second)
    except Exception:  # arrays have no single answer
        return False


def _holds(value: Foreign, variables: set[int], depth: int = 20) -> bool:
    if not isinstance(value, list | dict | tuple) or depth == 0:
        return False
    items = value.values() if isinstance(value, dict) else value
    return any(
        is_saveable(item) or id(item) in variables or _holds(item, variables, depth - 1)
        for item in items
    )


def _config(value: Foreign) -> dict[str, Any]:
    if is_composite(value):
        return {}
    try:
        config = value.get_config()
    except Exception:  # the user's code may raise anything; `problems` reports it
        return {}
    return config if isinstance(config, dict) else {}


def problems(value: Foreign) -> list[KerasProblem]:
    """Why an object cannot be saved, or not be loaded again."""
    found = list(_problems(value, "{}", set()))
    if isinstance(value, keras.Model) and value.compiled:
        found += _compile_problems(value)
    return found


def _problems(value: Foreign, step: str, seen: set[int]) -> Iterator[KerasProblem]:
    if id(value) in seen:
        return
    seen.add(id(value))
    kind = type(value)
    if not _is_known(kind):
        name = kind.__name__
        yield KerasProblem(
            step,
            value,
            "load",
            f"class {name} is not registered with Keras, which looks for it by name",
        )
    if is_composite(value):
        for number, layer in enumerate(value.layers):
            yield from _problems(layer, f"{step}.layers[{number}]", seen)
        return
    try:
        config = value.get_config()
        if not isinstance(config, dict):
            raise TypeError(f"get_config() gives a {type(config).__name__}, expected a dict")
    except Exception as error:
        yield from _unconfigured(value, step, error)
        return
    for name, item in config.items():
        yield from _item_problems(value, step, name, item, seen)
    if not _is_own(kind) and _is_own(_definer(kind, "from_config")):
        yield from _argument_problems(value, step, config)
    yield from _variable_problems(value, step)


def _unconfigured(value: Foreign, step: str, error: Exception) -> Iterator[KerasProblem]:
    """The arguments that are not plain values, of which Keras cannot write a config itself."""
    name = type(value).__name__
    blamed = False
    if isinstance(error, NotImplementedError):
        for argument in _arguments(type(value)):
            held = vars(value).get(argument)
            if argument in vars(value) and not _is_simple(held):
                blamed = True
                reason = (
                    f"{name} has no get_config(), and its argument {argument} is no plain value"
                )
                yield KerasProblem(f"{step}.{argument}", held, "save", reason)
    if not blamed and isinstance(value, keras.Model) and "get_config" not in _own_names(value):
        reason = f"{name} has no get_config(), and of a Model Keras does not note the arguments"
        yield KerasProblem(step, value, "save", reason)
    elif not blamed:
        text = " ".join(str(error).split())
        yield KerasProblem(
            step, value, "save", f"get_config() raises {type(error).__name__}: {text}"
        )


def _own_names(value: Foreign) -> set[str]:
    """The names that the user's classes define."""
    return {name for kind in type(value).__mro__ if not _is_own(kind) for name in vars(kind)}


def _item_problems(
    value: Foreign, step: str, name: str, item: Foreign, seen: set[int]
) -> Iterator[KerasProblem]:
    """The problems of one value in a config."""
    held = vars(value).get(name)
    at, thing = f"{step}.get_config()[{name!r}]", item
    if name in vars(value) and (held is item or not isinstance(held, _SIMPLE)):
        at, thing = f"{step}.{name}", held
    if is_saveable(thing):
        yield from _problems(thing, at, seen)
        return
    if isinstance(thing, list | tuple) and any(is_saveable(one) for one in thing):
        for number, one in enumerate(thing):
            if is_saveable(one):
                yield from _problems(one, f"{at}[{number}]", seen)
        return
    if isinstance(item, np.ndarray) and item.nbytes > LARGE and item.dtype.kind != "O":
        return
    try:
        serialized = keras.saving.serialize_keras_object(item)
        json.dumps(serialized)
    except Exception as error:
        text = " ".join(str(error).split())
        yield KerasProblem(at, thing, "save", f"Keras cannot serialize it: {text}")
        return
    yield from _name_problems(serialized, at, thing)


def _name_problems(serialized: Foreign, step: str, value: Foreign) -> Iterator[KerasProblem]:
    """Classes and functions that Keras will not find by name, and lambdas, which it refuses."""
    for found in _dicts(serialized):
        kind, name = found.get("class_name"), found.get("registered_name")
        if kind == "__lambda__":
            yield KerasProblem(
                step, value, "safe", "a lambda is code: Keras loads none in safe mode"
            )
        elif "module" not in found or name is None:
            continue
        elif kind == "function":
            if keras.saving.get_registered_object(found["config"]) is None:
                reason = f"function {found['config']} is not registered with Keras"
                yield KerasProblem(step, value, "load", reason)
        elif str(found["module"]).startswith("keras."):
            continue  # of its own, under a private name: the optimizers for PyTorch
        elif keras.saving.get_registered_object(name) is None:
            reason = f"class {kind} is not registered with Keras, which looks for it by name"
            yield KerasProblem(step, value, "load", reason)


def _dicts(value: Foreign) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _dicts(item)


def _argument_problems(value: Foreign, step: str, config: dict[str, Any]) -> Iterator[KerasProblem]:
    """Arguments of the constructor that the config lacks or has too many of."""
    kind = type(value)
    signature = inspect.signature(kind.__init__)
    try:
        signature.bind(None, **config)
    except TypeError as error:
        reason = f"{kind.__name__}(**get_config()) does not work: {error}"
        missing = [
            name
            for name, one in _arguments(kind).items()
            if name not in config and one.default is one.empty
        ]
        place = next((name for name in missing if name in vars(value)), None)
        if place is None:
            yield KerasProblem(step, value, "load", reason)
        else:
            yield KerasProblem(f"{step}.{place}", vars(value)[place], "load", reason)
        return
    for name, one in _arguments(kind).items():
        held = vars(value).get(name, one.default)
        if name in config or one.default is one.empty or name == "name":
            continue
        if held is not one.default and not _equal(held, one.default):
            reason = f"argument {name} is not in get_config(): its default comes back"
            yield KerasProblem(f"{step}.{name}", held, "lost", reason)


def _variable_problems(value: Foreign, step: str) -> Iterator[KerasProblem]:
    save = getattr(value, "save_own_variables", None)
    if save is None:
        return
    try:
        save({})
    except Exception as error:
        text = " ".join(str(error).split())
        reason = f"save_own_variables() raises {type(error).__name__}: {text}"
        yield KerasProblem(step, value, "save", reason)


def _compile_problems(model: Foreign) -> Iterator[KerasProblem]:
    try:
        compiled = model.get_compile_config() or {}
        json.dumps(compiled)
    except Exception as error:
        text = " ".join(str(error).split())
        yield KerasProblem("{}", model, "save", f"what it was compiled with: {text}")
        return
    for name, serialized in compiled.items():
        held = vars(model).get(name, model)
        yield from _name_problems(serialized, f"{{}}.{name}" if held is not model else "{}", held)


def _arguments(kind: type) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(kind.__init__).parameters)  # type: ignore[misc]
    found.pop(next(iter(found), ""), None)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: one for name, one in found.items() if one.kind not in variadic}


def _is_simple(value: Foreign) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_simple, value))
    if isinstance(value, dict):
        return all(map(_is_simple, value.values()))
    return isinstance(value, _SIMPLE)


def _is_known(kind: type) -> bool:
    """Whether Keras finds a class by the name that it writes into files."""
    if _is_own(kind):
        return True
    return keras.saving.get_registered_object(keras.saving.get_registered_name(kind)) is kind


def _is_own(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "keras"


def _definer(kind: type, name: str) -> type:
    return next(one for one in kind.__mro__ if name in vars(one))
