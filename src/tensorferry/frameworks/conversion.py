"""Values of a user to ours and back: `accept` and `give`.

    value = accept({"loss": tf.constant(0.5), "ids": [torch_tensor]})   # NumPy inside
    tensors = give(value, "torch")                                      # torch tensors inside

`accept` asks only frameworks that the program has imported (`sys.modules`): a value cannot be a
tensor of any other. Objects of other libraries are taken by DLPack, `__array__` or the buffer
protocol.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorferry import dtypes
from tensorferry.errors import UnsupportedError
from tensorferry.frameworks import contract, table
from tensorferry.frameworks.contract import Foreign
from tensorferry.tensors.values import (
    SCALARS,
    Array,
    RaggedTensor,
    SparseTensor,
    Tensor,
    as_tensor,
    map_structure,
)

# The shorter way to the values of a dense tensor, by its exact class, once one was accepted.
QUICK: dict[type, Callable[[Foreign], Array]] = {}

# The framework whose tensors a class has, once one was accepted.
_OWNERS: dict[type, contract.Tensors] = {}

# The classes of sparse tensors with indices, values and a dense shape, once one was accepted.
_COORDINATES: set[type] = {SparseTensor}

# What safetensors, Keras and users call the frameworks.
_OTHER_NAMES = {
    **dict.fromkeys(("np", "array", "ndarray"), "numpy"),
    **dict.fromkeys(("tf", "keras"), "tensorflow"),
    **dict.fromkeys(("pt", "pytorch"), "torch"),
    **dict.fromkeys(("flax", "jnp"), "jax"),
}


def accept(value: Foreign, *, origins: list[dict[str, Any]] | None = None) -> Foreign:
    """A user's value as one of ours: arrays, SparseTensor, RaggedTensor, scalars, structures.

    Args:
        value: Tensors, structures of tensors, plain values.
        origins: If given, the origin of each tensor is appended in their order; many are empty.

    Raises:
        UnsupportedError: A part of the value is none of those, and cannot be converted to one.

    Examples:
        >>> accept([tf.constant([1, 2]), 3])
        [array([1, 2], dtype=int32), 3]
    """
    if origins is None:
        if value.__class__ is np.ndarray:
            return as_tensor(value)
        if (known := _OWNERS.get(value.__class__)) is not None:
            return known.to_value(value)
        return map_structure(_accept_leaf, value)

    def accept_leaf(leaf: Foreign) -> Foreign:
        if not isinstance(leaf, (*SCALARS, complex)):
            owner = _owner(leaf)
            origins.append({} if owner is None else owner.origin(leaf))
        return _accept_leaf(leaf)

    return map_structure(accept_leaf, value)


def _accept_leaf(value: Foreign) -> Foreign:
    if isinstance(value, np.ndarray | np.generic):
        return as_tensor(value)
    if isinstance(value, (*SCALARS, complex, SparseTensor, RaggedTensor)):
        return value
    owner = _owner(value)
    return as_tensor(_from_protocol(value)) if owner is None else owner.to_value(value)


def _owner(value: Foreign) -> contract.Tensors | None:
    """The framework whose tensor a value is."""
    kind = value.__class__
    if (known := _OWNERS.get(kind)) is not None:
        return known
    for name in table.NAMES:
        if sys.modules.get(name) is not None:
            owner = table.tensors(name)
            if owner.owns(value):
                QUICK.update(owner.quick())
                if kind is type(value):  # an object may say that it is of any class
                    _OWNERS[kind] = owner
                return owner
    return None


def sparse_parts(value: Foreign) -> tuple[Foreign, Foreign, Foreign] | None:
    """Indices, values and dense shape as a sparse tensor itself has them, unchecked.

    None for what has no such attributes, as tensors of TensorFlow and ours have them.

    Raises:
        UnsupportedError: The value has these attributes, and is not accepted.
    """
    kind = value.__class__
    if kind not in _COORDINATES:
        if not hasattr(kind, "dense_shape") or not isinstance(accept(value), SparseTensor):
            return None
        _COORDINATES.add(kind)
    return value.indices, value.values, value.dense_shape


def is_tensor(value: Foreign) -> bool:
    """Whether a value is a tensor of NumPy, of ours or of a framework."""
    return isinstance(value, np.ndarray | SparseTensor | RaggedTensor) or _owner(value) is not None


def as_record(value: Foreign) -> bytes | None:
    """The bytes that a tensor of one string is, or a protobuf message; None of anything else."""
    if (data := as_message(value)) is not None:
        return data
    owner = _owner(value)
    string = value if owner is None else owner.to_value(value)
    if isinstance(string, np.ndarray) and string.shape == () and isinstance(string.item(), bytes):
        return bytes(string.item())
    return None


def as_message(value: Foreign) -> bytes | None:
    """The bytes of a protobuf message, such as a tf.train.Example; None of anything else."""
    protobuf = sys.modules.get("google.protobuf.message")
    if protobuf is not None and isinstance(value, protobuf.Message):
        return bytes(value.SerializeToString())
    return None


def framework_of(model: Foreign) -> str | None:
    """The framework whose tensors a model takes, by the class of the model; None if unknown."""
    for kind in type(model).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in table.NAMES:
            return root
        if root == "keras":
            backend = str(sys.modules["keras"].config.backend())
            return backend if backend in table.NAMES else None
    return None


def is_model(value: Foreign) -> bool:
    """Whether a value is a model or layer of a framework, by its class."""
    kinds = type(value).__mro__
    named = any(kind.__name__ in ("Module", "Layer", "Model") for kind in kinds)
    return named and framework_of(value) is not None


def a_model(model: Foreign) -> UnsupportedError:
    """The error for a model where a value was expected."""
    hint = 'use tensorferry.save_model(model, "m.keras"), or save_weights for its weights alone'
    roots = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if "torch" in roots and "keras" not in roots:
        hint = 'use tensorferry.save_weights(model, "m.safetensors"), or pass model.state_dict()'
    return UnsupportedError(f"{type(model).__name__} is a model, expected tensors", hint=hint)


def _from_protocol(value: Foreign) -> Foreign:
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
        if is_model(value):
            raise a_model(value) from None
        raise UnsupportedError(
            f"{type(value).__name__} is no tensor, structure or plain value",
            hint="expected an array, a tensor, a dict, list or tuple of them, or a Python scalar",
        ) from None


def give(value: Foreign, to: str, *, origin: contract.Origin | None = None) -> Foreign:
    """One of our values with its tensors as a framework's; plain Python values stay as they are.

    Args:
        value: A tensor, or a structure with tensors inside.
        to: "numpy" or the name of a framework.
        origin: The origin that `accept` found for the one tensor that `value` is; the new tensor
            gets it back.

    Raises:
        UnsupportedError: The framework has no such tensor, or there is no such framework.
        MissingExtraError: The framework is not installed.

    Examples:
        >>> give({"x": np.zeros(2)}, "torch")
        {'x': tensor([0., 0.], dtype=torch.float64)}
    """
    if to == "numpy":
        return value
    if to not in table.NAMES:
        meant = _OTHER_NAMES.get(str(to))
        expected = f"expected numpy, {', '.join(table.NAMES)}"
        raise UnsupportedError(
            f"no framework is called {to!r}",
            hint=expected if meant is None else f"did you mean {meant!r}?",
        )
    framework = table.tensors(to)
    if value.__class__ is np.ndarray and not origin:
        return framework.from_value(_canonical(value))

    def convert(leaf: Foreign) -> Foreign:
        if isinstance(leaf, SCALARS):
            return leaf
        if origin:
            return framework.restore(_canonical(leaf), origin)
        return framework.from_value(_canonical(leaf))

    return map_structure(convert, value)


def _canonical(tensor: Foreign) -> Tensor:
    if isinstance(tensor, SparseTensor | RaggedTensor):
        return tensor
    # An array that a format returned needs no second look at each of its strings.
    if tensor.__class__ is np.ndarray and tensor.dtype in dtypes.BY_NUMPY:
        return tensor
    return as_tensor(tensor)
