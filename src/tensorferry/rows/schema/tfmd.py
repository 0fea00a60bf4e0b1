"""Schemas of TensorFlow Metadata, as TFX and TensorFlow Data Validation keep in `schema.pbtxt`.

    feature {
      name: "tokens"  type: INT                      BYTES, INT or FLOAT
      presence { min_fraction: 1 }                   in every row; without it, optional
      value_count { min: 0 }                         as many values as there are
      annotation { tag: "tensorferry.dtype=..." }    what TFMD has no place for
    }
    feature {
      name: "##SEQUENCE##"  type: STRUCT             a SequenceExample's feature lists
      struct_domain { feature { ... } }
    }

A fixed `shape` is that shape; a `value_count` from 1 to 1 is a single value, from n to n n of them.
In a sequence, the second of two `value_counts` is that of a step.
Domains, environments and comparators are checks on values: they are not read. Nor are
`sparse_feature`, `weighted_feature` and `tensor_representation_group`, which only say how to put
features together. A deprecated feature may still be there: it is read as optional.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

from tensorferry.codecs import textproto
from tensorferry.codecs.quantization import Recipe
from tensorferry.codecs.textproto import Message
from tensorferry.errors import FerryError, FormatError
from tensorferry.rows.schema import json as schema_json
from tensorferry.rows.schema.feature import DTYPES, Feature, Kind, Shape, counted

SEQUENCE = "##SEQUENCE##"
TAG = "tensorferry."

_TYPES: dict[Kind, str] = {"bytes": "BYTES", "int64": "INT", "float32": "FLOAT"}
_KINDS: dict[str | int, Kind] = {
    **{text: kind for kind, text in _TYPES.items()},
    **{1: "bytes", 2: "int64", 3: "float32"},
}
_STRUCT = ("STRUCT", 4)


def write(features: Iterable[Feature]) -> str:
    """The text of a schema of features."""
    blocks = {feature: _block("feature", _to_lines(feature)) for feature in features}
    lines = [line for feature in blocks if not feature.sequence for line in blocks[feature]]
    steps = [line for feature in blocks if feature.sequence for line in blocks[feature]]
    if steps:
        head = [f"name: {textproto.quote(SEQUENCE.encode())}", "type: STRUCT"]
        lines += _block("feature", [*head, *_block("struct_domain", steps)])
    return "".join(line + "\n" for line in lines)


def _block(name: str, lines: list[str]) -> list[str]:
    return [f"{name} {{", *("  " + line for line in lines), "}"]


def _to_lines(feature: Feature) -> list[str]:
    lines = [f"name: {textproto.quote(feature.name.encode())}", f"type: {_TYPES[feature.kind]}"]
    if not feature.optional:
        lines.append("presence { min_fraction: 1.0 min_count: 1 }")
    shape = feature.shape if feature.encoding == "plain" else ()
    lines.append(_to_counts(shape) if feature.sequence else _to_shape(shape))
    tags: dict[str, Any] = {}
    if feature.encoding == "tensor":
        tags = {"encoding": feature.encoding, "dtype": feature.dtype}
    if feature.encoding == "tensor" or _needs_tag(feature):
        tags["shape"] = list(feature.shape)
    if feature.default is not None:
        tags["default"] = schema_json.default_to_json(feature.default)
    if feature.quantized is not None:
        tags["quantized"] = feature.quantized.to_json()
    texts = [f"{TAG}{key}={json.dumps(tags[key])}".encode() for key in tags]
    if texts:
        lines += _block("annotation", [f"tag: {textproto.quote(text)}" for text in texts])
    return lines


def _to_shape(shape: Shape) -> str:
    if None in shape:
        return "value_count { min: 0 }"
    return f"shape {{ {''.join(f'dim {{ size: {size} }} ' for size in shape)}}}"


def _to_counts(shape: Shape) -> str:
    """The counts of steps and of a step's values: a `shape` would be of all steps together."""
    size = math.prod(number or 0 for number in shape)
    values = "min: 0" if None in shape else f"min: {size} max: {size}"
    return f"value_counts {{ value_count {{ min: 0 }} value_count {{ {values} }} }}"


def _needs_tag(feature: Feature) -> bool:
    shape = feature.shape
    if feature.sequence:
        return shape not in ((), (None,)) and not (len(shape) == 1 and (shape[0] or 0) > 1)
    return None in shape and len(shape) > 1


def read(text: str | bytes) -> tuple[tuple[Feature, ...], tuple[str, ...]]:
    """The schema in a text.

    Raises:
        FormatError: The text is no schema; the offset is the byte where that shows.
    """
    features: list[Feature] = []
    notes: list[str] = []
    known: set[tuple[str, bool]] = set()
    for message, sequence in counted(_features_of(textproto.parse(text), notes)):
        if _is_new(message, known, notes, sequence=sequence):
            features += _read_feature(message, notes, sequence=sequence)
    return tuple(features), tuple(notes)


def _features_of(schema: Message, notes: list[str]) -> Iterator[tuple[Message, bool]]:
    """The features, and whether each is one of a sequence."""
    for message in _messages(schema, "feature"):
        if _read_type(message) not in _STRUCT:
            yield message, False
        elif _read_name(message) == SEQUENCE:
            for domain in _messages(message, "struct_domain"):
                for step in _messages(domain, "feature"):
                    yield step, True
        else:
            notes.append(f"{_read_name(message)!r} is a STRUCT, which Examples cannot hold")


def _is_new(
    message: Message, known: set[tuple[str, bool]], notes: list[str], *, sequence: bool
) -> bool:
    """Whether a feature is the first of its name; others are left out, as tfx-bsl does it.

    Features of several environments may have the same name.
    """
    name = _read_name(message)
    if (name, sequence) in known:
        notes.append(f"{name!r} is there more than once; the first is taken")
        return False
    known.add((name, sequence))
    return True


def _read_feature(message: Message, notes: list[str], *, sequence: bool) -> list[Feature]:
    name = _read_name(message)
    written = _read_type(message)
    kind = None if written is None else _KINDS.get(written)
    if kind is None:
        notes.append(f"{name!r} has the type {written!r:.80}, no BYTES, INT or FLOAT")
        return []
    try:
        tags = _read_tags(message)
        shape = tags.get("shape", list(_read_shape(message, sequence=sequence)))
        return [
            Feature(
                name,
                kind,
                tuple(shape) if isinstance(shape, list) else shape,
                tags.get("dtype", DTYPES[kind]),
                tags.get("encoding", "plain"),
                sequence=sequence,
                optional=not _is_required(message),
                default=schema_json.default_from_json(tags.get("default")),
                quantized=Recipe.from_json(recipe) if (recipe := tags.get("quantized")) else None,
            )
        ]
    except FerryError as error:
        if error.offset is None:
            error.offset = message.offset
        raise


def _read_type(message: Message) -> str | int | None:
    """The type of a feature: the name or the number of an enum."""
    value = message.last("type")
    if value is not None and not isinstance(value, str | int):
        raise FormatError(f"type is {value!r:.80}, expected a name", offset=message.offset)
    return value


def _read_name(message: Message) -> str:
    name = message.last("name")
    if not isinstance(name, bytes):
        raise FormatError("a feature has no name, expected a string", offset=message.offset)
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise FormatError(f"the name {name!r:.80} is no UTF-8", offset=message.offset) from None


def _read_shape(message: Message, *, sequence: bool) -> Shape:
    if sequence:
        # Only the innermost count is one step's; a shape or a single count may be of all steps.
        levels = [_messages(counts, "value_count") for counts in _messages(message, "value_counts")]
        counts = levels[-1] if levels and len(levels[-1]) == 2 else []
    else:
        for shape in _messages(message, "shape")[-1:]:
            sizes = tuple(_read_integer(dim, "size") for dim in _messages(shape, "dim"))
            return (None,) if None in sizes[1:] else sizes
        counts = _messages(message, "value_count")
    for count in counts[-1:]:
        least, most = _read_integer(count, "min"), _read_integer(count, "max")
        if least == most and most:
            return () if most == 1 else (most,)
    return (None,)


def _is_required(message: Message) -> bool:
    if message.last("deprecated") == "true" or message.last("lifecycle_stage") == "DEPRECATED":
        return False
    fractions = [presence.last("min_fraction") for presence in _messages(message, "presence")]
    groups = [group.last("required") for group in _messages(message, "group_presence")]
    return fractions[-1:] == [1] or groups[-1:] == ["true"]


def _read_tags(message: Message) -> dict[str, Any]:
    tags = {}
    for annotation in _messages(message, "annotation"):
        for tag in annotation.all("tag"):
            if isinstance(tag, bytes) and tag.startswith(TAG.encode()):
                key, _, value = tag.decode(errors="replace").removeprefix(TAG).partition("=")
                tags[key] = schema_json.parse(value)
    return tags


def _messages(message: Message, name: str) -> list[Message]:
    found = message.all(name)
    for value in found:
        if not isinstance(value, Message):
            raise FormatError(
                f"{name} is {value!r:.80}, expected a message in braces", offset=message.offset
            )
    return found


def _read_integer(message: Message, name: str) -> int | None:
    value = message.last(name)
    if value is not None and type(value) is not int:
        raise FormatError(f"{name} is {value!r:.80}, expected an integer", offset=message.offset)
    return None if value is None or value < 0 else value
