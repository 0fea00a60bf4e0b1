"""Arrow's types in the JSON of a schema: what the columns of a frame were, for formats with fewer.

    {"columns": [
        {"name": "id", "type": "int64"},
        {"name": "when", "type": {"timestamp": "us", "zone": "Europe/Berlin"}},
        {"name": "kind", "type": {"dictionary": "string", "index": "int8"},
         "categories": ["a", "b"]}],
     "pandas": "..."}

A type is a name, or an object whose first key is the name: a unit of time, the digits of a decimal,
the type inside of a list. "nullable", "ordered", "zone" and "metadata" are written only where they
are not false, or empty. "pandas" is what pandas notes in Arrow's metadata of its index.

What a format makes of the types, and how they are restored, is `tensorferry.formats.tables.typed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.rows.schema import casting

_NAMED: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    **{
        name: getattr(pa, name)()
        for name in (
            *("null", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "string", "large_string", "string_view"),
            *("binary", "large_binary", "binary_view", "date32", "date64"),
        )
    },
}
_NAMES = {kind: name for name, kind in _NAMED.items()}
_UNITS = {"timestamp", "time32", "time64", "duration"}
_PANDAS = b"pandas"
# What a tree that is something else raises.
_WRONG = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, StopIteration)


def to_json(schema: pa.Schema, categories: Mapping[str, pa.Array]) -> dict[str, Any]:
    """The columns of a frame as plain data for JSON.

    Args:
        schema: The schema of the frame.
        categories: The values of columns that are dictionaries, by name.

    Raises:
        UnsupportedError: A type, or a category, is none that can be written down.
    """
    columns = []
    for field in schema:
        column = _field_to_json(field)
        if field.name in categories:
            column["categories"] = _texts(categories[field.name], field.name)
        columns.append(column)
    tree: dict[str, Any] = {"columns": columns}
    if _PANDAS in (schema.metadata or {}):
        tree["pandas"] = _decoded(schema.metadata[_PANDAS])
    return tree


def from_json(tree: Any) -> tuple[pa.Schema, dict[str, pa.Array]]:
    """The schema of a frame, and the values of its categories.

    Raises:
        FormatError: The tree is something else than `to_json` gives.
    """
    try:
        categories = {}
        fields = [_field_from_json(column) for column in tree["columns"]]
        for field, column in zip(fields, tree["columns"], strict=True):
            if "categories" in column:
                values = pa.array(column["categories"], pa.string())
                categories[field.name] = casting.cast(values, field.type.value_type)
        metadata = {_PANDAS: tree["pandas"].encode()} if "pandas" in tree else None
        return pa.schema(fields, metadata), categories
    except (*_WRONG, pa.ArrowException) as error:
        raise FormatError(
            f"the columns of a frame in a schema are no types of Arrow: {error!r:.200}",
            hint="remove the schema: the columns are then what the file shows",
        ) from None


def _texts(values: pa.Array, name: str) -> list[str | None]:
    try:
        return list(values.cast(pa.string()).to_pylist())
    except pa.ArrowException as error:
        raise UnsupportedError(
            f"categories of {values.type} are no texts: {error}",
            tensor=name,
            hint="write Parquet or Arrow",
        ) from None


def _field_to_json(field: pa.Field) -> dict[str, Any]:
    try:
        node: dict[str, Any] = {"name": field.name, "type": _to_node(field.type)}
        found = (field.metadata or {}).items()
        texts = {_decoded(key): _decoded(text) for key, text in found}
    except UnsupportedError as error:
        raise error.located(tensor=field.name) from None
    if not field.nullable:
        node["nullable"] = False
    if texts:
        node["metadata"] = texts
    return node


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UnsupportedError(
            f"metadata of a column is no text: {data[:40]!r}", hint="write Parquet or Arrow"
        ) from None


def _field_from_json(node: Any) -> pa.Field:
    name, kind = node["name"], _from_node(node["type"])
    return pa.field(name, kind, bool(node.get("nullable", True)), node.get("metadata"))


def _to_node(kind: pa.DataType) -> Any:
    if kind in _NAMES:
        return _NAMES[kind]
    types = pa.types
    if types.is_timestamp(kind):
        zone = {} if kind.tz is None else {"zone": kind.tz}
        return {"timestamp": kind.unit, **zone}
    if types.is_time(kind):
        return {f"time{kind.bit_width}": kind.unit}
    if types.is_duration(kind):
        return {"duration": kind.unit}
    if types.is_decimal(kind):
        return {f"decimal{kind.bit_width}": [kind.precision, kind.scale]}
    if types.is_fixed_size_binary(kind):
        return {"fixed_size_binary": kind.byte_width}
    if types.is_list(kind) or types.is_large_list(kind):
        name = "list" if types.is_list(kind) else "large_list"
        return {name: _field_to_json(kind.value_field)}
    if types.is_fixed_size_list(kind):
        return {"fixed_size_list": _field_to_json(kind.value_field), "size": kind.list_size}
    if types.is_struct(kind):
        return {"struct": [_field_to_json(kind.field(i)) for i in range(kind.num_fields)]}
    if types.is_dictionary(kind):
        ordered = {"ordered": True} if kind.ordered else {}
        index = _to_node(kind.index_type)
        return {"dictionary": _to_node(kind.value_type), "index": index, **ordered}
    if isinstance(kind, pa.FixedShapeTensorType):
        order = {} if kind.permutation is None else {"permutation": list(kind.permutation)}
        return {"tensor": _to_node(kind.value_type), "shape": list(kind.shape), **order}
    raise UnsupportedError(
        f"a column of {kind} has no place in a schema", hint="write Parquet or Arrow"
    )


def _from_node(node: Any) -> pa.DataType:
    if isinstance(node, str):
        return _NAMED[node]
    name = next(iter(node))
    value = node[name]
    if name in _UNITS:
        return pa.timestamp(value, node.get("zone")) if "zone" in node else getattr(pa, name)(value)
    if name in ("decimal32", "decimal64", "decimal128", "decimal256"):
        kind = getattr(pa, name)(*value)
        casting.check_scale(kind)
        return kind
    make: Callable[..., pa.DataType]
    if name in ("list", "large_list"):
        make = pa.list_ if name == "list" else pa.large_list
        return make(_field_from_json(value))
    if name == "fixed_size_list":
        return pa.list_(_field_from_json(value), _size(node["size"]))
    if name == "struct":
        return pa.struct([_field_from_json(field) for field in value])
    if name == "dictionary":
        index, ordered = _from_node(node["index"]), bool(node.get("ordered", False))
        return pa.dictionary(index, _from_node(value), ordered)
    if name == "tensor":
        order = node.get("permutation")
        return pa.fixed_shape_tensor(_from_node(value), node["shape"], permutation=order)
    if name == "fixed_size_binary":
        return pa.binary(_size(value))
    raise ValueError(f"{name!r} is no type")


def _size(value: Any) -> int:
    # For PyArrow, -1 means any number.
    if type(value) is not int or value < 0:
        raise ValueError(f"a size is {value!r:.40}")
    return value
