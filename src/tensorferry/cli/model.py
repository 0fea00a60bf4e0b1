"""Models on a terminal: what `ferry info` and `ferry tree` show of them beside their tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tensorferry.cli import text
from tensorferry.models.outline import ArgumentInfo, GraphInfo, ModelInfo, SignatureInfo

# How many signatures, inputs, assets and classes of layers are named.
NAMED = 12
PREDICT = "tensorflow/serving/"


def fields(model: ModelInfo) -> Iterable[tuple[str, Any]]:
    """Names and values of what a model is; a graph that is not the only one has its own."""
    keras = model.keras
    if keras is not None:
        yield "model", " ".join(filter(None, (keras.class_name, keras.name)))
        if model.kind != "keras":  # whose metadata say it
            yield "keras", keras.version
        counted = [f"{name} ({count})" for name, count in keras.layers.items()]
        yield "layers", f"{keras.layer_count}: {_some(counted)}" if counted else ""
    if len(model.graphs) == 1:
        yield from _graph_fields(model.graphs[0])
    yield "assets", _some([f"{asset.name} ({text.size(asset.size)})" for asset in _sound(model)])
    if model.fingerprint is not None:
        number = f"{model.fingerprint.saved_model_checksum:016x}"
        yield "fingerprint", " ".join(filter(None, (number, model.fingerprint.uuid)))


def lines(model: ModelInfo) -> Iterable[str]:
    """The signatures, and the graphs where there are several."""
    for graph in model.graphs:
        if len(model.graphs) > 1:
            yield ""
            yield text.paint(text.clean(f"MetaGraph {_tags(graph)}"), "bold")
            yield from text.fields(_graph_fields(graph))
        if graph.signatures:
            yield ""
            yield from _signatures(_ordered(graph))


def branches(model: ModelInfo) -> Iterable[tuple[str, str, str]]:
    """The signatures as a tree, before the variables: name, dtype and shape of each line."""
    for graph in model.graphs:
        if not graph.signatures:
            continue
        tags = f" of {_tags(graph)}" if len(model.graphs) > 1 else ""
        yield f"signatures{tags}", "", ""
        for place, signature in enumerate(_ordered(graph)):
            last = place == len(graph.signatures) - 1
            yield f"{'└ ' if last else '├ '}{signature.name}", "", ""
            rows = [(way, each) for way, found in _sides(signature) for each in found]
            for number, (way, argument) in enumerate(rows):
                mark = "└ " if number == len(rows) - 1 else "├ "
                name = f"{'  ' if last else '│ '}{mark}{way} {argument.name}"
                yield name, _dtype(argument), _shape(argument)
    yield "variables", "", ""


def _graph_fields(graph: GraphInfo) -> Iterable[tuple[str, Any]]:
    yield "tags", _tags(graph)
    yield "written by", f"TensorFlow {graph.tensorflow_version}" if graph.tensorflow_version else ""
    count = sum(graph.ops.values())
    yield "ops", f"{text.number(count)} of {text.plural(len(graph.ops), 'kind')}"
    if graph.functions:
        nodes = text.plural(sum(graph.functions.values()), "node")
        yield "functions", f"{text.number(len(graph.functions))} of {nodes}"
    if graph.constants:
        yield "constants", f"{text.number(graph.constants)} of {text.size(graph.constant_bytes)}"


def _signatures(signatures: Sequence[SignatureInfo]) -> Iterable[str]:
    table = text.Table(("signature", "", "name", "dtype", "shape", "method"), flexible=(0, 2, 5))
    for signature in signatures[:NAMED]:
        name, method = signature.name, signature.method.removeprefix(PREDICT)
        if not signature.inputs and not signature.outputs:
            table.add(name, "", "", "", "", method)
        for way, arguments in _sides(signature):
            for argument in arguments[:NAMED]:
                table.add(name, way, argument.name, _dtype(argument), _shape(argument), method)
                name = method = ""
            if len(arguments) > NAMED:
                more = f"and {len(arguments) - NAMED:,} more"
                table.add("", way, more, "", "", "", colour="dim")
    yield from table.lines()
    if len(signatures) > NAMED:
        yield text.paint(f"and {len(signatures) - NAMED:,} signatures more: --json", "dim")


def _ordered(graph: GraphInfo) -> list[SignatureInfo]:
    """The signatures, those that are TensorFlow's own last."""
    return sorted(graph.signatures, key=lambda signature: signature.name.startswith("__"))


def _sides(signature: SignatureInfo) -> tuple[tuple[str, tuple[ArgumentInfo, ...]], ...]:
    return ("in", signature.inputs), ("out", signature.outputs)


def _dtype(argument: ArgumentInfo) -> str:
    found = argument.dtype or "?"
    return found if argument.kind == "dense" else f"{argument.kind} {found}"


def _shape(argument: ArgumentInfo) -> str:
    return "[...]" if argument.shape is None else text.shape(argument.shape)


def _tags(graph: GraphInfo) -> str:
    return ", ".join(graph.tags) or "(none)"


def _sound(model: ModelInfo) -> list[Any]:
    return [asset for asset in model.assets if asset.problem is None]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
