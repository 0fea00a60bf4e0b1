"""Notes: what a file of tensors cannot say by its own means.

A note is JSON, kept under the key "tensorferry" among the metadata that the file's format has a
place for. Where there is nothing to say, there is no note: a dict of float32 arrays gives the file
that the format's own library writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tensorferry.codecs import json_text as json
from tensorferry.errors import FormatError

KEY = "tensorferry"
VERSION = 1


@dataclass
class Note:
    """The fields of a note.

    Attributes:
        layout: Of the value: see `tensorferry.tensors.layout`.
        tensors: How those are made that are not just an array of their name: see
            `tensorferry.tensors.stored`.
        dtypes: The dtype of arrays that are stored as another.
        quantized: How arrays were quantized: see `tensorferry.codecs.quantization`.
        origins: What else was kept of tensors: their "name", their "device".
        encoded: The keys of metadata that is JSON, because it was no string.
    """

    layout: dict[str, Any] | None = None
    tensors: dict[str, dict[str, Any]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    quantized: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, dict[str, Any]] = field(default_factory=dict)
    encoded: list[str] = field(default_factory=list)

    def to_metadata(self, metadata: dict[str, Any] | None) -> dict[str, str]:
        """A user's metadata as strings, with the note among it."""
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
    def from_metadata(cls, metadata: dict[str, str]) -> tuple[Note, dict[str, Any]]:
        """The note among a file's metadata, checked, and the metadata of the user.

        Raises:
            FormatError: It is no note that we know.
        """
        user: dict[str, Any] = dict(metadata)
        text = user.pop(KEY, None)
        if text is None:
            return cls(), user
        note = cls()
        tree = json.parse(text.encode())
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
        for key in note.encoded:
            if key in user:
                user[key] = json.parse(user[key].encode())
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
