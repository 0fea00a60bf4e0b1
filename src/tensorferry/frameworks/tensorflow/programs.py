"""TensorFlow: a SavedModel back as functions that take a user's values.

Keeps `contract.Loading`. `tf.saved_model.load` creates objects and functions from the file alone,
without the classes of the original model. A caller can call

    a signature     it takes tensors by name and returns a dict of tensors
    the model       its own function, with the structure of its arguments and results: `__call__`,
                    or `serve` in exports of Keras 3

Values are converted to the expected dtypes, floats to floats and integers to integers, and compared
with the expected shapes before TensorFlow runs anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from tensorferry.errors import MismatchError, UnsupportedError
from tensorferry.frameworks.contract import Foreign, Variable
from tensorferry.frameworks.tensorflow.signatures import as_tensors, show
from tensorferry.frameworks.tensorflow.variables import make_variable
from tensorferry.frameworks.variables import find_variables

# The names of functions that stand for a whole model, in this order.
_CALLS = ("__call__", "serve")


def load(path: str, tags: Iterable[str] | None) -> Foreign:
    """The objects of a SavedModel.

    Raises:
        UnsupportedError: TensorFlow cannot load the file.
    """
    try:
        return tf.saved_model.load(path, tags=None if tags is None else list(tags))
    except Exception as error:  # for parts that contradict each other it may raise anything
        raise UnsupportedError(
            f"TensorFlow cannot load it: {type(error).__name__}: {str(error).strip()[:500]}",
            path=path,
        ) from error


def signatures_of(loaded: Foreign) -> Mapping[str, Any]:
    """The signatures of a loaded model by name.

    Raises:
        UnsupportedError: The file calls something else its signatures.
    """
    found = getattr(loaded, "signatures", {})
    if isinstance(found, Mapping) and all(hasattr(one, "inputs") for one in found.values()):
        return dict(found)
    raise UnsupportedError("the signatures of the model are no functions")


def describe_inputs(concrete: Foreign) -> dict[str, str]:
    """Dtype and shape of each argument of a signature by name, as in "float32[?, 3]"."""
    return _described(_inputs_of(concrete))


def describe_results(concrete: Foreign) -> dict[str, str]:
    """Dtype and shape of each result of a signature by name."""
    results = concrete.structured_outputs
    return _described(results) if isinstance(results, Mapping) else {}


def _inputs_of(concrete: Foreign) -> dict[str, Any]:
    return dict(concrete.structured_input_signature[1])


def _described(specs: Mapping[str, Any]) -> dict[str, str]:
    # An op that gives no tensor, as one that trains, is None among the results.
    return {name: show(spec) for name, spec in specs.items() if spec is not None}


def variables_of(loaded: Foreign, *, by_name: bool) -> list[Variable]:
    """The variables of a loaded model.

    Args:
        loaded: The objects that `load` returned.
        by_name: Name the variables by their own names. Exports of TensorFlow 1 have no other.
    """
    if not by_name:
        return find_variables(loaded).variables
    held = getattr(loaded, "variables", ())
    return [make_variable(one, one.name.removesuffix(":0")) for one in held]


def call_signature(
    concrete: Foreign, name: str, positional: tuple[Foreign, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The results of a signature for a user's values.

    Args:
        concrete: The signature.
        name: Its name, for errors.
        positional: The only argument, or one dict with all arguments.
        named: The arguments by name.

    Raises:
        TypeError: These are not the arguments that the signature takes.
        MismatchError: A value does not fit.
    """
    expected = _inputs_of(concrete)
    given = dict(named)
    if len(positional) == 1 and isinstance(positional[0], Mapping) and not given:
        given = dict(positional[0])
    elif len(positional) == 1 and len(expected) == 1 and not given:
        given = {next(iter(expected)): positional[0]}
    elif positional:
        raise TypeError(
            f"the signature {name!r} takes arguments by name: {_listed(expected)}; "
            f"{len(positional)} were given without"
        )
    if set(given) != set(expected):
        raise TypeError(
            f"the signature {name!r} takes {_listed(expected)}; given were {', '.join(given)}"
        )
    values = {key: _converted(value, expected[key], key) for key, value in given.items()}
    return dict(concrete(**values))


def _listed(specs: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} ({show(spec)})" for name, spec in specs.items()) or "nothing"


def model_function(loaded: Foreign) -> Foreign:
    """The function that stands for the whole model; None if there is none."""
    for name in _CALLS:
        function = getattr(loaded, name, None)
        if getattr(function, "concrete_functions", None):
            return function
    return None


def call_function(
    function: Foreign, positional: tuple[Foreign, ...], named: Mapping[str, Any]
) -> Foreign:
    """The result of a model's own function for a user's values.

    Raises:
        MismatchError: The values fit none of the calls that the function was traced for.
    """
    problems = []
    for concrete in function.concrete_functions:
        expected, expected_named = concrete.structured_input_signature
        try:
            if len(positional) > len(expected):
                raise MismatchError(f"{len(positional)} arguments, expected {len(expected)}")
            values = [
                _converted(value, spec, f"argument {place}")
                for place, (value, spec) in enumerate(zip(positional, expected, strict=False))
            ]
            others = {
                key: _converted(value, expected_named.get(key), key) for key, value in named.items()
            }
            _check_rest(expected[len(positional) :])
        except MismatchError as error:
            problems.append(error.message)
            continue
        return function(*values, **others)
    raise MismatchError(
        "the values fit none of the ways to call the model: " + "; ".join(dict.fromkeys(problems)),
        hint="its signatures say what it takes: model.signatures",
    )


def _check_rest(rest: Foreign) -> None:
    missing = [spec for spec in tf.nest.flatten(rest) if isinstance(spec, tf.TypeSpec)]
    if missing:
        raise MismatchError(f"{len(missing)} more tensors are expected")


def _converted(value: Foreign, spec: Foreign, place: str) -> Foreign:
    """A user's value as the tensors that a spec describes."""
    if spec is None or not tf.nest.flatten(spec):
        return as_tensors(value)
    try:
        tree = as_tensors(value, spec)
    except (ValueError, TypeError) as error:
        raise MismatchError(f"{place}: {str(error).splitlines()[0][:200]}") from None
    try:
        tf.nest.assert_same_structure(spec, tree, check_types=False)
    except (ValueError, TypeError):
        raise MismatchError(f"{place}: another structure than {_show_tree(spec)}") from None
    leaves = [
        _fit(leaf, wanted, place)
        for leaf, wanted in zip(tf.nest.flatten(tree), tf.nest.flatten(spec), strict=True)
    ]
    return tf.nest.pack_sequence_as(spec, leaves)


def _show_tree(spec: Foreign) -> str:
    parts = [
        show(leaf) if isinstance(leaf, tf.TypeSpec) else repr(leaf)
        for leaf in tf.nest.flatten(spec)
    ]
    return f"of {', '.join(parts)}"


def _fit(leaf: Foreign, spec: Foreign, place: str) -> Foreign:
    if not isinstance(spec, tf.TypeSpec):  # a constant of the program: training=False
        if leaf is not spec and leaf != spec:
            raise MismatchError(f"{place} is {leaf!r}, expected {spec!r}")
        return leaf
    if isinstance(leaf, bool) or leaf is None:
        leaf = tf.convert_to_tensor(bool(leaf)) if leaf is not None else leaf
    if leaf is None:
        raise MismatchError(f"{place} is None, expected {show(spec)}")
    wanted = getattr(spec, "dtype", None)
    if isinstance(leaf, tf.Tensor) and wanted is not None and leaf.dtype != wanted:
        leaf = _cast(leaf, wanted, place)
    if not spec.is_compatible_with(leaf):
        found = show(leaf) if hasattr(leaf, "shape") else type(leaf).__name__
        raise MismatchError(f"{place} is {found}, expected {show(spec)}")
    return leaf


def _cast(tensor: Foreign, wanted: Foreign, place: str) -> Foreign:
    floats = tensor.dtype.is_floating and wanted.is_floating
    if floats or (tensor.dtype.is_integer and wanted.is_integer):
        result = tf.cast(tensor, wanted)
        if floats or bool(tf.reduce_all(tf.cast(result, tensor.dtype) == tensor)):
            return result
    raise MismatchError(f"{place} is {show(tensor)}, expected {wanted.name}")
