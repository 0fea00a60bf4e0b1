"""What a checkpoint keeps beside the values of its tensors: a string of a key of its own.

The string is the metadata of a user and our note (`tensorferry.tensors.note`), as one JSON object.
"""

from __future__ import annotations

from typing import Any

from tensorferry.errors import FormatError
from tensorferry.formats.checkpoint import graph as graphs
from tensorferry.tensors.note import Note, parse_texts

KEY = "_TENSORFERRY"

HIDDEN = (graphs.KEY, KEY)
"""The keys of texts about the tensors, which are no tensors to a user."""


def parse(text: bytes) -> tuple[Note, dict[str, Any]]:
    """The note and the user's metadata.

    Raises:
        FormatError: The text is something else.
    """
    try:
        return Note.from_metadata(parse_texts(text, KEY))
    except FormatError as error:
        error.offset = None
        raise error.located(tensor=KEY) from None
