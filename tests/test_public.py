"""The public face: its names, and the parameters that they take."""

from __future__ import annotations

import inspect
import json
import sys
import types
from pathlib import Path

import pytest

import tensorferry as ferry

SNAPSHOT = Path(__file__).parent / "golden/public.json"


def parameters(function):
    """The names of a function's parameters, with a star before those that are keywords only."""
    marks = {inspect.Parameter.KEYWORD_ONLY: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = inspect.signature(function).parameters.values()
    return [marks.get(known.kind, "") + known.name for known in found if known.name != "self"]


def members(name, value):
    """A class and its public methods and properties."""
    yield name, parameters(value) if value.__init__ is not object.__init__ else []
    for key, member in inspect.getmembers(value):
        if key.startswith("_") and key not in ("__getitem__", "__len__", "__iter__"):
            continue
        if isinstance(member, property):
            yield f"{name}.{key}", "property"
        elif inspect.isfunction(inspect.unwrap(getattr(member, "__func__", member))):
            yield f"{name}.{key}", parameters(member)


def face():
    """Every public name with its parameters."""
    found = {}
    for name in sorted(ferry.__all__):
        value = getattr(ferry, name)
        if isinstance(value, types.ModuleType):
            for key in getattr(value, "__all__", ()):
                member = getattr(value, key)
                if callable(member):
                    found[f"{name}.{key}"] = parameters(member)
        elif inspect.isclass(value):
            found.update(members(name, value))
        elif callable(value):
            found[name] = parameters(value)
    return found


def test_snapshot():
    """No name or parameter changes by accident; `python tests/test_public.py` writes it anew."""
    assert face() == json.loads(SNAPSHOT.read_text())


@pytest.mark.parametrize(
    "name", ["open", "load", "save", "dumps", "loads", "writer", "inspect", "verify", "convert"]
)
def test_options_are_named(name):
    """`help()` lists the options of formats by name: no public function hides them."""
    found = parameters(getattr(ferry, name))

    assert not [known for known in found if known.startswith("**")]


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(face(), indent=1) + "\n")
    sys.exit()
