"""TensorFlow: any model that it can trace, as a SavedModel.

Keeps `contract.Programs`. A model is a `tf.Module`, a tf.function, a Python function, a layer or
model of Keras, or any object with variables and one of the methods in `FORWARD`. The user's object
is never saved itself, and never changed. A root object is created for it:

    __call__            the model's function, with the structure of its arguments and results
    the model's parts   by their own names: variables, tables, and the tf.functions of a tf.Module
    captured            variables that the functions use and that were found nowhere else

`signatures` turns functions into signatures; `programs` reads a SavedModel back.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import tensorflow as tf

from tensorferry.classes import dataclass, replace
from tensorferry.errors import LimitError, UnsupportedError
from tensorferry.frameworks.contract import Foreign
from tensorferry.frameworks.programs import (
    DEFAULT,
    FORWARD,
    FoundPath,
    NotKept,
    Program,
    Signature,
    is_absolute,
)
from tensorferry.frameworks.tensorflow import objects, signatures as calls
from tensorferry.frameworks.tensorflow.signatures import Arguments, Concrete, Function
from tensorferry.frameworks.tensorflow.variables import is_model
from tensorferry.frameworks.variables import Held, find_variables

PYTHON_OPS = ("PyFunc", "EagerPyFunc", "PyFuncStateless")

_Node = tf.__internal__.tracking.AutoTrackable
_Resource = tf.saved_model.experimental.TrackableResource
# Keras' names for inputs without a name of the user's.
_NUMBERED = re.compile(r"keras_tensor(_\d+)?")
_FUNCTIONS = (Function, Concrete, FunctionType, MethodType, partial)


@dataclass
class _Model:
    """A model, seen as TensorFlow will have it.

    Attributes:
        given: The user's object.
        forward: Its function; None if it has none.
        known: The arguments of the function, if the model knows them.
        held: The variables and objects in the model.
        mirrored: Whether the model's parts keep their names below the root.
    """

    given: Foreign
    forward: Foreign
    known: Arguments | None
    held: Held
    mirrored: bool


def plan(
    model: Foreign,
    *,
    signatures: Foreign = None,
    inputs: Foreign = None,
    forward: Callable[..., Any] | None = None,
    known: tuple[Foreign, ...] | None = None,
) -> Program:
    """Everything that writing a model needs, and what the file will keep of it.

    Args:
        model: See the top of this module.
        signatures: The argument of `tensorferry.save_model`.
        inputs: The argument of `tensorferry.save_model`.
        forward: The model's function, if Keras knows it.
        known: The function's positional arguments as specs, if Keras knows them.

    Raises:
        UnsupportedError: The model has no function, or one that cannot be traced, or one that
            cannot be loaded elsewhere.
    """
    looked = _look(model, forward, known)
    named = _functions(looked, signatures, inputs)
    traced: dict[str, Any] = {}
    described = []
    root = _root(looked)
    for name, (function, examples) in named.items():
        concrete, signature = _trace(name, function, examples, looked)
        traced[name] = concrete
        described.append(signature)
    if "__call__" not in vars(root):
        root.__call__ = calls.as_method(named.get(DEFAULT, next(iter(named.values())))[0])
    nodes = {name: list(_nodes(concrete)) for name, concrete in traced.items()}
    _refuse_python(nodes)
    _track_captured(root, looked, traced)
    paths, assets = _paths(root, nodes)
    variables = find_variables(root).variables
    kept = [f"the program: {', '.join(named)}", f"{len(variables)} variables"]
    if assets:
        kept.append(f"{len(assets)} assets: files that are copied")
    return Program(
        root,
        traced,
        tuple(described),
        variables,
        kept,
        _not_kept(looked, named),
        paths,
        assets,
    )


def specs_of(structure: Foreign) -> Foreign:
    """Symbolic tensors of Keras as specs with the same names."""

    def spec(leaf: Foreign) -> Foreign:
        if getattr(leaf, "sparse", False):
            return tf.SparseTensorSpec(leaf.shape, leaf.dtype)
        if getattr(leaf, "ragged", False):
            rank = getattr(leaf, "ragged_rank", None) or 1
            return tf.RaggedTensorSpec(leaf.shape, leaf.dtype, rank)
        name = None if _NUMBERED.fullmatch(leaf.name) else leaf.name
        return tf.TensorSpec(leaf.shape, leaf.dtype, name=name)

    return tf.nest.map_structure(spec, structure)


def write(program: Program, directory: str) -> None:
    """Writes a planned model to a directory that does not exist yet.

    Raises:
        UnsupportedError: TensorFlow cannot save the model.
    """
    with _quiet():
        try:
            tf.saved_model.save(program.root, directory, signatures=program.functions)
        except (AssertionError, ValueError, TypeError) as error:
            raise UnsupportedError(
                f"TensorFlow cannot save the model: {str(error).strip()[:500]}",
                hint="a table or another resource has to be an attribute of the model",
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences TensorFlow, which logs the temporary path that assets are written to."""
    logger = tf.get_logger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


# Looking at the model


def _look(model: Foreign, forward: Foreign, known: tuple[Foreign, ...] | None) -> _Model:
    if forward is not None:
        origin = "the model's own inputs"
        arguments = None if known is None else Arguments(known, {}, origin)
        return _Model(model, tf.function(forward), arguments, _find(model), False)
    if isinstance(model, _FUNCTIONS):
        return _Model(model, model, None, _find(_referenced(model)), False)
    tracked = objects.is_tracked(model)
    found = next((name for name in FORWARD if _has_method(model, name)), None)
    method = None if found is None else getattr(model, found)
    looked = _Model(model, method, None, _find(model), tracked)
    spec = getattr(model, "save_spec", None) if is_model(model) else None
    if spec is not None and spec() is not None:  # Keras 2
        positional, named = spec()
        looked.known = Arguments(tuple(positional), dict(named), "the model's own inputs")
        looked.forward = tf.function(lambda inputs: model(inputs, training=False))
    return looked


def _find(model: Foreign) -> Held:
    try:
        return find_variables(model)
    except LimitError:
        return Held([], [], [])


def _has_method(model: Foreign, name: str) -> bool:
    if isinstance(model, Mapping | list | tuple | np.ndarray):
        return False
    if name == "__call__":
        return callable(model)
    return callable(getattr(model, name, None))


def _referenced(function: Foreign) -> dict[str, Any]:
    """The objects that a function refers to by name and that may hold state."""
    while isinstance(function, partial):
        function = function.func
    python: Foreign = getattr(function, "python_function", function)
    owner = getattr(python, "__self__", getattr(function, "__self__", None))
    plain: Foreign = getattr(python, "__func__", python)
    plain = getattr(plain, "__wrapped__", plain)
    found = {} if owner is None else {"self": owner}
    code = getattr(plain, "__code__", None)
    if code is None:
        return found
    for name, cell in zip(code.co_freevars, plain.__closure__ or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    for name in code.co_names:
        if name in plain.__globals__:
            found[name] = plain.__globals__[name]
    return {name: value for name, value in found.items() if _may_hold(value)}


def _may_hold(value: Foreign) -> bool:
    if isinstance(value, Mapping | list | tuple):
        parts = value.values() if isinstance(value, Mapping) else value
        return any(map(_may_hold, list(parts)[:1000]))
    return objects.is_tracked(value) or isinstance(value, tf.Variable)


# Functions and signatures


def _functions(
    model: _Model, signatures: Foreign, inputs: Foreign
) -> dict[str, tuple[Foreign, Any]]:
    """The function of each signature, with its example inputs or None."""
    if signatures is None:
        found = {}
        if model.forward is not None:
            found[DEFAULT] = (model.forward, inputs)
        elif isinstance(model.given, tf.Module | _Node):
            ready = {
                name: function
                for name, function in _own_functions(model.given)
                if calls.known_arguments(function) is not None
            }
            names = {DEFAULT: next(iter(ready))} if len(ready) == 1 else {n: n for n in ready}
            found = {name: (ready[attribute], None) for name, attribute in names.items()}
        if not found:
            raise UnsupportedError(
                f"{type(model.given).__name__} has no function that could be called after loading",
                hint=f"expected one of {', '.join(FORWARD)}, a tf.function with input_signature, "
                "or signatures=; to keep only its variables, save to .safetensors or .ckpt",
            )
        return {name: (calls.call_function(one), given) for name, (one, given) in found.items()}
    if callable(signatures) or isinstance(signatures, str):
        signatures = {DEFAULT: signatures}
    elif not isinstance(signatures, Mapping):
        signatures = {name: name for name in signatures}
    if not signatures:
        raise UnsupportedError("signatures= is empty, expected at least one")
    named = {}
    for name, given in signatures.items():
        function, examples = given if isinstance(given, tuple) else (given, inputs)
        if isinstance(function, str):
            method = getattr(model.given, function, None)
            if not callable(method):
                raise UnsupportedError(
                    f"signatures= names {function!r}, which {type(model.given).__name__} has not"
                )
            function = method
        if function is model.given and not isinstance(function, Function | Concrete):
            function = model.forward
        named[str(name)] = (calls.call_function(function), examples)
    return named


def _trace(
    name: str, function: Foreign, examples: Foreign, model: _Model
) -> tuple[Foreign, Signature]:
    if examples is not None:
        wanted = calls.example_arguments(function, examples)
        try:
            return calls.trace(name, function, wanted)
        except UnsupportedError:
            exact = calls.example_arguments(function, examples, exact=True)
            if exact == wanted:
                raise
            concrete, signature = calls.trace(name, function, exact)
            note = "only the size of the examples is taken: the code works with no other"
            return concrete, replace(signature, notes=(*signature.notes, note))
    arguments = calls.known_arguments(function)
    if arguments is None and model.known is not None:
        arguments = model.known
    if arguments is None and not calls.parameter_names(function):
        arguments = Arguments((), {}, "a function without arguments")
    if arguments is None:
        raise UnsupportedError(
            f"what the signature {name!r} takes is not known",
            hint="inputs= takes example inputs (a tuple for several arguments), or tf.TensorSpec",
        )
    return calls.trace(name, function, arguments)


def _own_functions(model: Foreign) -> Iterator[tuple[str, Foreign]]:
    """The tf.functions that are attributes of an object or its class."""
    names = dict.fromkeys(
        name
        for held in (getattr(model, "__dict__", {}), *map(vars, type(model).__mro__))
        for name, value in held.items()
        if isinstance(value, Function | Concrete)
    )
    for name in names:
        yield name, getattr(model, name)


def _refuse_python(nodes: Mapping[str, list[Foreign]]) -> None:
    for name, held in nodes.items():
        for node in held:
            if node.op in PYTHON_OPS:
                raise UnsupportedError(
                    f"the signature {name!r} calls back into Python ({node.op} {node.name!r}), "
                    "which exists in this process only",
                    hint="write it with TensorFlow's own functions instead of tf.py_function and "
                    "tf.numpy_function",
                )


def _nodes(concrete: Foreign) -> Iterator[Foreign]:
    graph = concrete.graph.as_graph_def()
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


# The root


def _root(model: _Model) -> Foreign:
    root = _Node()
    if model.mirrored:
        for name, child in objects.tracked_children(model.given).items():
            setattr(root, name, child)
        for name, function in _own_functions(model.given):
            setattr(root, name, function)
        return root
    for name, variable in _tensorflow_variables(model.held):
        _place(root, name, variable)
    return root


def _tensorflow_variables(held: Held) -> list[tuple[str, Foreign]]:
    """TensorFlow's own variables with their names; a variable of Keras has one inside."""
    found = []
    for variable, holder in zip(held.variables, held.holders, strict=True):
        inner = holder if isinstance(holder, tf.Variable) else getattr(holder, "value", None)
        if isinstance(inner, tf.Variable) and not variable.optimizer:
            found.append((variable.name, inner))
    return found


def _place(root: Foreign, path: str, variable: Foreign) -> None:
    """Sets a variable at a path below the root."""
    node = root
    *above, last = path.split("/")
    for part in above:
        inner = getattr(node, part, None)
        if not isinstance(inner, _Node):
            if inner is not None:
                part = f"{part}_"
            inner = _Node()
            setattr(node, part, inner)
        node = inner
    while hasattr(node, last):
        last = f"{last}_"
    setattr(node, last, variable)


def _track_captured(root: Foreign, model: _Model, traced: Mapping[str, Any]) -> None:
    """Attaches the resources and variables that the functions use to the root."""
    known = _descendants(root)
    resources = []
    for held in model.held.objects:
        if objects.is_tracked(held):
            for part in _descendants(held).values():
                if isinstance(part, _Resource) and id(part) not in known:
                    known[id(part)] = part
                    resources.append(part)
    if resources:
        root.resources = resources
    # A variable of Keras stands for TensorFlow's own variable inside of it.
    known |= {id(part.value): part for part in known.values() if hasattr(part, "value")}
    captured = []
    for concrete in (*traced.values(), *calls.concrete_functions(root.__call__)):
        for variable in concrete.graph.variables:
            if id(variable) not in known:
                known[id(variable)] = variable
                captured.append(variable)
    if captured:
        root.captured = captured


def _descendants(model: Foreign) -> dict[int, Any]:
    return {id(part): part for part in tf.train.TrackableView(model).descendants()}


# The report


def _paths(root: Foreign, nodes: Mapping[str, list[Foreign]]) -> tuple[list[FoundPath], list[str]]:
    """The absolute paths in assets and constants, and the files that are copied."""
    assets = []
    found: dict[str, FoundPath] = {}
    for part in _descendants(root).values():
        if isinstance(part, tf.saved_model.Asset):
            path = tf.get_static_value(part.asset_path).decode("utf-8", "replace")
            assets.append(path)
            found[path] = FoundPath(path, "an asset, copied; a table's name may still say it", True)
    for name, held in nodes.items():
        for node in held:
            if node.op != "Const" or node.attr["dtype"].type != tf.string.as_datatype_enum:
                continue
            for text in tf.make_ndarray(node.attr["value"].tensor).reshape(-1)[:100_000]:
                path = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
                if is_absolute(path) and path not in found:
                    found[path] = FoundPath(path, f"the constant {node.name!r} of {name!r}")
    return list(found.values()), assets


def _not_kept(model: _Model, named: Mapping[str, Any]) -> list[NotKept]:
    lost = [
        NotKept(
            f"variable {variable.name}",
            "the state of an optimizer is no part of a program; a checkpoint keeps it",
        )
        for variable in model.held.variables
        if variable.optimizer and not model.mirrored
    ]
    if len(lost) > 1:
        lost = [NotKept(f"optimizer state ({len(lost)} variables)", lost[0].reason)]
    given = model.given
    if isinstance(given, _FUNCTIONS):
        return lost
    if not _is_of_framework(type(given)):
        lost.append(
            NotKept(f"class {type(given).__name__}", "Python code is not kept, only what it traced")
        )
    for variable, holder in zip(model.held.variables, model.held.holders, strict=True):
        if isinstance(holder, np.ndarray):
            lost.append(
                NotKept(
                    f"array {variable.name} as a variable",
                    "a NumPy array becomes a constant where the functions use it",
                )
            )
    return [*lost, *_lost_methods(model, named), *_lost_attributes(model)]


def _lost_methods(model: _Model, named: Mapping[str, Any]) -> Iterator[NotKept]:
    """Methods of the user's classes that the file will not have."""
    given = model.given
    kept = {name for name, _ in _own_functions(given)} if model.mirrored else set()
    kept |= {*FORWARD, *named, "build", "get_config", "from_config", "compute_output_shape"}
    for function, _ in named.values():
        kept.add(getattr(getattr(function, "python_function", function), "__name__", ""))
    for kind in type(given).__mro__:
        for name, value in () if _is_of_framework(kind) else vars(kind).items():
            if isinstance(value, FunctionType) and name not in kept and name[0] != "_":
                yield NotKept(f"method {name}", "plain Python; name it in signatures= to keep it")
    for name, function in _own_functions(given) if model.mirrored else ():
        if not calls.concrete_functions(function):
            yield NotKept(
                f"tf.function {name}",
                "it was never called and has no input_signature; name it in signatures=",
            )


def _lost_attributes(model: _Model) -> Iterator[NotKept]:
    """Attributes with plain Python values, which the file will not have."""
    kind = next(kind for kind in type(model.given).__mro__ if _is_of_framework(kind))
    if kind not in (object, tf.Module, _Node):  # Keras has settings of its own there
        return
    for name, value in getattr(model.given, "__dict__", {}).items():
        if isinstance(value, bool | int | float | complex | str | bytes) and name[0] != "_":
            yield NotKept(f"attribute {name}", "a Python value; only its effect is traced")


def _is_of_framework(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("tensorflow", "keras", "tf_keras", "builtins")
