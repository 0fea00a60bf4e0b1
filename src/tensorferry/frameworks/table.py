"""The table of frameworks: which module keeps which contract, and the only place that loads them.

The table holds names and imports nothing. A module is imported when it is asked for, and its
framework with it:

    table.tensors("torch").from_value(array)      # imports torch, or raises MissingExtraError
    table.in_use("torch")                         # whether the program has imported torch

Each function below loads one contract of `tensorferry.frameworks.contract`.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tensorferry.errors import MissingExtraError
from tensorferry.frameworks import contract

HOMES: dict[type[Any], dict[str, str]] = {
    contract.Tensors: {"tensorflow": "tensorflow.tensors", "torch": "torch", "jax": "jax"},
    # Keras comes before TensorFlow, which tracks Keras' models, too.
    contract.Variables: {
        "keras": "keras.variables",
        "torch": "torch",
        "tensorflow": "tensorflow.variables",
        "jax": "jax",
    },
    contract.Datasets: {"tensorflow": "tensorflow.datasets"},
    contract.Objects: {"tensorflow": "tensorflow.objects"},
    contract.Programs: {"tensorflow": "tensorflow.models"},
    contract.Loading: {"tensorflow": "tensorflow.programs"},
    contract.Graphs: {"tensorflow": "tensorflow.graphs"},
    contract.Functions: {"tensorflow": "tensorflow.tracking"},
    contract.KerasModels: {"keras": "keras.models"},
    contract.KerasTracking: {"keras": "keras.tracking"},
}

# The frameworks that have tensors, in the order in which they are asked whether a value is theirs.
NAMES = tuple(HOMES[contract.Tensors])

if TYPE_CHECKING:  # mypy compares each module with its contracts here
    from tensorferry.frameworks import jax, torch
    from tensorferry.frameworks.keras import (
        models as keras_models_module,
        tracking as keras_tracking_module,
        variables as keras_variables,
    )
    from tensorferry.frameworks.tensorflow import (
        datasets as tensorflow_datasets,
        graphs as tensorflow_graphs,
        models as tensorflow_models,
        objects as tensorflow_objects,
        programs as tensorflow_programs,
        tensors as tensorflow_tensors,
        tracking as tensorflow_tracking,
        variables as tensorflow_variables,
    )

    _tensors: tuple[contract.Tensors, ...] = (tensorflow_tensors, torch, jax)
    _variables: tuple[contract.Variables, ...] = (keras_variables, torch, tensorflow_variables, jax)
    _datasets: contract.Datasets = tensorflow_datasets
    _objects: contract.Objects = tensorflow_objects
    _programs: contract.Programs = tensorflow_models
    _loading: contract.Loading = tensorflow_programs
    _graphs: contract.Graphs = tensorflow_graphs
    _functions: contract.Functions = tensorflow_tracking
    _keras_models: contract.KerasModels = keras_models_module
    _keras_tracking: contract.KerasTracking = keras_tracking_module


def in_use(framework: str) -> bool:
    """Whether the program has imported a framework: otherwise no value can be one of its own."""
    return sys.modules.get(framework) is not None


@cache
def tensors(framework: str) -> contract.Tensors:
    """The tensors of one of `NAMES`.

    Raises:
        MissingExtraError: The framework is not installed. So do the other functions here.
    """
    module = _load(contract.Tensors, framework)
    assert isinstance(module, contract.Tensors)
    return module


@cache
def variables(framework: str) -> contract.Variables:
    """The variables of a framework."""
    module = _load(contract.Variables, framework)
    assert isinstance(module, contract.Variables)
    return module


def variables_in_use() -> list[contract.Variables]:
    """The variables of all frameworks that the program has imported."""
    return [variables(name) for name in HOMES[contract.Variables] if in_use(name)]


@cache
def datasets() -> contract.Datasets:
    """Datasets of tf.data."""
    module = _load(contract.Datasets, "tensorflow")
    assert isinstance(module, contract.Datasets)
    return module


@cache
def objects() -> contract.Objects:
    """TensorFlow's object graph."""
    module = _load(contract.Objects, "tensorflow")
    assert isinstance(module, contract.Objects)
    return module


@cache
def programs() -> contract.Programs:
    """Models into SavedModels."""
    module = _load(contract.Programs, "tensorflow")
    assert isinstance(module, contract.Programs)
    return module


@cache
def loading() -> contract.Loading:
    """SavedModels back as functions."""
    module = _load(contract.Loading, "tensorflow")
    assert isinstance(module, contract.Loading)
    return module


@cache
def graphs() -> contract.Graphs:
    """What TensorFlow sees in a SavedModel."""
    module = _load(contract.Graphs, "tensorflow")
    assert isinstance(module, contract.Graphs)
    return module


@cache
def functions() -> contract.Functions:
    """TensorFlow's functions and resources."""
    module = _load(contract.Functions, "tensorflow")
    assert isinstance(module, contract.Functions)
    return module


@cache
def keras_models() -> contract.KerasModels:
    """Models as Keras knows them."""
    module = _load(contract.KerasModels, "keras")
    assert isinstance(module, contract.KerasModels)
    return module


@cache
def keras_tracking() -> contract.KerasTracking:
    """What Keras' own files keep of an object."""
    module = _load(contract.KerasTracking, "keras")
    assert isinstance(module, contract.KerasTracking)
    return module


def _load(kept: type[Any], framework: str) -> ModuleType:
    home = HOMES[kept][framework]
    try:
        return import_module(f"tensorferry.frameworks.{home}")
    except ModuleNotFoundError as error:
        if error.name != framework:
            raise
        raise MissingExtraError(
            f"{framework} is not installed", hint=f"pip install 'tensorferry[{framework}]'"
        ) from None
