"""Keras 3: models as `.keras` files, and what Keras knows about a model that is traced.

Keeps `contract.KerasModels`. A `.keras` file has no code: the config names the model's classes,
which must exist when the file is loaded. `tensorferry.formats.keras.config` finds out what a config
would make Keras do, before Keras sees it. This module provides what only Keras knows: which names
are its own, and which the program registered.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from typing import Any

import keras
import numpy as np

from tensorferry.errors import UnsupportedError
from tensorferry.frameworks.contract import Foreign
from tensorferry.frameworks.programs import NotKept


def is_layer(value: Foreign) -> bool:
    """Whether a value is a layer or model of Keras 3."""
    return isinstance(value, keras.layers.Layer)


def is_built(model: Foreign) -> bool:
    """Whether a model has its variables already; it makes them when it first sees an input."""
    return bool(model.built or model.weights)


def forward(model: Foreign) -> Callable[..., Any]:
    """The function that a model computes outside of training.

    Raises:
        UnsupportedError: Keras computes with another backend than TensorFlow.
    """
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UnsupportedError(
            f"Keras computes with {backend} here, and a SavedModel is a program of TensorFlow",
            hint="save it as .keras, and load that where KERAS_BACKEND is tensorflow",
        )

    def call(inputs: Foreign, *others: Foreign) -> Foreign:
        # A layer's own call need not take training=.
        return model(inputs, *others, **({"training": False} if _takes_training(model) else {}))

    return call


def _takes_training(model: Foreign) -> bool:
    return bool(getattr(model, "_call_has_training_arg", True))


def known_inputs(model: Foreign) -> Foreign:
    """The inputs of a model as symbolic tensors; None if the model does not know them.

    A functional model knows them from the start. A subclassed model remembers the shapes of its
    first call without dtypes; its compute dtype is assumed.
    """
    structure = getattr(model, "_inputs_struct", None)
    if structure is not None:
        return structure
    if isinstance(model, keras.Sequential) and model.built and model.inputs:
        return model.inputs[0] if len(model.inputs) == 1 else list(model.inputs)
    shapes = getattr(model, "_build_shapes_dict", None)
    if not shapes or len(shapes) != 1:
        return None
    return _from_shapes(next(iter(shapes.values())), model.compute_dtype)


def names_inputs(model: Foreign) -> bool:
    """Whether the inputs of a model have names of their own: those of its `keras.Input`s."""
    if isinstance(model, keras.Sequential):
        return bool(model.layers) and isinstance(model._layers[0], keras.layers.InputLayer)
    return getattr(model, "_inputs_struct", None) is not None


def _from_shapes(shape: Foreign, dtype: str) -> Foreign:
    if isinstance(shape, Mapping):
        return {key: _from_shapes(part, dtype) for key, part in shape.items()}
    if isinstance(shape, list | tuple) and shape and not _is_shape(shape):
        return [_from_shapes(part, dtype) for part in shape]
    return keras.KerasTensor((None, *shape[1:]), dtype) if shape else None


def _is_shape(shape: Foreign) -> bool:
    return all(size is None or isinstance(size, int) for size in shape)


def describe(model: Foreign) -> Foreign:
    """The config that a `.keras` file of the model has.

    Raises:
        UnsupportedError: A part of the model has no config.
    """
    try:
        return keras.saving.serialize_keras_object(model)
    except Exception as error:  # a class of the user's may raise whatever it likes
        raise UnsupportedError(
            f"the model has no config: {type(error).__name__}: {str(error).strip()[:300]}",
            hint="each custom class needs get_config, which gives the arguments of its __init__",
        ) from error


def save(model: Foreign, path: str) -> None:
    """Writes a `.keras` file; the path must have that suffix."""
    keras.saving.save_model(model, path)


def describe_if_possible(model: Foreign) -> Foreign:
    """As `describe`; None for a model without a config, which can still be exported."""
    try:
        return describe(model)
    except UnsupportedError:
        return None


def lost_by_export(model: Foreign) -> list[NotKept]:
    """What a SavedModel leaves out of a model."""
    lost = [NotKept("config", "a SavedModel has the traced program; .keras keeps the config")]
    if getattr(model, "optimizer", None) is not None and getattr(model, "compiled", False):
        lost.append(NotKept("optimizer, loss and metrics", "a program computes; .keras keeps them"))
    lost.append(NotKept("training", "the program is the one of training=False"))
    return lost


def lost_by_archive(model: Foreign) -> Iterator[NotKept]:
    """What a `.keras` file leaves out of a model."""
    for kind in dict.fromkeys(type(layer) for layer in model._flatten_layers()):
        if kind.__module__.partition(".")[0] != "keras":
            yield NotKept(
                f"class {kind.__name__}",
                f"the file names it as one of {kind.__module__}, and has no code; "
                "custom_objects= supplies it",
            )
    inside = {id(variable.value) for variable in model.variables}
    for layer in model._flatten_layers():
        for name, value in vars(layer).items():
            for place, leaf in _leaves(value, name, 4):
                if _is_foreign(leaf) and id(leaf) not in inside:
                    yield NotKept(
                        f"variable {layer.name}/{place}",
                        "Keras keeps what add_weight and keras.Variable made, and no tf.Variable",
                    )


def _is_foreign(value: Foreign) -> bool:
    """Whether a value is a variable of TensorFlow, told by its class: TensorFlow may be absent."""
    modules = {kind.__module__.partition(".")[0] for kind in type(value).__mro__}
    return "tensorflow" in modules and hasattr(value, "assign") and hasattr(value, "read_value")


def _leaves(value: Foreign, place: str, depth: int) -> Iterator[tuple[str, Foreign]]:
    pairs: Iterable[tuple[Foreign, Any]] | None = None
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, list | tuple):
        pairs = enumerate(value)
    if pairs is None or depth == 0:
        yield place, value
        return
    for key, part in pairs:
        yield from _leaves(part, f"{place}/{key}", depth - 1)


def load(path: str, custom_objects: Mapping[str, Any], *, safe: bool, compile: bool) -> Foreign:
    """The model of a file that is harmless, or that the caller trusts.

    Args:
        path: A `.keras` or `.h5` file.
        custom_objects: Classes and functions by the names that the config has for them.
        safe: Let Keras refuse to run code from the file.
        compile: Create the optimizer and losses, too.

    Raises:
        UnsupportedError: Keras cannot create the model.
    """
    try:
        with keras.saving.custom_object_scope(dict(custom_objects)):
            return keras.saving.load_model(path, compile=compile, safe_mode=safe)
    except Exception as error:  # Keras, h5py and the caller's classes may raise anything
        raise UnsupportedError(
            f"Keras cannot load it: {type(error).__name__}: {str(error).strip()[:500]}",
            path=path,
            hint="custom_objects= supplies classes and functions; ferry.load_weights takes the "
            "weights alone, into a model that you make",
        ) from error


_TORCH_OPTIMIZERS = "keras.src.backend.torch.optimizers."


def imports(module: str) -> bool:
    """Whether a module of Keras is there, and not imported yet, as those of its tests are."""
    if keras.backend.backend() == "torch" and module.startswith(_TORCH_OPTIMIZERS):
        return False  # of the backend that computes, which imports each on its first use
    name = ""
    for part in module.split("."):
        parent, name = name, f"{name}.{part}".lstrip(".")
        if name not in sys.modules:
            path = getattr(sys.modules.get(parent), "__path__", ())
            return PathFinder.find_spec(name, list(path)) is not None
    return False


def registered_names() -> set[str]:
    """The names of the classes and functions that the program registered for configs."""
    return {*keras.saving.get_custom_objects()}


def version() -> tuple[int, ...]:
    """The version of Keras: (3, 15, 1)."""
    return tuple(int(part) for part in re.findall(r"\d+", keras.__version__)[:3])


def predict(model: Foreign, arguments: tuple[Foreign, ...]) -> Foreign:
    """The result of a model outside of training."""
    given = [_as_input(part) for part in arguments]
    return model(*given, training=False) if _takes_training(model) else model(*given)


def _as_input(value: Foreign) -> Foreign:
    """Lists of numbers are one tensor; other lists and dicts are inputs by position and name."""
    if isinstance(value, Mapping):
        return {key: _as_input(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        if _is_numbers(value):
            array = np.asarray(value)
            return array.astype("float32") if array.dtype == np.float64 else array
        return [_as_input(part) for part in value]
    return value


def _is_numbers(value: Foreign) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_numbers, value))
    return isinstance(value, int | float | str | bytes)


def callback(
    save: Callable[[Foreign, int, int | None, Mapping[str, Any]], None], every: int | None
) -> Foreign:
    """A callback that calls `save` after each epoch, or after so many batches.

    Args:
        save: Is given the model, the epoch and the batch, both counted from 1, and the metrics.
        every: The number of batches; None for each epoch.
    """
    return _Saving(save, every)


class _Saving(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Calls a function after epochs or batches."""

    def __init__(self, save: Callable[..., None], every: int | None) -> None:
        super().__init__()
        self._save, self._every = save, every
        self._epoch = self._batches = 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._epoch = epoch + 1

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        if self._every is None:
            self._save(self.model, epoch + 1, None, logs or {})

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._batches += 1
        if self._every is not None and self._batches % self._every == 0:
            self._save(self.model, self._epoch, batch + 1, logs or {})
