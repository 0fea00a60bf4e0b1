"""Frameworks' tensors to our values and back, without importing a framework that is not in use.

Each module of this folder is the only place that imports its framework, and has the same verbs:

    owns(value)        whether it is one of the framework's tensors
    to_value(value)    as a value of `tensorferry.tensors.values`, sharing memory where possible
    from_value(value)  one tensor of ours as the framework's

and, where tensors have more to them that is worth keeping,

    origin(value)           what that is, as JSON takes it: a name, a device
    restore(value, origin)  one tensor of ours as the framework's, with all that

`accept` looks only at frameworks that the program has imported already (`sys.modules`): a value
cannot be a tensor of any other.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np

from tensorferry import dtypes
from tensorferry.errors import MissingExtraError, UnsupportedError
from tensorferry.tensors.values import (
    SCALARS,
    Array,
    RaggedTensor,
    SparseTensor,
    as_tensor,
    map_structure,
)

NAMES = ("tensorflow", "torch", "jax")

# What TensorFlow and XLA on a CPU ask of memory that they use in place.
ALIGNMENT = 64

# From this many bytes on, `aligned_copy` is faster than the copies they make themselves: by a few
# percent at first, by five times for hundreds of megabytes.
LARGE = 1 << 20


class Framework(Protocol):
    """What a framework's module provides."""

    def owns(self, value: Any) -> bool:
        """Whether it is one of the framework's tensors."""

    def to_value(self, value: Any) -> Any:
        """The tensor as one of ours."""

    def from_value(self, value: Any) -> Any:
        """One of our tensors as the framework's."""


def accept(value: Any, *, origins: list[dict[str, Any]] | None = None) -> Any:
    """A user's value as one of ours: arrays, SparseTensor, RaggedTensor, scalars, structures.

    Args:
        value: Tensors, structures, plain values.
        origins: Takes what else is to be known of each tensor, in their order; often nothing.

    Raises:
        UnsupportedError: Something in it is none of those and cannot be turned into one.
    """
    if origins is None:
        if value.__class__ is np.ndarray:
            return as_tensor(value)
        return map_structure(_accept_leaf, value)

    def accept_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, (*SCALARS, complex)):
            owner = _owner(leaf)
            origins.append(owner.origin(leaf) if hasattr(owner, "origin") else {})
        return _accept_leaf(leaf)

    return map_structure(accept_leaf, value)


def _accept_leaf(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return as_tensor(value)
    if isinstance(value, (*SCALARS, complex, SparseTensor, RaggedTensor)):
        return value
    owner = _owner(value)
    return as_tensor(_from_protocol(value)) if owner is None else owner.to_value(value)


def _owner(value: Any) -> Any:
    """The module of the framework whose tensor it is."""
    used = (_module(name) for name in NAMES if sys.modules.get(name) is not None)
    return next((module for module in used if module.owns(value)), None)


def framework_of(model: Any) -> str | None:
    """Whose tensors a model takes: the framework that its class comes from, if any."""
    for kind in type(model).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in NAMES:
            return root
        if root == "keras":
            backend = str(sys.modules["keras"].config.backend())
            return backend if backend in NAMES else None
    return None


def _from_protocol(value: Any) -> Any:
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            if not hasattr(value, "__array__"):
                raise UnsupportedError(
                    f"NumPy cannot take {type(value).__name__} over DLPack: {error}"
                ) from error
    if hasattr(value, "__array__"):
        try:
            return np.asarray(value)
        except (RuntimeError, TypeError, ValueError) as error:
            raise UnsupportedError(
                f"{type(value).__name__} cannot be turned into an array: {error}"
            ) from error
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        raise UnsupportedError(
            f"{type(value).__name__} is no tensor, structure or plain value",
            hint="expected an array, a tensor, a dict, list or tuple of them, or a Python scalar",
        ) from None


def give(value: Any, to: str, *, origin: dict[str, Any] | None = None) -> Any:
    """A value with its tensors as another framework's; plain Python values stay as they are.

    Args:
        value: One of ours.
        to: The framework.
        origin: What `accept` found out about the one tensor that it is: it gets that back.

    Raises:
        UnsupportedError: The framework has no such tensor, or there is no such framework.
        MissingExtraError: The framework is not installed.
    """
    if to == "numpy":
        return value
    if to not in NAMES:
        raise UnsupportedError(
            f"no framework is called {to!r}", hint=f"expected numpy, {', '.join(NAMES)}"
        )
    module = _module(to)

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, SCALARS):
            return leaf
        if origin and hasattr(module, "restore"):
            return module.restore(_canonical(leaf), origin)
        return module.from_value(_canonical(leaf))

    return map_structure(convert, value)


def _canonical(tensor: Any) -> Any:
    if isinstance(tensor, SparseTensor | RaggedTensor):
        return tensor
    # What a format gave needs no second look at each of its strings.
    if tensor.__class__ is np.ndarray and tensor.dtype in dtypes.BY_NUMPY:
        return tensor
    return as_tensor(tensor)


# The module of a framework that is a folder: what its tensors are.
HOMES = {"tensorflow": "tensorflow.tensors", "keras": "keras.variables"}


def _module(name: str) -> Framework:
    return cast(Framework, load(HOMES.get(name, name), name))


def load(module: str, package: str) -> Any:
    """A module of this folder.

    Args:
        module: Its name.
        package: The framework that it imports.

    Raises:
        MissingExtraError: The framework is not installed.
    """
    try:
        return import_module(f"tensorferry.frameworks.{module}")
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingExtraError(
            f"{package} is not installed", hint=f"pip install 'tensorferry[{package}]'"
        ) from None


def aligned_copy(array: Array) -> Array:
    """A copy in C order that a framework can use in place, at `ALIGNMENT`.

    A framework's tensors never change, so they must not share an array that may. NumPy's own copy
    is rarely aligned, and would be copied once more.
    """
    buffer = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -buffer.__array_interface__["data"][0] % ALIGNMENT
    copy = buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def lacks(framework: str, dtype: dtypes.DType) -> UnsupportedError:
    """The error for a dtype that a framework does not have, with the way out."""
    if dtype is dtypes.STRING:
        way = "gives an array of bytes"
    elif dtype.numpy is not None and dtype.numpy.names:
        way = f'and array.view("{dtype.numpy[0]}") give the plain integers'
    else:
        wider = "int8" if "int" in dtype.name else "float32"
        way = f'and array.astype("{wider}") give a dtype that it has'
    return UnsupportedError(f"{framework} has no {dtype.name} tensors", hint=f'to="numpy" {way}')
