"""Loading models: a file is read as data, judged, and only then given to TensorFlow or Keras.

    model = ferry.load_model("encoder")       # a SavedModel: no class of its maker's is needed
    model([[1.0, 2.0, 3.0]])                  # NumPy in, NumPy out
    model.signatures["serving_default"](x=[[1.0, 2.0, 3.0]])

What loading or calling would do beside computing is found by
`tensorferry.operations.model_dangers`, before a framework sees the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from tensorferry import frameworks, storage
from tensorferry.errors import UnsupportedError
from tensorferry.formats import savedmodel, savedmodel_ops
from tensorferry.frameworks.programs import DEFAULT
from tensorferry.frameworks.variables import find_variables
from tensorferry.operations import model_dangers as dangers
from tensorferry.operations.loaded_model import LoadedModel, LoadedSignature, Values
from tensorferry.operations.model_dangers import Allow, Danger

# What TensorFlow 1 has among the signatures to run something when a model is loaded.
_HIDDEN = "__saved_model"


def load_model(
    path: str | os.PathLike[str],
    *,
    signature: str | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    allow: Allow = (),
    tags: Iterable[str] | None = None,
    to: str = "numpy",
    compile: bool = True,
) -> LoadedModel:
    """A model from a file, to be called; without the classes that made it, if it is a SavedModel.

    The file is read as data first. If loading or calling it would do more than compute, all of that
    is named and refused, unless it is allowed.

    Args:
        path: A SavedModel, a `.keras` file, or a `.h5` file with a config.
        signature: Which one a call means; by default the model's own function, or its only or
            default signature.
        custom_objects: Classes and functions that a Keras config names, by these names.
        allow: Kinds of what the model may do beside computing, such as `("lambda",)`; true for all.
            See `tensorferry.operations.model_dangers`.
        tags: Which graph of a SavedModel, if there are several.
        to: The framework whose tensors calls give: "numpy", "tensorflow", "torch", "jax".
        compile: Let Keras make the optimizer and losses, too.

    Raises:
        UnsupportedError: It would do what is not allowed, or cannot be loaded; or it has variables
            and no program.
        FormatError: The file is damaged.
        MissingExtraError: TensorFlow or Keras is not installed.
    """
    name = storage.localize(path)
    if storage.is_url(name):
        raise UnsupportedError("models are loaded from local paths", path=name)
    kinds = dangers.allowed_kinds(allow)
    if savedmodel.resolve(name) is not None:
        return _load_program(name, signature, kinds, tags, to)
    if signature is not None or tags is not None:
        raise UnsupportedError("signature= and tags= are of SavedModels", path=name)
    if os.path.isfile(name) and name.endswith((".keras", ".h5", ".hdf5")):
        return _load_archive(name, custom_objects or {}, kinds, to, compile)
    if not any(storage.exists(f"{name}{end}") for end in ("", ".index")):
        raise FileNotFoundError(f"{name}: there is no model")
    raise UnsupportedError(
        "it holds no model with a program, only values at most",
        path=name,
        hint="make the model, and set its variables: ferry.load_weights(model, path)",
    )


def _load_program(
    path: str,
    signature: str | None,
    kinds: frozenset[str],
    tags: Iterable[str] | None,
    to: str,
) -> LoadedModel:
    read = savedmodel.read(path)
    wanted = None if tags is None else tuple(tags)
    try:
        graph = read.find(wanted)
    except KeyError as error:
        raise UnsupportedError(str(error.args[0]), path=path, hint="tags= chooses one") from None
    dangers.refuse(dangers.in_savedmodel(read, graph), kinds, path)
    programs = frameworks.load("tensorflow_programs", "tensorflow")
    found = dangers.refuse(_dangers_of(read, graph), kinds, path)
    loaded = programs.load(read.path, graph.tags)
    signatures = {
        name: LoadedSignature(
            name,
            programs.describe(programs.signature_inputs(concrete)),
            programs.describe_results(concrete),
            to,
            partial(programs.call_signature, concrete, name),
        )
        for name, concrete in loaded.signatures.items()
        if not name.startswith(_HIDDEN)
    }
    if signature is not None and signature not in signatures:
        raise UnsupportedError(
            f"no signature is called {signature!r}",
            path=path,
            hint=f"it has {', '.join(signatures) or 'none'}",
        )
    call = _call_of(programs, loaded, signatures, signature)
    in_graph = graph.objects is None  # TensorFlow 1, of which not all variables are objects
    variables = programs.variables_of(loaded, by_name=in_graph)
    stored = read.open_variables().stored if in_graph and read.has_variables else None
    values = Values(variables, stored)
    return LoadedModel(path, "savedmodel", signatures, values, to, found, loaded, call)


def _dangers_of(model: savedmodel.SavedModel, graph: savedmodel.MetaGraph) -> list[Danger]:
    """All dangers of a graph, those among them that depend on where an op is used."""
    found = dangers.in_savedmodel(model, graph)
    if any(risk.expected for risk in graph.risks):
        graphs = frameworks.load("tensorflow_graphs", "tensorflow")
        for misuse in graphs.find_misused(model.path, graph.tags, savedmodel_ops.EXPECTED):
            kind = "write" if misuse.writes else "read"
            detail = f"the op {misuse.op} {kind}s files that are not the model's own"
            found.append(Danger(kind, misuse.place[:100], detail))
    return found


def _call_of(
    programs: Any, loaded: Any, signatures: Mapping[str, LoadedSignature], chosen: str | None
) -> Any:
    """What a call of the model does."""
    if chosen is not None:
        return signatures[chosen]._call
    function = programs.model_function(loaded)
    if function is not None:
        return partial(programs.call_function, function)
    names = [DEFAULT] if DEFAULT in signatures else list(signatures)
    return signatures[names[0]]._call if len(names) == 1 else None


def _load_archive(
    path: str,
    custom_objects: Mapping[str, Any],
    kinds: frozenset[str],
    to: str,
    compile: bool,
) -> LoadedModel:
    from tensorferry.formats import keras as files

    with files.open_stored(path) as opened:
        config = opened.config
        findings = opened.findings
        training = opened.training
    if config is None:
        raise UnsupportedError(
            "it holds weights and no config, so there is no model to make",
            path=path,
            hint="make the model, and set its variables: ferry.load_weights(model, path)",
        )
    keras = frameworks.load("keras_models", "keras")
    found = dangers.in_config([config, training], findings, custom_objects, keras)
    allowed = dangers.refuse(found, kinds, path)
    supplied = dangers.supply([config, training], custom_objects)
    safe = not {"lambda", "pickle"} & {danger.kind for danger in allowed}
    model = keras.load(path, supplied, safe=safe, compile=compile)
    call = partial(_predict, keras, model)
    values = Values(find_variables(model).variables)
    return LoadedModel(path, "keras", {}, values, to, allowed, model, call)


def _predict(keras: Any, model: Any, positional: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    if named:
        raise TypeError(f"a Keras model takes its inputs by position, not {', '.join(named)}")
    return keras.predict(model, positional)
