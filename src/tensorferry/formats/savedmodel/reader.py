"""The values of a SavedModel: its variables, or the constants of a frozen graph.

Variables are in a checkpoint beside the model, and are called as the objects of the model call
them (`tensorferry.formats.savedmodel.variables`). Of the model itself only its objects are looked
at here: what else there is to know is `tensorferry.formats.savedmodel.model`.
"""

from __future__ import annotations

import os

from tensorferry.codecs.protobuf import Span
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.formats.checkpoint.names import Names
from tensorferry.formats.checkpoint.reader import Checkpoint, open_checkpoint
from tensorferry.formats.savedmodel import graph as graphs, model, variables
from tensorferry.formats.savedmodel.assets import storage_join
from tensorferry.storage.place import Place


def open_variables(
    place: Place, *, verify: bool = True, names: Names = "paths", parts: bool = False
) -> Checkpoint:
    """Opens the variables of a SavedModel, or the constants of a frozen graph.

    Args:
        place: As `tensorferry.formats.savedmodel.model.read` takes it; bytes and streams can only
            be frozen graphs, because variables lie beside a model.
        verify: Check the checksum of each tensor when it is first read.
        names: How variables of an object graph are called: by their "paths" from the root
            ("layer/kernel"), by their own names ("variables"; the path for a variable whose name
            another has), or by the "keys" of the checkpoint.
        parts: Give the parts of sparse and ragged tensors as they are stored.

    Raises:
        FileNotFoundError: There is no model, or its variables are not there.
        FormatError: It is damaged. The graph is not looked at.
        UnsupportedError: It is a model without a path.
    """
    loaded = model.load(place, verify=verify)
    reader = loaded.reader
    held = None
    try:
        if loaded.kind == "graph":
            constants = graphs.read_graph(reader, Span(0, len(reader.data))).constants
            keys = {name: name for name in constants}
            return Checkpoint(loaded.file, 0, constants, keys)
        for span in reader.meta_graphs():
            held = held or model.read_objects(reader, reader.read("MetaGraphDef", span))
    except FerryError as error:
        raise loaded.located(error) from None
    if not place.is_named:
        raise UnsupportedError(
            "a SavedModel is several files, and is opened by its path", path=place.path
        )
    prefix = place.at(storage_join(os.path.dirname(loaded.file) or ".", model.VARIABLES))
    if not prefix.at(f"{prefix.path}.index").exists():
        found = model.look(loaded, place)
        if any(graph.variables for graph in found.meta_graphs):
            raise model.missing(prefix.path)
        # The bytes of a model in chunks are not those of a mapped file, and may be many.
        kept = None if found.kind == "chunks" else found
        return Checkpoint(prefix.path, 2, {}, {}, model=kept)
    by_path: Names = "keys" if names == "keys" else "paths"
    opened = open_checkpoint(prefix, verify=verify, names=by_path, parts=parts)
    if loaded.kind == "text":
        opened.model = loaded
    try:
        graph = opened.graph
        if held is None or graph is None or names == "keys":
            return opened
        return variables.rename(opened, held.match_keys(graph), held, names)
    except BaseException:
        opened.close()
        raise
