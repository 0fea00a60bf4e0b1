"""TensorFlow: dense, sparse and ragged tensors, and the values of variables.

Keeps `contract.Tensors`. The value of an eager tensor is a read-only view of TensorFlow's own
memory; strings are copied. A tensor that is made from a value is one copy of it, or a large and
aligned part of a mapped file itself. A ragged dimension that TensorFlow knows to be uniform becomes
an ordinary ragged one with the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorferry import dtypes
from tensorferry.errors import UnsupportedError
from tensorferry.frameworks.contract import Foreign, Origin, lacks
from tensorferry.frameworks.memory import LARGE, in_place
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, Tensor, as_tensor

_KINDS = (tf.Tensor, tf.Variable, tf.SparseTensor, tf.RaggedTensor, tf.IndexedSlices)

# Tensors of these dtypes stand for something that lives in TensorFlow's runtime.
_HANDLES = (tf.resource, tf.variant)


# Attributes of the module take longer to look up than tensors to look at.
_EAGER, _SPARSE = type(tf.constant(0)), tf.SparseTensor

# TensorFlow's quantized dtypes come as NumPy's narrow integers; these stand for nothing else.
_CLEAR = frozenset(
    map(np.dtype, ("bool", "int64", "uint64", "float16", "float32", "float64", "complex64"))
)


def owns(value: Foreign) -> bool:
    """Whether a value is one of TensorFlow's tensors."""
    return isinstance(value, _KINDS)


def to_value(value: Foreign) -> Tensor:
    """A tensor, or the value of a variable, as one of our values.

    Raises:
        UnsupportedError: The tensor has no values yet, or is a handle and holds no data.
    """
    if value.__class__ is _EAGER:
        return _to_constant(value)
    if value.__class__ is _SPARSE:
        return SparseTensor(*map(_to_constant, (value.indices, value.values, value.dense_shape)))
    if isinstance(value, tf.IndexedSlices):
        raise UnsupportedError(
            "tf.IndexedSlices have no counterpart",
            hint="tf.convert_to_tensor(slices) gives the dense tensor",
        )
    if isinstance(value, tf.RaggedTensor):
        splits = tuple(map(_to_constant, value.nested_row_splits))
        return RaggedTensor(_to_constant(value.flat_values), splits)
    return to_array(value.read_value() if isinstance(value, tf.Variable) else value)


def quick() -> Mapping[type, Callable[[Foreign], Array]]:
    """How the values of eager tensors are looked at, by their exact class."""
    return {_EAGER: _eager_array}


def _to_constant(tensor: Foreign) -> Array:
    """As `to_array`, faster for eager tensors of the usual dtypes."""
    if tensor.__class__ is not _EAGER:
        return to_array(tensor)
    array = _eager_array(tensor)
    array.setflags(write=False)  # TensorFlow relies on a tensor being constant
    return array


def _eager_array(tensor: Foreign) -> Array:
    """As `to_array`, for an eager tensor; the view is not marked as read-only for most dtypes."""
    try:
        array = tensor.__array__()
    except tf.errors.OpError:  # it is a handle, or its device does not answer
        return to_array(tensor)
    if array.__class__ is not np.ndarray or array.dtype not in _CLEAR:
        return to_array(tensor)
    return array


def to_array(tensor: Foreign) -> Array:
    """The values of a dense tensor.

    Raises:
        UnsupportedError: See `to_value`.
    """
    if tf.is_symbolic_tensor(tensor):
        raise UnsupportedError(
            f"{tensor.name} is symbolic: it has no values while a graph is built",
            hint="call it outside of tf.function, or inside through tf.py_function",
        )
    dtype = dtypes.as_dtype(tensor.dtype)
    if dtype.numpy is None:
        raise UnsupportedError(
            f"a {dtype.name} tensor is a handle, not data",
            hint="pass what it stands for: the variable's value, the ragged tensor, the elements",
        )
    # numpy() would copy. A scalar comes as a NumPy scalar, or as bytes.
    array = tensor.__array__()
    if dtype is dtypes.STRING:
        return as_tensor(array) if isinstance(array, bytes) else array
    # Quantized dtypes come as plain integers. TensorFlow relies on a tensor being constant.
    view = np.asarray(array).view(dtype.numpy)
    view.flags.writeable = False
    return view


def origin(value: Foreign) -> dict[str, Any]:
    """The device of a tensor, and the name of a variable; eager tensors have no names."""
    if isinstance(value, tf.Variable):
        return {"device": value.device, "name": value.name.removesuffix(":0"), "variable": True}
    part = value.values if isinstance(value, tf.SparseTensor) else value
    part = part.flat_values if isinstance(part, tf.RaggedTensor) else part
    return {"device": part.device} if isinstance(part, tf.Tensor) and part.device else {}


def restore(value: Tensor, origin: Origin) -> Foreign:
    """One of our values as a tensor or variable, on the device and with the name it had.

    Raises:
        UnsupportedError: There is no such device here.
    """
    device, name = str(origin.get("device", "")), str(origin.get("name", ""))
    try:
        with tf.device(device):
            # tf.identity copies a tensor to the device if it was created on another one.
            tensor = tf.nest.map_structure(tf.identity, from_value(value), expand_composites=True)
            parts = tf.nest.flatten(tensor, expand_composites=True)
            if any(
                device not in ("", part.device) for part in parts
            ):  # TensorFlow chose another one
                raise ValueError("there is no such device")
            return tf.Variable(tensor, name=name or None) if origin.get("variable") else tensor
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UnsupportedError(
            f"no tensor can be put on {device[:60]!r} here: {error}",
            hint="placed=False leaves that to TensorFlow",
        ) from None


def from_value(value: Tensor) -> Foreign:
    """One of our values as a tensor of TensorFlow.

    Raises:
        UnsupportedError: This version of TensorFlow does not have the dtype.
    """
    if isinstance(value, SparseTensor):
        return tf.SparseTensor(
            _from_array(value.indices), _from_array(value.values), _from_array(value.dense_shape)
        )
    if isinstance(value, RaggedTensor):
        # TensorFlow wants one dtype for all levels; result_type is int64 unless all are int32.
        common = np.result_type(*value.nested_row_splits)
        splits = [_from_array(part.astype(common, copy=False)) for part in value.nested_row_splits]
        return tf.RaggedTensor.from_nested_row_splits(
            _from_array(value.flat_values), splits, validate=False
        )
    return _from_array(value)


def _from_array(array: Array) -> Foreign:
    if array.nbytes < LARGE and array.dtype in _CLEAR:
        return tf.constant(array)
    row = dtypes.from_numpy(array.dtype)
    try:
        dtype = tf.as_dtype(row.name)
    except TypeError:
        raise lacks("TensorFlow", row) from None
    if row is dtypes.STRING or array.nbytes < LARGE:
        return tf.constant(array, dtype)
    # tf.constant copies twice; an operation takes an aligned array as it is.
    return tf.raw_ops.Identity(input=in_place(array))


def is_bulk(value: Foreign) -> bool:
    """Whether a value is a tensor or variable with values, which every pickler keeps."""
    # By its type: `__class__` may be whatever the object says.
    kind = type(value)
    if not issubclass(kind, tf.Tensor | tf.Variable):
        return False
    if kind.__module__.partition(".")[0] not in ("tensorflow", "tf_keras"):
        return False
    return value.dtype.base_dtype not in _HANDLES and not tf.is_symbolic_tensor(value)
