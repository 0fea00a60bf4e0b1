"""TensorFlow Serving's REST bodies: tensors as JSON's own numbers, strings and nested lists.

    {"instances": [row, row]}              a request by rows, answered by {"predictions": [...]}
    {"instances": [{"x": row}, {"x": row}]}            the same with named tensors
    {"inputs": tensor}                     a request by columns, answered by {"outputs": ...}
    {"inputs": {"x": tensor}}                          the same with named tensors

A request may hold a "signature_name" besides. A string that is binary is {"b64": "..."}; a tensor
whose name ends in "_bytes" is binary as a whole. There are no dtypes: the server knows its model's,
and who reads an answer has to know them or takes what the numbers look like. NaN, Infinity and
-Infinity stand as bare words, which standard JSON has not.

Numbers are written and read natively (`core/json_numbers`); everything else is what `json.dumps`
takes and `json.loads` gives (`tensorferry.codecs.json_text`). `tensorferry.formats.json.typed`
shows small tensors with the same numbers and strings.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tensorferry import _native
from tensorferry.codecs import json_text
from tensorferry.codecs.json_text import JSON_NAMES, describe, from_base64, to_base64, to_utf8
from tensorferry.dtypes import BY_NAME, STRING, DType, as_dtype, from_numpy
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.tensors.values import (
    MAX_RANK,
    Array,
    RaggedTensor,
    SparseTensor,
    as_tensor,
    check_lists,
    is_namedtuple,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

Form = Literal["instances", "inputs", "predictions", "outputs"]

FORMS: tuple[str, ...] = get_args(Form)
ROW_FORMS = ("instances", "predictions")
REQUESTS = ("instances", "inputs")
ANSWERS = ("predictions", "outputs")

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


def to_text(
    value: Any, form: str, signature_name: str | None = None, *, binary: bool = False
) -> bytes:
    """The text of a request or an answer.

    Args:
        value: A tensor (dense or ragged), or a dict of them.
        form: "instances", "inputs", "predictions" or "outputs".
        signature_name: Which of the model's signatures to call, in a request.
        binary: Whether the strings of a tensor without a name are binary as a whole.

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
    head = b""
    if signature_name is not None:
        head = b'"signature_name":' + json_text.to_text(signature_name) + b","
    if not isinstance(value, dict):
        content = _text(value, form, None, binary)
    else:
        if list(value) in ([], ["b64"]):
            raise UnsupportedError(
                f"the names of the tensors are {list(value)}, expected at least one, "
                'and not "b64" alone, which marks a binary string'
            )
        if form in ROW_FORMS:
            content = _rows({name: _texts(value[name], form, name) for name in value}, form)
        else:
            pairs = [_key(name) + _text(value[name], form, name) for name in value]
            content = b"{" + b",".join(pairs) + b"}"
    return b"".join([b"{", head, b'"', form.encode(), b'":', content, b"}"])


def _text(value: Any, form: str, name: str | None, binary: bool = False) -> bytes:
    """One tensor as the text of nested lists."""
    if _has_rows(value, form):
        return lists_of(value)
    return json_text.to_text(_lists(value, form, name, binary), allow_nan=True)


def _texts(value: Any, form: str, name: str) -> list[bytes]:
    """The text of each row of a tensor."""
    if _has_rows(value, form):
        return _native.json_lists(laid_out(value), True)  # type: ignore[no-any-return]
    return [json_text.to_text(row, allow_nan=True) for row in _lists(value, form, name)]


def _has_rows(value: Any, form: str) -> bool:
    """Whether a value is an array of numbers that the form can have."""
    return has_numbers(value) and (value.ndim > 0 or form not in ROW_FORMS)


def has_numbers(value: Any) -> bool:
    """Whether a value is an array that `lists_of` writes, with digits that restore it."""
    return value.__class__ is np.ndarray and value.dtype in NATIVE


def lists_of(array: Array) -> bytes:
    """The text of the numbers of an array, as nested lists."""
    return _native.json_lists(laid_out(array), False)  # type: ignore[no-any-return]


def laid_out(array: Array) -> Array:
    """The array as the native writers take it: contiguous, aligned, and of a size for lists."""
    check_lists(array.shape)
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else array.copy(order="C")


NATIVE = frozenset(
    np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64"),
    )
)
"""The dtypes whose numbers are written natively."""


def _lists(value: Any, form: str, name: str | None, binary: bool = False) -> Any:
    """One tensor as nested lists."""
    binary = binary or (name is not None and name.endswith("_bytes"))
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


def _key(name: str) -> bytes:
    return json_text.to_text(name) + b":"


def _rows(columns: dict[str, list[bytes]], form: str) -> bytes:
    """The text of rows, from the text of each row of each tensor."""
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
    keys = list(map(_key, columns))
    rows = [
        b"{" + b",".join(map(operator.add, keys, row)) + b"}"
        for row in zip(*columns.values(), strict=True)
    ]
    return b"[" + b",".join(rows) + b"]"


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
    if kind == "float":
        return _shortest(flat)
    leaves: list[Any] = flat.tolist()
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


def _shortest(flat: Array) -> list[float]:
    """The numbers whose shortest decimal form is also that of floats of a dtype."""
    if flat.dtype == np.float64:
        wide: list[float] = flat.tolist()
        return wide
    if flat.dtype == np.float32:
        found: list[float] = json.loads(lists_of(flat))
        return found
    # There are few different numbers of 16 bits or less.
    known, places = np.unique(flat.view(f"u{flat.dtype.itemsize}"), return_inverse=True)
    shortest: list[float] = _shortest_of_few(known.view(flat.dtype))[places].tolist()
    return shortest


@np.errstate(over="ignore", invalid="ignore")  # digits cut off too early; NaNs that signal
def _shortest_of_few(array: Array) -> Array:
    if array.dtype == np.float16:
        return np.array([float(str(value)) for value in array], np.float64)
    wide = array.astype(np.float64)
    short = wide.copy()
    left = np.arange(array.size)
    for digits in range(1, 9):  # `str` of smaller kinds gives neither the fewest nor enough
        short[left] = [float(f"{value:.{digits}g}") for value in wide[left].tolist()]
        left = left[(short[left].astype(array.dtype) != array[left]) & np.isfinite(wide[left])]
    short[left] = wide[left]
    return short


def nest(leaves: list[Any], shape: Sequence[int]) -> Any:
    """Flat values as nested lists of a shape; for a scalar, the value."""
    cells = np.empty(len(leaves), dtype=object)
    cells[:] = leaves
    return cells.reshape(shape).tolist()


_KINDS = {row.name: _kind(row) for row in BY_NAME.values()}

# Of the dtypes that have an infinity and a NaN; numbers up to these need no check.
_LARGEST = {name: float(np.finfo(name).max) for name in ("float32", "float64")}


def read_body(source: Buffer) -> Any:
    """The JSON of a body; a tensor of numbers is a tuple, unless something about it is unusual.

    Such a tuple is what `_from_numbers` takes: nothing else in a body is one.

    Raises:
        FormatError: The text is no JSON.
    """
    found = _native.json_body(source)
    return json_text.parse(memoryview(source), json_text.SERVING) if found is None else found


def _from_numbers(
    row: DType | None, memory: bytearray, whole: bool, shape: list[int], largest: float
) -> Array:
    """A tensor of numbers that was read natively, by default as float32 or int64.

    Args:
        row: The dtype.
        memory: The numbers.
        whole: Whether they are int64; otherwise they are float64.
        shape: Of the tensor.
        largest: The largest finite float, without its sign.

    Raises:
        FormatError: A number is no value of the dtype.
        UnsupportedError: JSON has nothing for the dtype.
    """
    row = row or BY_NAME[_GUESSES["integer" if whole else "float"]]
    kind = _KINDS[row.name]
    values: Array = np.ndarray(shape, np.int64 if whole else np.float64, memory)
    if kind == "float":
        wide = values.astype(np.float64) if whole else values
        fits = largest <= _LARGEST.get(row.name, -1)
        return wide.astype(row.numpy, copy=False) if fits else _narrowed(wide, row)
    if kind == "integer" and whole:
        _check_range(int(values.min()), int(values.max()), row)
        return values.astype(row.numpy, copy=False)
    return from_leaves(values.ravel().tolist(), row).reshape(shape)  # says what is wrong


def from_body(body: Any, dtypes: Any = None) -> Any:
    """The tensor, or the dict of named tensors, of a request or an answer.

    Args:
        body: What the JSON text holds.
        dtypes: One for all tensors, or a dict of them by name. Without one, numbers become float32
            or int64, depending on how they are written.

    Raises:
        FormatError: It is no such body, or is the server's report of an error.
    """
    return from_form(body, form_of(body), dtypes)


def form_of(body: Any, forms: Sequence[str] = FORMS) -> str:
    """The form of a body, which must be one of some.

    Raises:
        FormatError: It is no such body, or is the server's report of an error.
    """
    if type(body) is not dict:
        raise FormatError(f"the body is {describe(body)}, expected an object")
    if len(body) == 1:  # nearly always
        only: str = next(iter(body))
        if only in forms:
            return only
    check_error(body)
    present: list[str] = [key for key in body if key in FORMS]
    if len(present) != 1 or present[0] not in forms:
        raise FormatError(
            f"the body has the keys {sorted(body)[:8]}, expected exactly one of {', '.join(forms)}"
        )
    return present[0]


def from_form(body: dict[str, Any], form: str, dtypes: Any = None) -> Any:
    """What `from_body` gives, of a body whose form is known."""
    content = body[form]
    if form in ROW_FORMS and type(content) is not tuple:
        content = _columns(content, form)
    if type(content) is not dict or _is_binary(content):
        rows = _given(dtypes, None)
        return _tensor(content, rows.get(None))
    rows = _given(dtypes, list(content))
    tensors = {}
    for name, node in content.items():
        try:
            tensors[name] = _tensor(node, rows.get(name))
        except (FormatError, UnsupportedError) as error:
            raise error.located(tensor=name) from None
    return tensors


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
    if isinstance(dtypes, str) or not isinstance(dtypes, Mapping):
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


def _tensor(node: Any, row: DType | None) -> Array | RaggedTensor:
    """Nested lists as a dense tensor, or a ragged one where lists of one depth differ in length."""
    if type(node) is tuple:
        return _from_numbers(row, *node)
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
    _check_range(min(leaves, default=0), max(leaves, default=0), row)
    unsigned = row.name.startswith("uint")
    return np.array(leaves, np.uint64 if unsigned else np.int64).astype(row.numpy, copy=False)


def _check_range(least: int, most: int, row: DType) -> None:
    low = 0 if row.name.startswith("uint") else -(1 << row.bits - 1)
    high = low + (1 << row.bits) - 1
    for value in (least, most):
        if not low <= value <= high:
            raise FormatError(
                f"{str(value)[:40]} in a tensor of {row.name}, expected {low} to {high}",
                hint="give another dtype if the number is right",
            )


def _from_floats(leaves: list[float], row: DType) -> Array:
    try:
        wide = np.array(leaves, np.float64)
    except OverflowError:  # an integer beyond any float
        raise _too_large(row) from None
    return _narrowed(wide, row)


@np.errstate(over="ignore", invalid="ignore")
def _narrowed(wide: Array, row: DType) -> Array:
    """Float64 values in a dtype."""
    narrow = wide.astype(row.numpy, copy=False)
    if narrow.dtype in NATIVE and np.isfinite(narrow).all():
        return narrow
    # Small kinds without an infinity, or even a NaN, turn it into something else.
    if not ((np.isnan(wide) == np.isnan(narrow)) & (np.isinf(wide) == np.isinf(narrow))).all():
        raise _too_large(row)
    return narrow


def _too_large(row: DType) -> FormatError:
    return FormatError(
        f"a number is too large for {row.name}", hint="give another dtype, such as float64"
    )


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
    return len(node) == 1 and isinstance(node.get("b64"), str)
