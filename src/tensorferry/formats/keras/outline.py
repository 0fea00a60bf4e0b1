"""Keras outline: what a model of Keras is, by its config alone.

A `.keras` archive and an `.h5` file have one config for the whole model. A SavedModel of Keras 2
has `keras_metadata.pb` beside it instead, with a config for each object:

    SavedMetadata   1 nodes, each: 2 node_id | 3 node_path | 4 identifier | 5 metadata, JSON

The root's path is "root". Nothing is imported or run: `tensorferry.formats.keras.config` says what
would be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from tensorferry.classes import dataclass
from tensorferry.codecs import protobuf
from tensorferry.codecs.protobuf import Span, Tables, parse_schema
from tensorferry.formats.keras import config as keras_config
from tensorferry.formats.keras.config import Finding

ROOT, LAYER = "root", "_tf_keras_"

_TABLES = parse_schema("""
SavedMetadata: 1 nodes *SavedObject
SavedObject: 3 node_path text, 4 identifier text, 5 metadata bytes
""")


class _Reader(protobuf.Reader):
    tables: ClassVar[Tables] = _TABLES


@dataclass(frozen=True, slots=True)
class KerasModel:
    """What Keras says of a model.

    Attributes:
        class_name: Of the model, such as "Functional"; None where there is no config.
        name: Of the model.
        version: Of the Keras that saved it.
        date: When it was saved, as the file has it.
        layers: How many layers there are of each class.
        findings: What Keras would run, import or read beside layers if it loaded the model.
    """

    class_name: str | None
    name: str | None
    version: str | None
    date: str | None
    layers: Mapping[str, int]
    findings: tuple[Finding, ...]

    @property
    def layer_count(self) -> int:
        """How many layers there are."""
        return sum(self.layers.values())


def outline(
    config: Any, metadata: Mapping[str, str], findings: tuple[Finding, ...]
) -> KerasModel | None:
    """The model of a config; None if there is none, and nothing is said of it.

    Args:
        config: Parsed JSON, or None.
        metadata: Has "keras_version" and "date_saved", or neither.
        findings: What was found in the config.
    """
    if config is None and "keras_version" not in metadata:
        return None
    inner = config.get("config") if isinstance(config, dict) else None
    return KerasModel(
        _text(config, "class_name"),
        _text(inner, "name"),
        metadata.get("keras_version"),
        metadata.get("date_saved"),
        dict(Counter(_layer_classes(inner)).most_common()),
        findings,
    )


def read_metadata(data: bytes | memoryview) -> KerasModel:
    """The model that `keras_metadata.pb` describes.

    Raises:
        FormatError: It is damaged.
    """
    root: Any = {}
    layers: Counter[str] = Counter()
    findings: list[Finding] = []
    reader = _Reader(data)
    for span in reader.each("SavedMetadata", "nodes", (0, len(data))):
        path, identifier, tree = _read_node(reader, span)
        findings += (
            Finding(found.kind, f"{path}/{found.place}".rstrip("/"), found.detail)
            for found in keras_config.find(tree)
        )
        if path == ROOT:
            root = tree
        elif identifier.startswith(LAYER) and isinstance(tree.get("class_name"), str):
            layers[tree["class_name"]] += 1
    inner = root.get("config")
    return KerasModel(
        _text(root, "class_name"),
        _text(inner, "name") or _text(root, "name"),
        _text(root, "keras_version"),
        None,
        dict(layers.most_common()),
        tuple(findings),
    )


def _read_node(reader: _Reader, span: Span) -> tuple[str, str, dict[str, Any]]:
    fields = reader.read("SavedObject", span)
    path = fields.get("node_path", "")
    # Keras may have kept nothing of metrics and the like.
    text = reader.bytes(fields["metadata"]) if "metadata" in fields else b""
    tree = keras_config.parse(text, what=path[:60]) if text else {}
    return path, fields.get("identifier", ""), tree


def _layer_classes(config: Any) -> list[str]:
    """The classes of a model's layers, those of models inside it among them."""
    found = []
    left = [config]
    while left:
        node = left.pop()
        layers = node.get("layers") if isinstance(node, dict) else None
        for layer in layers if isinstance(layers, list) else []:
            name = _text(layer, "class_name")
            if name is not None:
                found.append(name)
                left.append(layer.get("config"))
    return found


def _text(tree: Any, key: str) -> str | None:
    value = tree.get(key) if isinstance(tree, dict) else None
    return value if isinstance(value, str) else None
