"""Notes: facts about the tensors of a file that its format has no field for.

A note is JSON under the key "tensorferry" in the metadata of the file. A file that needs no note
has none: a dict of float32 arrays gives the same file that the format's own library writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorferry.classes import dataclass, field
from tensorferry.codecs import json_text as json
from tensorferry.errors import FormatError

KEY = "tensorferry"

FILE = f"{KEY}.json"
"""The name of a file in an archive that has the metadata."""

VERSION = 1


@dataclass
class Note:
    """The fields of a note.

    Attributes:
        layout: The structure of the value: see `tensorferry.tensors.layout`.
        tensors: The parts of tensors that are not one array of their name: see
            `tensorferry.tensors.stored`.
        dtypes: The dtype of each array that is stored as another dtype.
        quantized: How arrays were quantized: see `tensorferry.codecs.quantization`.
        origins: Other facts about the tensors that were saved: their "name", their "device".
        encoded: The keys of metadata that are stored as JSON, because they were not strings.
    """

    layout: dict[str, Any] | None = None
    tensors: dict[str, dict[str, Any]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    quantized: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, dict[str, Any]] = field(default_factory=dict)
    encoded: list[str] = field(default_factory=list)

    @property
    def leaves_arrays(self) -> bool:
        """Whether each tensor is one array of its name, dtype and shape."""
        return not (self.tensors or self.dtypes or self.quantized)

    def to_metadata(self, metadata: dict[str, Any] | None) -> dict[str, str]:
        """The user's metadata as strings, together with the note if there is one."""
        found: dict[str, str] = {}
        for key, value in (metadata or {}).items():
            if not isinstance(key, str):
                raise TypeError(f"a key of metadata is {key!r}, expected a string")
            if key == KEY:
                raise ValueError(f"the key {KEY!r} of metadata is used by tensorferry itself")
            if not isinstance(value, str):
                self.encoded.append(key)
                value = json.to_text(value).decode()
            found[key] = value
        said = {name: value for name, value in vars(self).items() if value not in (None, {}, [])}
        if said:
            found[KEY] = json.to_text({"version": VERSION, **said}).decode()
        return found

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> tuple[Note, dict[str, Any]]:
        """The note in the metadata of a file, checked, and the user's own metadata.

        Raises:
            FormatError: The note is malformed, or of an unknown version.
        """
        user: dict[str, Any] = dict(metadata)
        text = user.pop(KEY, None)
        if text is None:
            return cls(), user
        note = cls()
        tree = json.parse(json.to_utf8(text))
        version = tree.pop("version", None) if isinstance(tree, dict) else None
        if version != VERSION:
            raise FormatError(
                f"the {KEY!r} note is of version {str(version)[:20]}, expected {VERSION}",
                hint="a newer tensorferry may read it",
            )
        for name, found in tree.items():
            if name not in vars(note):
                raise FormatError(f"the {KEY!r} note has a field {name[:60]!r}, which is unknown")
            expected = dict if name == "layout" else type(getattr(note, name))
            if not isinstance(found, expected):
                raise FormatError(f"{name!r} of the {KEY!r} note is no {expected.__name__}")
            setattr(note, name, found)
        note._check()
        for key in dict.fromkeys(note.encoded):  # a key that comes twice was encoded once
            if key in user:
                user[key] = json.parse(json.to_utf8(user[key]))
        return note, user

    def _check(self) -> None:
        for name in ("tensors", "quantized", "origins"):
            for key, value in getattr(self, name).items():
                if not isinstance(value, dict):
                    raise FormatError(
                        f"{name!r} of the {KEY!r} note holds no object", tensor=key[:60]
                    )
        if not all(isinstance(name, str) for name in (*self.dtypes.values(), *self.encoded)):
            raise FormatError(f"the {KEY!r} note has something else for a name than a string")


def parse_texts(data: bytes | memoryview, name: str) -> dict[str, str]:
    """Metadata that is kept as an object of strings, where a format has no place for it.

    Args:
        data: The JSON.
        name: What holds it, for errors.

    Raises:
        FormatError: It is something else.
    """
    try:
        tree = json.parse(data)
    except FormatError as error:
        error.offset = None  # in the file, it would be another one
        raise error.located(tensor=name) from None
    if not isinstance(tree, dict) or not all(isinstance(value, str) for value in tree.values()):
        raise FormatError(f"{name} is no object of strings")
    return tree
