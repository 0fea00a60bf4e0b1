"""Cures: one thing to do about each kind of object that cannot be saved."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

_ANEW = "leave it out in __getstate__ and recreate it in __setstate__"
_OPEN = "keep what it was opened with, leave it out in __getstate__, open it in __setstate__"

# Cures by the start of a type's full name.
_BY_TYPE = {
    "_thread.": _ANEW,
    "threading.": _ANEW,
    "asyncio.": _ANEW,
    "concurrent.": _ANEW,
    "multiprocessing.": _ANEW,
    "queue.": _ANEW,
    "_contextvars.": "make it at the top of a module, and refer to it from there",
    "weakref": "keep the object itself, or find it again in __setstate__",
    "builtins.generator": "keep what it iterates over and recreate it, or keep its items as a list",
    "builtins.coroutine": "keep the arguments, and call the function again",
    "builtins.async_generator": "keep what it iterates over, and recreate it",
    "socket.": _OPEN,
    "_io.": _OPEN,
    "sqlite3.": _OPEN,
    "tempfile.": _OPEN,
    "mmap.": _OPEN,
    "tensorflow.python.data.": "keep the files or arrays it is made of, and recreate it",
    "tensorflow.python.ops.lookup_ops": "SavedModels keep tables that are attributes of a "
    "tf.Module; for pickle, keep the keys and values",
}


def cure_for(value: Any, reasons: Iterable[str]) -> str | None:
    """One thing to do about an object that cannot be saved.

    Args:
        value: The object.
        reasons: Why it cannot be saved.
    """
    told = " ".join(reasons)
    for words, cure in (
        (
            "is not registered",
            "@keras.saving.register_keras_serializable() on it, or custom_objects= when loading",
        ),
        (
            "safe mode",
            "a named function that is registered with Keras, or load with safe_mode=False",
        ),
        (
            "unexpected keyword",
            "take **options in the constructor and hand them to super().__init__",
        ),
        ("get_config", "write get_config() so that the constructor takes what it gives"),
        ("its seed for dropout", "model.export(path) makes a SavedModel of it"),
        ("untracked", _TRACK),
        ("hidden", _TRACK),
        ("no graph to save", "give it an input_signature, or call it once before saving"),
        ("calls Python code", "write it with TensorFlow's operations"),
        ("non-string key", "use strings as keys"),
        ("list element was replaced", "make a new list and assign it"),
        ("deep", "keep it flat, for example as a list with indices in place of references"),
    ):
        if words in told:
            return cure
    kind = type(value)
    if issubclass(kind, FunctionType):
        return "make it a function with a name, at the top of a module"
    if issubclass(kind, ModuleType):
        return "import it where it is used, instead of keeping it"
    if "local object" in told or "not found as" in told:
        return "move its class to the top of a module"
    name = f"{kind.__module__}.{kind.__qualname__}"
    return next((cure for start, cure in _BY_TYPE.items() if name.startswith(start)), _ANEW)


_TRACK = "assign it to an attribute of the model itself, or to a list or a dict with names there"
