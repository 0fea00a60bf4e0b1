"""Signatures: functions of structures, turned into functions of named tensors for servers.

A signature of a SavedModel takes tensors by name and returns tensors by name, and nothing else. A
model's own function may take and return dicts, lists, sparse and ragged tensors. This module writes
the function between them, and traces it:

    f(x, {"mask": m})        the arguments "x" and "mask"
    f(ragged)                the arguments "ragged_values" and "ragged_row_splits"
    returns a tensor         "output_0"
    returns (a, b)           "output_0", "output_1"
    returns {"p": a}         "p"
    returns {"p": ragged}    "p_values" and "p_row_splits"
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorferry.classes import dataclass
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.frameworks import conversion
from tensorferry.frameworks.contract import Foreign
from tensorferry.frameworks.programs import Signature
from tensorferry.frameworks.tensorflow import tensors
from tensorferry.tensors.values import RaggedTensor, SparseTensor, as_tensor, is_namedtuple

Function = tf.types.experimental.PolymorphicFunction
Concrete = tf.types.experimental.ConcreteFunction

_COMPOSITE = (tf.RaggedTensorSpec, tf.SparseTensorSpec)
# Arguments of these types become constants of the program.
_FIXED = (bool, type(None))


@dataclass(frozen=True)
class Arguments:
    """The arguments of a function, with specs in place of tensors.

    Attributes:
        positional: The arguments by position.
        named: The arguments by name.
        origin: Where they are known from.
    """

    positional: tuple[Foreign, ...]
    named: Mapping[str, Any]
    origin: str


def example_arguments(function: Foreign, examples: Foreign, *, exact: bool = False) -> Arguments:
    """The arguments that examples stand for.

    Args:
        function: The function that takes the arguments.
        examples: A tuple for several arguments, a dict whose keys are all names of arguments, or
            else the only argument. Inside are tensors of any framework, numbers, or
            `tf.TensorSpec` and the like.
        exact: Fix the size of the first axis, too.
    """
    named = parameter_names(function)
    origin = "the example inputs"
    if isinstance(examples, Mapping) and examples and named and set(examples) <= set(named):
        specs = {name: _spec(value, exact) for name, value in examples.items()}
        return Arguments((), specs, origin)
    given = examples if type(examples) is tuple else (examples,)
    return Arguments(tuple(_spec(value, exact) for value in given), {}, origin)


def known_arguments(function: Foreign) -> Arguments | None:
    """The arguments that a tf.function declares or was called with; None if there are none."""
    if isinstance(function, Concrete):
        positional, named = function.structured_input_signature
        return Arguments(tuple(positional), dict(named), "its own concrete function")
    if not isinstance(function, Function):
        return None
    if function.input_signature is not None:
        return Arguments(tuple(function.input_signature), {}, "its input_signature")
    traced = concrete_functions(function)
    if not traced:
        return None
    positional, named = traced[0].structured_input_signature
    origin = "the call that it was traced for"
    if len(traced) > 1:
        origin = f"one of {len(traced)} calls that it was traced for"
    return Arguments(tuple(positional), dict(named), origin)


def concrete_functions(function: Foreign) -> list[Foreign]:
    """The traces that a tf.function has so far; saving keeps them."""
    if isinstance(function, Concrete):
        return [function]
    listed = getattr(function, "_list_all_concrete_functions", None)
    return [] if listed is None else list(listed())


def parameter_names(function: Foreign) -> list[str]:
    """The names of a function's parameters, without *args and **kwargs."""
    try:
        if isinstance(function, Function | Concrete):
            found = function.function_type.parameters
        else:
            found = inspect.signature(function).parameters
    except (TypeError, ValueError, AttributeError):
        return []
    gathered = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, one in found.items() if one.kind not in gathered and name != "self"]


def as_tensors(value: Foreign, spec: Foreign = None) -> Foreign:
    """A user's value as TensorFlow's tensors; an array or a list of numbers is one tensor.

    Args:
        value: A structure, or a tensor of any framework.
        spec: The spec that is expected there, which gives numbers their dtype.
    """
    if isinstance(value, tf.TypeSpec) or value is None or isinstance(value, bool):
        return value
    if tensors.owns(value):
        return value.read_value() if isinstance(value, tf.Variable) else value
    if isinstance(value, Mapping):
        return {key: as_tensors(part, _inner(spec, key)) for key, part in value.items()}
    if isinstance(value, list | tuple) and not _is_numbers(value):
        parts = [as_tensors(part, _inner(spec, place)) for place, part in enumerate(value)]
        if is_namedtuple(value):
            return type(value)(*parts)
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, RaggedTensor | SparseTensor):
        return tensors.from_value(value)
    dtype = spec.dtype if isinstance(spec, tf.TensorSpec) else None
    if isinstance(value, int | float | complex | str | bytes | list | tuple):
        return tf.convert_to_tensor(value, dtype)
    if hasattr(value, "dtype") and not isinstance(value, np.ndarray | np.generic):
        value = conversion.accept(value)
    return tensors.from_value(as_tensor(value))


def _inner(spec: Foreign, key: Foreign) -> Foreign:
    try:
        return spec[key]
    except (KeyError, IndexError, TypeError):
        return None


def _is_numbers(value: Foreign) -> bool:
    """Whether a value is a number or text, or lists of those, which are one tensor."""
    if isinstance(value, list | tuple):
        return type(value) in (list, tuple) and all(map(_is_numbers, value))
    return isinstance(value, int | float | complex | str | bytes)


def _spec(example: Foreign, exact: bool) -> Foreign:
    def of(leaf: Foreign) -> Foreign:
        if isinstance(leaf, (*_FIXED, tf.TypeSpec)):
            return leaf
        return _relaxed(tf.type_spec_from_value(leaf), exact)

    return tf.nest.map_structure(of, as_tensors(example))


def _relaxed(spec: Foreign, exact: bool) -> Foreign:
    """A spec with any size of the first axis: an example is one batch of many."""
    if exact or not spec.shape.rank:
        return spec
    shape = [None, *spec.shape.as_list()[1:]]
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.SparseTensorSpec(shape, spec.dtype)
    return tf.TensorSpec(shape, spec.dtype)


def trace(name: str, function: Foreign, arguments: Arguments) -> tuple[Foreign, Signature]:
    """The concrete function of a signature, and the signature's description.

    Raises:
        UnsupportedError: The function cannot be traced, or returns something other than tensors.
    """
    leaves = dict(_named_leaves(function, arguments))
    notes = [
        f"the argument {where} is always {leaf!r}"
        for where, leaf in leaves.items()
        if not isinstance(leaf, tf.TypeSpec)
    ]
    parts: dict[str, Any] = {}
    for where, leaf in leaves.items():
        if isinstance(leaf, _COMPOSITE):
            names = [f"{where}_{part}" for part in _part_names(leaf)]
            notes.append(f"the argument {where} is taken in parts: {', '.join(names)}")
        else:
            names = [where]
        specs = tf.nest.flatten(leaf, expand_composites=True)
        for part, spec in zip(names, specs, strict=True):
            if isinstance(spec, tf.TypeSpec):
                parts[part] = tf.TensorSpec(spec.shape, spec.dtype, name=part)
    structure = (arguments.positional, dict(arguments.named))

    def flat(**given: Foreign) -> dict[str, Any]:
        held = []
        for where, leaf in leaves.items():
            if not isinstance(leaf, tf.TypeSpec):
                held.append(leaf)
            elif isinstance(leaf, _COMPOSITE):
                pieces = [given[f"{where}_{part}"] for part in _part_names(leaf)]
                held.append(tf.nest.pack_sequence_as(leaf, pieces, expand_composites=True))
            else:
                held.append(given[where])
        positional, named = tf.nest.pack_sequence_as(structure, held)
        return _flat_results(function(*positional, **named), notes)

    try:
        concrete = tf.function(flat, autograph=False).get_concrete_function(**parts)
    except FerryError:
        raise
    except Exception as error:  # whatever the user's own code raises
        raise UnsupportedError(
            f"the signature {name!r} cannot be traced: {type(error).__name__}: {_first(error)}",
            hint="the code has to work on tensors of unknown batch size; tf.TensorSpec in inputs= "
            "fixes what has to be fixed",
        ) from error
    if not concrete.structured_outputs:
        raise UnsupportedError(f"the signature {name!r} gives no tensors")
    inputs = {where: show(spec) for where, spec in parts.items()}
    outputs = {where: show(tensor) for where, tensor in concrete.structured_outputs.items()}
    said = tuple(dict.fromkeys(notes))
    return concrete, Signature(name, inputs, outputs, arguments.origin, said)


def _first(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else "")[:300]


def show(spec: Foreign) -> str:
    """Dtype and shape of a spec or tensor in text, as in "float32[?, 3]"."""
    if spec.shape.rank is None:
        return f"{spec.dtype.name}[...]"
    sizes = ", ".join("?" if size is None else str(size) for size in spec.shape.as_list())
    return f"{spec.dtype.name}[{sizes}]"


def _part_names(spec: Foreign) -> list[str]:
    """The names of the parts of a sparse or ragged tensor, in TensorFlow's order."""
    if isinstance(spec, tf.SparseTensorSpec | tf.SparseTensor):
        return ["indices", "values", "dense_shape"]
    if spec.ragged_rank == 1:
        return ["values", "row_splits"]
    return ["values", *(f"row_splits_{number}" for number in range(spec.ragged_rank))]


def _named_leaves(function: Foreign, arguments: Arguments) -> Iterator[tuple[str, Foreign]]:
    """A name for each leaf of the arguments, in the order of `tf.nest`."""
    known = parameter_names(function)
    tree: list[tuple[str, Foreign]] = []
    for place, value in enumerate(arguments.positional):
        tree.append((known[place] if place < len(known) else f"args_{place}", value))
    tree += sorted(arguments.named.items())
    yield from _unique(leaf for path, value in tree for leaf in _walk(value, path, top=True))


def _walk(value: Foreign, path: str, *, top: bool = False) -> Iterator[tuple[str, Foreign]]:
    if isinstance(value, Mapping):
        # Names inside an argument say enough: a server's client wants "mask", not "inputs_mask".
        for key in sorted(value):
            yield from _walk(value[key], str(key) if top else f"{path}_{key}")
    elif isinstance(value, list | tuple):
        fields: Foreign = value
        keys: Iterable[Foreign] = fields._fields if is_namedtuple(value) else range(len(value))
        for key, part in zip(keys, value, strict=True):
            yield from _walk(part, f"{path}_{key}")
    else:
        own = value.name if isinstance(value, tf.TensorSpec) else None
        yield own or path, value


def _unique(leaves: Iterator[tuple[str, Foreign]]) -> Iterator[tuple[str, Foreign]]:
    used: set[str] = set()
    for path, leaf in leaves:
        name = re.sub(r"\W", "_", path.partition(":")[0], flags=re.ASCII) or "x"
        name = f"x{name}" if name[0].isdigit() or name[0] == "_" else name
        name = f"{name}_" if keyword.iskeyword(name) else name  # TensorFlow refuses "in"
        unique, number = name, 0
        while unique in used:
            number += 1
            unique = f"{name}_{number}"
        used.add(unique)
        yield unique, leaf


def _flat_results(result: Foreign, notes: list[str]) -> dict[str, Any]:
    """The tensors of a result by name."""
    if isinstance(result, Mapping):
        named = [(str(key), part) for key, part in result.items()]
    elif is_namedtuple(result):
        named = list(zip(result._fields, result, strict=True))
    elif isinstance(result, list | tuple):
        named = [(f"output_{place}", part) for place, part in enumerate(result)]
    else:
        named = [("output_0", result)]
    found: dict[str, Any] = {}
    for key, part in named:
        for path, leaf in _walk(part, key):
            _add_result(found, path, leaf, notes)
    return found


def _add_result(found: dict[str, Any], path: str, leaf: Foreign, notes: list[str]) -> None:
    if leaf is None:
        notes.append(f"the result {path} is None and left out")
        return
    if isinstance(leaf, tf.RaggedTensor | tf.SparseTensor):
        names = [f"{path}_{part}" for part in _part_names(leaf)]
        notes.append(
            f"the result {path} is given in parts, because a signature gives dense tensors only: "
            f"{', '.join(names)}"
        )
        pieces = tf.nest.flatten(leaf, expand_composites=True)
        if isinstance(leaf, tf.RaggedTensor):
            pieces = [leaf.flat_values, *leaf.nested_row_splits]
        found.update(zip(names, pieces, strict=True))
        return
    try:
        # An argument or a variable that is returned unchanged has no node of its own.
        found[path] = tf.identity(leaf)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(
            f"the result {path} is a {type(leaf).__name__}, which is no tensor: {_first(error)}",
            hint="give a function that returns tensors, or a dict, list or tuple of them",
        ) from None


def call_function(function: Callable[..., Any]) -> Foreign:
    """A function as one that TensorFlow keeps: a tf.function, or a trace of one."""
    return function if isinstance(function, Function | Concrete) else tf.function(function)


def as_method(function: Foreign) -> Foreign:
    """A function as one that loaded objects can be called by: traces alone cannot."""
    if not isinstance(function, Concrete):
        return function

    def call(*positional: Foreign, **named: Foreign) -> Foreign:
        return function(*positional, **named)

    positional, named = function.structured_input_signature
    method = tf.function(call, autograph=False)
    method.get_concrete_function(*positional, **named)
    return method
