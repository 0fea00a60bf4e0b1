"""Examples in a request: what Classify, Regress and MultiInference take.

    Input                   1 example_list | 2 example_list_with_context
    ExampleList             1 examples: tf.train.Example
    ExampleListWithContext  1 examples  2 context: an Example whose features are those of all

    {"context": {"feature": value | list}, "examples": [{"feature": value | list}, ...]}

An Example has lists of int64, float32 or strings, and nothing else: other values are refused rather
than flattened, cut or wrapped. In JSON a number without a decimal point or exponent is an integer,
as the server takes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorferry import _native, dtypes, frameworks
from tensorferry.codecs.json_text import describe
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.formats.json.bodies import from_leaves, to_leaves
from tensorferry.formats.tfrecord.encoder import ExampleWriter
from tensorferry.formats.tfrecord.example import KIND_NAMES, NUMPY_DTYPES
from tensorferry.serving.messages import WRITER, Reader
from tensorferry.tensors.values import Array, as_tensor

Row = Mapping[str, Any]
Features = dict[str, Array]

TOGETHER = 64
"""Number of rows that become columns together: a column has a place for each of these rows."""

# Serialized Examples stand here for rows.
_BYTES = (bytes, bytearray, memoryview)
_LISTS = {np.dtype(np.int64), np.dtype(np.float32), np.dtype(object)}


def serialize(rows: Iterable[Row | bytes]) -> list[bytes]:
    """Rows as serialized Examples; those that are serialized already stay as they are.

    Raises:
        UnsupportedError: An Example cannot carry a value.
        FormatError: A feature is of different kinds in different rows.
    """
    if isinstance(rows, (Mapping, str, *_BYTES)):
        raise UnsupportedError(
            f"the examples are one {type(rows).__name__}, expected a list of rows",
            hint="a row is a dict of features, or the bytes of an Example",
        )
    given = list(rows)
    results = [bytes(row) if isinstance(row, _BYTES) else b"" for row in given]
    places = [place for place, row in enumerate(given) if not isinstance(row, _BYTES)]
    writer = ExampleWriter()
    for start in range(0, len(places), TOGETHER):
        group = places[start : start + TOGETHER]
        for place in group:
            try:
                writer.add(_features(given[place], place))
            except FormatError as error:
                error.hint = "give the feature the same type in every row"
                raise
        records, _, _ = _native.tfrecord_read(writer.flush(), 0, len(group), False)
        for place, record in zip(group, records, strict=True):
            results[place] = record
    return results


def _features(row: Any, place: int) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise UnsupportedError(
            f"row {place} is a {type(row).__name__}, expected a dict of features",
            hint="or the bytes of an Example",
        )
    try:
        return {name: as_list(value, name) for name, value in row.items() if value is not None}
    except FerryError as error:
        error.message = f"row {place}: {error.message}"
        raise


def as_list(value: Any, name: str) -> Array:
    """A value as one dimension of int64, float32 or strings.

    Raises:
        UnsupportedError: It would have to be flattened, rounded or cut.
    """
    try:
        if isinstance(value, list | tuple) and not value:
            raise UnsupportedError(
                "an empty list does not say its kind", hint="pass an array, which has a dtype"
            )
        array = as_tensor(frameworks.accept(value))
        if array.ndim > 1:
            raise UnsupportedError(
                f"a value of shape {list(array.shape)}, a feature has one dimension",
                hint="pass its ravel(), if that is how the model parses it",
            )
        if array.dtype not in _LISTS:
            array = _widen(array)
        return array.reshape(-1)
    except UnsupportedError as error:
        raise error.located(tensor=str(name)) from None


def _widen(array: Array) -> Array:
    """Narrower numbers as int64 or float32, which hold all of them."""
    row = dtypes.from_numpy(array.dtype)
    if row.name.startswith(("bool", "int", "uint")) and row.name != "uint64":
        return array.astype(np.int64)
    if row.name.startswith(("float", "bfloat")) and row.bits < 32:
        return array.astype(np.float32)
    raise UnsupportedError(
        f"a value of {row.name}, a feature is of int64, float32 or strings",
        hint='cast it, as in value.astype("float32")',
    )


def parse(examples: Iterable[Row | bytes]) -> list[Features]:
    """Rows as dicts of one-dimensional arrays: int64, float32, or objects that are bytes.

    Raises:
        FormatError: An Example is damaged, or a feature is of different kinds in different rows.
    """
    given = list(examples)
    rows: list[Features] = [{} for _ in given]
    records = [bytes(row) for row in given if isinstance(row, _BYTES)]
    parsed = iter(_parse_records(records))
    for place, row in enumerate(given):
        rows[place] = next(parsed) if isinstance(row, _BYTES) else _features(row, place)
    return rows


def _parse_records(records: list[bytes]) -> list[Features]:
    kinds: dict[str, int] = {}
    rows: list[Features] = []
    for start in range(0, len(records), TOGETHER):
        rows += _parse_group(records[start : start + TOGETHER], start, kinds)
    return rows


def _parse_group(records: list[bytes], first: int, kinds: dict[str, int]) -> list[Features]:
    """Records as rows.

    Args:
        records: Some that follow each other.
        first: The number of the first one.
        kinds: The kinds of the features before, and of these afterwards.
    """
    survey = _native.ExampleSurvey()
    for place, record in enumerate(records, first):
        try:
            survey.add_record(record)
        except FerryError as error:
            error.message = f"example {place}: {error.message}"
            raise
    wanted: list[tuple[str, int]] = []
    for key, sequence, kind, mixed, *_ in survey.features():
        name = _name(key)
        if mixed or (kind and not sequence and kinds.setdefault(name, kind) != kind):
            raise FormatError(f"feature {name[:60]!r} is of different kinds in different examples")
        if kind and not sequence:
            wanted.append((name, kind))
    rows: list[Features] = [{} for _ in records]
    decoder = _native.ExampleDecoder([(name, kind, False, True, None) for name, kind in wanted])
    decoder.decode_records(records)
    for index, (name, kind) in enumerate(wanted):
        count, lists, lacking = decoder.sizes()[index]
        values = np.empty(count, NUMPY_DTYPES[KIND_NAMES[kind]])
        splits, missing = np.empty(lists + 1, np.int64), np.empty(lacking, np.int64)
        (decoder.copy_texts if kind == 1 else decoder.copy_values)(index, values)
        decoder.copy_list_splits(index, splits)
        decoder.copy_missing(index, missing)
        absent = set(missing.tolist())
        ends = splits.tolist()
        for place, row in enumerate(rows):
            if place not in absent:
                row[name] = values[ends[place] : ends[place + 1]]
    return rows


def _name(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise FormatError(f"a feature is called {key[:60]!r}, expected UTF-8") from None


def write_input(rows: Iterable[Row | bytes], context: Row | bytes | None) -> bytes:
    """An Input."""
    examples = {"examples": serialize(rows)}
    if context is None:
        return WRITER.encode("Input", example_list=examples)
    listed = {**examples, "context": serialize([context])[0]}
    return WRITER.encode("Input", example_list_with_context=listed)


def read_input(reader: Reader, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The serialized Examples of an Input, and the context."""
    found = reader.part(fields, "input", "Input")
    if len(found) > 1:
        raise FormatError(
            "examples with a context and without one, expected one of them",
            offset=fields["input"].start,
        )
    if "example_list" in found:
        listed = reader.part(found, "example_list", "ExampleList")
        return {"examples": _records(reader, listed), "context": None}
    listed = reader.part(found, "example_list_with_context", "ExampleListWithContext")
    context = None
    if found:
        start, end = listed.get("context", (0, 0))
        context = bytes(reader.data[start:end])
    return {"examples": _records(reader, listed), "context": context}


def _records(reader: Reader, listed: dict[str, Any]) -> list[bytes]:
    return [bytes(reader.data[start:end]) for start, end in listed.get("examples", ())]


def merge(rows: Sequence[Features], context: Features | None) -> list[Features]:
    """Rows with the features of the context, as the model sees them."""
    return [{**context, **row} for row in rows] if context else list(rows)


def to_body(rows: Iterable[Row | bytes], context: Row | bytes | None) -> dict[str, Any]:
    """The part of a REST body that the examples are."""
    head = {} if context is None else {"context": _to_object(parse([context])[0])}
    objects = [_to_object(row) for row in parse(rows)]
    if not objects:
        raise UnsupportedError("no examples, REST takes at least one")
    return {**head, "examples": objects}


def _to_object(row: Features) -> dict[str, Any]:
    """One value stands alone; several, and none, are a list."""
    leaves = {name: to_leaves(values) for name, values in row.items()}
    for name, values in leaves.items():
        if not values:
            raise UnsupportedError(
                "an empty list has no kind in JSON", tensor=name, hint="leave the feature out"
            )
    return {name: values[0] if len(values) == 1 else values for name, values in leaves.items()}


def from_body(body: dict[str, Any], examples: list[Any]) -> dict[str, Any]:
    """The rows of a REST body, and the context."""
    context = _from_object(body["context"], '"context"') if "context" in body else None
    rows = [_from_object(row, f"example {place}") for place, row in enumerate(examples)]
    return {"examples": rows, "context": context}


_KINDS = {bool: "int64", int: "int64", float: "float32", str: "string", dict: "string"}


def _from_object(row: Any, what: str) -> Features:
    if type(row) is not dict:
        raise FormatError(f"{what} is {describe(row)}, expected an object")
    features = {}
    for name, content in row.items():
        values = content if type(content) is list else [content]
        kinds = {_KINDS.get(type(value)) for value in values}
        if len(kinds) != 1 or None in kinds:
            names = " and ".join(sorted({describe(value) for value in values}))
            raise FormatError(
                f"{what} holds {names or 'an empty list'}, expected values of one kind",
                tensor=name[:60],
            )
        leaves = [int(value) if type(value) is bool else value for value in values]
        try:
            features[name] = from_leaves(leaves, dtypes.BY_NAME[str(kinds.pop())])
        except FormatError as error:
            raise error.located(tensor=name[:60]) from None
    return features
