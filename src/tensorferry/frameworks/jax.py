"""JAX: arrays, and sparse arrays as `jax.experimental.sparse.BCOO`.

Keeps `contract.Tensors` and `contract.Variables`. The value of an array on the CPU is a read-only
view of JAX's own memory; dtypes narrower than a byte are unpacked. An array that is made from a
value is one copy of it, or a large and aligned part of a mapped file itself, and never has a
narrower dtype. JAX's arrays never change: setting a variable puts another array in its place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from tensorferry import dtypes
from tensorferry.errors import UnsupportedError
from tensorferry.frameworks.contract import Foreign, Origin, Put, Variable, lacks
from tensorferry.frameworks.memory import LARGE, in_place
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, Tensor, as_tensor

_ENABLE_64_BITS = 'jax.config.update("jax_enable_x64", True)'


def owns(value: Foreign) -> bool:
    """Whether a value is one of JAX's arrays."""
    return isinstance(value, jax.Array) or _is_sparse(value)


def _is_sparse(value: Foreign) -> bool:
    # Importing the module takes as long as half of JAX. A program with such a value has done so.
    sparse = sys.modules.get("jax.experimental.sparse")
    return sparse is not None and isinstance(value, sparse.BCOO | sparse.BCSR)


def _is_bcsr(value: Foreign) -> bool:
    sparse = sys.modules.get("jax.experimental.sparse")
    return sparse is not None and isinstance(value, sparse.BCSR)


def quick() -> Mapping[type, Callable[[Foreign], Array]]:
    """No class of tensors needs a shorter way."""
    return {}


def to_value(value: Foreign) -> Array | SparseTensor:
    """An array as one of our values.

    Raises:
        UnsupportedError: The array has no values yet, or none that JAX shows.
    """
    if not _is_sparse(value):
        return _to_array(value)
    coo = value.to_bcoo() if _is_bcsr(value) else value
    if coo.n_batch or coo.n_dense:
        raise UnsupportedError(
            f"a sparse array has {coo.n_batch} batch and {coo.n_dense} dense dimensions, not 0",
            hint="update_layout(n_batch=0, n_dense=0) of a BCOO gives the same values without",
        )
    indices, values = _to_array(coo.indices), _to_array(coo.data)
    # JAX pads an array to the size it was given with entries that lie outside of it.
    inside = (indices < np.array(value.shape)).all(axis=1)
    if not inside.all():
        indices, values = indices[inside], values[inside]
    return SparseTensor(indices, values, np.array(value.shape, np.int64))


def _to_array(array: Foreign) -> Array:
    if isinstance(array, jax.core.Tracer):
        raise UnsupportedError(
            f"{array.aval.str_short()} is traced: it has no values while JAX transforms a function",
            hint="call it outside of jax.jit, vmap and grad, or inside through jax.pure_callback",
        )
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        raise UnsupportedError(
            f"a random key of dtype {array.dtype} has no counterpart",
            hint="pass jax.random.key_data(key); jax.random.wrap_key_data makes a key of it again",
        )
    try:
        values = np.asarray(array)
    except RuntimeError as error:
        raise UnsupportedError(f"JAX does not give the values of this array: {error}") from error
    return as_tensor(values)


def origin(value: Foreign) -> dict[str, Any]:
    """Nothing: JAX's arrays have no names, and JAX decides about devices itself."""
    return {}


def restore(value: Tensor, origin: Origin) -> Foreign:
    """The same as `from_value`: there is nothing else to restore."""
    return from_value(value)


def is_bulk(value: Foreign) -> bool:
    """False: an array may be traced or deleted, so the pickler itself is asked."""
    return False


def from_value(value: Tensor) -> Foreign:
    """One of our values as an array of JAX.

    Raises:
        UnsupportedError: JAX has no such array, or would narrow the dtype.
    """
    if isinstance(value, RaggedTensor):
        raise UnsupportedError(
            "JAX has no ragged arrays",
            hint='load it with to="numpy", then pad it or pass its parts',
        )
    return _from_sparse(value) if isinstance(value, SparseTensor) else _from_array(value)


def _from_sparse(value: SparseTensor) -> Foreign:
    from jax.experimental import sparse

    indices = value.indices
    if _narrows(indices.dtype):
        if max(value.shape, default=0) > np.iinfo(np.int32).max:
            raise UnsupportedError(
                f"indices for the shape {value.shape} take 64 bits, which JAX has switched off",
                hint=_ENABLE_64_BITS,
            )
        indices = indices.astype(np.int32)
    return sparse.BCOO((_from_array(value.values), _from_array(indices)), shape=value.shape)


def _from_array(array: Array) -> Foreign:
    row = dtypes.from_numpy(array.dtype)
    if row is dtypes.STRING or array.dtype.names:
        raise lacks("JAX", row)
    if _narrows(array.dtype):
        raise UnsupportedError(
            f"JAX has 64-bit dtypes switched off and would narrow {row.name}", hint=_ENABLE_64_BITS
        )
    if array.nbytes < LARGE:
        return jax.numpy.array(array)
    # device_put uses an aligned array in place, so it must not get the caller's.
    return jax.device_put(in_place(array))


def _narrows(dtype: np.dtype[Any]) -> bool:
    return bool(jax.dtypes.canonicalize_dtype(dtype) != dtype)


def is_variable(value: Foreign) -> bool:
    """Whether a value is one of JAX's arrays: another one can be put in its place.

    Random keys are none, as the seeds of layers are no weights.
    """
    return owns(value) and not jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def make_variable(value: Foreign, name: str, put: Put | None = None) -> Variable:
    """An array as a variable, which `put` sets to another array."""
    fixed = None
    if put is None:
        fixed = "JAX's arrays never change, and this one lies in a tuple or stands alone"

    def assign(array: Array) -> None:
        assert put is not None
        put(_from_array(array))

    return Variable(
        name,
        tuple(value.shape),
        dtypes.as_dtype(str(value.dtype)).name,
        lambda: np.asarray(to_value(value)),
        assign,
        fixed=fixed,
    )


def is_model(value: Foreign) -> bool:
    """False: a model of JAX is a structure of arrays, or an object with such attributes."""
    return False


def list_variables(
    model: Foreign, *, build_optimizer: bool = False
) -> list[tuple[Foreign, Variable]]:
    """Nothing, as no value is a model."""
    return []
