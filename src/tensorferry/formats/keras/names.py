"""The classes and functions of Keras that a model is made of, and that only compute.

`names.txt` beside this module lists them by the package of Keras that they are of. A config names
one by its module and its name, such as "keras.layers" and "Dense" or "keras.src.ops.numpy" and
"Add", or by its name alone. Whatever is not in the list is no part of a model here: a name with a
dot in it, a utility that downloads, a layer that loads another model.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping

# The packages in which Keras looks for functions of the module "builtins".
BUILTINS = (
    "activations",
    "constraints",
    "initializers",
    "losses",
    "metrics",
    "optimizers",
    "regularizers",
)
# Names of classes that stand for plain values: tensors, bytes, slices, tuples.
VALUES = frozenset(
    {
        "__keras_tensor__",
        "__tensor__",
        "__numpy__",
        "__bytes__",
        "__ellipsis__",
        "__slice__",
        "__tuple__",
        "TensorShape",
        "CompositeTensor",
    }
)

# Where Keras says that its optimizers are, if it computes with PyTorch: their classes have the
# names of the others.
_TORCH_OPTIMIZERS = ["backend", "torch", "optimizers"]

# What a section of the file lists; texts are other words for the classes and functions.
_KINDS = ("classes", "functions", "texts")


@functools.cache
def _sections() -> Mapping[str, frozenset[str]]:
    """The names of each section of the file, such as "layers classes"."""
    path = os.path.join(os.path.dirname(__file__), "names.txt")
    with open(path, encoding="ascii") as file:
        lines = file.read().splitlines()
    found: dict[str, set[str]] = {}
    names: set[str] = set()
    for line in lines:
        if line.startswith("["):
            names = found.setdefault(line.strip("[]"), set())
        elif not line.startswith("#"):
            names.update(line.split())
    return {head: frozenset(held) for head, held in found.items()}


def package_of(module: str) -> str | None:
    """The package of Keras that a module is of, "" for Keras itself; None for other modules."""
    first, *parts = module.split(".")
    if first != "keras" or not all(part.isidentifier() for part in parts):
        return None
    # keras.src.layers.core.dense is of keras.layers, and so are its old layers.
    inside = [part for part in parts if part not in ("src", "_legacy")]
    if inside[:3] == _TORCH_OPTIMIZERS:
        return "optimizers"
    return inside[0] if inside else ""


def is_class(name: str, module: str | None = None) -> bool:
    """Whether a class is one of Keras' that only compute; without a module, of any package."""
    return _has(name, module, "classes", None)


def is_function(name: str, module: str | None = None) -> bool:
    """Whether a function is one of Keras' that only compute."""
    return _has(name, module, "functions", BUILTINS)


def is_text(name: str, packages: Iterable[str]) -> bool:
    """Whether a text stands for a class or function of some packages, as "mse" does."""
    known = _sections()
    for package in packages:
        if package == "optimizers":  # whose names Keras compares in lower case
            if name.lower() in {one.lower() for one in known["optimizers classes"]}:
                return True
        elif any(name in known.get(f"{package} {kind}", ()) for kind in _KINDS):
            return True
    return False


def _has(name: str, module: str | None, kind: str, packages: Iterable[str] | None) -> bool:
    known = _sections()
    if module is None or (module == "builtins" and packages is not None):
        heads = [f"{one} {kind}" for one in packages] if packages is not None else list(known)
        return any(name in known.get(head, ()) for head in heads if head.endswith(kind))
    package = package_of(module)
    return package is not None and name in known.get(f"{package} {kind}", ())
