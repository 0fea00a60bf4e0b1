"""Weights: from any file of named tensors into any model, and back.

    ferry.save_weights(model, "model.safetensors")
    report = ferry.load_weights(model, "model.safetensors")
    print(report)                                  # what went where, and how it was found

Which variables a model has is `tensorferry.frameworks.variables`, which tensor is for which of them
`tensorferry.weights.matching`. Here values are read, checked and set: all of them are
read and checked before the first variable changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from typing import Any

import numpy as np

from tensorferry import dtypes, formats, frameworks
from tensorferry.errors import UnsupportedError
from tensorferry.files import open as opening, save as saving
from tensorferry.frameworks.variables import Variable, list_variables, used
from tensorferry.tensors import layout
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.values import Array
from tensorferry.weights import matching
from tensorferry.weights.matching import How, Named, Shape
from tensorferry.weights.name_map import NameMap, Transform, as_function, transformed
from tensorferry.weights.report import Mismatched, Missing, Unexpected, WeightsReport, describe

# Nearest names of a large model cost more than all else: beyond this many, only the first have one.
NEAREST = 50
# With how many a name is compared.
COMPARED = 300


def load_weights(
    model: Any,
    path: Any,
    *,
    strict: bool = True,
    map: NameMap | None = None,  # the public name
    optimizer: bool = False,
    cast: bool = True,
    structure: bool = True,
    **options: Any,
) -> WeightsReport:
    """Sets the variables of a model to the tensors of a file.

    Nothing is changed before all values are read and checked.

    Args:
        model: A Keras model or layer, a `tf.Module`, a torch module, or any object, dict or list
            that holds variables: tf.Variable, keras.Variable, torch tensors, NumPy arrays (set in
            place), and JAX arrays, whose places take new ones.
        path: Whatever `tensorferry.open` opens as a bundle, an open bundle, or a dict of tensors.
        strict: Change nothing unless every variable has a tensor that fits. Otherwise what fits is
            loaded.
        map: What variables are called in the file, where that is not found or not right: a dict
            from a variable's name to the tensor's, a function of the variable's name, or pairs of
            a regular expression and its replacement, applied one after the other. A dict and a
            function may give a pair instead of a name: the second is "transpose", an order of axes,
            or a function of the array.
        optimizer: Load the state of the model's optimizer, too.
        cast: Convert floats to the model's floats, and integers to its integers; values that it
            has no place for are a mismatch. If false, dtypes have to be the same.
        structure: Find tensors by structure and shape, too, where their names say nothing.
        **options: Of `tensorferry.open`.

    Raises:
        MismatchError: The weights do not fit; its `report` says what and why.
        UnsupportedError: The model has no variables, or some that cannot be set, or the file has no
            named tensors.
    """
    variables = list_variables(model, build_optimizer=optimizer)
    chosen = [variable for variable in variables if optimizer or not variable.optimizer]
    if not chosen:
        raise UnsupportedError(
            "the model has no variables but those of its optimizer",
            hint="optimizer=True loads them",
        )
    for variable in chosen:
        if variable.fixed is not None:
            raise UnsupportedError(f"cannot be set: {variable.fixed}", tensor=variable.name)
    with ExitStack() as stack:
        tensors = _open(path, stack, options)
        plan = _Plan(chosen, tensors, cast=cast, kept=variables)
        plan.apply_map(map)
        plan.match(structure=structure)
        plan.read()
        report = plan.report(tensors.path)
        if strict and not report.ok:
            raise report.error()
        for variable, value in plan.values:
            variable.assign(value)
    return replace(report, applied=True)


@dataclass(frozen=True)
class _Tensors:
    """The named tensors that are offered."""

    path: str
    rows: Mapping[str, _Row]


@dataclass(frozen=True)
class _Row:
    name: str
    names: tuple[str, ...]
    dtype: str
    shape: Shape
    kind: str
    read: Callable[[], Any] = field(repr=False)


def _open(path: Any, stack: ExitStack, options: dict[str, Any]) -> _Tensors:
    if not isinstance(path, Mapping):
        path = stack.enter_context(opening.open(path, **options))
        if not isinstance(path, Bundle):
            raise UnsupportedError(
                "it holds records, expected named tensors",
                path=str(getattr(path, "path", "")) or None,
                hint="npz, safetensors and checkpoints hold weights",
            )
    elif options:
        raise TypeError(f"{', '.join(options)}: only files are opened with options")
    if isinstance(path, Bundle):
        infos = path.info
        rows = {
            name: _Row(
                name,
                _names_of(name, infos[name].origin),
                infos[name].dtype,
                infos[name].shape,
                infos[name].kind,
                partial(path.__getitem__, name),
            )
            for name in path
        }
        return _Tensors(path.path, rows)
    # A copy: the tensors may be the variables themselves, under other names.
    held, _ = layout.flatten(frameworks.accept(dict(path)))
    rows = {}
    for name, tensor in held.items():
        kind = "dense" if isinstance(tensor, np.ndarray) else "sparse or ragged"
        dtype = dtypes.from_numpy(tensor.dtype).name
        read = partial(np.array, tensor) if kind == "dense" else partial(_same, tensor)
        rows[name] = _Row(name, (name,), dtype, tuple(tensor.shape), kind, read)
    return _Tensors("the given tensors", rows)


def _same(value: Any) -> Any:
    return value


def _names_of(name: str, origin: Mapping[str, Any]) -> tuple[str, ...]:
    """A tensor's own name, and those that its file has besides."""
    others = (origin.get("name"), *origin.get("aliases", ()))
    return tuple(dict.fromkeys((name, *(other for other in others if isinstance(other, str)))))


class _Plan:
    """Which variable gets what; checked, then carried out."""

    def __init__(
        self, variables: list[Variable], tensors: _Tensors, *, cast: bool, kept: list[Variable]
    ) -> None:
        self.values: list[tuple[Variable, Array]] = []
        self._variables = {variable.name: variable for variable in variables}
        self._rows = tensors.rows
        self._cast = cast
        self._apart = [variable for variable in kept if variable.name not in self._variables]
        self._pairs: dict[str, str] = {}
        self._how: dict[str, How] = {}
        self._transforms: dict[str, Transform] = {}
        self._candidates: dict[str, tuple[str, ...]] = {}
        self._reasons: dict[str, str] = {}
        self._mismatched: dict[str, Mismatched] = {}
        self._casts: dict[str, tuple[str, str]] = {}

    def apply_map(self, given: NameMap | None) -> None:
        """Takes what the user says."""
        if given is None:
            return
        ask = as_function(given, {one.name: one.names for one in self._variables.values()})
        by_spelling: dict[matching.Key, list[str]] = {}
        for name in self._rows:
            by_spelling.setdefault(matching.split_name(name), []).append(name)
        for name in self._variables:
            said = ask(name)
            if said is None:
                continue
            source, transform = said if isinstance(said, tuple) else (said, None)
            alike = by_spelling.get(matching.split_name(source), [])
            if source not in self._rows and len(alike) == 1:
                source = alike[0]
            if source not in self._rows:
                self._reasons[name] = f"map says {source}, which is not there"
                continue
            self._pairs[name] = source
            self._how[name] = "map"
            if transform is not None:
                self._transforms[name] = transform

    def match(self, *, structure: bool) -> None:
        """Finds tensors for the other variables."""
        for is_state in (False, True):
            taken = set(self._pairs.values())
            wanted = [
                Named(one.name, one.names, one.shape, one.automatic)
                for one in self._variables.values()
                if one.optimizer is is_state
                and one.name not in self._pairs
                and one.name not in self._reasons
            ]
            known = {name for one in wanted for name in one.names}
            found = [
                Named(row.name, row.names, row.shape)
                for row in self._rows.values()
                if row.name not in taken
                and (row.name in known or matching.is_training_state(row.name) is is_state)
            ]
            matches = matching.match(wanted, found, structure=structure)
            self._pairs |= matches.pairs
            self._how |= matches.how
            self._candidates |= matches.candidates

    def read(self) -> None:
        """Reads and checks every value."""
        for name, variable in self._variables.items():
            source = self._pairs.get(name)
            if source is None:
                continue
            row = self._rows[source]
            transform = self._transforms.get(name)
            problem = self._problem(variable, row, transformed=transform is not None)
            value: Any = None
            if problem is None:
                value = frameworks.accept(row.read())
                if transform is not None:
                    value = transformed(value, transform, name)
                    if not matching.fits(variable.shape, value.shape):
                        problem = f"its shape is {list(value.shape)} after the transform"
            if problem is None:
                problem = self._contradiction(variable, source, value)
            if problem is None and (found := dtypes.from_numpy(value.dtype).name) != variable.dtype:
                value, problem = _cast(value, variable.dtype)
                self._casts[name] = (found, variable.dtype)
            if problem is None:
                self.values.append((variable, value))
                continue
            self._casts.pop(name, None)
            expected = describe(variable.dtype, variable.shape)
            found = row.kind if row.kind not in ("dense", "string") else ""
            found = f"{found} {describe(row.dtype, row.shape)}".strip()
            self._mismatched[name] = Mismatched(name, source, expected, found, problem)

    def _contradiction(self, variable: Variable, source: str, value: Array) -> str | None:
        """A tensor that is the same variable under another name has to have the same values."""
        for other in self._once_more(variable, source):
            again = frameworks.accept(self._rows[other].read())
            if not isinstance(again, np.ndarray) or again.tobytes() != value.tobytes():
                return f"{other} is the same variable, with other values"
        return None

    def _once_more(self, variable: Variable, source: str) -> list[str]:
        """The tensors at the other places of a variable that the model has at several."""
        places = (variable.name, *variable.tied)
        if not variable.tied or source not in places:
            return []
        return [name for name in places if name != source and name in self._rows]

    def _problem(self, variable: Variable, row: _Row, *, transformed: bool) -> str | None:
        """Why a tensor does not fit, as far as that is known without reading it."""
        if row.kind not in ("dense", "string"):
            return "it is no dense tensor"
        if not transformed and not matching.fits(variable.shape, row.shape):
            return "another shape"
        if row.dtype != variable.dtype and not (
            self._cast and _castable(row.dtype, variable.dtype)
        ):
            return "another dtype"
        return None

    def report(self, path: str) -> WeightsReport:
        """What there is to say."""
        loaded = {variable.name: self._pairs[variable.name] for variable, _ in self.values}
        used = set(self._pairs.values())
        for name, source in self._pairs.items():
            used.update(self._once_more(self._variables[name], source))
        left = [row for row in self._rows.values() if row.name not in used]
        state = {row.name for row in left if matching.is_training_state(row.name)}
        names = {name for one in self._apart for name in one.names}
        state |= {row.name for row in left if row.name in names}
        unexpected = [row for row in left if row.name not in state]
        missing = [one for one in self._variables.values() if one.name not in self._pairs]
        nearest_source = _Nearest(row.name for row in (unexpected or self._rows.values()))
        nearest_variable = _Nearest(one.name for one in (missing or self._variables.values()))
        return WeightsReport(
            path,
            loaded,
            {name: self._how[name] for name in loaded},
            tuple(
                Missing(
                    one.name,
                    one.dtype,
                    one.shape,
                    nearest_source(one.name),
                    self._candidates.get(one.name, ()),
                    self._reasons.get(one.name),
                )
                for one in missing
            ),
            tuple(self._mismatched.values()),
            tuple(
                Unexpected(row.name, row.dtype, row.shape, nearest_variable(row.name))
                for row in unexpected
            ),
            self._casts,
            tuple(row.name for row in left if row.name in state),
            applied=False,
        )


class _Nearest:
    """The name that resembles another most; asked often, it stops answering."""

    def __init__(self, names: Iterator[str] | Any) -> None:
        self._by_leaf: dict[str, list[str]] = {}
        self._names = list(names)
        for name in self._names:
            self._by_leaf.setdefault(matching.split_name(name)[-1], []).append(name)
        self._asked = 0

    def __call__(self, name: str) -> str | None:
        self._asked += 1
        if self._asked > NEAREST:
            return None
        among = self._by_leaf.get(matching.split_name(name)[-1], self._names)[:COMPARED]
        return next(iter(get_close_matches(name, among, 1, 0.4)), None)


def _castable(found: str, wanted: str) -> bool:
    kinds = {_kind(found), _kind(wanted)}
    return kinds in ({"float"}, {"integer"})


def _kind(name: str) -> str:
    for kind, starts in (("float", ("float", "bfloat")), ("integer", ("int", "uint"))):
        if name.startswith(starts):
            return kind
    return name


def _cast(value: Array, wanted: str) -> tuple[Array, str | None]:
    dtype = dtypes.as_dtype(wanted).numpy
    with np.errstate(all="ignore"):
        result = value.astype(dtype)
        if _kind(wanted) == "integer":
            lost = result.astype(value.dtype) != value
            if value.dtype.kind in "iu" and result.dtype.kind in "iu":
                lost |= (result < 0) != (value < 0)
        else:
            lost = np.isfinite(value) & ~np.isfinite(result)
    count = int(np.count_nonzero(lost))
    return result, f"{count} values are beyond the range of {wanted}" if count else None


def names_for(variables: Sequence[Variable], target: str) -> list[tuple[str, Variable]]:
    """The names that variables get in a file.

    Args:
        variables: Of one model.
        target: "keras" for the paths of Keras' own files, "checkpoint" for the paths of objects,
            "natural" for the names that the framework has, tied variables under each of them.
    """
    if target == "natural":
        return [(name, one) for one in variables for name in (one.name, *one.tied)]
    named = [(one.spellings.get(target, one.name), one) for one in variables]
    counts: dict[str, int] = {}
    for name, _ in named:
        counts[name] = counts.get(name, 0) + 1
    return [(name if counts[name] == 1 else one.name, one) for name, one in named]


def target_of(path: Any, format: str | None) -> str:
    """Which names a file is to have: see `names_for`."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    found = format or formats.named(name)
    if found == "keras" or name.endswith((".h5", ".hdf5", ".keras")):
        return "keras"
    return "checkpoint" if found == "checkpoint" else "natural"


def save_weights(
    model: Any,
    path: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    optimizer: bool = False,
    **options: Any,
) -> saving.Saved:
    """Writes the variables of a model to a file.

    Args:
        model: As in `load_weights`.
        path: As in `tensorferry.save`; its ending says the format.
        metadata: What to keep with them.
        optimizer: Write the state of the model's optimizer, too.
        **options: Of `tensorferry.save`.

    Raises:
        UnsupportedError: The model has no variables, or the format cannot carry them.
    """
    variables = list_variables(model)
    chosen = [variable for variable in variables if optimizer or not variable.optimizer]
    target = target_of(path, options.get("format"))
    tensorflow = used("tensorflow")
    if target == "checkpoint" and tensorflow is not None and tensorflow.is_tracked(model):
        options.setdefault("layout", "objects")  # which tf.train.Checkpoint(model) restores
    return saving.save(_values(names_for(chosen, target)), path, metadata=metadata, **options)


def _values(named: list[tuple[str, Variable]]) -> Iterator[tuple[str, Array]]:
    for name, variable in named:
        yield name, variable.read()


class Saver:
    """Variables under the names that they are to have in files.

        saver = ferry.Saver({"w": weights, "b": bias})
        saver.save("step-900.safetensors")
        saver.restore("step-900.safetensors")

    Args:
        variables: By name: tf.Variable, keras.Variable, torch tensors and parameters, NumPy arrays
            (set in place); or models and structures of those, whose variables have longer names.
    """

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = dict(variables)
        list_variables(self._variables)

    def __repr__(self) -> str:
        return f"Saver({', '.join(self._variables)})"

    def save(self, path: Any, **options: Any) -> saving.Saved:
        """Writes the variables; options are those of `tensorferry.save`."""
        return save_weights(self._variables, path, **{"optimizer": True, **options})

    def restore(self, path: Any, *, strict: bool = True, **options: Any) -> WeightsReport:
        """Sets the variables to the tensors of their names; options are those of `load_weights`."""
        options = {"optimizer": True, "structure": False, **options}
        return load_weights(self._variables, path, strict=strict, **options)
