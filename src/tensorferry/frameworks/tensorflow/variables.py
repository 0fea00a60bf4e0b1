"""TensorFlow: its variables, and the weights of models of Keras 2 (tf_keras).

Keeps `contract.Variables`. Models of Keras 2 name their weights themselves; the variables of other
objects are found by their attributes, in `tensorferry.frameworks.variables`.
"""

from __future__ import annotations

import re

import tensorflow as tf

from tensorferry import dtypes
from tensorferry.classes import replace
from tensorferry.frameworks.contract import Foreign, Put, Variable
from tensorferry.frameworks.tensorflow.objects import is_tracked
from tensorferry.frameworks.tensorflow.tensors import from_value, to_array
from tensorferry.tensors.values import Array


def is_variable(value: Foreign) -> bool:
    """Whether a value is a `tf.Variable`."""
    # By its type: `__class__` may be whatever the object says.
    return issubclass(type(value), tf.Variable)


def make_variable(value: Foreign, name: str, put: Put | None = None) -> Variable:
    """A `tf.Variable` as ours; its name in TensorFlow becomes an alias."""
    own = value.name.removesuffix(":0")
    shape = None if value.shape.rank is None else tuple(value.shape.as_list())

    def assign(array: Array) -> None:
        value.assign(from_value(array))

    return Variable(
        name,
        shape,
        dtypes.as_dtype(value.dtype.base_dtype).name,
        lambda: to_array(value.read_value()),
        assign,
        trainable=bool(value.trainable),
        aliases=() if own in (name, "Variable") else (own,),
    )


def is_model(value: Foreign) -> bool:
    """Whether a value is a model, layer or optimizer of Keras 2, which name their weights."""
    named = isinstance(value, tf.Module) and isinstance(
        getattr(type(value), "weights", None), property
    )
    return named or (is_tracked(value) and _is_optimizer(value))


def _is_optimizer(value: Foreign) -> bool:
    return hasattr(type(value), "apply_gradients") and hasattr(type(value), "variables")


def list_variables(
    model: Foreign, *, build_optimizer: bool = False
) -> list[tuple[Foreign, Variable]]:
    """The weights of a model of Keras 2, then the state of its optimizer."""
    if _is_optimizer(model):
        return _optimizer_variables(model, "")
    layers = [model, *(part for part in model.submodules if hasattr(part, "weights"))]
    automatic = frozenset(layer.name for layer in layers if _is_automatic(layer))
    found = []
    for variable in model.weights:
        name = variable.name.removesuffix(":0")
        found.append((variable, replace(make_variable(variable, name), automatic=automatic)))
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and _is_optimizer(optimizer):
        if build_optimizer and hasattr(optimizer, "build"):
            optimizer.build(model.trainable_variables)
        found += _optimizer_variables(optimizer, "optimizer")
    return found


def _optimizer_variables(optimizer: Foreign, prefix: str) -> list[tuple[Foreign, Variable]]:
    start = f"{prefix}/" if prefix else ""
    held = optimizer.variables
    listed = enumerate(held() if callable(held) else held)
    return [
        (
            part,
            replace(make_variable(part, f"{start}vars/{number}"), optimizer=True, trainable=False),
        )
        for number, part in listed
    ]


def _is_automatic(layer: Foreign) -> bool:
    words = re.sub(
        "([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", _kind(layer))
    )
    # Bidirectional prefixes the names of its two layers.
    made_up = rf"(forward_|backward_)?{re.escape(words.lower())}(_\d+)?"
    return re.fullmatch(made_up, layer.name) is not None


def _kind(layer: Foreign) -> str:
    return re.sub(r"\W+", "", type(layer).__name__)
