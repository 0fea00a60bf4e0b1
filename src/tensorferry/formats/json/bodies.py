"""TensorFlow Serving's REST bodies: tensors as JSON's own numbers, strings and nested lists.

    {"instances": [row, row]}              a request by rows, answered by {"predictions": [...]}
    {"instances": [{"x": row}, {"x": row}]}            the same with named tensors
    {"inputs": tensor}                     a request by columns, answered by {"outputs": ...}
    {"inputs": {"x": tensor}}                          the same with named tensors

A request may hold a "signature_name" besides. A string that is binary is {"b64": "..."}; a tensor
whose name ends in "_bytes" is binary as a whole. There are no dtypes: the server knows its model's,
and who reads an answer has to know them or takes what the numbers look like. NaN, Infinity and
-Infinity stand as bare words, which standard JSON has not.

This module turns values into what `json.dumps` takes and back. `tensorferry.formats.json.typed`
shows small tensors with the same numbers and strings; the text is `tensorferry.codecs.json_text`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Literal, get_args

import numpy as np

from tensorferry.codecs.json_text import JSON_NAMES, describe, from_base64, to_base64, to_utf8
from tensorferry.dtypes import BY_NAME, STRING, DType, as_dtype, from_numpy
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.tensors.values import (
    MAX_RANK,
    Array,
    RaggedTensor,
    SparseTensor,
    as_tensor,
    is_namedtuple,
)

Form = Literal["instances", "inputs", "predictions", "outputs"]

FORMS: tuple[str, ...] = get_args(Form)
ROW_FORMS = ("instances", "predictions")
REQUESTS = ("instances", "inputs")

Kind = Literal["bool", "integer", "float", "string"]

_LEAVES: dict[Kind, set[type]] = {
    "bool": {bool},
    "integer": {int},
    "float": {int, float},
    "string": {str, dict},
}
_GUESSES: dict[Kind, str] = {
    "bool": "bool",
    "integer": "int64",
    "float": "float32",
    "string": "string",
}


def to_body(value: Any, form: str, signature_name: str | None = None) -> dict[str, Any]:
    """The body of a request or an answer.

    Args:
        value: A tensor (dense or ragged), or a dict of them.
        form: "instances", "inputs", "predictions" or "outputs".
        signature_name: Which of the model's signatures to call, in a request.

    Raises:
        UnsupportedError: The form cannot carry the value.
    """
    if form not in FORMS:
        raise UnsupportedError(
            f"Serving has no form {form!r}", hint=f"expected one of {', '.join(FORMS)}"
        )
    if signature_name is not None and form not in REQUESTS:
        raise UnsupportedError(
            f'an answer ("{form}") names no signature', hint='requests are "instances" and "inputs"'
        )
    content: Any
    if isinstance(value, dict):
        content = {name: _lists(column, form, name) for name, column in value.items()}
        if list(content) in ([], ["b64"]):
            raise UnsupportedError(
                f"the names of the tensors are {list(content)}, expected at least one, "
                'and not "b64" alone, which marks a binary string'
            )
        if form in ROW_FORMS:
            content = _rows(content, form)
    else:
        content = _lists(value, form, None)
    head = {} if signature_name is None else {"signature_name": signature_name}
    return {**head, form: content}


def _lists(value: Any, form: str, name: str | None) -> Any:
    """One tensor as nested lists."""
    binary = name is not None and name.endswith("_bytes")
    try:
        if isinstance(value, RaggedTensor):
            nested = nest(to_leaves(value.flat_values, binary=binary), value.flat_values.shape)
            for splits in reversed(value.nested_row_splits):
                nested = [nested[start:end] for start, end in pairwise(splits.tolist())]
            return nested
        if isinstance(value, SparseTensor) or is_namedtuple(value):
            raise UnsupportedError(
                f"Serving's JSON has no place for a {type(value).__name__}",
                hint='format="structure", and "json" without serving=, carry it; or send its parts',
            )
        array = as_tensor(value)
        if array.ndim == 0 and form in ROW_FORMS:
            raise UnsupportedError(
                f'a scalar has no rows to be "{form}"', hint='use "inputs" and "outputs"'
            )
        return nest(to_leaves(array, binary=binary), array.shape)
    except UnsupportedError as error:
        raise error.located(tensor=name) from None


def _rows(columns: dict[str, list[Any]], form: str) -> list[dict[str, Any]]:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise UnsupportedError(
            f"the tensors have {lengths} rows, expected as many in each",
            hint='use "inputs" and "outputs", which have no rows',
        )
    # Serving answers a batch of no rows by an empty list, and takes no request of none.
    if not any(lengths.values()) and form != "predictions":
        raise UnsupportedError(
            f"no rows, so no place for the names {list(columns)}", hint='use "inputs" and "outputs"'
        )
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def to_leaves(array: Array, *, binary: bool = False) -> list[Any]:
    """The values of a tensor, flat, as JSON's numbers, strings and booleans.

    A float has the fewest digits that give it back in its dtype. A string is text where it is
    UTF-8 and {"b64": ...} otherwise; with `binary` it always is the latter.

    Raises:
        UnsupportedError: JSON has nothing for the dtype.
    """
    row = from_numpy(array.dtype)
    kind = _kind(row)
    flat = array.ravel()
    if kind is None:
        raise UnsupportedError(
            f"JSON has no numbers for {row.name}",
            hint='format="tensorproto" and "structure", and "json" without serving=, carry it',
        )
    if kind == "string":
        return [_to_string(value, binary) for value in flat.tolist()]
    leaves: list[Any] = (_shortest(flat) if kind == "float" else flat).tolist()
    return leaves


def _kind(row: DType) -> Kind | None:
    """What stands in JSON for values of a dtype: nothing for complex and quantized ones."""
    if row.name.startswith(("float", "bfloat")):
        return "float"
    if row.name.startswith(("int", "uint")):
        return "integer"
    return "bool" if row.name == "bool" else "string" if row is STRING else None


def _to_string(value: bytes, binary: bool) -> str | dict[str, str]:
    if not binary:
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"b64": to_base64(value)}


@np.errstate(over="ignore", invalid="ignore")  # digits cut off too early; NaNs that signal
def _shortest(array: Array) -> Array:
    """As float64, the numbers whose shortest decimal form is also that of the narrow ones."""
    wide = array.astype(np.float64)
    if array.dtype == np.float64:
        return wide
    if array.dtype in _DIGITS:
        return _rounded(array, wide)
    short = wide.copy()
    left = np.arange(array.size)
    for digits in range(1, 9):  # `str` of the small kinds gives neither the fewest nor enough
        short[left] = [float(f"{value:.{digits}g}") for value in wide[left].tolist()]
        left = left[(short[left].astype(array.dtype) != array[left]) & np.isfinite(wide[left])]
    short[left] = wide[left]
    return short


# From as many decimal digits as every such number has, subnormal ones of float16 included, to as
# many as give each of them back.
_DIGITS = {np.dtype(np.float32): range(6, 10), np.dtype(np.float16): range(1, 6)}
# Between these, the powers of ten that digits are counted by are exact.
_SMALLEST, _LARGEST = 1e-12, 1e15


@np.errstate(all="ignore")
def _rounded(array: Array, wide: Array) -> Array:
    """The shortest decimals of float32 and float16, many at a time.

    A whole number of few digits times or over an exact power of ten is the very float64 that the
    decimal stands for. A power of two has neighbours at two distances, so that the decimal nearest
    to it need not be the shortest: it takes the long way, as do very small and very large numbers.
    """
    size = np.abs(wide)
    plain = (size >= _SMALLEST) & (size < _LARGEST) & (np.frexp(wide)[0] != np.copysign(0.5, wide))
    short = wide.copy()
    left = np.flatnonzero(plain)
    exponents = np.floor(np.log10(size, where=plain, out=np.zeros_like(size))).astype(np.int64)
    for digits in _DIGITS[array.dtype]:
        power = digits - 1 - exponents[left]
        scale = 10.0 ** np.abs(power)
        up = power >= 0
        whole = np.rint(np.where(up, wide[left] * scale, wide[left] / scale))
        short[left] = np.where(up, whole / scale, whole * scale)
        left = left[short[left].astype(array.dtype) != array[left]]
    others = np.flatnonzero(~plain & np.isfinite(wide) & (wide != 0))
    left = np.concatenate([left, others])
    short[left] = [float(str(value)) for value in array[left]]
    return np.where(short.astype(array.dtype) == array, short, wide)


def nest(leaves: list[Any], shape: Sequence[int]) -> Any:
    """Flat values as nested lists of a shape; for a scalar, the value."""
    cells = np.empty(len(leaves), dtype=object)
    cells[:] = leaves
    return cells.reshape(shape).tolist()


def from_body(body: Any, dtypes: Any = None) -> Any:
    """The tensor, or the dict of named tensors, of a request or an answer.

    Args:
        body: What the JSON text holds.
        dtypes: One for all tensors, or a dict of them by name. Without one, numbers become float32
            or int64, depending on how they are written.

    Raises:
        FormatError: It is no such body, or is the server's report of an error.
    """
    if type(body) is not dict:
        raise FormatError(f"the body is {describe(body)}, expected an object")
    check_error(body)
    present = [form for form in FORMS if form in body]
    if len(present) != 1:
        raise FormatError(
            f"the body has the keys {sorted(body)[:8]}, expected exactly one of {', '.join(FORMS)}"
        )
    content = body[present[0]]
    if present[0] in ROW_FORMS:
        content = _columns(content, present[0])
    if type(content) is not dict or _is_binary(content):
        rows = _given(dtypes, None)
        return _tensor(content, rows.get(None))
    rows = _given(dtypes, list(content))
    return {name: _named_tensor(name, node, rows.get(name)) for name, node in content.items()}


def check_error(body: dict[str, Any]) -> None:
    """Raises what a body reports as the server's error, if it does."""
    if "error" in body:
        raise FormatError(f"the server answered with an error: {str(body['error'])[:2000]}")


def _columns(rows: Any, form: str) -> Any:
    """Rows of named tensors as one list for each name; other rows as they are."""
    if type(rows) is not list:
        raise FormatError(f'"{form}" is {describe(rows)}, expected a list of rows')
    named = [type(row) is dict and not _is_binary(row) for row in rows]
    if not any(named):
        return rows
    names = rows[named.index(True)].keys()
    for number, row in enumerate(rows):
        if not named[number] or row.keys() != names:
            found = f"the names {sorted(row)[:8]}" if named[number] else describe(row)
            raise FormatError(
                f'row {number} of "{form}" has {found}, expected the names {sorted(names)[:8]}'
            )
    return {name: [row[name] for row in rows] for name in names}


def _given(dtypes: Any, names: list[str] | None) -> dict[str | None, DType]:
    """The dtypes asked for, by name; by None for a body that holds one tensor without a name."""
    if dtypes is None:
        return {}
    if not isinstance(dtypes, Mapping):
        return dict.fromkeys([None] if names is None else names, as_dtype(dtypes))
    if names is None:
        if len(dtypes) > 1:
            raise FormatError(f"one tensor without a name, expected {', '.join(map(repr, dtypes))}")
        # Serving leaves out the name of a tensor that is alone.
        return {None: as_dtype(*dtypes.values())} if dtypes else {}
    for name in dtypes:
        if name not in names:
            raise FormatError(f"no tensor {name!r}, only {', '.join(map(repr, names[:8]))}")
    return {name: as_dtype(dtype) for name, dtype in dtypes.items()}


def _named_tensor(name: str, node: Any, row: DType | None) -> Array | RaggedTensor:
    try:
        return _tensor(node, row)
    except (FormatError, UnsupportedError) as error:
        raise error.located(tensor=name) from None


def _tensor(node: Any, row: DType | None) -> Array | RaggedTensor:
    """Nested lists as a dense tensor, or a ragged one where lists of one depth differ in length."""
    lengths: list[list[int]] = []
    level = [node]
    while list in (types := set(map(type, level))):
        if types != {list}:
            types.discard(list)
            other = JSON_NAMES.get(types.pop(), "a value")
            raise FormatError(f"{other} beside a list, {len(lengths)} lists deep")
        if len(lengths) == MAX_RANK:
            raise FormatError(f"lists nested deeper than {MAX_RANK}, the most dimensions there are")
        lengths.append(list(map(len, level)))
        level = list(chain.from_iterable(level))
    flat = from_leaves(level, row or _guess(level))
    shape = [dimension[0] for dimension in lengths]
    ragged = max((i for i, dimension in enumerate(lengths) if len(set(dimension)) > 1), default=0)
    if not ragged:
        return flat.reshape(shape)
    splits = [np.cumsum([0, *dimension], dtype=np.int64) for dimension in lengths[1 : ragged + 1]]
    return RaggedTensor(flat.reshape(int(splits[-1][-1]), *shape[ragged + 1 :]), tuple(splits))


def _guess(leaves: list[Any]) -> DType:
    types = set(map(type, leaves))
    if not types:
        return BY_NAME["float32"]
    for kind, allowed in _LEAVES.items():
        if types <= allowed:
            return BY_NAME[_GUESSES[kind]]
    names = " and ".join(sorted(JSON_NAMES.get(found, "a value") for found in types))
    raise FormatError(f"a tensor of {names}, expected booleans, numbers or strings")


def from_leaves(leaves: list[Any], row: DType) -> Array:
    """One dimension of values, from JSON's numbers, strings and booleans.

    Raises:
        FormatError: One of them is no value of the dtype.
        UnsupportedError: JSON has nothing for the dtype.
    """
    kind = _kind(row)
    if kind is None:
        raise UnsupportedError(
            f"JSON has no numbers for {row.name}",
            hint="expected a bool, int, float or string dtype",
        )
    for found in set(map(type, leaves)) - _LEAVES[kind]:
        raise FormatError(f"{JSON_NAMES.get(found, 'a value')} in a tensor of {row.name}")
    if kind == "bool":
        return np.array(leaves, np.bool_)
    if kind == "string":
        strings = np.empty(len(leaves), dtype=object)
        strings[:] = [_from_string(value) for value in leaves]
        return strings
    return _from_integers(leaves, row) if kind == "integer" else _from_floats(leaves, row)


def _from_integers(leaves: list[int], row: DType) -> Array:
    unsigned = row.name.startswith("uint")
    low = 0 if unsigned else -(1 << row.bits - 1)
    high = low + (1 << row.bits) - 1
    for value in (min(leaves, default=0), max(leaves, default=0)):
        if not low <= value <= high:
            raise FormatError(
                f"{str(value)[:40]} in a tensor of {row.name}, expected {low} to {high}",
                hint="give another dtype if the number is right",
            )
    return np.array(leaves, np.uint64 if unsigned else np.int64).astype(row.numpy, copy=False)


@np.errstate(over="ignore", invalid="ignore")
def _from_floats(leaves: list[float], row: DType) -> Array:
    try:
        wide = np.array(leaves, np.float64)
        narrow = wide.astype(row.numpy, copy=False)
        # Small kinds without an infinity, or even a NaN, turn it into something else.
        if not ((np.isnan(wide) == np.isnan(narrow)) & (np.isinf(wide) == np.isinf(narrow))).all():
            raise OverflowError
    except OverflowError:  # NumPy's own is for an integer beyond any float
        raise FormatError(
            f"a number is too large for {row.name}", hint="give another dtype, such as float64"
        ) from None
    return narrow


def _from_string(value: str | dict[str, Any]) -> bytes:
    if isinstance(value, dict):
        if not _is_binary(value):
            raise FormatError(
                f"an object with the keys {sorted(value)[:8]} for a string, "
                'expected {"b64": "..."}'
            )
        return from_base64(value["b64"])
    return to_utf8(value)


def _is_binary(node: dict[str, Any]) -> bool:
    return list(node) == ["b64"] and isinstance(node["b64"], str)
