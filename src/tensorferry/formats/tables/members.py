"""Members of Arrow's structs as columns of their own, with the nulls of the structs around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tensorferry.errors import UnsupportedError
from tensorferry.formats.tables.values import is_list, list_parts

if TYPE_CHECKING:
    import pyarrow as pa


def member_of(array: pa.Array, path: str) -> Any:
    """A member of a struct, or of the structs in lists and maps.

    Args:
        array: A column.
        path: Names from the outside in, with slashes between; a name may have slashes itself.

    Raises:
        UnsupportedError: It stands in a list of fixed size that is null in some row.
    """
    kind = array.type
    if not path:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return member_of(array.storage, path)
    if pa.types.is_struct(kind):
        for field, child in zip(kind, array.flatten(), strict=True):
            if path == field.name:
                return child
            if path.startswith(f"{field.name}/"):
                return member_of(child, path.removeprefix(f"{field.name}/"))
    elif is_list(kind):
        splits, values = list_parts(array)
        inner = member_of(values, path)
        if splits[-1] > 2**31 - 1:
            return pa.LargeListArray.from_arrays(pa.array(splits, pa.int64()), inner)
        return pa.ListArray.from_arrays(pa.array(splits, pa.int32()), inner)
    elif pa.types.is_fixed_size_list(kind) and not array.null_count:
        return pa.FixedSizeListArray.from_arrays(member_of(array.flatten(), path), kind.list_size)
    raise UnsupportedError(f"the member {path!r} of {kind} is no column of its own")
