"""SavedModel: TensorFlow's directory of a model, looked into without TensorFlow.

    saved_model.pb           a SavedModel message: MetaGraphs, each known by its tags
    saved_model.pbtxt        or the same as text (`savedmodel_text`)
    saved_model.cpb          or in chunks, beyond 2 GiB (`savedmodel_chunks`)
    variables/variables.*    a checkpoint: values of variables
    (`tensorferry.formats.checkpoint.reader`) assets/                  files that the graph reads
    (`savedmodel_assets`) fingerprint.pb           hashes of it all
    keras_metadata.pb        what Keras 2 kept of its layers

A MetaGraph has signatures, which say how to call it (`savedmodel_specs`), a graph of nodes and
functions (`savedmodel_graph`), and since TensorFlow 2 a graph of objects (`savedmodel_objects`). A
frozen graph, a GraphDef in a file of its own, is read as a model of one MetaGraph whose variables
are constants.

A model is a program, which is neither run nor changed here: what it would do is reported
(`savedmodel_ops`). Everything is checked when it is read; values are read when they are asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from tensorferry import storage
from tensorferry.codecs.protobuf import BYTES, Span
from tensorferry.errors import FerryError, FormatError
from tensorferry.formats.savedmodel import (
    assets as assets,
    graph as graphs,
    objects as objects,
    ops as ops,
    specs as specs,
    variables as variables,
)
from tensorferry.formats.savedmodel.assets import Asset, storage_join
from tensorferry.formats.savedmodel.fingerprint import FINGERPRINT, Fingerprint, read_fingerprint
from tensorferry.formats.savedmodel.graph import Function, Graph
from tensorferry.formats.savedmodel.messages import Reader
from tensorferry.formats.savedmodel.objects import ConcreteFunction, Objects, Variable
from tensorferry.formats.savedmodel.ops import Risk
from tensorferry.formats.savedmodel.specs import Signature, TensorSpec
from tensorferry.storage import Source

if TYPE_CHECKING:  # looking into a model needs none of them
    from tensorferry.formats.checkpoint.reader import Checkpoint, Names
    from tensorferry.tensors.infos import TensorInfo
    from tensorferry.tensors.stored import Stored

__all__ = [
    "Asset",
    "ConcreteFunction",
    "Fingerprint",
    "Function",
    "Graph",
    "MetaGraph",
    "Objects",
    "Risk",
    "SavedModel",
    "Signature",
    "TensorSpec",
    "Variable",
    "list_variables",
    "open_stored",
    "read",
    "resolve",
    "sniff",
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


# The first node of a frozen graph, as far as its name goes: no other message starts so.
_FIRST_NODE = re.compile(rb"\n[\x80-\xff]{0,4}[\x00-\x7f]\n([\x01-\x7f])([A-Za-z0-9.][\w./>\\-]*)")


def sniff(head: bytes) -> bool:
    """Whether it is a frozen graph; a SavedModel, found by its path, starts as TensorProtos do."""
    found = _FIRST_NODE.match(head)
    if found is None:
        return False
    end = found.start(2) + found[1][0]  # where the name ends, and the op follows
    return found.end() >= min(end, len(head)) and head[end : end + 1] in (b"", b"\x12")


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
        path: Its directory, or the file if it has none.
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
    _options: Options = field(default=None, repr=False, compare=False)

    @property
    def files(self) -> tuple[str, ...]:
        """The file that was read, and those beside it but for the variables'."""
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

    def open_variables(self, *, verify: bool = True, names: Names = "paths") -> Checkpoint:
        """The values of the variables: see `open_stored`."""
        return open_stored(self.file, verify=verify, names=names, storage_options=self._options)

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
        return storage.open_source(assets.asset_path(name, self.path), options=self._options)


def resolve(path: str | os.PathLike[str], *, storage_options: Options = None) -> str | None:
    """The file of the SavedModel that a path names; None if it names none.

    Args:
        path: The directory of a model, or its saved_model.pb, .pbtxt or .cpb; local or a URL.
        storage_options: For the store of a URL.
    """
    name = storage.localize(path)
    if name.rpartition("/")[2] in FILES or os.path.basename(name) in FILES:
        return name if storage.exists(name, options=storage_options) else None
    if not storage.is_url(name) and not os.path.isdir(name):
        return None
    candidates = (storage_join(name, file) for file in FILES)
    return next(
        (file for file in candidates if storage.exists(file, options=storage_options)), None
    )


def read(
    path: str | os.PathLike[str], *, verify: bool = True, storage_options: Options = None
) -> SavedModel:
    """Looks into a SavedModel, or a frozen graph.

    Args:
        path: The directory, one of the files in `FILES`, or any file with a SavedModel or a
            GraphDef; local or a URL.
        verify: Check the hashes of a model in chunks.
        storage_options: For the store of a URL.

    Raises:
        FileNotFoundError: There is no model.
        FormatError: It is damaged: a Const node has no value, a shape is negative ...
    """
    loaded = _load(path, verify, storage_options)
    reader = loaded.reader
    try:
        if loaded.kind == "graph":
            graph = _read_meta_graph(reader, None, Span(0, len(reader.data)))[0]
            return SavedModel(loaded.file, loaded.file, "graph", 0, (graph,))
        fields = reader.whole("SavedModel")
        places = fields.get("meta_graphs", [])
        if not places:
            raise FormatError("no MetaGraph, expected at least one", offset=0)
        found = [_read_meta_graph(reader, reader.read("MetaGraphDef", p), p) for p in places]
    except FerryError as error:
        raise loaded.located(error) from None
    directory = os.path.dirname(loaded.file) or "."
    definitions = [definition for _, defined in found for definition in defined]
    return SavedModel(
        directory,
        loaded.file,
        loaded.kind,
        fields.get("saved_model_schema_version", 0),
        tuple(graph for graph, _ in found),
        assets.find_assets(definitions, directory, storage_options),
        read_fingerprint(storage_join(directory, FINGERPRINT), storage_options),
        storage.exists(storage_join(directory, KERAS), options=storage_options),
        storage.exists(storage_join(directory, f"{VARIABLES}.index"), options=storage_options),
        storage_options,
    )


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The bytes of a model, however it was written."""

    file: str
    kind: Kind
    reader: Reader

    def located(self, error: FerryError) -> FerryError:
        """An error in these bytes; where those are not the file's, an offset says nothing."""
        if self.kind in ("text", "chunks"):
            error.offset = None
        return error.located(path=self.file)


def _load(path: str | os.PathLike[str], verify: bool, options: Options) -> _Loaded:
    name = storage.localize(path)
    file = resolve(name, storage_options=options)
    if file is None:
        if not storage.is_url(name) and os.path.isdir(name):
            raise FileNotFoundError(f"{name}: no SavedModel, expected one of {', '.join(FILES)}")
        file = name
    with storage.open_source(file, options=options) as source:
        data = source.everything()
    if len(data) <= SMALL:
        data = bytes(data)
    try:
        if file.endswith(".pbtxt"):
            from tensorferry.formats.savedmodel import text as texts

            return _Loaded(file, "text", Reader(texts.encode(data, "SavedModel"), file))
        if file.endswith(".cpb"):
            from tensorferry.formats.savedmodel import chunks as chunks

            merged = chunks.merge(data, "SavedModel", verify=verify, path=file)
            return _Loaded(file, "chunks", Reader(merged, file))
        reader = Reader(data, file)
        kind: Kind = "graph" if _starts_as_graph(reader) else "binary"
    except FerryError as error:
        raise error.located(path=file) from None
    return _Loaded(file, kind, reader)


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
    held = _read_objects(reader, given)
    named = reader.entries("SignatureEntry", given.get("signature_def", []))
    signatures = {name: specs.read_signature(reader, name, named[name]) for name in sorted(named)}
    definitions = [
        assets.read_definition(reader, place) for place in given.get("asset_file_def", [])
    ]
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
        ops.find_risks(graph.ops),
    )
    return meta_graph, definitions


def _read_objects(reader: Reader, fields: Mapping[str, Any]) -> Objects | None:
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


# Values


def open_stored(
    path: str | os.PathLike[str],
    *,
    verify: bool = True,
    names: Names = "paths",
    parts: bool = False,
    storage_options: Options = None,
) -> Checkpoint:
    """Opens the variables of a SavedModel, or the constants of a frozen graph.

    Args:
        path: As `read` takes it.
        verify: Check each tensor's checksum when it is first read.
        names: How variables of an object graph are called: by their "paths" from the root
            ("layer/kernel"), by their own names, the first of those that share one
            ("variables"), or by the checkpoint's "keys".
        parts: Give the parts of sparse and ragged tensors as they are stored.
        storage_options: For the store of a URL.

    Raises:
        FileNotFoundError: There is no model, or its variables are not there.
        FormatError: It is damaged. The graph is not looked at.
    """
    from tensorferry.formats.checkpoint import reader as checkpoint

    loaded = _load(path, verify, storage_options)
    reader = loaded.reader
    whole = Span(0, len(reader.data))
    held = None
    try:
        if loaded.kind == "graph":
            constants = graphs.read_graph(reader, whole).constants
            names_of = {name: name for name in constants}
            return checkpoint.Checkpoint(loaded.file, 0, constants, names_of)
        for place in reader.read("SavedModel", whole).get("meta_graphs", []):
            held = held or _read_objects(reader, reader.read("MetaGraphDef", place))
    except FerryError as error:
        raise loaded.located(error) from None
    prefix = storage_join(os.path.dirname(loaded.file) or ".", VARIABLES)
    if not storage.exists(f"{prefix}.index", options=storage_options):
        model = read(path, verify=verify, storage_options=storage_options)
        if any(graph.variables for graph in model.meta_graphs):
            raise _missing(prefix)
        return checkpoint.Checkpoint(prefix, 2, {}, {})
    opened = checkpoint.open_stored(
        prefix,
        verify=verify,
        names="keys" if names == "keys" else "paths",
        parts=parts,
        storage_options=storage_options,
    )
    graph = opened.graph
    if held is None or graph is None or names == "keys":
        return opened
    return variables.rename(opened, held.match_keys(graph), held, names)


def list_variables(
    model: SavedModel, *, names: Names = "paths"
) -> tuple[list[TensorInfo], list[str]] | None:
    """What the variables are like, or the constants of a frozen graph, and the files they are in.

    None where that is not told quickly: `open_stored` opens what is remote, large or damaged.

    Args:
        model: What was read.
        names: As `open_stored` has it.

    Raises:
        FileNotFoundError: The variables are not there.
        FormatError: A constant is damaged.
    """
    if model.kind == "graph":
        constants = model.find().constants
        return [variables.describe_constant(name, constants[name]) for name in constants], []
    if not model.has_variables:
        if any(graph.variables for graph in model.meta_graphs):
            raise _missing(storage_join(model.path, VARIABLES))
        return [], []
    if storage.is_url(model.path):
        return None
    from tensorferry.formats.checkpoint import outline as checkpoint_outline

    outline = checkpoint_outline.read(storage_join(model.path, VARIABLES))
    if outline is None:
        return None
    held = next((graph.objects for graph in model.meta_graphs if graph.objects), None)
    return variables.describe(outline, held, names), outline.files


def _missing(prefix: str) -> FileNotFoundError:
    return FileNotFoundError(f"{prefix}.index: the variables of the model are not there")
