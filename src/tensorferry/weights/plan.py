"""The plan of loading weights: which variable gets which tensor, checked before anything is set.

`tensorferry.weights.matching` pairs names. This module asks the user's map first, reads and checks
every value, and reports what it found.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np

from tensorferry import dtypes, frameworks
from tensorferry.frameworks.contract import Variable
from tensorferry.progress import Progress
from tensorferry.tensors.values import Array
from tensorferry.weights import matching
from tensorferry.weights.matching import How, Named
from tensorferry.weights.name_map import NameMap, Transform, as_function, transformed
from tensorferry.weights.offered import Offered, Row
from tensorferry.weights.report import Mismatched, Missing, Unexpected, WeightsReport, describe

# Finding nearest names in a large model costs more than everything else: only so many are found.
NEAREST = 50
# A name is compared with so many others.
COMPARED = 300


class Plan:
    """Which variable gets which tensor.

    Args:
        variables: The variables to set.
        offered: The tensors to choose from.
        cast: Convert between floats, and between integers.
        kept: All variables of the model, including those that are not to be set.

    Attributes:
        values: The variables and their new values, once `read` was called.
    """

    def __init__(
        self, variables: list[Variable], offered: Offered, *, cast: bool, kept: list[Variable]
    ) -> None:
        self.values: list[tuple[Variable, Array]] = []
        self._variables = {variable.name: variable for variable in variables}
        self._rows, self._planned = offered.rows, offered.planned
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
        """Takes the pairs that the user gives."""
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

    def read(self, progress: Progress | None = None) -> None:
        """Reads and checks every value; tells how many tensors are done, and of how many."""
        matched = [name for name in self._variables if name in self._pairs]
        sources = self._planned(self._pairs[name] for name in matched)
        for number, (name, source) in enumerate(zip(matched, sources, strict=True), 1):
            if progress is not None:
                progress(number, len(matched))
            variable, row = self._variables[name], self._rows[source]
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
        """Why a variable has two values: tied tensors of the file must be equal."""
        for other in self._once_more(variable, source):
            again = frameworks.accept(self._rows[other].read())
            if not isinstance(again, np.ndarray) or again.tobytes() != value.tobytes():
                return f"{other} is the same variable, with other values"
        return None

    def _once_more(self, variable: Variable, source: str) -> list[str]:
        """The other tensors of the file for a variable that the model has at several places."""
        places = variable.places
        if len(places) == 1:
            return []
        found = {self._row_named[name] for name in places if name in self._row_named}
        return sorted(found - {source}) if source in found else []

    @cached_property
    def _row_named(self) -> dict[str, str]:
        """The tensor that each of the names in the file means."""
        names = {name: row.name for row in self._rows.values() for name in row.names}
        return {**names, **{name: name for name in self._rows}}

    def _problem(self, variable: Variable, row: Row, *, transformed: bool) -> str | None:
        """Why a tensor does not fit, as far as that can be told without reading it."""
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
        """What would be loaded, and what is missing, mismatched or left over."""
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
    """Finds the name that is most like another, for the first `NEAREST` questions."""

    def __init__(self, names: Iterable[str]) -> None:
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
