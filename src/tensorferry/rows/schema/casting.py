"""Casting: what PyArrow is asked to do with types and texts of strangers.

A schema beside a file says which types its columns were, and the file holds their texts. Both may
be anybody's. PyArrow trusts them: it looks up powers of ten for a decimal without asking whether it
has them, and ends the process if it does not; and a null of a type of fixed size takes that size in
memory, though it takes nothing in the file. So types and values are looked at before.

The types in JSON are `tensorferry.rows.schema.arrow`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tensorferry.rows.columns import nbytes_of
from tensorferry.tensors.values import check_budget

# A decimal of one number, as PyArrow and others write it.
_DECIMAL = r"^[+-]?[0-9]*\.?(?P<fraction>[0-9]*)(?:[eE]\+?(?P<power>-?[0-9]{1,4}))?$"
# The largest power of ten that decimals of a width have room for.
_POWERS = {32: 9, 64: 18, 128: 38, 256: 76}


def check_scale(kind: pa.DataType) -> None:
    """Refuses a decimal whose last digit has no place among those that it has room for.

    Raises:
        pyarrow.ArrowInvalid: It is such a type.
    """
    if pa.types.is_decimal(kind) and abs(kind.scale) > _POWERS[kind.bit_width]:
        raise pa.ArrowInvalid(
            f"the scale of {kind} is beyond {_POWERS[kind.bit_width]} digits either way"
        )


def cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values in another type.

    Raises:
        pyarrow.ArrowException: They are none of that type.
        LimitError: They would take far more memory than they do.
    """
    _check(array, kind)
    return array.cast(kind)


def _check(array: pa.Array, kind: pa.DataType) -> None:
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _check(array, kind.storage_type)
    if types.is_dictionary(kind):
        return _check(array, kind.value_type)
    size = len(array) * _width(kind)
    check_budget((size,), np.dtype(np.uint8), what=f"a column of {kind}", held=nbytes_of(array))
    if _is_list(kind) and _is_list(array.type):
        return _check(array.flatten(), kind.value_type)
    if types.is_struct(kind) and types.is_struct(array.type):
        for member in kind:
            place = array.type.get_field_index(member.name)
            if place >= 0:
                _check(array.field(place), member.type)
    if types.is_decimal(kind):
        check_scale(kind)
        if not types.is_decimal(array.type) and not types.is_integer(array.type):
            _check_digits(array.cast(pa.string()), kind)
    return None


def _width(kind: pa.DataType) -> int:
    """Number of bytes that a value takes at least, also if it is null."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _width(kind.storage_type)
    if types.is_fixed_size_list(kind):
        return int(kind.list_size) * max(1, _width(kind.value_type))
    if types.is_struct(kind):
        return sum(_width(member.type) for member in kind)
    return int(kind.byte_width) if types.is_fixed_size_binary(kind) else 1


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _check_digits(texts: pa.Array, kind: pa.DataType) -> None:
    """Refuses texts whose last digit is further from that of a decimal than PyArrow can move it."""
    import pyarrow.compute as pc  # takes half as long to import as PyArrow itself

    texts = texts.drop_null()
    parts = pc.extract_regex(texts, _DECIMAL)
    if parts.null_count:
        first = texts.filter(parts.is_null())[0].as_py()
        raise pa.ArrowInvalid(f"{first!r:.60} is no decimal number")
    fraction, power = parts.field("fraction"), parts.field("power")
    power = pc.if_else(pc.equal(power, ""), "0", power).cast(pa.int64())
    scales = pc.subtract(pc.utf8_length(fraction).cast(pa.int64()), power)
    distance = pc.max(pc.abs(pc.subtract(scales, kind.scale))).as_py()
    if distance is not None and distance > _POWERS[kind.bit_width]:
        raise pa.ArrowInvalid(f"a number has digits far from those of {kind}")
