"""JSON of a schema: our own form of it, and the text that any JSON schema comes in.

    {"version": 1, "features": [
        {"name": "label", "kind": "int64", "shape": [], "dtype": "int64"},
        {"name": "image", "kind": "bytes", "shape": [28, null], "dtype": "uint8",
         "encoding": "tensor", "optional": true}]}

"encoding", "sequence", "optional", "default" and "quantized" are written only where they differ
from the defaults of `Feature`. "quantized" is the recipe of tensors that stand for floats:
{"kind": "int8", "scheme": "symmetric", "dtype": "float32", "axis": null, "scale": 0.01,
"zero_point": 0}. In a default, bytes are {"hex": "..."} and a float that is not finite is
{"float": "nan"}. "frame", where a frame was written, is `tensorferry.rows.schema.arrow`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tensorferry.codecs import json_text
from tensorferry.codecs.quantization import Recipe
from tensorferry.errors import FormatError
from tensorferry.rows.schema.feature import Feature, counted

VERSION = 1


def is_schema(tree: Any) -> bool:
    """Whether it is our own form, of whatever version."""
    # A feature may be called "version" too, but what it is given as is never a number.
    return (
        isinstance(tree, Mapping)
        and tree.keys() >= {"version", "features"}
        and type(tree["version"]) is int
    )


def to_tree(
    features: tuple[Feature, ...], frame: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The features, and the columns of a frame, as plain data for JSON."""
    tree = {"version": VERSION, "features": [_to_json(feature) for feature in features]}
    return tree if frame is None else {**tree, "frame": frame}


def from_tree(tree: Any) -> tuple[Feature, ...]:
    """The features from what `to_tree` gave.

    Raises:
        FormatError: The tree is something else.
    """
    if not is_schema(tree):
        raise FormatError('no schema: expected an object with "version" and "features"')
    if tree["version"] != VERSION:
        raise FormatError(
            f"the schema's version is {tree['version']}, expected {VERSION}",
            hint="a newer tensorferry wrote it: pip install --upgrade tensorferry",
        )
    if not isinstance(tree["features"], list):
        raise FormatError("the schema's features are no list")
    return tuple(map(_from_json, counted(tree["features"])))


def frame_of(tree: Any) -> Mapping[str, Any] | None:
    """The columns of a frame in what `to_tree` gave, if there are any.

    Raises:
        FormatError: They are something else.
    """
    frame = tree.get("frame")
    if frame is not None and not isinstance(frame, Mapping):
        raise FormatError(f"the schema's frame is {frame!r:.80}, expected an object")
    return frame


def _to_json(feature: Feature) -> dict[str, Any]:
    node: dict[str, Any] = {
        "name": feature.name,
        "kind": feature.kind,
        "shape": list(feature.shape),
        "dtype": feature.dtype,
    }
    for part, usual in (("encoding", "plain"), ("sequence", False), ("optional", False)):
        if getattr(feature, part) != usual:
            node[part] = getattr(feature, part)
    if feature.default is not None:
        node["default"] = default_to_json(feature.default)
    if feature.quantized is not None:
        node["quantized"] = feature.quantized.to_json()
    return node


def _from_json(node: Any) -> Feature:
    required = ("name", "kind", "shape", "dtype")
    if not isinstance(node, dict) or not all(key in node for key in required):
        raise FormatError(f"a feature is {node!r:.80}, expected an object with {required}")
    unknown = set(node) - set(Feature.__slots__)
    if unknown or not isinstance(node["shape"], list):
        found = f"fields {sorted(unknown)}" if unknown else f"the shape {node['shape']!r:.80}"
        raise FormatError(f"feature {node['name']!r} has {found}, which no schema has")
    parts = dict(node)
    if "default" in parts:
        parts["default"] = default_from_json(parts["default"])
    if "quantized" in parts:
        parts["quantized"] = Recipe.from_json(parts["quantized"])
    return Feature(**parts)


def default_to_json(default: Any) -> Any:
    """A default as plain data for JSON: bytes and floats that are not finite become objects."""
    if isinstance(default, tuple):
        return [default_to_json(part) for part in default]
    if isinstance(default, bytes):
        return {"hex": default.hex()}
    if isinstance(default, float) and not math.isfinite(default):
        return {"float": str(default)}
    return default


def default_from_json(node: Any) -> Any:
    """The default that `default_to_json` turned into plain data."""
    if isinstance(node, list):
        return [default_from_json(part) for part in node]
    if isinstance(node, dict):
        ((form, text),) = node.items() if len(node) == 1 else (("", None),)
        try:
            if form == "hex":
                return bytes.fromhex(str(text))
            if form == "float":
                return float(str(text))
        except (TypeError, ValueError):
            pass
        raise FormatError(f'a default is {node!r:.80}, expected a value, "hex" or "float"')
    return node


def parse(text: str | bytes) -> Any:
    """The value in a JSON text: see `tensorferry.codecs.json_text.parse`.

    Raises:
        FormatError: The text is no JSON, or has a key twice in one object.
        LimitError: It nests too deep.
    """
    return json_text.parse(json_text.to_utf8(text) if isinstance(text, str) else text)
