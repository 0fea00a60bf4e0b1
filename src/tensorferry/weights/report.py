"""The report of loading weights: which tensor went where, what is missing, what does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tensorferry import display
from tensorferry.cards import Card, Grid, Shown, Tone
from tensorferry.classes import dataclass, field
from tensorferry.errors import MismatchError
from tensorferry.weights.matching import How, Shape

# How many lines of each kind a report shows.
SHOWN = 20
# How many lines an error shows.
SHOWN_IN_ERROR = 3


@dataclass(frozen=True, slots=True)
class Missing:
    """A variable of the model for which the file has no tensor.

    Attributes:
        name: The name of the variable.
        dtype: The dtype of the variable.
        shape: The shape of the variable.
        nearest: The name in the file that is most like the variable's.
        candidates: Tensors that may be meant, if several are equally likely.
        reason: Why there is no tensor, if more is known.
    """

    name: str
    dtype: str
    shape: Shape
    nearest: str | None = None
    candidates: tuple[str, ...] = ()
    reason: str | None = None

    def __str__(self) -> str:
        text = f"{self.name} ({describe(self.dtype, self.shape)})"
        if self.reason:
            return f"{text}: {self.reason}"
        if self.candidates:
            return f"{text}: could be {' or '.join(self.candidates)}"
        return f"{text}: nearest is {self.nearest}" if self.nearest else text


@dataclass(frozen=True, slots=True)
class Unexpected:
    """A tensor of the file that no variable of the model takes.

    Attributes:
        name: The name of the tensor.
        dtype: The dtype of the tensor.
        shape: The shape of the tensor.
        nearest: The variable whose name is most like the tensor's.
    """

    name: str
    dtype: str
    shape: Shape
    nearest: str | None = None

    def __str__(self) -> str:
        text = f"{self.name} ({describe(self.dtype, self.shape)})"
        return f"{text}: nearest is {self.nearest}" if self.nearest else text


@dataclass(frozen=True, slots=True)
class Mismatched:
    """A tensor that does not fit its variable.

    Attributes:
        name: The name of the variable.
        source: The name of the tensor.
        expected: Dtype and shape of the variable.
        found: Kind, dtype and shape of the tensor.
        reason: What does not fit.
    """

    name: str
    source: str
    expected: str
    found: str
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.name}: expected {self.expected}, {self.source} is {self.found} ({self.reason})"
        )


@dataclass(frozen=True, repr=False)
class WeightsReport(Shown):
    """What `load_weights` did, or would have done.

    Attributes:
        path: The file that the tensors are from.
        loaded: The name of the tensor that each variable was set to.
        how: How each of these tensors was found: see `tensorferry.weights.matching`.
        missing: Variables without a tensor.
        mismatched: Tensors that do not fit.
        unexpected: Tensors that were not used.
        cast: The tensor's dtype and the variable's, for each variable where they differ.
        optimizer: Tensors of an optimizer's state, which was not asked for.
        applied: Whether variables were set; if not, `loaded` says what would have been set.
    """

    path: str
    loaded: Mapping[str, str] = field(default_factory=dict)
    how: Mapping[str, How] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    mismatched: tuple[Mismatched, ...] = ()
    unexpected: tuple[Unexpected, ...] = ()
    cast: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    optimizer: tuple[str, ...] = ()
    applied: bool = True

    @property
    def ok(self) -> bool:
        """Whether every variable of the model has its value."""
        return not self.missing and not self.mismatched

    def _card(self) -> Card:
        cells = [
            (
                name,
                source,
                "" if self.how.get(name) == "name" else self.how.get(name),
                self._cast(name),
            )
            for name, source in self.loaded.items()
            if source != name or name in self.cast
        ]
        title = "loaded" if self.applied else "would fit"
        same = len(self.loaded) - len(cells)
        fields = [(f"{title} by the same name", display.plural(same, "tensor"))] if same else []
        lines: list[tuple[Tone, str]] = [("bad", f"missing {row}") for row in self.missing]
        lines += [("bad", f"mismatched {row}") for row in self.mismatched]
        lines += [("note", f"unexpected {row}") for row in self.unexpected]
        grids = [Grid((title, "from", "found by", "cast"), cells, noun="variable")]
        tone: Tone = "good" if self.ok else "bad"
        return Card(
            "WeightsReport", self.path, self.summary(), tone, fields, grids=grids, lines=lines
        )

    def _cast(self, name: str) -> str:
        return "{} as {}".format(*self.cast[name]) if name in self.cast else ""

    def __str__(self) -> str:
        return "\n".join(map(display.clean, self._lines()))

    def _lines(self) -> Iterator[str]:
        yield f"{self.path}: {self.summary()}"
        for title, found in self._problems():
            yield from _listed(title, [str(row) for row in found])
        width = max((len(name) for name in self.loaded), default=0)
        rows = []
        for name, source in self.loaded.items():
            notes = [] if self.how.get(name) == "name" else [f"by {self.how.get(name)}"]
            if name in self.cast:
                notes.append(self._cast(name))
            note = f"  ({', '.join(notes)})" if notes else ""
            rows.append(f"{name:<{width}} <- {source}{note}")
        yield from _listed("loaded" if self.applied else "would fit", rows)

    def _problems(self) -> Iterator[tuple[str, Sequence[Missing | Mismatched | Unexpected]]]:
        yield "missing", self.missing
        yield "mismatched", self.mismatched
        yield "unexpected", self.unexpected

    def summary(self) -> str:
        """How many tensors were loaded, missing, and so on, in one line."""
        counts = [f"{len(self.loaded)} {'loaded' if self.applied else 'would fit'}"]
        counts += [f"{len(found)} {title}" for title, found in self._problems() if found]
        if self.optimizer:
            counts.append(f"{len(self.optimizer)} of an optimizer left out")
        return ", ".join(counts)

    def error(self) -> MismatchError:
        """The error that says why nothing was loaded."""
        rows = [f"missing {row}" for row in self.missing]
        rows += [f"mismatched {row}" for row in self.mismatched]
        more = len(rows) - SHOWN_IN_ERROR
        shown = rows[:SHOWN_IN_ERROR] + ([f"and {more} more"] if more > 0 else [])
        first = self.missing[0].name if self.missing else self.mismatched[0].name
        return MismatchError(
            f"the weights do not fit the model, which was not changed ({self.summary()}):\n  "
            + "\n  ".join(shown),
            path=self.path,
            tensor=first,
            hint="map= says what a variable is called in the file; strict=False loads what fits; "
            "print(error.report) shows all",
            report=self,
        )


def describe(dtype: str, shape: Shape) -> str:
    """A dtype and a shape in text, as in "float32 [3, ?]"."""
    if shape is None:
        return f"{dtype} of any shape"
    return f"{dtype} [{', '.join('?' if size is None else str(size) for size in shape)}]"


def _listed(title: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield f"{title}:"
        yield from (f"  {row}" for row in rows[:SHOWN])
        if len(rows) > SHOWN:
            yield f"  and {len(rows) - SHOWN} more"
