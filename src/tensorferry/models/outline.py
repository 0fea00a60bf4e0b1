"""Model outline: what a model is, without reading its values and without running it.

    ferry.inspect("saved_model_dir").model.graphs[0].signatures

SavedModels and frozen graphs have graphs, with signatures, variables and ops; Keras' files have a
config. `risks` and `findings` say what either would do besides computing when it is loaded.
`tensorferry.formats.savedmodel.model` and `tensorferry.formats.keras.config` read the files; this
module turns them into plain values for people and for JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from tensorferry import display
from tensorferry.classes import dataclass, make_many

if TYPE_CHECKING:
    from tensorferry.formats.keras.outline import KerasModel
    from tensorferry.formats.keras.weights import Weights
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

# Signatures that start so are TensorFlow 1's, to run something when a model is loaded.
INTERNAL = "__saved_model"
# How many findings are reported, and how many names in each.
NAMED = 12


@dataclass(frozen=True, slots=True)
class ArgumentInfo:
    """An input or output of a signature.

    Attributes:
        name: The name by which it is passed or returned.
        dtype: The name of the dtype; None if the file does not say it.
        shape: None for each unknown dimension, or instead of the shape if the rank is unknown.
        kind: "dense", "sparse", or the name of another type that consists of several tensors.
        tensors: The names of its tensors in the graph, such as "serving_default_x:0".
        optional: Whether the signature has a default value for it.
    """

    name: str
    dtype: str | None
    shape: tuple[int | None, ...] | None
    kind: str = "dense"
    tensors: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class SignatureInfo:
    """A way to call a model.

    Attributes:
        name: The name of the signature, such as "serving_default".
        method: The purpose of the signature, such as "tensorflow/serving/predict".
        inputs: The arguments.
        outputs: The results.
    """

    name: str
    method: str
    inputs: tuple[ArgumentInfo, ...]
    outputs: tuple[ArgumentInfo, ...]


@dataclass(frozen=True, slots=True)
class VariableInfo:
    """A variable as the graph has it; its value is in the checkpoint beside the graph.

    Attributes:
        path: The path from the root, such as "layer/kernel"; the name in TensorFlow 1.
        name: The variable's own name.
        dtype: The name of the dtype; None if the file does not say it.
        shape: None for each unknown dimension, or instead of the shape if the rank is unknown.
        trainable: Whether training changes it; None if the file does not say.
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
        tags: The purposes of the graph, such as "serve".
        tensorflow_version: The version of TensorFlow that wrote it.
        signatures: The ways to call the graph.
        variables: The variables of the graph.
        nodes: The number of nodes outside of functions.
        ops: How often each op is used, including the bodies of functions.
        custom_ops: Ops that are not TensorFlow's own.
        risks: Ops that do more than compute, the unexpected ones first.
        functions: The number of nodes of each function in the library.
        recursive_functions: Functions that can end up calling themselves.
        callables: The names of the functions behind each method, by the method's path.
        constants: The number of constants.
        constant_bytes: The number of bytes of the file that the constants take.
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
        written_as: How a SavedModel is written: "binary", "text" or "chunks".
        version: The version of the SavedModel format.
        graphs: The MetaGraphs, each for its tags.
        assets: The files beside the model, including those that lie outside of its directory.
        fingerprint: TensorFlow's hashes of the model.
        keras: What Keras says about the model; None if it says nothing.
    """

    kind: Kind
    written_as: str | None = None
    version: int | None = None
    graphs: tuple[GraphInfo, ...] = ()
    assets: tuple[Asset, ...] = ()
    fingerprint: Fingerprint | None = None
    keras: KerasModel | None = None


def facts_of(model: ModelInfo) -> list[tuple[str, str]]:
    """What a model is in a few words, by name: its kind, and how each signature is called."""
    facts: list[tuple[str, str]] = [("model", model.kind)]
    for graph in model.graphs:
        for signature in graph.signatures:
            if signature.name.startswith(INTERNAL):
                continue
            given, back = (
                ", ".join(f"{one.name}: {_described(one)}" for one in arguments)
                for arguments in (signature.inputs, signature.outputs)
            )
            facts.append((signature.name, f"{given} → {back}"))
    return facts


def _described(argument: ArgumentInfo) -> str:
    kind = argument.dtype or argument.kind
    return kind if argument.shape is None else f"{kind}{display.shape(argument.shape)}"


def outline(model: SavedModel, keras: KerasModel | None = None) -> ModelInfo:
    """The outline of a SavedModel or a frozen graph.

    Args:
        model: The model, as its reader returned it.
        keras: What Keras stored beside it.
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
    variables = [
        (
            path,
            variable.name,
            None if variable.dtype is None else variable.dtype.name,
            variable.shape,
            variable.trainable,
        )
        for path, variable in graph.variables.items()
    ]
    return GraphInfo(
        graph.tags,
        graph.tensorflow_version,
        tuple(map(_outline_signature, graph.signatures.values())),
        tuple(make_many(VariableInfo, variables)),
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
            [
                ArgumentInfo(
                    name,
                    None if spec.dtype is None else spec.dtype.name,
                    spec.shape,
                    spec.kind,
                    spec.parts or (spec.name,),
                    name in signature.defaults,
                )
                for name, spec in specs.items()
            ]
        )

    return SignatureInfo(
        signature.name, signature.method, outline(signature.inputs), outline(signature.outputs)
    )


def notes_of(model: ModelInfo) -> tuple[str, ...]:
    """What to know before loading the model, in words."""
    found: dict[str, None] = {}  # several graphs may say the same
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
    """A few names from a file, shortened: there may be many, and each may be long."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(name[:60] for name in names[:NAMED]) + more
