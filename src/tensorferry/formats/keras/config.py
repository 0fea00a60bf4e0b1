"""Keras configs: what the JSON of a saved model says, read as text and never acted upon.

A config describes a model as nested objects: each has a "class_name", a "config" to make it from,
and, since Keras 3, the "module" to import the class from. To load such a model is to import what it
names and to call it; a Lambda layer even brings its own Python bytecode. Nothing of that happens
here. What would happen when Keras loads the model is reported:

    bytecode   marshalled Python code, which runs when the model is loaded or called
    module     a module outside of Keras, which is imported
    function   a function that is looked up by its name
    gadget     something of Keras that is no part of a model
    pickle     a pickled object, which can run anything when it is loaded
    file       a path from which a layer reads when it is made
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tensorferry.codecs import json_text as text
from tensorferry.errors import FormatError

# The parts of Keras whose objects a model is made of.
MODELING = {
    "activations",
    "constraints",
    "dtype_policies",
    "engine",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "models",
    "ops",
    "optimizers",
    "quantizers",
    "regularizers",
    "random",
}

# Keras itself writes NaN and Infinity, which are no JSON.
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a config that is more than a description.

    Attributes:
        kind: See above.
        place: Where it is, with "/" between the keys.
        detail: What would happen.
        name: Of the class or function that it is about, as `custom_objects` would have it.
    """

    kind: str
    place: str
    detail: str
    name: str = ""


def parse(source: bytes | memoryview, *, what: str) -> Any:
    """The tree of a config.

    Args:
        source: Its text.
        what: Names it in errors.

    Raises:
        FormatError: It is no JSON object.
    """
    try:
        tree = text.parse(source, _DECODER)
    except FormatError as error:
        error.offset = None  # of the text, not of the file
        raise error.located(tensor=what) from None
    if not isinstance(tree, dict):
        raise FormatError(f"{what} is no JSON object")
    return tree


def find(config: Any) -> tuple[Finding, ...]:
    """What Keras would do beside making layers if it loaded a config."""
    return tuple(finding for place, node in _objects(config) for finding in _look(place, node))


def classes(config: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class and config of each layer by its name; without names that two classes share."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    twice = set()
    for _, node in _objects(config):
        kind, inner = node.get("class_name"), node.get("config")
        name = inner.get("name") if isinstance(inner, dict) else None
        if isinstance(kind, str) and isinstance(name, str) and isinstance(inner, dict):
            if name in found and found[name][0] != kind:
                twice.add(name)
            found[name] = (kind, inner)
    return {name: layer for name, layer in found.items() if name not in twice}


def _objects(config: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """All JSON objects in a tree, outermost first."""
    left: list[tuple[str, Any]] = [("", config)]
    while left:
        place, node = left.pop()
        if isinstance(node, dict):
            yield place, node
            pairs = list(node.items())
        elif isinstance(node, list):
            pairs = list(enumerate(node))
        else:
            continue
        left += [(f"{place}/{key}".lstrip("/"), value) for key, value in reversed(pairs)]


class Named(NamedTuple):
    """A class or function that a config names.

    Attributes:
        place: Where, with "/" between the keys.
        name: Of the class or function alone.
        key: What Keras looks it up by: "package>Name" for what was registered so.
        module: Where it is said to be from; None where nothing is said.
        is_function: Whether it is a function.
    """

    place: str
    name: str
    key: str
    module: str | None
    is_function: bool


def names(config: Any) -> Iterator[Named]:
    """The classes and functions of a config."""
    for place, node in _objects(config):
        kind, inner, key = node.get("class_name"), node.get("config"), node.get("registered_name")
        module = node.get("module") if isinstance(node.get("module"), str) else None
        if kind == "function" and isinstance(inner, str):
            yield Named(place, inner.rpartition(">")[2], inner, module, True)
        elif isinstance(kind, str) and kind != "function":
            key = key if isinstance(key, str) else kind
            yield Named(place, kind.rpartition(">")[2], key, module, False)


def texts(config: Any) -> set[str]:
    """All texts of a config, keys apart."""
    found = set()
    for _, node in _objects(config):
        for value in node.values():
            for part in value if isinstance(value, list) else (value,):
                if isinstance(part, str):
                    found.add(part)
    return found


def _look(place: str, node: dict[str, Any]) -> Iterator[Finding]:
    kind, module, inner = node.get("class_name"), node.get("module"), node.get("config")
    if kind == "__lambda__" or node.get("function_type") in ("lambda", "raw"):
        yield Finding("bytecode", place, "runs Python bytecode that the file brings along")
    elif node.get("function_type") == "function":
        name = f"{module}.{node.get('function')}"
        called = str(node.get("function"))
        yield Finding("function", place, f"calls the function {name[:100]!r}", called)
    if not isinstance(kind, str):
        return
    if kind == "TorchModuleWrapper":
        yield Finding("pickle", place, "unpickles a PyTorch module")
    if isinstance(inner, dict):
        for key in ("vocabulary", "filepath"):
            if isinstance(inner.get(key), str):
                yield Finding("file", f"{place}/config/{key}", f"reads {inner[key][:100]!r}")
    name = inner if kind == "function" and isinstance(inner, str) else kind
    if not isinstance(module, str):
        if kind == "function":
            yield Finding("function", place, f"looks up the function {str(inner)[:100]!r}", name)
        return
    parts = module.split(".")
    inside = [part for part in parts[1:] if part != "src"]  # keras.src.layers is keras.layers
    if module == "builtins":
        yield Finding("function", place, f"looks up {str(inner)[:100]!r} as {kind[:100]!r}", name)
    elif parts[0] != "keras":
        yield Finding("module", place, f"imports {module[:100]!r} for {kind[:100]!r}", name)
    elif inside and (inside[0] not in MODELING or (kind == "function" and inside[0] == "models")):
        yield Finding("gadget", place, f"uses {module[:100]}.{str(name)[:100]}", name)


def snake_case(name: str) -> str:
    """The name that Keras makes of a class: "batch_normalization" of "BatchNormalization"."""
    return re.sub(r"(?<=.)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", name).lower()
