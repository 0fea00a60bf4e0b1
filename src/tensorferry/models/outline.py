"""Model outline: what a model is, without reading its values and without running it.

    ferry.inspect("saved_model_dir").model.graphs[0].signatures

SavedModels and frozen graphs have graphs, with signatures, variables and ops; files of Keras have a
config. What either would do when it is loaded, beside computing, is in `risks` and `findings`.
`tensorferry.formats.savedmodel.model` and `tensorferry.formats.keras.config` read them; here they
become plain values, for people and for JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tensorferry.formats.keras.outline import KerasModel
    from tensorferry.formats.keras.reader import Weights
    from tensorferry.formats.savedmodel.model import (
        Asset,
        Fingerprint,
        MetaGraph,
        Risk,
        SavedModel,
        Signature,
        TensorSpec,
    )
    from tensorferry.rows.rows import Rows
    from tensorferry.tensors.bundle import Bundle

Kind = Literal["savedmodel", "graph", "keras"]

# How many findings are told, and names in one of them.
NAMED = 12


@dataclass(frozen=True)
class ArgumentInfo:
    """An input or output of a signature.

    Attributes:
        name: By which it is passed or returned.
        dtype: None where the file does not say.
        shape: None if the rank is unknown, in it None for each unknown dimension.
        kind: "dense", "sparse", or the name of another type that is made of several tensors.
        tensors: The names of its tensors in the graph, such as "serving_default_x:0".
        optional: Whether the signature has a value for it.
    """

    name: str
    dtype: str | None
    shape: tuple[int | None, ...] | None
    kind: str = "dense"
    tensors: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True)
class SignatureInfo:
    """A way to call a model.

    Attributes:
        name: Such as "serving_default".
        method: What it is for, such as "tensorflow/serving/predict".
        inputs: By name.
        outputs: By name.
    """

    name: str
    method: str
    inputs: tuple[ArgumentInfo, ...]
    outputs: tuple[ArgumentInfo, ...]


@dataclass(frozen=True)
class VariableInfo:
    """A variable, as the graph has it; its value is in the checkpoint beside.

    Attributes:
        path: The way to it from the root, such as "layer/kernel"; its name in TensorFlow 1.
        name: Its own.
        dtype: None where the file does not say.
        shape: None if the rank is unknown, in it None for each unknown dimension.
        trainable: None where the file does not say.
    """

    path: str
    name: str
    dtype: str | None
    shape: tuple[int | None, ...] | None
    trainable: bool | None


@dataclass(frozen=True)
class GraphInfo:
    """A MetaGraph of a model.

    Attributes:
        tags: What it is for, such as "serve".
        tensorflow_version: Of who wrote it.
        signatures: By name.
        variables: By path.
        nodes: How many there are outside of functions.
        ops: How often each op is used, functions' bodies included.
        custom_ops: Ops that are not TensorFlow's own.
        risks: Ops that do more than compute, the unexpected ones first.
        functions: The number of nodes of each function of the library.
        recursive_functions: Those that can come to call themselves.
        callables: The names of the functions behind each method that can be called, by its path.
        constants: How many there are.
        constant_bytes: How much of the file they take.
    """

    tags: tuple[str, ...]
    tensorflow_version: str
    signatures: tuple[SignatureInfo, ...]
    variables: tuple[VariableInfo, ...]
    nodes: int
    ops: Mapping[str, int]
    custom_ops: tuple[str, ...]
    risks: tuple[Risk, ...]
    functions: Mapping[str, int]
    recursive_functions: tuple[str, ...]
    callables: Mapping[str, tuple[str, ...]]
    constants: int
    constant_bytes: int


@dataclass(frozen=True)
class ModelInfo:
    """What a model is.

    Attributes:
        kind: A "savedmodel", a frozen "graph", or a file of "keras".
        written_as: Of a SavedModel: "binary", "text" or "chunks".
        version: Of a SavedModel's format.
        graphs: Its MetaGraphs, each for its tags.
        assets: The files beside it, those that lead elsewhere among them.
        fingerprint: TensorFlow's hashes of it.
        keras: What Keras says of it; None if it says nothing.
    """

    kind: Kind
    written_as: str | None = None
    version: int | None = None
    graphs: tuple[GraphInfo, ...] = ()
    assets: tuple[Asset, ...] = ()
    fingerprint: Fingerprint | None = None
    keras: KerasModel | None = None


def outline(model: SavedModel, keras: KerasModel | None = None) -> ModelInfo:
    """The outline of a SavedModel or a frozen graph.

    Args:
        model: What was read of it.
        keras: What Keras kept beside it.
    """
    graphs = tuple(map(_outline_graph, model.meta_graphs))
    if model.kind == "graph":
        return ModelInfo("graph", graphs=graphs)
    return ModelInfo(
        "savedmodel",
        model.kind,
        model.version,
        graphs,
        model.assets,
        model.fingerprint,
        keras,
    )


def model_of(opened: Bundle | Rows) -> ModelInfo | None:
    """The model of a file of Keras that was opened; None for every other file."""
    if opened.format != "keras" or not isinstance(opened, Mapping):
        return None
    from tensorferry.formats.keras import outline as keras_outline

    weights: Weights = opened.details
    keras = keras_outline.outline(weights.config, weights.metadata, weights.findings)
    return None if keras is None else ModelInfo("keras", keras=keras)


def _outline_graph(graph: MetaGraph) -> GraphInfo:
    callables = {} if graph.objects is None else graph.objects.callables
    return GraphInfo(
        graph.tags,
        graph.tensorflow_version,
        tuple(map(_outline_signature, graph.signatures.values())),
        tuple(
            VariableInfo(
                path, variable.name, _dtype(variable.dtype), variable.shape, variable.trainable
            )
            for path, variable in graph.variables.items()
        ),
        graph.graph.nodes,
        graph.ops,
        graph.custom_ops,
        graph.risks,
        {name: function.nodes for name, function in graph.functions.items()},
        graph.recursive_functions,
        {path: found.concrete for path, found in callables.items()},
        len(graph.constants),
        graph.graph.constants.nbytes,
    )


def _outline_signature(signature: Signature) -> SignatureInfo:
    def outline(specs: Mapping[str, TensorSpec]) -> tuple[ArgumentInfo, ...]:
        return tuple(
            ArgumentInfo(
                name,
                _dtype(spec.dtype),
                spec.shape,
                spec.kind,
                spec.parts or (spec.name,),
                name in signature.defaults,
            )
            for name, spec in specs.items()
        )

    return SignatureInfo(
        signature.name, signature.method, outline(signature.inputs), outline(signature.outputs)
    )


def _dtype(row: Any) -> str | None:
    return None if row is None else row.name


def notes_of(model: ModelInfo) -> tuple[str, ...]:
    """What somebody should know before the model is loaded."""
    found: dict[str, None] = {}  # once, though several graphs say it
    for graph in model.graphs:
        by_effect: dict[str, list[str]] = {}
        for risk in graph.risks:
            if not risk.expected:
                by_effect.setdefault(risk.effect, []).append(risk.op)
        for effect, ops in by_effect.items():
            found[f"the graph {effect}: {', '.join(ops)}"] = None
        if graph.custom_ops:
            ops = list(graph.custom_ops)
            found[f"the graph needs ops that TensorFlow lacks: {_some(ops)}"] = None
        if graph.recursive_functions:
            names = list(graph.recursive_functions)
            found[f"functions of the graph can come to call themselves: {_some(names)}"] = None
    findings = () if model.keras is None else model.keras.findings
    for finding in findings[:NAMED]:
        found[f"Keras {finding.detail}, at {finding.place or 'the top of the config'}"] = None
    if len(findings) > NAMED:
        found[f"and {len(findings) - NAMED} things more that Keras would do"] = None
    return tuple(found)


def _some(names: list[str]) -> str:
    """Names of a file, of which there may be very many, and each very long."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(name[:60] for name in names[:NAMED]) + more
