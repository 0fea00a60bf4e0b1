"""The `features.json` of TensorFlow Datasets: which Examples it stands for.

TFDS nests features; an Example does not. Each leaf is a feature whose key is the names on the way
to it, joined by "/":

    Tensor, Scalar, BBox   its values: integers and bools as int64, all floats as float32; with
                           encoding "bytes" or "zlib" the bytes of the array, which are no
                           serialized tensor
      of open sizes        with more than one: <key>/value, and <key>/shape with the sizes
    ClassLabel             int64
    Text, Image            bytes, the image as its file
    Audio                  a Tensor, or the bytes of its file
    Video                  a sequence of images
    Translation            bytes, one feature a language
    Sequence, Dataset      its leaves with one more dimension in front
      in another Sequence  <key>/ragged_flat_values, and for each inner level i of them
                           <key>/ragged_row_lengths_<i>

Columns have the dtype of the Examples, not the one that TFDS casts to after reading. A feature of
an unknown kind is left out, with a note. Older files say "type" and "content".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorferry import dtypes, limits
from tensorferry.budget import PATH, room_for_paths
from tensorferry.classes import NamedTuple
from tensorferry.errors import FerryError, FormatError, LimitError
from tensorferry.rows.schema import json as schema_json
from tensorferry.rows.schema.feature import Feature, Shape, counted, make_feature

# The names of the classes, and the field that each has in newer files.
_LEGACY = {
    "FeaturesDict": "featuresDict",
    "Tensor": "tensor",
    "Scalar": "tensor",
    "ClassLabel": "classLabel",
    "Image": "image",
    "LabeledImage": "image",
    "Video": "video",
    "Audio": "audio",
    "BBoxFeature": "boundingBox",
    "Text": "text",
    "Translation": "translation",
    "TranslationVariableLanguages": "translation",
    "Sequence": "sequence",
    "Dataset": "sequence",
}


class _Leaf(NamedTuple):
    """A feature below some sequences; `sizes` are theirs, from the outside in."""

    path: tuple[str, ...]
    dtype: str
    shape: Shape
    optional: bool = False
    sizes: Shape = ()


class _UnknownError(Exception):
    """A node that is left out, and why."""


def is_features(tree: Any) -> bool:
    """Whether it is what a `features.json` holds."""
    if not isinstance(tree, Mapping):
        return False
    name = tree.get("pythonClassName", tree.get("type") if "content" in tree else None)
    # A feature may be called "type" too; a class has its module in front.
    return isinstance(name, str) and "." in name


def from_tree(tree: Any) -> tuple[tuple[Feature, ...], tuple[str, ...]]:
    """The schema of the Examples of a dataset.

    Raises:
        FormatError: It is not what a `features.json` holds.
    """
    if not is_features(tree):
        raise FormatError('no features of TensorFlow Datasets: expected a "pythonClassName"')
    notes: list[str] = []
    features: list[Feature] = []
    characters = 0
    for leaf in counted(_leaves(tree, (), notes, limits.depth)):
        for feature in _to_features(leaf, notes):
            characters += len(feature.name)
            if characters > room_for_paths(PATH * len(features)):
                raise LimitError(
                    "the names of its features, each with those around it, are endless"
                )
            features.append(feature)
    return tuple(features), tuple(notes)


def _leaves(node: Any, path: tuple[str, ...], notes: list[str], depth: int) -> Iterator[_Leaf]:
    if depth == 0:
        raise LimitError(f"features nest deeper than {limits.depth}", tensor="/".join(path[:5]))
    try:
        kind, content = _open(node)
        if kind == "featuresDict":
            inner = content.get("features", {})
            if not isinstance(inner, Mapping):
                raise _UnknownError("its features are no object")
            for name in inner:
                yield from _leaves(inner[name], (*path, name), notes, depth - 1)
        elif kind == "sequence":
            size = _read_size(content.get("length"))
            for leaf in _leaves(content.get("feature"), path, notes, depth - 1):
                yield leaf._replace(sizes=(size, *leaf.sizes))
        else:
            yield from _read_leaves(kind, content, path)
    except _UnknownError as reason:
        shown = "/".join(name[:60] for name in path)
        notes.append(f"{shown!r} is left out: {reason}")


def _open(node: Any) -> tuple[str, Mapping[str, Any]]:
    """What kind of feature a node is, and what describes it."""
    if not isinstance(node, Mapping):
        raise _UnknownError("it is no object")
    if "pythonClassName" in node:
        kind = next((kind for kind in _LEGACY.values() if kind in node), None)
        content = node.get(kind or "")
    else:
        kind = _LEGACY.get(str(node.get("type")).rpartition(".")[2])
        content = node.get("content")
        if isinstance(content, str):
            content = schema_json.parse(content)
        if kind == "featuresDict" and not node.get("proto_cls"):
            content = {"features": content}
    if kind is None or not isinstance(content, Mapping):
        name = node.get("pythonClassName", node.get("type"))
        raise _UnknownError(f"what {name!r:.100} writes is not known")
    return kind, content


def _read_leaves(kind: str, content: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[_Leaf]:
    """The leaves of a feature that is neither a dict nor a sequence."""
    if kind == "classLabel":
        yield _Leaf(path, "int64", ())
    elif kind in ("text", "image"):
        if "use_encoder" in content:
            raise _UnknownError("text encoders are gone from TensorFlow Datasets")
        yield _Leaf(path, "string", ())
    elif kind == "video":
        yield _Leaf(path, "string", (), sizes=_read_shape(content)[:1] or (None,))
    elif kind == "translation":
        yield from _read_translation(content, path)
    elif kind == "boundingBox":
        yield _Leaf(path, "float32", (4,))
    elif kind == "audio" and _get(content, "lazyDecode", "lazy_decode"):
        yield _Leaf(path, "string", ())
    else:
        yield from _read_tensor(content, path)


def _read_tensor(content: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[_Leaf]:
    shape = _read_shape(content)
    optional = content.get("optional") is True
    encoding = str(content.get("encoding") or "none").lower()
    dtype = _read_dtype(content.get("dtype"))
    value = _Leaf(path, dtype, shape, optional)
    if encoding != "none":
        value = value._replace(dtype="string", shape=())
    if shape.count(None) < 2:
        yield value
    else:
        yield value._replace(path=(*path, "value"))
        yield _Leaf((*path, "shape"), "int64", (len(shape),), optional)


def _read_translation(content: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[_Leaf]:
    languages = content.get("languages") or []
    if _get(content, "variableLanguagesPerExample", "variable_languages_per_example"):
        for name in ("language", "translation"):
            yield _Leaf((*path, name), "string", (), sizes=(None,))
    elif not isinstance(languages, list) or not all(isinstance(name, str) for name in languages):
        raise _UnknownError("its languages are no list of names")
    else:
        for name in languages:
            yield _Leaf((*path, name), "string", ())


def _get(content: Mapping[str, Any], *names: str) -> Any:
    return next((content[name] for name in names if name in content), None)


def _read_shape(content: Mapping[str, Any]) -> Shape:
    shape = content.get("shape")
    sizes = shape.get("dimensions", []) if isinstance(shape, Mapping) else shape
    if not isinstance(sizes, list):
        raise _UnknownError(f"its shape is {shape!r:.80}")
    return tuple(map(_read_size, sizes))


def _read_size(size: Any) -> int | None:
    # JSON of protobuf has int64 as strings; -1 is an open size.
    try:
        number = -1 if size is None else int(size)
    except (TypeError, ValueError, OverflowError):
        raise _UnknownError(f"a size is {size!r:.80}") from None
    if number < -1:
        raise _UnknownError(f"a size is {number}")
    return None if number == -1 else number


def _read_dtype(name: Any) -> str:
    """The dtype in the Examples."""
    try:
        row = dtypes.as_dtype(name)
    except (FerryError, TypeError, ValueError):
        raise _UnknownError(f"its dtype is {name!r:.80}") from None
    if row is dtypes.STRING:
        return row.name
    kind = row.numpy.kind if row.numpy is not None else ""
    if kind not in "biuf":
        raise _UnknownError(f"Examples hold no {row.name}")
    return "float32" if kind == "f" else "int64"


def _to_features(leaf: _Leaf, notes: list[str]) -> Iterator[Feature]:
    """The features of the Example that a leaf is written as."""
    key = "/".join(leaf.path)
    shape = (*leaf.sizes, *leaf.shape)
    if len(leaf.sizes) > 1:
        for level in range(len(leaf.sizes) - 1):
            lengths = f"{key}/ragged_row_lengths_{level}"
            yield make_feature(lengths, "int64", (None,), optional=leaf.optional)
        key += "/ragged_flat_values"
        shape = (None, *leaf.shape)
    if None in shape[1:]:
        notes.append(f"{key!r} has the shape {shape}: its values are given in one row")
        shape = (None,)
    try:
        yield make_feature(key, leaf.dtype, shape, optional=leaf.optional)
    except FormatError as error:
        notes.append(f"{key!r} is left out: {error.message}")
