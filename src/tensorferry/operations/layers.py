"""Layers: what the config of a Keras file says of its layers, with their weights.

    layers("model.keras")[0].tensors        # ("dense/kernel", "dense/bias")

The config is read as data: nothing in it is imported or run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tensorferry.classes import dataclass, field
from tensorferry.formats.keras.weights import Weights
from tensorferry.operations.subject import Subject

MOST = 5000
"""How many layers are listed."""

SETTINGS = 16
"""How many settings of a layer are listed."""

_DEEPEST = 40


@dataclass(frozen=True)
class Layer:
    """A layer of a Keras model.

    Attributes:
        name: Its name.
        class_name: Its class.
        depth: In how many models inside the model it is.
        settings: Its settings that are single values.
        inputs: The layers that it reads.
        tensors: The names of its weights in the file.
    """

    name: str
    class_name: str
    depth: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()


def layers(subject: Subject) -> tuple[Layer, ...]:
    """The layers of a Keras file that was opened, in the order of its config; none of others."""
    if subject.format != "keras" or not isinstance(subject.opened, Mapping):
        return ()
    weights: Weights = subject.opened.details
    owned = _owned(weights, list(subject.infos))
    found = []
    for name, tree, depth, inputs in _walk(weights.config):
        settings = tree.get("config")
        found.append(
            Layer(
                name,
                str(tree.get("class_name", "?")),
                depth,
                _settings(settings if isinstance(settings, dict) else {}),
                inputs,
                tuple(owned.get(name, ())),
            )
        )
        if len(found) >= MOST:
            break
    return tuple(found)


def _owned(weights: Weights, names: list[str]) -> dict[str, list[str]]:
    """The names of tensors, by the layer that they belong to."""
    owned: dict[str, list[str]] = {}
    for name in names:
        path = weights.paths.get(name, name)
        group = path.rpartition("/")[0].removesuffix("/vars")
        layer = None
        while group and layer is None:
            layer = weights.layers.get(group)
            group = group.rpartition("/")[0]
        owned.setdefault(layer or name.partition("/")[0], []).append(name)
    return owned


def _walk(config: Any) -> Iterator[tuple[str, dict[str, Any], int, tuple[str, ...]]]:
    """Each layer, with its config, how deep it lies, and the layers it reads."""
    waiting = [(config, 0)]
    while waiting:
        model, depth = waiting.pop(0)
        inner = model.get("config") if isinstance(model, dict) else None
        listed = inner.get("layers") if isinstance(inner, dict) else inner
        before: str | None = None
        for tree in listed if isinstance(listed, list) else []:
            if not isinstance(tree, dict):
                continue
            name = _name(tree)
            nodes = tree.get("inbound_nodes")
            inputs = tuple(dict.fromkeys(_sources(nodes))) if nodes else ()
            if nodes is None and before is not None:  # a model without branches
                inputs = (before,)
            yield name, tree, depth, inputs
            before = name
            if depth < _DEEPEST:
                waiting.append((tree, depth + 1))


def _name(tree: Mapping[str, Any]) -> str:
    inner = tree.get("config")
    for found in (tree.get("name"), inner.get("name") if isinstance(inner, dict) else None):
        if isinstance(found, str):
            return found
    return str(tree.get("class_name", "?"))


def _sources(nodes: Any, depth: int = 0) -> Iterator[str]:
    """The names of layers in what a config says of a layer's inputs."""
    if depth > _DEEPEST:
        return
    if isinstance(nodes, dict):
        history = nodes.get("keras_history")
        if isinstance(history, list) and history and isinstance(history[0], str):
            yield history[0]
            return
        for part in nodes.values():
            yield from _sources(part, depth + 1)
    elif isinstance(nodes, list):
        # Keras 2 writes ["name", node, tensor, ...].
        if len(nodes) >= 3 and isinstance(nodes[0], str) and isinstance(nodes[1], int):
            yield nodes[0]
            return
        for part in nodes:
            yield from _sources(part, depth + 1)


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a layer that say something: single values and short lists."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict) and isinstance(value.get("class_name"), str):
            inner = value.get("config")
            named = inner.get("name") if isinstance(inner, dict) else None
            value = named if key == "dtype" and isinstance(named, str) else value["class_name"]
        short = isinstance(value, list) and len(value) <= 6
        plain = short and all(item is None or isinstance(item, int | str) for item in value)
        if key != "name" and (isinstance(value, str | int | float) or plain):
            found[str(key)[:60]] = value[:200] if isinstance(value, str) else value
        if len(found) >= SETTINGS:
            break
    return found
