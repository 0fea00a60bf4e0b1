"""Recipes: the weights in a file, and a short program that creates the rest again.

A recipe has two functions. `save(model, path)` writes the weights. `rebuild(path)` creates an
object of the same class with the same arguments and loads the weights into it. Arguments are found
in attributes with the same name (`self.units`, `self._units`), or in `get_config()` of a Keras
layer. Arguments that cannot be written as Python source become parameters of `rebuild`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.diagnosis.structure import LIBRARIES, Structure
from tensorferry.frameworks.variables import attributes
from tensorferry.tensors.values import is_namedtuple

# A value whose source is longer becomes a parameter.
LONGEST = 60

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A program that saves an object's weights and rebuilds it.

    Attributes:
        text: The program, with the functions `save` and `rebuild`.
        given: The required parameters of `rebuild`, which cannot be written as source.
    """

    text: str
    given: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


def write_recipe(structure: Structure) -> Recipe:
    """The recipe for an object that has weights."""
    root = structure.root
    kind = type(root)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower().strip("_")
    path = f'"{name}.safetensors"'
    if structure.is_saveable(root) and structure.keras.is_composite(root):
        return _recipe_of_layers(structure, path)
    if kind.__module__.split(".")[0] in ("builtins", "types", *LIBRARIES):
        return _recipe_of_maker(path, f"a function that makes such a {kind.__name__} again")
    imports, given, comments = [], [], []
    importable = _is_importable(kind)
    if not importable:
        given.append(kind.__name__)
        comments.append(f"# {kind.__name__} cannot be imported by its name, and has to be given.")
    else:
        outer = kind.__qualname__.split(".")[0]
        imports.append(f"from {kind.__module__} import {outer}")
        if kind.__module__ == "__main__":
            comments.append(f"# Move {outer} to a module: __main__ is another one elsewhere.")
    called = kind.__qualname__ if importable else kind.__name__
    arguments = _arguments(structure)
    given += [one.name for one in arguments if one.text is None and one.default is None]
    optional = [one for one in arguments if one.text is None and one.default is not None]
    written = [f"{one.name}={one.name if one.text is None else one.text}" for one in arguments]
    if optional:
        names = ", ".join(one.name for one in optional)
        comments.append(f"# {names}: of the model, but not to be written down; give it or not.")
    lines = [f"    model = {called}({', '.join(written)})"]
    if len(lines[0]) > 79:
        lines = [f"    model = {called}(", *(f"        {one}," for one in written), "    )"]
    lines += _building(structure)
    more = [f"{one.name}={one.default}" for one in optional]
    return _program(path, imports, comments, given, lines, optional=more)


def _recipe_of_layers(structure: Structure, path: str) -> Recipe:
    """The recipe for a model of layers: its config is written beside the weights."""
    problems = structure.keras.problems(structure.root)
    if any(one.when == "save" for one in problems):
        return _recipe_of_maker(path, "the function that makes the model")
    imports = ["from pathlib import Path", "", "import keras"]
    given = ["custom_objects"] if any(one.when == "load" for one in problems) else []
    options = ["safe_mode=False"] if any(one.when == "safe" for one in problems) else []
    objects = "custom_objects" if given else "None"
    lines = [
        '    config = json.loads(Path(f"{path}.json").read_text())',
        f"    with keras.saving.custom_object_scope({objects} or {{}}):",
        "        model = keras.saving.deserialize_keras_object("
        + ", ".join(["config", *options])
        + ")",
    ]
    saving = [
        "    config = keras.saving.serialize_keras_object(model)",
        '    Path(f"{path}.json").write_text(json.dumps(config))',
    ]
    comments = ["# custom_objects: the model's own classes and functions by name."] if given else []
    return _program(path, ["import json", *imports], comments, given, lines, saving=saving)


def _recipe_of_maker(path: str, what: str) -> Recipe:
    return _program(
        path, [], [f"# make_model: {what}."], ["make_model"], ["    model = make_model()"]
    )


def _program(
    path: str,
    imports: list[str],
    comments: list[str],
    given: list[str],
    lines: list[str],
    *,
    saving: list[str] | None = None,
    optional: list[str] | None = None,
) -> Recipe:
    standard = [line for line in imports if line.startswith(("import json", "from pathlib"))]
    others = [line for line in imports if line and line not in standard]
    named = [*given, *(optional or [])]
    parameters = f", *, {', '.join(named)}" if named else ""
    text = [
        *standard,
        *([""] if standard else []),
        *others,
        "import tensorferry as ferry",
        "",
        "",
        f"def save(model, path={path}):",
        "    ferry.save_weights(model, path)",
        *(saving or []),
        "",
        "",
        *comments,
        f"def rebuild(path={path}{parameters}):",
        *lines,
        "    ferry.load_weights(model, path)",
        "    return model",
        "",
    ]
    return Recipe("\n".join(text), tuple(given))


def _is_importable(kind: type) -> bool:
    """Whether a class can be imported by its name from its module."""
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind and all(map(str.isidentifier, kind.__module__.split(".")))


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument of a constructor.

    Attributes:
        name: The name of the argument.
        text: The source of its value; None if it cannot be written.
        default: The source of its default; None if there is none.
    """

    name: str
    text: str | None
    default: str | None


def _arguments(structure: Structure) -> list[_Argument]:
    """The arguments of the constructor that differ from their defaults."""
    root = structure.root
    try:
        found = list(inspect.signature(type(root)).parameters.values())
    except (TypeError, ValueError):  # a class that is not written in Python
        return []
    own = dict(attributes(root))
    if structure.is_saveable(root):
        own = {**_config(root), **own}
    result = []
    for one in found:
        if one.kind in _VARIADIC:
            continue
        names = [name for name in (one.name, f"_{one.name}") if name in own]
        default = None if one.default is one.empty else _literal(one.default)
        if not names:
            if one.default is one.empty:
                result.append(_Argument(one.name, None, None))
            continue
        value = own[names[0]]
        text = _literal(value)
        is_default = one.default is not one.empty and _same(value, one.default)
        if not is_default and (text is not None or default is not None or one.default is one.empty):
            result.append(_Argument(one.name, text, default))
    return result


def _config(root: Any) -> dict[str, Any]:
    try:
        config = root.get_config()
    except Exception:  # the user's code may raise anything
        return {}
    return config if isinstance(config, dict) else {}


def _same(first: Any, second: Any) -> bool:
    try:
        return type(first) is type(second) and bool(first == second)
    except Exception:  # arrays have no single answer
        return False


def _literal(value: Any, depth: int = 5) -> str | None:
    """The source of a value; None if it cannot be written, or is too long."""
    text = _written(value, depth)
    return text if text is not None and len(text) <= LONGEST else None


def _written(value: Any, depth: int) -> str | None:
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if value is None or type(value) in (bool, int, str, bytes):
        return repr(value)
    if type(value) is float:
        return repr(value) if value - value == 0 else f'float("{value}")'
    if depth == 0 or (isinstance(value, list | tuple | dict) and len(value) > LONGEST):
        return None
    if isinstance(value, Mapping):
        pairs = [(_written(key, 0), _written(item, depth - 1)) for key, item in value.items()]
        if any(key is None or item is None for key, item in pairs):
            return None
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    if isinstance(value, list | tuple) and not is_namedtuple(value):
        items = [_written(item, depth - 1) for item in value]
        if any(item is None for item in items):
            return None
        joined = ", ".join(str(item) for item in items)
        if isinstance(value, list):
            return f"[{joined}]"
        return f"({joined},)" if len(items) == 1 else f"({joined})"
    return None


def _building(structure: Structure) -> list[str]:
    """The line that builds a layer, which creates its variables."""
    if not structure.is_saveable(structure.root):
        return []
    config = structure.keras.build_config(structure.root)
    text = _written(config, 8) if config else None
    return [] if text is None else [f"    model.build_from_config({text})"]
