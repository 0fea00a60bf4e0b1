"""Keras configs: what the JSON of a saved model says, read as text and never acted upon.

A config describes a model as nested objects: each has a "class_name", a "config" to make it from,
and, since Keras 3, the "module" to import the class from. To load such a model is to import what it
names and to call it; a Lambda layer even brings its own Python bytecode. Nothing of that happens
here. What would happen when Keras loads the model is reported:

    bytecode   marshalled Python code, which runs when the model is loaded or called
    module     a module outside of Keras, which is imported
    function   a function or class that is looked up by its name
    registered a class that is looked up by another name than its own
    gadget     something of Keras that is no part of a model
    pickle     a pickled object, which can run anything when it is loaded
    file       a path from which a layer reads when it is made

What a model is made of is known by a list (`names`); whatever of Keras is not in it is a gadget.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tensorferry.budget import Budget
from tensorferry.classes import NamedTuple, dataclass
from tensorferry.codecs import json_text as text
from tensorferry.errors import FormatError
from tensorferry.formats.keras.names import (
    VALUES,
    is_class,
    is_function,
    is_text,
    package_of,
)

PLACE = 200
"""Number of characters that tell of a place."""

# Lists and objects of a config, by identity, and the packages in which their texts were looked up.
Seen = set[tuple[int, tuple[str, ...] | None]]

# A union of types, made anew for every question, would take longer than the walk.
_BRANCHES = (dict, list)

# Keras itself writes NaN and Infinity, which are no JSON.
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a config that is more than a description.

    Attributes:
        kind: See above.
        place: Where it is, with "/" between the keys.
        detail: What would happen.
        name: By which Keras looks the class or function up in `custom_objects`; "" if not there.
    """

    kind: str
    place: str
    detail: str
    name: str = ""


def parse(source: bytes | memoryview, *, what: str, budget: Budget | None = None) -> Any:
    """The tree of a config.

    Args:
        source: Its text.
        what: Names it in errors.
        budget: Of the file in which the text is compressed.

    Raises:
        FormatError: It is no JSON object.
        LimitError: Its tree takes more than the file may.
    """
    if budget is not None:
        budget.take(text.size_of_tree(source), what=f"the tree of {what}")
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
    seen: Seen = set()
    return tuple(
        finding for place, node in _objects(config) for finding in _look(place, node, seen)
    )


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
    if not isinstance(config, _BRANCHES):
        return
    left: list[tuple[str, Any]] = [("", config)]
    while left:
        place, node = left.pop()
        pairs: Iterable[tuple[object, Any]]
        if isinstance(node, dict):
            yield place, node
            pairs = node.items()
        else:
            pairs = enumerate(node)
        inner = [(_below(place, key), part) for key, part in pairs if isinstance(part, _BRANCHES)]
        left += reversed(inner)


def _below(place: str, key: object) -> str:
    """The place of a part. Only its end is kept: keys are as long as a file makes them."""
    return f"{place}/{str(key)[-PLACE:]}"[-PLACE:].lstrip("/")


class Named(NamedTuple):
    """A class or function that a config names.

    Attributes:
        place: Where, with "/" between the keys.
        name: Of the class or function alone.
        key: What Keras looks it up by: "package>Name" for what was registered so, "" if the file
            says that Keras has to go by the module alone.
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
        kind, inner = node.get("class_name"), node.get("config")
        module = node.get("module") if isinstance(node.get("module"), str) else None
        if kind == "function" and isinstance(inner, str):
            yield Named(place, inner.rpartition(">")[2], inner, module, True)
        elif isinstance(kind, str) and kind != "function":
            yield Named(place, kind.rpartition(">")[2], _key(node, kind), module, False)


def _key(node: dict[str, Any], kind: str) -> str:
    """What Keras looks a class up by: a name that is there and null is not the same as none."""
    key = node.get("registered_name", kind)
    return key if isinstance(key, str) else ""


def texts(config: Any) -> set[str]:
    """All texts of a config, keys apart."""
    found: set[str] = set()
    left = [config]
    while left:
        node = left.pop()
        if isinstance(node, str):
            found.add(node)
        elif isinstance(node, dict):
            left += node.values()
        elif isinstance(node, list):
            left += node
    return found


def _text(value: Any) -> str:
    """A value as text. Of a list or an object it tells the kind: each may hold all the others."""
    return text.describe(value) if isinstance(value, _BRANCHES) else str(value)


def _look(place: str, node: dict[str, Any], seen: Seen) -> Iterator[Finding]:
    kind, module, inner = node.get("class_name"), node.get("module"), node.get("config")
    yield from _bytecode(place, node)
    if "optimizer_config" in node:  # of a legacy file, which has its training apart
        yield from _looked_up(place, node, seen)
    if not isinstance(kind, str):
        if "class_name" in node:  # Keras imports the module before it misses the class
            yield Finding("gadget", place, f"uses a class whose name is {_text(kind)[:100]}")
        return
    if kind == "TorchModuleWrapper":
        yield Finding("pickle", place, "unpickles a PyTorch module")
    yield from _files(place, kind, inner)
    yield from _registered(place, kind, node)
    compiled = node.get("compile_config")
    if isinstance(compiled, dict):
        yield from _looked_up(f"{place}/compile_config".lstrip("/"), compiled, seen)
    if isinstance(inner, dict) and is_class(kind, module if isinstance(module, str) else None):
        yield from _looked_up(f"{place}/config".lstrip("/"), inner, seen)
    if kind == "function":
        yield from _function(place, module, inner)
    elif isinstance(module, str):
        yield from _class(place, kind, module, node)
    elif isinstance(inner, dict):
        # For old files, Keras replaces a text by the function of that name beside its layers.
        for key, value in inner.items():
            if key != "name" and value in ("serialize", "deserialize"):
                yield Finding(
                    "gadget", _below(f"{place}/config", key), f"uses keras.layers.{value}"
                )


# The packages in which Keras looks up a text, by the last word of its key.
_PACKAGES = {
    "activation": ("activations",),
    "initializer": ("initializers",),
    "regularizer": ("regularizers",),
    "constraint": ("constraints",),
    "optimizer": ("optimizers",),
    "loss": ("losses", "metrics"),
    "metrics": ("losses", "metrics"),
    "fn": ("losses", "metrics"),
}


def _looked_up(place: str, config: dict[str, Any], seen: Seen) -> Iterator[Finding]:
    """Texts that Keras replaces by the function or class of that name.

    Args:
        place: Of the config.
        config: Of one of Keras' own classes, or what a model is compiled with. The config of
            another class means what that class makes of it.
        seen: What was looked at before. Configs inside of each other have the same parts.
    """
    for key, value in config.items():
        packages = _PACKAGES.get(key.rpartition("_")[2])
        left = [(_below(place, key), value)] if packages else []
        while left:
            inside, one = left.pop()
            if isinstance(one, str) and not is_text(one, packages or ()):
                yield Finding("function", inside, f"looks up {one[:100]!r}", one)
            if not isinstance(one, _BRANCHES) or (id(one), packages) in seen:
                continue
            seen.add((id(one), packages))
            if isinstance(one, list):
                left += [(_below(inside, number), part) for number, part in enumerate(one)]
            elif "class_name" not in one:
                left += [(_below(inside, name), part) for name, part in one.items()]


def _registered(place: str, kind: str, node: dict[str, Any]) -> Iterator[Finding]:
    """What is said to be Keras' own, and to be registered by a program under another name."""
    key, inner = node.get("registered_name"), node.get("config")
    module = node.get("module") if isinstance(node.get("module"), str) else None
    if not key or key == kind or (kind == "function" and key == inner):
        return
    name = _text(node.get("spec_name")) if kind == "__typespec__" else kind
    if is_class(name, module) or (kind == "function" and is_function(_text(inner), module)):
        detail = f"looks up {_text(key)[:100]!r} instead of {name[:100]!r}"
        yield Finding("registered", place, detail, key if isinstance(key, str) else "")


# What tells of which type the parts of a Lambda layer are.
_TYPES = ("function_type", "output_shape_type", "mask_type")


def _bytecode(place: str, node: dict[str, Any]) -> Iterator[Finding]:
    """Marshalled code, in the ways in which Lambda layers had it."""
    kind, config = node.get("class_name"), node.get("config")
    inner: dict[str, Any] = config if isinstance(config, dict) else {}
    types = [node.get(key) for key in _TYPES]
    # A function is an object of its own, or a name; Keras 2 had a list of code and values.
    coded = kind == "Lambda" and isinstance(inner.get("function"), list)
    coded = coded and inner.get("function_type") not in ("lambda", "raw")  # which is found inside
    if kind == "__lambda__" or "lambda" in types or "raw" in types or coded:
        yield Finding("bytecode", place, "runs Python bytecode that the file brings along")
    elif node.get("function_type") == "function":
        name = f"{_text(node.get('module'))}.{_text(node.get('function'))}"
        called = _text(node.get("function"))
        if not is_function(called):
            yield Finding("function", place, f"calls the function {name[:100]!r}", called)
    elif kind == "Lambda" and "function_type" not in inner:
        for key in ("function", "output_shape", "mask"):
            given = inner.get(key)
            if isinstance(given, str) and not is_function(given):
                detail = f"calls the function {given[:100]!r}"
                yield Finding("function", f"{place}/config/{key}".lstrip("/"), detail, given)


def _files(place: str, kind: str, inner: Any) -> Iterator[Finding]:
    """Paths from which layers read when they are made."""
    if not isinstance(inner, dict):
        return
    if isinstance(inner.get("filepath"), str):
        yield Finding("file", f"{place}/config/filepath", f"reads {inner['filepath'][:100]!r}")
    elif kind == "TFSMLayer":
        yield Finding("file", place, "loads a SavedModel")
    words = inner.get("vocabulary")
    # A list of words is one; whatever else becomes a text is a path.
    if words is not None and not isinstance(words, list):
        yield Finding("file", f"{place}/config/vocabulary", f"reads {_text(words)[:100]!r}")


def _function(place: str, module: Any, inner: Any) -> Iterator[Finding]:
    name = _text(inner)
    where = module if isinstance(module, str) else None
    if is_function(name, where):
        return
    if where is None or where == "builtins":
        yield Finding("function", place, f"looks up the function {name[:100]!r}", name)
    elif package_of(where) is None:
        yield Finding("module", place, f"imports {where[:100]!r} for {name[:100]!r}", name)
    else:
        yield Finding("gadget", place, f"uses {where[:100]}.{name[:100]}", name)


# Classes for which there is a finding of its own.
JUDGED = ("Lambda", "TFSMLayer", "TorchModuleWrapper")


def _class(place: str, kind: str, module: str, node: dict[str, Any]) -> Iterator[Finding]:
    name = _text(node.get("spec_name")) if kind == "__typespec__" else kind
    if kind in VALUES:  # which have no module; of one that Keras does not know it is imported
        yield Finding("gadget", place, f"uses {kind} of {module[:100]!r}")
        return
    if kind == "__lambda__" or is_class(name, module):
        return
    package = package_of(module)
    if package is None:
        what = f"imports {module[:100]!r} for {name[:100]!r}"
        key = _key(node, kind)
        yield Finding("function" if module == "builtins" else "module", place, what, key)
    elif not (package == "layers" and name in JUDGED):
        yield Finding("gadget", place, f"uses {module[:100]}.{name[:100]}", name)


def snake_case(name: str) -> str:
    """The name that Keras makes of a class: "batch_normalization" of "BatchNormalization"."""
    return re.sub(r"(?<=.)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", name).lower()
