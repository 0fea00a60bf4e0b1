"""SavedModel: TensorFlow's folder of a model, looked into without TensorFlow.

    saved_model.pb           a SavedModel message: MetaGraphs, each known by its tags
    saved_model.pbtxt        or the same as text (`text`)
    saved_model.cpb          or in chunks, beyond 2 GiB (`chunks`)
    variables/variables.*    a checkpoint: the values of variables (`reader`)
    assets/                  files that the graph reads (`assets`)
    fingerprint.pb           hashes of the model (`fingerprint`)
    keras_metadata.pb        what Keras 2 kept of its layers

A MetaGraph has signatures, which say how to call it (`specs`), a graph of nodes and functions
(`graph`), and since TensorFlow 2 a graph of objects (`objects`). A frozen graph, a GraphDef in a
file of its own, is read as a model of one MetaGraph whose variables are constants.

A model is a program, which is neither run nor changed here: what it would do is reported (`ops`).
Everything is checked when it is read. NumPy is not needed, which takes longer to import than most
models take to be looked into; values, which need it, are opened by
`tensorferry.formats.savedmodel.reader`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from tensorferry import storage
from tensorferry.budget import Budget
from tensorferry.classes import NamedTuple, dataclass, field
from tensorferry.codecs.protobuf import BYTES, Span
from tensorferry.errors import FerryError, FormatError
from tensorferry.formats.savedmodel import (
    assets,
    graph as graphs,
    objects,
    ops,
    specs,
    variables,
)
from tensorferry.formats.savedmodel.assets import Asset, storage_join
from tensorferry.formats.savedmodel.fingerprint import FINGERPRINT, Fingerprint, read_fingerprint
from tensorferry.formats.savedmodel.graph import Function, Graph
from tensorferry.formats.savedmodel.messages import ASSET, SIGNATURE, Reader
from tensorferry.formats.savedmodel.objects import ConcreteFunction, Objects, Variable
from tensorferry.formats.savedmodel.ops import Risk
from tensorferry.formats.savedmodel.specs import Signature, TensorSpec
from tensorferry.storage import Source
from tensorferry.storage.place import Place

if TYPE_CHECKING:  # looking into a model needs none of them
    from tensorferry.formats.checkpoint.names import Names
    from tensorferry.tensors.infos import TensorInfo
    from tensorferry.tensors.stored import Stored

__all__ = [
    "Asset",
    "ConcreteFunction",
    "Fingerprint",
    "Function",
    "Graph",
    "Listed",
    "MetaGraph",
    "Objects",
    "Risk",
    "SavedModel",
    "Signature",
    "TensorSpec",
    "Variable",
    "find",
    "list_variables",
    "read",
]

NAME = "savedmodel"
# In the order in which they are looked for.
FILES = ("saved_model.pb", "saved_model.cpb", "saved_model.pbtxt")
# Up to how many bytes a file is copied: that is faster to walk over than its map.
SMALL = 16 << 20
VARIABLES = "variables/variables"
KERAS = "keras_metadata.pb"

Kind = Literal["binary", "text", "chunks", "graph"]
Options = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class MetaGraph:
    """One of the graphs of a model.

    Attributes:
        tags: What it is for, such as "serve".
        tensorflow_version: Of who wrote it.
        git_version: Of who wrote it.
        signatures: Ways to call it, by name.
        graph: Nodes, functions, constants and ops.
        objects: What TensorFlow 2 makes objects of; None for TensorFlow 1.
        variables: By path ("layer/kernel"), or by name where there are no objects.
        custom_ops: Ops that are not TensorFlow's own.
        risks: Ops that do more than compute.
    """

    tags: tuple[str, ...]
    tensorflow_version: str
    git_version: str
    signatures: Mapping[str, Signature]
    graph: Graph
    objects: Objects | None
    variables: Mapping[str, Variable]
    custom_ops: tuple[str, ...]
    risks: tuple[Risk, ...]

    @property
    def ops(self) -> Mapping[str, int]:
        """How often each op is used, functions' bodies included."""
        return self.graph.ops

    @property
    def functions(self) -> Mapping[str, Function]:
        """The library of functions, by name."""
        return self.graph.functions

    @property
    def constants(self) -> Mapping[str, Stored]:
        """The constants by node; those of a function are "function:node"."""
        return self.graph.constants

    @property
    def recursive_functions(self) -> tuple[str, ...]:
        """The functions that can come to call themselves."""
        return tuple(name for name, function in self.functions.items() if function.recursive)

    @property
    def concrete_functions(self) -> Mapping[str, ConcreteFunction]:
        """The functions with their structured arguments, by name; none for TensorFlow 1."""
        return {} if self.objects is None else self.objects.concrete_functions


@dataclass(frozen=True, slots=True)
class SavedModel:
    """What a SavedModel has.

    Attributes:
        path: Its folder; of a frozen graph the file.
        file: The file that was read.
        kind: How the model is written, or "graph" for a frozen graph.
        version: Of the format; 0 for a frozen graph.
        meta_graphs: Each for its tags.
        assets: The files beside it, those that lead elsewhere among them.
        fingerprint: None if there is none.
        keras_metadata: Whether Keras 2 kept its layers' configuration.
        has_variables: Whether there is a checkpoint.
    """

    path: str
    file: str
    kind: Kind
    version: int
    meta_graphs: tuple[MetaGraph, ...]
    assets: tuple[Asset, ...] = ()
    fingerprint: Fingerprint | None = None
    keras_metadata: bool = False
    has_variables: bool = False
    _place: Place | None = field(default=None, repr=False, compare=False)

    @property
    def files(self) -> tuple[str, ...]:
        """The file that was read, and those beside it without the files of the variables."""
        found = [self.file]
        if self.fingerprint is not None:
            found.append(storage_join(self.path, FINGERPRINT))
        if self.keras_metadata:
            found.append(storage_join(self.path, KERAS))
        sound = (asset.name for asset in self.assets if asset.problem is None)
        return (*found, *(assets.asset_path(name, self.path) for name in sound))

    def find(self, tags: Iterable[str] | None = None) -> MetaGraph:
        """The MetaGraph of some tags, or the only one.

        Raises:
            KeyError: There is none, or there are several and no tags were given.
        """
        wanted = None if tags is None else set(tags)
        found = [graph for graph in self.meta_graphs if wanted in (None, set(graph.tags))]
        if len(found) != 1:
            have = "; ".join(", ".join(graph.tags) or "no tags" for graph in self.meta_graphs)
            raise KeyError(f"{len(found)} MetaGraphs fit, expected one; the model has: {have}")
        return found[0]

    @property
    def place(self) -> Place:
        """The place of the file that was read."""
        return self._at(self.file)

    def open_asset(self, name: str) -> Source:
        """The file of an asset.

        Raises:
            FormatError: It is not there, or leads out of the model.
            KeyError: The model has no such asset.
        """
        found = next((asset for asset in self.assets if asset.name == name), None)
        if found is None:
            raise KeyError(f"no asset is called {name[:60]!r}")
        if found.problem is not None:
            raise FormatError(f"the asset {name[:60]!r}: {found.problem}", path=self.path)
        return self._at(assets.asset_path(name, self.path)).open()

    def _at(self, path: str) -> Place:
        return Place(path) if self._place is None else self._place.at(path)


def find(place: Place) -> Place | None:
    """The file of the SavedModel that a path leads to; None if it leads to none.

    Args:
        place: The folder of a model, or its saved_model.pb, .pbtxt or .cpb; local or a URL.
    """
    name = place.path
    if _is_file_of_model(name):
        return place if place.exists() and place.is_named else None
    if not place.is_named:
        return None
    if not place.is_url and not os.path.isdir(name):
        return None
    files = (place.companion(storage_join(name, file)) for file in FILES)
    return next((file for file in files if file.exists()), None)


def _is_file_of_model(path: str) -> bool:
    return path.rpartition("/")[2] in FILES or os.path.basename(path) in FILES


def read(
    path: str | os.PathLike[str] | Place, *, verify: bool = True, storage_options: Options = None
) -> SavedModel:
    """Looks into a SavedModel, or a frozen graph.

    Args:
        path: The folder, one of the files in `FILES`, or any file with a SavedModel or a GraphDef;
            local or a URL. A place is left as it is: open or closed.
        verify: Check the hashes of a model in chunks.
        storage_options: For the store of a URL; a place has its own.

    Raises:
        FileNotFoundError: There is no model.
        FormatError: It is damaged: a Const node has no value, a shape is negative ...
    """
    place = path if isinstance(path, Place) else Place(path, options=storage_options)
    return look(load(place, verify=verify), place)


def look(loaded: Loaded, place: Place) -> SavedModel:
    """Looks into a model whose bytes were loaded.

    Args:
        loaded: The bytes.
        place: Where they come from, as `read` takes it.

    Raises:
        FormatError: It is damaged.
    """
    reader = loaded.reader
    try:
        if loaded.kind == "graph":
            graph = _read_meta_graph(reader, None, Span(0, len(reader.data)))[0]
            return SavedModel(loaded.file, loaded.file, "graph", 0, (graph,))
        fields = reader.read("SavedModel", (0, len(reader.data)), without="meta_graphs")
        spans = reader.meta_graphs()
        if not spans:
            raise FormatError("no MetaGraph, expected at least one", offset=0)
        found = [_read_meta_graph(reader, reader.read("MetaGraphDef", p), p) for p in spans]
    except FerryError as error:
        raise loaded.located(error) from None
    folder = place.at(os.path.dirname(loaded.file) or ".")
    definitions = [definition for _, defined in found for definition in defined]
    return SavedModel(
        folder.path,
        loaded.file,
        loaded.kind,
        fields.get("saved_model_schema_version", 0),
        tuple(graph for graph, _ in found),
        assets.find_assets(definitions, folder),
        read_fingerprint(folder.companion(storage_join(folder.path, FINGERPRINT))),
        folder.at(storage_join(folder.path, KERAS)).exists(),
        folder.at(storage_join(folder.path, f"{VARIABLES}.index")).exists(),
        folder,
    )


@dataclass(frozen=True, slots=True)
class Loaded:
    """The bytes of a model, however it was written.

    Attributes:
        file: The file that has them.
        kind: How the model is written, or "graph" for a frozen graph.
        reader: Of a SavedModel message, or of a GraphDef.
    """

    file: str
    kind: Kind
    reader: Reader

    def located(self, error: FerryError) -> FerryError:
        """An error in these bytes; an offset says nothing where they are not those of the file."""
        if self.kind in ("text", "chunks"):
            error.offset = None
        return error.located(path=self.file)


def load(place: Place, *, verify: bool = True) -> Loaded:
    """The bytes of a model; nothing of them is parsed.

    Args:
        place: As `read` takes it.
        verify: Check the hashes of a model in chunks.
    """
    file = place if _is_file_of_model(place.path) else find(place) or place
    was_open = file.is_open
    try:
        data = file.open().everything()
    except FormatError:
        if file is not place or place.is_url or not os.path.isdir(place.path):
            raise
        what = f"{place.path}: no SavedModel, expected one of {', '.join(FILES)}"
        raise FileNotFoundError(what) from None
    finally:
        if not was_open:
            file.close()
    if len(data) <= SMALL:
        data = bytes(data)
    path = file.path
    try:
        if path.endswith(".pbtxt"):
            from tensorferry.formats.savedmodel import text

            return Loaded(path, "text", Reader(text.encode(data, "SavedModel"), path))
        if path.endswith(".cpb"):
            from tensorferry.formats.savedmodel import chunks

            budget = Budget(len(data))
            merged = chunks.merge(data, "SavedModel", verify=verify, path=path, budget=budget)
            reader = Reader(merged, path)
            reader.budget = budget
            return Loaded(path, "chunks", reader)
        reader = Reader(data, path)
        kind: Kind = "graph" if _starts_as_graph(reader) else "binary"
    except FerryError as error:
        raise error.located(path=path) from None
    return Loaded(path, kind, reader)


def _starts_as_graph(reader: Reader) -> bool:
    """Whether the first field is a node or the versions of a GraphDef."""
    return reader.first() in ((1, BYTES), (4, BYTES))


def _read_meta_graph(
    reader: Reader, fields: Mapping[str, Any] | None, span: Span
) -> tuple[MetaGraph, list[tuple[str, str]]]:
    """A MetaGraph, and the names and tensors of its assets; without fields, that of a GraphDef."""
    given: Mapping[str, Any] = {"graph_def": span} if fields is None else fields
    info = reader.read("MetaInfoDef", given["meta_info_def"]) if "meta_info_def" in given else {}
    graph = graphs.read_graph(reader, given.get("graph_def", Span(span.end, span.end)))
    held = read_objects(reader, given)
    places = given.get("signature_def", [])
    reader.check_count(len(places), size=SIGNATURE, what="signatures")
    signatures = specs.read_signatures(reader, reader.entries("SignatureEntry", places))
    places = given.get("asset_file_def", [])
    reader.check_count(len(places), size=ASSET, what="assets")
    definitions = [assets.read_definition(reader, place) for place in places]
    known = held.variables if held is not None else _by_name(reader, given, graph)
    meta_graph = MetaGraph(
        tuple(info.get("tags", [])),
        info.get("tensorflow_version", ""),
        info.get("tensorflow_git_version", ""),
        MappingProxyType(signatures),
        graph,
        held,
        known,
        ops.find_custom(graph.ops),
        ops.find_risks(graph.ops, graph.unusual),
    )
    return meta_graph, definitions


def read_objects(reader: Reader, fields: Mapping[str, Any]) -> Objects | None:
    """The objects of a MetaGraph; None for one of TensorFlow 1."""
    span = fields.get("object_graph_def")
    held = None if span is None else objects.read_objects(reader, span)
    # An exporter of TensorFlow 1 may leave an empty graph of objects.
    return held if held is not None and held.count else None


def _by_name(reader: Reader, fields: Mapping[str, Any], graph: Graph) -> Mapping[str, Variable]:
    """The variables of TensorFlow 1, which are nodes; a collection says which of them are saved."""
    collections = reader.entries("CollectionEntry", fields.get("collection_def", []))
    nodes = {spec.name: spec for spec in graph.variables}
    saved = _read_collection(reader, collections.get("variables"))
    trainable = _read_collection(reader, collections.get("trainable_variables"))
    found = {}
    for name in nodes if saved is None else saved:
        spec = nodes.get(name, TensorSpec(name, None, None))
        trained = None if trainable is None else name in trainable
        found[name] = Variable(name, name, spec.dtype, spec.shape, trained)
    return MappingProxyType(found)


def _read_collection(reader: Reader, span: Span | None) -> dict[str, None] | None:
    """The names of the variables in a collection; None if there is no such collection."""
    if span is None:
        return None
    fields = reader.read("CollectionDef", span)
    if "bytes_list" not in fields:
        return None
    held = reader.read("BytesList", fields["bytes_list"]).get("value", [])
    names = (reader.read("VariableDef", place).get("variable_name", "") for place in held)
    return dict.fromkeys(name.partition(":")[0] for name in names)


class Listed(NamedTuple):
    """The variables of a model, or the constants of a frozen graph.

    Attributes:
        tensors: What each is like.
        files: Where their values are.
        metadata: The user's metadata, which stands beside them.
    """

    tensors: Sequence[TensorInfo] = ()
    files: Sequence[str] = ()
    metadata: Mapping[str, Any] = MappingProxyType({})


def list_variables(model: SavedModel, *, names: Names = "paths") -> Listed | None:
    """What the variables are like, or the constants of a frozen graph.

    None where that is not told quickly: `reader.open_variables` opens what is remote, large or
    damaged.

    Args:
        model: What was read.
        names: As in `tensorferry.formats.savedmodel.reader.open_variables`.

    Raises:
        FileNotFoundError: The variables are not there.
        FormatError: A constant is damaged.
    """
    if model.kind == "graph":
        constants = model.find().graph.constants
        return Listed([constants.describe(name) for name in constants])
    if not model.has_variables:
        if any(graph.variables for graph in model.meta_graphs):
            raise missing(storage_join(model.path, VARIABLES))
        return Listed()
    if storage.is_url(model.path):
        return None
    from tensorferry.formats.checkpoint import outline as checkpoint_outline

    outline = checkpoint_outline.read(storage_join(model.path, VARIABLES))
    if outline is None:
        return None
    held = next((graph.objects for graph in model.meta_graphs if graph.objects), None)
    return Listed(variables.describe(outline, held, names), outline.files, outline.metadata)


def missing(prefix: str) -> FileNotFoundError:
    """The error for a model whose variables are not there."""
    return FileNotFoundError(f"{prefix}.index: the variables of the model are not there")
