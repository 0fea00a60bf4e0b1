"""Keras 3: the variables of models, layers and optimizers, with any backend.

Keeps `contract.Variables`. A variable's own name is its path ("sequential/dense/kernel"). Keras
numbers the layers that the user did not name, so two copies of a model have different paths; such
parts of a name are marked as automatic. Keras' files name variables by attributes, classes and
order instead ("layers/dense/vars/0"), and so do checkpoints of Keras 2
("layer_with_weights-0/kernel").

As in Keras' own files, seeds of random generators and the state of metrics are not weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import keras
import numpy as np

from tensorferry import dtypes
from tensorferry.classes import replace
from tensorferry.errors import UnsupportedError
from tensorferry.frameworks import table
from tensorferry.frameworks.contract import Foreign, Put, Variable
from tensorferry.frameworks.conversion import accept, give
from tensorferry.tensors.values import Array


def is_variable(value: Foreign) -> bool:
    """Whether a value is one of Keras' variables."""
    # By its type: `__class__` may be whatever the object says.
    return issubclass(type(value), keras.Variable)


def make_variable(value: Foreign, name: str, put: Put | None = None) -> Variable:
    """A `keras.Variable` as ours."""

    def read() -> Array:
        return np.asarray(accept(value.value))

    def assign(array: Array) -> None:
        backend = keras.backend.backend()
        value.assign(give(array, backend) if backend in table.NAMES else array)

    shape = tuple(value.shape)
    return Variable(
        name,
        shape,
        dtypes.as_dtype(str(value.dtype)).name,
        read,
        assign,
        trainable=bool(value.trainable),
    )


def is_model(value: Foreign) -> bool:
    """Whether a value is a model, a layer or an optimizer."""
    return issubclass(type(value), keras.layers.Layer | keras.optimizers.Optimizer)


def list_variables(
    model: Foreign, *, build_optimizer: bool = False
) -> list[tuple[Foreign, Variable]]:
    """The weights of a model or layer, then the state of its optimizer.

    Raises:
        UnsupportedError: The model was not built yet.
    """
    if isinstance(model, keras.optimizers.Optimizer):
        return _optimizer_variables(model, "")
    if not model.built and not model.weights:
        raise UnsupportedError(
            f"{model.name} was not built yet: it has no weights",
            hint="model.build(input_shape), or call it once",
        )
    places = _Places(model)
    # In the checkpoint of a compiled model this can be the shortest path to a weight.
    trained = {
        id(variable): f"optimizer/_trainable_variables/{number}"
        for number, variable in enumerate(model.trainable_variables)
    }
    found = []
    for variable in model.weights:
        keras_name, object_name = places.names.get(id(variable), (None, None))
        others = (object_name, trained.get(id(variable)))
        found.append(
            (
                variable,
                replace(
                    make_variable(variable, variable.path),
                    spellings={} if keras_name is None else {"keras": keras_name},
                    repeated=places.repeated.get(id(variable), {}),
                    aliases=tuple(name for name in others if name is not None),
                    automatic=places.automatic,
                ),
            )
        )
    optimizer = getattr(model, "optimizer", None)
    if isinstance(optimizer, keras.optimizers.Optimizer):
        if build_optimizer and not optimizer.built:
            optimizer.build(model.trainable_variables)
        found += _optimizer_variables(optimizer, "optimizer")
    return found


def _optimizer_variables(optimizer: Foreign, prefix: str) -> list[tuple[Foreign, Variable]]:
    """The state of an optimizer, numbered as in Keras' files.

    The paths of the variables would contain those of the weights.
    """
    start = f"{prefix}/" if prefix else ""
    return [
        (
            variable,
            replace(
                make_variable(variable, f"{start}vars/{number}"),
                optimizer=True,
                trainable=False,
                spellings={"keras": f"{start}vars/{number}"},
                aliases=(variable.path,),
            ),
        )
        for number, variable in enumerate(optimizer.variables)
    ]


class _Places:
    """The places of a model's variables, relative to the model.

    The walk is that of Keras' saving. The layers of Sequential and functional models come first,
    then the attributes in the order of their names, private ones last. No object is met twice.

    Attributes:
        names: The name in Keras' files and the name in checkpoints of Keras 2, by variable's id.
        repeated: The other names in Keras' files of variables that several layers have.
        automatic: The names of layers that Keras made up.
    """

    def __init__(self, model: Foreign) -> None:
        self.names: dict[int, tuple[str, str]] = {}
        self.repeated: dict[int, dict[str, tuple[str, ...]]] = {}
        self._layers: dict[int, Any] = {}
        self._containers: dict[int, Any] = {}
        self._visit(model, "", "")
        everything = [*model._flatten_layers(), *self._layers.values()]
        self.automatic = frozenset(layer.name for layer in everything if _is_automatic(layer))

    def _visit(self, layer: Foreign, place: str, object_place: str) -> None:
        if id(layer) in self._layers:
            return
        self._layers[id(layer)] = layer
        for number, variable in _own_variables(layer):
            name = f"{place}vars/{number}"
            if id(variable) in self.names:
                others = self.repeated.get(id(variable), {}).get("keras", ())
                self.repeated[id(variable)] = {"keras": (*others, name)}
            else:
                self.names[id(variable)] = name, f"{object_place}{variable.name}"
        if _holds_layers(layer):
            self._visit_layers(layer, place, object_place)
        for name, child in _attributes(layer):
            if isinstance(child, keras.layers.Layer):
                self._visit(child, f"{place}{name}/", f"{object_place}{name}/")
            elif isinstance(child, list | dict | tuple):
                self._containers = {}
                self._visit_all(child, f"{place}{name}/", f"{object_place}{name}/")

    def _visit_layers(self, model: Foreign, place: str, object_place: str) -> None:
        """The layers of a Sequential or functional model; Keras 2 counts those with weights."""
        names = _unique_names()
        weighty = 0
        for number, layer in enumerate(model.layers):
            objects = f"{object_place}layer-{number}/"
            if layer.weights:
                objects = f"{object_place}layer_with_weights-{weighty}/"
                weighty += 1
            self._visit(layer, f"{place}layers/{names(_class_name(layer))}/", objects)

    def _visit_all(self, container: Foreign, place: str, object_place: str) -> None:
        if id(container) in self._containers:
            return
        self._containers[id(container)] = container
        names = _unique_names()
        pairs = container.items() if isinstance(container, dict) else enumerate(container)
        for key, child in list(pairs):
            objects = f"{object_place}{key}/"
            if isinstance(child, keras.layers.Layer):
                self._visit(child, f"{place}{names(_class_name(child))}/", objects)
            elif isinstance(child, list | dict | tuple):
                self._visit_all(child, f"{place}{names('container')}/", objects)


def _own_variables(layer: Foreign) -> list[tuple[str, Foreign]]:
    """The variables that a layer saves itself, by their names in its group."""
    store: dict[str, Any] = {}
    try:
        layer.save_own_variables(store)
    except Exception:  # a layer may refuse to be saved; its variables have other names then
        return []
    return [(str(key), value) for key, value in store.items() if is_variable(value)]


def _holds_layers(layer: Foreign) -> bool:
    kind = getattr(layer, "_obj_type", lambda: None)()
    return kind in ("Sequential", "Functional")


def _attributes(layer: Foreign) -> Iterator[tuple[str, Foreign]]:
    left_out = _common_attributes()
    if _holds_layers(layer):
        left_out |= {"operations", "_operations", "_functional"}
    for name in sorted(dir(layer), key=lambda name: f"~{name}" if name.startswith("_") else name):
        if name.startswith("__") or name in left_out:
            continue
        try:
            child = getattr(layer, name)
        except Exception:  # a property may raise whatever it likes
            continue
        yield name, child


@cache
def _common_attributes() -> frozenset[str]:
    """The attributes that every layer has; none of them is a layer of the user's."""
    return frozenset(dir(keras.layers.Layer(name="common")))


def _unique_names() -> Callable[[str], str]:
    used: dict[str, int] = {}

    def unique(name: str) -> str:
        if name in used:
            used[name] += 1
            return f"{name}_{used[name]}"
        used[name] = 0
        return name

    return unique


def _class_name(layer: Foreign) -> str:
    name = re.sub(r"\W+", "", type(layer).__name__)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def _is_automatic(layer: Foreign) -> bool:
    # Bidirectional prefixes the names of its two layers.
    made_up = rf"(forward_|backward_)?{re.escape(_class_name(layer))}(_\d+)?"
    return re.fullmatch(made_up, layer.name) is not None
