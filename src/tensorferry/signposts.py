"""Signposts: names that other libraries use for functions of this package.

A missing name is an AttributeError whose message says what to use instead. This module is imported
only then, and imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Collection

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
