"""Plain: results as what JSON has.

Floats that JSON lacks are the texts "NaN", "Infinity" and "-Infinity"; bytes are text where they
are UTF-8, and else an object {"base64": ...}. Characters that a terminal obeys are escapes.
"""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_THEMSELVES = frozenset((type(None), bool, int, str))


def plain(value: Any) -> Any:
    """A value in dicts, lists, texts and numbers."""
    if type(value) is list:
        return _list(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value))
    if _is_ragged(value):
        return plain(value.to_list())
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(part) for part in value]
    if _is_array(value):
        return plain(_listed(value))
    if isinstance(value, complex):
        return [_float(value.real), _float(value.imag)]
    return str(value)


def _list(values: list[Any]) -> list[Any]:
    """A list, whose elements are looked at together where they are alike: there may be millions."""
    kinds = {*map(type, values)}
    if kinds <= _THEMSELVES:
        return values.copy()
    if kinds == {list}:
        return [*map(_list, values)]
    return [*map(_float if kinds == {float} else plain, values)]


def _is_ragged(value: Any) -> bool:
    values = sys.modules.get("tensorferry.tensors.values")  # without it, there is no such tensor
    return values is not None and isinstance(value, values.RaggedTensor)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")  # without it, there is no array
    return numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)


def _listed(value: Any) -> Any:
    """An array or a scalar of NumPy's in lists and Python's numbers."""
    import numpy as np

    from tensorferry.tensors.values import check_lists

    array = np.asarray(value)
    check_lists(array.shape)
    if array.dtype.names is not None:  # TensorFlow's quantized kinds
        array = array[array.dtype.names[0]]
    if array.dtype.kind == "V" or array.dtype.type.__module__ == "ml_dtypes":
        array = array.astype(np.int8 if "int" in array.dtype.name else np.float32)
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        # With as many digits as tell it from its neighbours, not those of the double.
        texts = np.empty(array.shape, object)
        texts[...] = array.astype(str).astype(np.float64)
        return texts.tolist()
    return array.tolist()


def _float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _bytes(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
