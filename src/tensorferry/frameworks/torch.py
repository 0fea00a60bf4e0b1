"""PyTorch: tensors of any layout and device, and the parameters and buffers of modules.

Keeps `contract.Tensors` and `contract.Variables`. A dense tensor on the CPU shares its memory with
its array in both directions. Arrays that PyTorch cannot hold (read-only, unaligned or reversed
ones) are copied. All sparse layouts become COO entries; their order and repetitions stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from tensorferry import dtypes
from tensorferry.errors import UnsupportedError
from tensorferry.frameworks.contract import Foreign, Origin, Put, Variable, lacks
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, Tensor

# Which dtypes there are depends on the version of PyTorch. Quantized tensors also have a scale;
# torch.int4 and the like are names without operations.
_DTYPES = {
    dtype: vars(torch)[row.name]
    for dtype, row in dtypes.BY_NUMPY.items()
    if row.bits >= 8 and dtype.names is None and row.name in vars(torch)
}
_NUMPY_DTYPES = {theirs: ours for ours, theirs in _DTYPES.items()}

# Dtypes that NumPy has only through ml_dtypes are exchanged as integers of the same size.
_INTEGERS = {
    dtype: np.dtype(f"i{dtype.itemsize}")
    for dtype in _DTYPES
    if dtype.type.__module__ == "ml_dtypes"
}


def owns(value: Foreign) -> bool:
    """Whether a value is one of PyTorch's tensors."""
    return isinstance(value, torch.Tensor)


def quick() -> Mapping[type, Callable[[Foreign], Array]]:
    """No class of tensors needs a shorter way."""
    return {}


def to_value(value: Foreign) -> Array | SparseTensor:
    """A tensor as one of our values.

    Raises:
        UnsupportedError: The tensor has no values, or has more than values, such as a scale.
    """
    _check(value)
    if value.layout in (torch.strided, torch._mkldnn):
        return _to_array(value if value.layout is torch.strided else value.to_dense())
    coo = value if value.layout is torch.sparse_coo else value.to_sparse()
    if coo.dense_dim():
        raise UnsupportedError(
            f"the entries of a sparse tensor have {coo.dense_dim()} dimensions, expected scalars",
            hint="tensor.to_dense().to_sparse() gives scalar entries",
        )
    # indices() and values() refuse a tensor with repeated indices.
    return SparseTensor(
        _to_array(coo._indices()).T, _to_array(coo._values()), np.array(coo.shape, np.int64)
    )


def _check(tensor: Foreign) -> None:
    if tensor.is_nested:
        raise UnsupportedError(
            "a nested tensor has no counterpart",
            hint="pass list(tensor.unbind()), or a RaggedTensor of its values and offsets",
        )
    if tensor.is_quantized:
        raise UnsupportedError(
            "a quantized tensor has a scale besides its values",
            hint="pass tensor.int_repr() with the scale and zero point, or tensor.dequantize()",
        )
    if tensor.is_meta:
        raise UnsupportedError(
            "a tensor on the meta device has a shape but no values",
            hint="load or initialise it on a device first",
        )
    if tensor.dtype not in _NUMPY_DTYPES:
        raise UnsupportedError(
            f"{tensor.dtype} has no counterpart",
            hint="convert it with tensor.to(...), or store its bytes with tensor.view(torch.uint8)",
        )


def _to_array(tensor: Foreign) -> Array:
    dtype = _NUMPY_DTYPES[tensor.dtype]
    try:
        if dtype in _INTEGERS:
            tensor = tensor.detach().view(_DTYPES[_INTEGERS[dtype]])
        array: Array = tensor.numpy(force=True)
    except (RuntimeError, TypeError, ValueError) as error:
        raise UnsupportedError(
            f"PyTorch does not give the values of this {type(tensor).__name__}: {error}",
            hint="pass a plain tensor, outside of torch.compile, torch.func and fake tensor modes",
        ) from error
    return array.view(dtype)


def origin(value: Foreign) -> dict[str, Any]:
    """Nothing: PyTorch's tensors have no names, and come back on the CPU."""
    return {}


def restore(value: Tensor, origin: Origin) -> Foreign:
    """The same as `from_value`: there is nothing else to restore."""
    return from_value(value)


def from_value(value: Tensor) -> Foreign:
    """One of our values as a tensor of PyTorch.

    Raises:
        UnsupportedError: PyTorch has no such tensor.
    """
    if isinstance(value, RaggedTensor):
        raise UnsupportedError(
            "PyTorch has no ragged tensors",
            hint='load it with to="numpy", then pad it or pass its parts to torch.nested',
        )
    if not isinstance(value, SparseTensor):
        return _from_array(value)
    indices, values = _from_array(value.indices.T), _from_array(value.values)
    try:
        return torch.sparse_coo_tensor(indices, values, value.shape, check_invariants=False)
    except RuntimeError as error:
        raise UnsupportedError(
            f"PyTorch cannot hold a sparse tensor of shape {value.shape}: {error}"
        ) from error


def _from_array(array: Array) -> Foreign:
    if array.dtype not in _DTYPES:
        raise lacks("PyTorch", dtypes.from_numpy(array.dtype))
    flags = array.flags
    if not (flags.writeable and flags.aligned and (flags.c_contiguous or _has_steps(array))):
        array = array.copy()
    if array.dtype in _INTEGERS:
        return torch.from_numpy(array.view(_INTEGERS[array.dtype])).view(_DTYPES[array.dtype])
    return torch.from_numpy(array)


def _has_steps(array: Array) -> bool:
    """Whether PyTorch can go from element to element of an array: in whole steps forward."""
    return all(step >= 0 and step % array.itemsize == 0 for step in array.strides)


def is_variable(value: Foreign) -> bool:
    """Whether a value is a tensor: all tensors of PyTorch can be set."""
    return issubclass(type(value), torch.Tensor)  # what `__class__` says may be anything


def make_variable(value: Foreign, name: str, put: Put | None = None) -> Variable:
    """A tensor as a variable, which is set in place."""
    fixed = None
    if isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
        fixed = "it has no shape yet: call the module once"
    elif value.is_meta:
        fixed = "it is on the meta device: module.to_empty(device=...) gives it memory"
    elif value.layout is not torch.strided or value.is_quantized or value.is_nested:
        fixed = "it is no dense tensor"
    elif value.dtype not in _NUMPY_DTYPES:
        fixed = f"{value.dtype} has no counterpart"

    def assign(array: Array) -> None:
        with torch.no_grad():
            value.copy_(_from_array(array))

    known = value.dtype in _NUMPY_DTYPES
    return Variable(
        name,
        None if fixed and fixed.startswith("it has no shape") else tuple(value.shape),
        dtypes.from_numpy(_NUMPY_DTYPES[value.dtype]).name if known else str(value.dtype),
        lambda: np.asarray(to_value(value)),
        assign,
        trainable=bool(value.requires_grad),
        fixed=fixed,
    )


def is_bulk(value: Foreign) -> bool:
    """Whether a value is a plain dense tensor with values, which every pickler keeps."""
    plain = type(value) in (torch.Tensor, torch.nn.Parameter)
    return plain and value.layout is torch.strided and not value.is_meta


def is_model(value: Foreign) -> bool:
    """Whether a value is a module."""
    return isinstance(value, torch.nn.Module)


def list_variables(
    model: Foreign, *, build_optimizer: bool = False
) -> list[tuple[Foreign, Variable]]:
    """Parameters and buffers by their names in `state_dict`; a tied one appears at each name."""
    known = dict(model.named_parameters(remove_duplicate=False))
    known.update(model.named_buffers(remove_duplicate=False))
    return [
        (known[name], make_variable(known[name], name))
        for name in model.state_dict(keep_vars=True)
        if name in known
    ]
