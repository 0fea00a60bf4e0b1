"""Signposts: names that other libraries use for functions and methods of this package.

A missing name is an AttributeError whose message says what to use instead. This module imports
nothing of the package.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

T = TypeVar("T")

# By the module that was asked, the names of others and what does the same here.
INSTEAD = {
    "tensorferry": {
        "serialize": "dumps",
        "deserialize": "loads",
        "dump": "save",
        "to_bytes": "dumps",
        "from_bytes": "loads",
        "read": "load",
        "head": "open(path)[:5]",
        "write": "save",
        "load_file": "load",
        "save_file": "save",
        "savez": "save",
        "io": "tfio",
        "train": "Saver, CheckpointManager or latest_checkpoint",
        "saver": "Saver",
        "Checkpoint": "CheckpointManager or Saver",
        "checkpoint": "Saver or latest_checkpoint",
        "restore": "Saver(...).restore, or load_weights",
        "save_checkpoint": "Saver(...).save, or save_weights",
        "load_checkpoint": "open, or load_weights",
        "load_variable": "open(path)[name]",
        "list_variables": "open(path).info",
        "ModelCheckpoint": "weights_callback",
        "saved_model": "save_model and load_model",
        "models": "save_model and load_model",
        "TFRecordDataset": "open",
        "TFRecordWriter": "writer, or tfio.TFRecordWriter",
        "serialize_tensor": "dumps, or tfio.serialize_tensor",
        "parse_tensor": "loads, or tfio.parse_tensor",
        "parse_example": "open, or tfio.parse_example",
    },
    "tensorferry.tfio": {
        "parse_sparse": "deserialize_sparse",
        "serialize": "serialize_tensor",
        "deserialize": "parse_tensor",
        "deserialize_tensor": "parse_tensor",
        "TFRecordDataset": "tf_record_iterator, or tensorferry.open",
        "TFRecordReader": "tf_record_iterator, or tensorferry.open",
        "read_file": "tensorferry.load",
        "write_file": "tensorferry.save",
        "write_graph": "tensorferry.save_model",
        "python_io": "tf_record_iterator and TFRecordWriter",
    },
}

# By the class of an object: methods that tf.data, tf.train, NumPy or safetensors have.
METHODS = {
    "Rows": {
        **dict.fromkeys(("batch", "iter_batches"), "batches(size)"),
        **dict.fromkeys(("as_numpy_iterator", "iterrows", "map"), "iteration: for row in rows"),
        **dict.fromkeys(("repeat", "prefetch", "padded_batch"), "tensorferry.feeds.Feed"),
        **dict.fromkeys(("keys", "column_names"), "columns"),
        **dict.fromkeys(("shape", "num_rows"), "count()"),
        "shuffle": "tensorferry.feeds.Feed(rows, shuffle=True), or tensorferry.shuffle",
        "sample": "tensorferry.sample",
        "filter": "[row for row in rows if ...]",
        "shard": "splits(count)",
        "head": "rows[:5]",
        "read": "value()",
        "element_spec": "schema",
        "dtypes": "schema",
    },
    "Bundle": {
        **dict.fromkeys(("get_tensor", "get_variable", "tensor"), "bundle[name]"),
        **dict.fromkeys(("names", "list_variables"), "list(bundle)"),
        **dict.fromkeys(("get_variable_to_shape_map", "get_variable_to_dtype_map"), "infos()"),
        **dict.fromkeys(("has_tensor", "has_key"), "name in bundle"),
        "get_slice": "slice(name, index)",
        "load": "value()",
        "read": "value()",
        "batches": "value(): these are tensors by name, and no rows",
        "to_pandas": "value(): these are tensors by name, and no rows",
    },
}


def missing_method(thing: object, name: str, instead: str | None) -> AttributeError:
    """The error for a name that an object lacks.

    Args:
        thing: The object.
        name: The name that was asked for.
        instead: What to use, if that is known.
    """
    text = f"{type(thing).__name__!r} object has no attribute {name!r}"
    return AttributeError(
        text if instead is None else f"{text}: use {instead}", name=name, obj=thing
    )


class _Signpost:
    """A name that a class lacks: `__getattr__` would make all others four times as slow."""

    def __init__(self, name: str, instead: str) -> None:
        self._name, self._instead = name, instead

    def __get__(self, instance: object, owner: type) -> object:
        raise missing_method(owner if instance is None else instance, self._name, self._instead)


def signposted(cls: type[T]) -> type[T]:
    """A class with the signposts in `METHODS`, which `dir` does not list."""
    posts = {name: _Signpost(name, text) for name, text in METHODS[cls.__name__].items()}
    for name, post in posts.items():
        setattr(cls, name, post)

    def listed(self: object) -> list[str]:
        return [name for name in object.__dir__(self) if name not in posts]

    cls.__dir__ = listed  # type: ignore[method-assign]
    return cls


class MissingNameError(AttributeError):
    """A name that a module lacks.

    The suggestion is looked up when the error is shown, because Python also asks packages for the
    names of their modules in this way, before it imports them.

    Args:
        module: The full name of the module.
        name: The name that was asked for.
        known: The names that the module has.
    """

    def __init__(self, module: str, name: str, known: Collection[str] = ()) -> None:
        super().__init__(module, name, name=name)
        self._asked = module, name
        self._known = known

    def __str__(self) -> str:
        module, name = self._asked
        instead = INSTEAD.get(module, {}).get(name)
        if instead is None and not name.startswith("_"):
            import difflib

            near = difflib.get_close_matches(name, self._known, n=1, cutoff=0.75)
            instead = near[0] if near else None
        text = f"module {module!r} has no attribute {name!r}"
        if instead is not None:
            place = "" if instead.startswith("tensorferry.") else f"{module}."
            text += f": use {place}{instead}"
        return text
