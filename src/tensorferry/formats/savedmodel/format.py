"""SavedModels as a format: a folder, found by its path, of which the variables are read.

    ferry.open("saved_model_dir")                       a bundle of its variables
    ferry.open("saved_model_dir", names="variables")    called by their own names
    ferry.open("frozen.pb")                             a frozen graph: its constants
    ferry.save(tensors, "dir", format="savedmodel")     variables, and a signature that returns them

Models are written by TensorFlow (`tensorferry.save_model`), tensors alone by
`tensorferry.formats.savedmodel.writer`. This module says which options there are and makes bundles;
opening is `tensorferry.formats.savedmodel.reader`, and what else is in a model
`tensorferry.formats.savedmodel.model`. It imports no NumPy: who only asks what a path is need not
wait for it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.formats.contract import Format, TensorOptions, WriteOptions, Written
from tensorferry.formats.savedmodel.model import NAME, find
from tensorferry.storage.place import Place, Target

if TYPE_CHECKING:
    from tensorferry.formats.checkpoint.names import Names
    from tensorferry.tensors.bundle import Bundle
    from tensorferry.tensors.content import Content


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedModelOptions(TensorOptions):
    """How the variables of a model are read.

    Attributes:
        names: What they are called: by their "paths" from the root, by the "variables" own names,
            or by the "keys" of the checkpoint.
    """

    names: Names = "paths"


class Reader:
    """Opens the variables of models."""

    options = SavedModelOptions

    def find(self, place: Place) -> Place | None:
        """The file of the model that a path leads to."""
        return find(place)

    def open(self, place: Place, how: SavedModelOptions) -> Bundle:
        """A bundle of the variables; the keys of the checkpoint are other names of theirs."""
        from tensorferry.formats.checkpoint.reader import Checkpoint
        from tensorferry.formats.savedmodel.reader import open_variables
        from tensorferry.formats.table import TABLE
        from tensorferry.storage import sets
        from tensorferry.tensors.bundle import Bundle
        from tensorferry.tensors.held import dequantized

        def read() -> Checkpoint:
            if is_local and place.is_open and not place.is_current():
                place.close()  # the file of a folder that is gone
            return open_variables(place, verify=how.verify, names=how.names, parts=how.parts)

        is_local = place.is_named and not place.is_url
        folder = os.path.dirname(place.path) or "."
        opened = sets.in_folder(folder, read, Checkpoint.close) if is_local else read()
        is_graph = opened.version == 0
        try:
            is_plain = how.parts or not how.dequantize
            stored = opened.stored if is_plain else dequantized(opened.stored, opened.note)
        except BaseException:
            opened.close()
            raise
        return Bundle(
            stored,
            facts=TABLE[NAME],
            place=place,
            note=opened.note,
            metadata=opened.metadata,
            files=opened.files or [place.path],
            aliases=opened.keys,
            details=opened,
            checksums=not is_graph,
            closing=[opened.close],
        )


class Writer:
    """Writes tensors as models that return them."""

    options = WriteOptions

    def write(self, content: Content, target: Target, how: WriteOptions) -> Written:
        """Writes a value.

        Raises:
            UnsupportedError: The target is no path.
        """
        from tensorferry.formats.savedmodel.writer import save

        if not target.is_path:
            raise UnsupportedError(
                "a SavedModel is several files, and must be saved to a path",
                path=target.path,
                hint="npz and safetensors are one file",
            )
        return save(content, target)


FORMAT = Format(reads=Reader(), writes=Writer())
