"""TensorFlow: tensors, variables, sparse and ragged tensors.

Values of an eager tensor are TensorFlow's own memory, as a read-only array; strings are copied. A
tensor made from a value is one copy of it. A ragged dimension that TensorFlow knows to be uniform
becomes a ragged one like the others: its rows stay the same.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

import numpy as np
import tensorflow as tf

from tensorferry import dtypes
from tensorferry.errors import UnsupportedError
from tensorferry.frameworks import LARGE, aligned_copy, lacks
from tensorferry.frameworks.variables import Variable
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, as_tensor

_KINDS = (tf.Tensor, tf.Variable, tf.SparseTensor, tf.RaggedTensor, tf.IndexedSlices)


def owns(value: Any) -> bool:
    """Whether it is one of TensorFlow's tensors."""
    return isinstance(value, _KINDS)


def to_value(value: Any) -> Array | SparseTensor | RaggedTensor:
    """The tensor as one of ours.

    Raises:
        UnsupportedError: It has no values (yet), or holds no data.
    """
    if isinstance(value, tf.IndexedSlices):
        raise UnsupportedError(
            "tf.IndexedSlices have no counterpart",
            hint="tf.convert_to_tensor(slices) gives the dense tensor",
        )
    if isinstance(value, tf.SparseTensor):
        return SparseTensor(
            _to_array(value.indices), _to_array(value.values), _to_array(value.dense_shape)
        )
    if isinstance(value, tf.RaggedTensor):
        splits = tuple(_to_array(part) for part in value.nested_row_splits)
        return RaggedTensor(_to_array(value.flat_values), splits)
    return _to_array(value.read_value() if isinstance(value, tf.Variable) else value)


def _to_array(tensor: Any) -> Array:
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
    # Unlike numpy(), which copies. A scalar comes as a NumPy scalar, or as bytes.
    array = tensor.__array__()
    if dtype is dtypes.STRING:
        return as_tensor(array) if isinstance(array, bytes) else array
    # Quantized kinds come as plain integers. What TensorFlow holds to be constant stays so.
    view = np.asarray(array).view(dtype.numpy)
    view.flags.writeable = False
    return view


def origin(value: Any) -> dict[str, Any]:
    """The device of a tensor, and the name of a variable; eager tensors have none."""
    if isinstance(value, tf.Variable):
        return {"device": value.device, "name": value.name.removesuffix(":0"), "variable": True}
    part = value.values if isinstance(value, tf.SparseTensor) else value
    part = part.flat_values if isinstance(part, tf.RaggedTensor) else part
    return {"device": part.device} if isinstance(part, tf.Tensor) and part.device else {}


def restore(value: Array | SparseTensor | RaggedTensor, origin: dict[str, Any]) -> Any:
    """One of our tensors as TensorFlow's, on the device and with the name it had.

    Raises:
        UnsupportedError: There is no such device here.
    """
    device, name = str(origin.get("device", "")), str(origin.get("name", ""))
    try:
        with tf.device(device):
            # What was not made here is copied here.
            tensor = tf.nest.map_structure(tf.identity, from_value(value), expand_composites=True)
            parts = tf.nest.flatten(tensor, expand_composites=True)
            if any(device not in ("", part.device) for part in parts):  # it chose another one
                raise ValueError("there is no such device")
            return tf.Variable(tensor, name=name or None) if origin.get("variable") else tensor
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UnsupportedError(
            f"no tensor can be put on {device[:60]!r} here: {error}",
            hint="placed=False leaves that to TensorFlow",
        ) from None


def from_value(value: Array | SparseTensor | RaggedTensor) -> Any:
    """One of our tensors as TensorFlow's.

    Raises:
        UnsupportedError: This version of TensorFlow does not have its dtype.
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


def _from_array(array: Array) -> Any:
    row = dtypes.from_numpy(array.dtype)
    try:
        dtype = tf.as_dtype(row.name)
    except TypeError:
        raise lacks("TensorFlow", row) from None
    if row is dtypes.STRING or array.nbytes < LARGE:
        return tf.constant(array, dtype)
    # tf.constant copies twice; an operation takes an aligned array as it is.
    return tf.raw_ops.Identity(input=aligned_copy(array))


def is_variable(value: Any) -> bool:
    """Whether it is a `tf.Variable`."""
    # By its type: `__class__` may be whatever the object says.
    return issubclass(type(value), tf.Variable)


def make_variable(value: Any, name: str, **more: Any) -> Variable:
    """The variable as one of ours; the name that TensorFlow has for it is another one of it."""
    own = value.name.removesuffix(":0")
    shape = None if value.shape.rank is None else tuple(value.shape.as_list())

    def assign(array: Array) -> None:
        value.assign(from_value(array))

    return Variable(
        name,
        shape,
        dtypes.as_dtype(value.dtype.base_dtype).name,
        lambda: _to_array(value.read_value()),
        assign,
        **{
            "trainable": bool(value.trainable),
            "aliases": () if own in (name, "Variable") else (own,),
            **more,
        },
    )


def is_model(value: Any) -> bool:
    """Whether it is a model, layer or optimizer of Keras 2 (tf_keras): they name their weights."""
    named = isinstance(value, tf.Module) and isinstance(
        getattr(type(value), "weights", None), property
    )
    return named or (is_tracked(value) and _is_optimizer(value))


def _is_optimizer(value: Any) -> bool:
    return hasattr(type(value), "apply_gradients") and hasattr(type(value), "variables")


def list_variables(model: Any, *, build_optimizer: bool = False) -> list[tuple[Any, Variable]]:
    """The weights of a model of Keras 2, then the state of its optimizer."""
    if _is_optimizer(model):
        return _optimizer_variables(model, "")
    layers = [model, *(part for part in model.submodules if hasattr(part, "weights"))]
    automatic = frozenset(layer.name for layer in layers if _is_automatic(layer))
    found = []
    for variable in model.weights:
        name = variable.name.removesuffix(":0")
        found.append((variable, make_variable(variable, name, automatic=automatic)))
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and _is_optimizer(optimizer):
        if build_optimizer and hasattr(optimizer, "build"):
            optimizer.build(model.trainable_variables)
        found += _optimizer_variables(optimizer, "optimizer")
    return found


def _optimizer_variables(optimizer: Any, prefix: str) -> list[tuple[Any, Variable]]:
    start = f"{prefix}/" if prefix else ""
    held = optimizer.variables
    listed = enumerate(held() if callable(held) else held)
    more = {"optimizer": True, "trainable": False}
    return [(part, make_variable(part, f"{start}vars/{number}", **more)) for number, part in listed]


def _is_automatic(layer: Any) -> bool:
    words = re.sub(
        "([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", _kind(layer))
    )
    # Bidirectional puts a word before the names of its two layers.
    made_up = rf"(forward_|backward_)?{re.escape(words.lower())}(_\d+)?"
    return re.fullmatch(made_up, layer.name) is not None


def _kind(layer: Any) -> str:
    return re.sub(r"\W+", "", type(layer).__name__)


# Lists in which layers and optimizers of Keras 3 hold variables that have a name elsewhere.
REFERENCES = ("_trainable_variables", "_non_trainable_variables")


def is_tracked(value: Any) -> bool:
    """Whether TensorFlow knows the parts of it, as those of a `tf.Module`."""
    return issubclass(type(value), tf.__internal__.tracking.Trackable)


def tracked_children(value: Any) -> dict[str, Any]:
    """The parts of such an object, by the names that checkpoints have for them."""
    try:
        return dict(tf.train.TrackableView.children(value))
    except ValueError as error:
        raise UnsupportedError(
            f"TensorFlow cannot tell the parts of {type(value).__name__}: {error}"
        ) from error


def object_paths(model: Any) -> dict[int, list[str]]:
    """The paths of a tracked model's parts by their ids: the one to use, then others.

    The first is the shortest of those that lead through no list of references, where there is such
    a path. The key in a checkpoint of TensorFlow's is just the shortest, which is among the others.
    """
    paths: dict[int, list[str]] = {id(model): [""]}
    queue = deque([model])
    references: deque[tuple[str, Any]] = deque()
    while queue or references:
        if not queue:
            path, child = references.popleft()
            _add_path(paths, path, child, queue)
            continue
        parent = queue.popleft()
        start = paths[id(parent)][0]
        for name, child in tracked_children(parent).items():
            path = f"{start}/{name}" if start else name
            if name in REFERENCES:
                references.append((path, child))
            else:
                _add_path(paths, path, child, queue)
    return paths


def _add_path(paths: dict[int, list[str]], path: str, child: Any, queue: deque[Any]) -> None:
    if id(child) in paths:
        paths[id(child)].append(path)
    else:
        paths[id(child)] = [path]
        queue.append(child)
