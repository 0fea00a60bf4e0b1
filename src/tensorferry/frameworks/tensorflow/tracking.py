"""TensorFlow: its functions, and the variables and tables that they use.

Keeps `contract.Functions`. A SavedModel has the objects that tracked attributes lead to (variables,
tables, modules, lists and dicts of those) and the functions that were traced. A function that uses
an untracked variable or table cannot be saved.

Nothing here traces a function, because that would run the model's code.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

import tensorflow as tf

from tensorferry.frameworks.contract import Foreign

_PYTHON = ("EagerPyFunc", "PyFunc", "PyFuncStateless")


def is_own(kind: type) -> bool:
    """Whether a class is TensorFlow's."""
    return kind.__module__.split(".")[0] in ("tensorflow", "tf_keras")


def is_module(value: Foreign) -> bool:
    """Whether a value is a plain `tf.Module`, whose attributes are all the user's."""
    return type(value) is tf.Module


def is_function(value: Foreign) -> bool:
    """Whether a value is a `tf.function`, or one of its traces."""
    return isinstance(
        value,
        tf.types.experimental.PolymorphicFunction | tf.types.experimental.ConcreteFunction,
    )


def class_functions(value: Foreign) -> Iterator[tuple[str, str, Any]]:
    """The `tf.function` methods of an object: name, step to the undecorated one, function."""
    found: set[str] = set()
    for place, kind in enumerate(type(value).__mro__):
        if is_own(kind) or kind.__module__.split(".")[0] == "keras":
            continue
        for name, child in vars(kind).items():
            if name in found:
                continue
            found.add(name)
            if isinstance(child, tf.types.experimental.PolymorphicFunction):
                # An instance has a copy with its own traces once the method was used.
                own = getattr(child, "_descriptor_cache", {}).get(value, child)
                start = "type({})" if place == 0 else f"type({{}}).__mro__[{place}]"
                yield name, f"{start}.__dict__[{name!r}]", own


def python_function(function: Foreign) -> FunctionType | None:
    """The Python function behind a `tf.function`, if there is one."""
    found = getattr(function, "python_function", None)
    found = getattr(found, "__wrapped__", found)
    return found if isinstance(found, FunctionType) else None


def traces(function: Foreign) -> list[Foreign]:
    """The graphs that a function has already."""
    if isinstance(function, tf.types.experimental.ConcreteFunction):
        return [function]
    cache = getattr(function, "_function_cache", None)
    return [] if cache is None else list(cache.values())


def is_exportable(function: Foreign) -> bool:
    """Whether a SavedModel will have a graph of a function."""
    signature = getattr(function, "input_signature", None)
    return signature is not None or bool(traces(function))


def captured(function: Foreign) -> set[int]:
    """The ids of the handles that a function's graphs use."""
    return {id(part) for trace in traces(function) for part in trace.captured_inputs}


def handle(value: Foreign) -> Foreign:
    """The handle by which graphs know a variable or table; None for any other value."""
    if issubclass(type(value), tf.Variable):
        return value.handle
    if issubclass(
        type(value), tf.saved_model.experimental.TrackableResource | tf.lookup.StaticHashTable
    ):
        return getattr(value, "_resource_handle", None)
    own = is_own(type(value)) and not issubclass(type(value), tf.Module)
    return vars(value).get("_resource_handle") if own and hasattr(value, "__dict__") else None


def calls_python(function: Foreign) -> bool:
    """Whether a function's graphs call back into this process."""
    return any(
        operation.type in _PYTHON
        for trace in traces(function)
        for operation in trace.graph.get_operations()
    )


def is_iterator(value: Foreign) -> bool:
    """Whether a value is an iterator over a dataset."""
    return issubclass(type(value), tf.data.Iterator)
