"""Loading weights: tensors of any file into the variables of any model.

    report = ferry.load_weights(model, "model.safetensors")
    print(report)                                  # which tensor went where, and how it was found

`tensorferry.frameworks.variables` lists a model's variables, `tensorferry.weights.plan` decides
which tensor each of them gets. All values are read and checked before the first variable changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO, Unpack

from tensorferry.classes import replace
from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords, open as opening
from tensorferry.frameworks.contract import Variable
from tensorferry.frameworks.conversion import is_model
from tensorferry.frameworks.variables import list_variables
from tensorferry.progress import Progress, following
from tensorferry.tensors.bundle import Bundle
from tensorferry.weights import offered
from tensorferry.weights.matching import is_training_state
from tensorferry.weights.name_map import NameMap
from tensorferry.weights.offered import Offered
from tensorferry.weights.plan import Plan
from tensorferry.weights.report import WeightsReport


@keywords.shown(keywords.ReadingWeights)
def load_weights(
    model: Any,
    path: str | os.PathLike[str] | BinaryIO | Mapping[str, Any],
    *,
    strict: bool = True,
    map: NameMap | None = None,  # the public name
    optimizer: bool = False,
    cast: bool = True,
    structure: bool = True,
    progress: Progress | bool | None = None,
    **options: Unpack[keywords.ReadingWeights],
) -> WeightsReport:
    """Sets the variables of a model to the tensors of a file.

    Nothing changes before all values are read and checked.

    Args:
        model: A Keras model or layer, a `tf.Module`, a torch module, or any object, dict or list
            that holds variables: tf.Variable, keras.Variable, torch tensors, NumPy arrays, which
            are set in place, and JAX arrays, which are replaced.
        path: Anything that `tensorferry.open` opens as a bundle, an open bundle, a dict of tensors,
            or another model, whose weights are copied.
        strict: Change nothing unless every variable has a tensor that fits. If false, load those
            that fit.
        map: What variables are called in the file, if the names do not match by themselves. A dict
            from a variable's name to the tensor's, a function of the variable's name, or pairs of
            a regular expression and its replacement, applied one after the other. A dict and a
            function may return a pair instead of a name; its second item is "transpose", an order
            of axes, or a function of the array.
        optimizer: Load the state of the model's optimizer, too.
        cast: Convert floats to the model's floats, and integers to its integers; a value beyond
            the range of the variable's dtype is a mismatch. If false, dtypes must be equal.
        structure: Also match tensors by structure and shape if their names do not help.
        progress: True shows a bar; a function receives the number of tensors read and the total.
        **options: See `tensorferry.files.keywords.ReadingWeights`.

    Returns:
        Which tensor went where, how it was found, and what was left over.

    Raises:
        MismatchError: The weights do not fit; its `report` says what and why.
        UnsupportedError: The model has no variables, or some that cannot be set, or the file has no
            named tensors.

    Examples:
        >>> model = {"dense": {"kernel": np.zeros((4, 2), np.float32)}}
        >>> report = ferry.load_weights(model, {"dense/kernel": np.ones((4, 2), np.float32)})
        >>> report.ok
        True
    """
    variables = list_variables(model)
    with ExitStack() as stack:
        tensors = _open(path, options, stack, optimizer)
        if optimizer and (map is not None or _has_more_state(tensors, variables)):
            variables = list_variables(model, build_optimizer=True)
        chosen = _settable([one for one in variables if optimizer or not one.optimizer])
        plan = Plan(chosen, tensors, cast=cast, kept=variables)
        plan.apply_map(map)
        plan.match(structure=structure)
        with following(progress, tensors.path, "tensors") as tell:
            plan.read(tell)
        report = plan.report(tensors.path)
        if strict and not report.ok:
            raise report.error()
        for variable, value in plan.values:
            variable.assign(value)
    return replace(report, applied=True)


def _has_more_state(tensors: Offered, variables: list[Variable]) -> bool:
    """Whether a file has more of an optimizer's state than the optimizer itself has by now.

    An optimizer creates its variables when it is first used: that of a model that was compiled and
    never trained has few of them, and so has the file of such a model.
    """
    state = sum(is_training_state(name) for name in tensors.rows)
    return state > sum(one.optimizer for one in variables)


def _settable(variables: list[Variable]) -> list[Variable]:
    """Variables that are to be set.

    Raises:
        UnsupportedError: There are none, or one cannot be set.
    """
    if not variables:
        raise UnsupportedError(
            "the model has no variables but those of its optimizer",
            hint="optimizer=True loads them",
        )
    for variable in variables:
        if variable.fixed is not None:
            raise UnsupportedError(
                f"cannot be set: {variable.fixed}",
                tensor=variable.name,
                hint="tensorferry.load(path, to=...) gives the values as a structure of its own",
            )
    return variables


def _open(
    path: Any, options: keywords.ReadingWeights, stack: ExitStack, optimizer: bool
) -> Offered:
    if isinstance(path, Mapping):  # a bundle is one, too
        if given := keywords.given(options):
            raise TypeError(f"{', '.join(given)}: only files are opened with options")
        return offered.from_bundle(path) if isinstance(path, Bundle) else offered.from_mapping(path)
    if is_model(path):
        return offered.from_model(path, optimizer=optimizer)
    opened = stack.enter_context(opening.open(path, **options))
    if not isinstance(opened, Bundle):
        raise UnsupportedError(
            "it holds records, expected named tensors",
            path=os.fspath(path) if isinstance(path, str | os.PathLike) else None,
            hint="npz, safetensors and checkpoints hold weights",
        )
    return offered.from_bundle(opened)
