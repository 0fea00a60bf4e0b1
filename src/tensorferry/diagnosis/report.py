"""The report of `tensorferry.diagnose`, as data and as a page of text that fits a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from tensorferry import display
from tensorferry.cards import Card, Grid, Shown, Tone
from tensorferry.classes import dataclass, field
from tensorferry.diagnosis.recipes import Recipe

Way = Literal["pickle", "cloudpickle", "savedmodel", "keras", "weights"]

# keeps: the object comes back. drops: saving works and leaves the object out. fails: saving or
# loading raises. inapplicable: the way is not for such objects. unjudged: it was not tried.
Verdict = Literal["keeps", "drops", "fails", "inapplicable", "unjudged"]

WAYS: tuple[Way, ...] = get_args(Way)

NAMES: dict[Way, str] = {
    "pickle": "pickle",
    "cloudpickle": "cloudpickle",
    "savedmodel": "SavedModel",
    "keras": ".keras",
    "weights": "weights",
}
MARKS: dict[Verdict, str] = {
    "keeps": "✓",
    "drops": "·",
    "fails": "✗",
    "inapplicable": "–",  # noqa: RUF001
    "unjudged": "?",
}
MEANINGS: dict[Verdict, str] = {
    "keeps": "kept",
    "drops": "left out",
    "fails": "fails",
    "inapplicable": "not for such objects",
    "unjudged": "not tried",
}

WIDTH = 80
# The width of each way's column, and of the column with the names.
COLUMNS = {way: len(name) + 2 for way, name in NAMES.items()}
NAME_WIDTH = WIDTH - sum(COLUMNS.values())
# How many rows of each kind the text shows.
SHOWN = 12


@dataclass(frozen=True, slots=True)
class WayReport:
    """One way of saving the whole object.

    Attributes:
        way: The way of saving.
        verdict: What happens to the object.
        reason: Why, unless the object is simply kept.
    """

    way: Way
    verdict: Verdict
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AttributeReport:
    """One attribute of the object, or another part of it.

    Attributes:
        path: The Python expression that leads to it.
        type: The name of its type.
        verdicts: What each way of saving does with it.
        reasons: Why a way of saving does not keep it, by way.
        cure: What to do about it; None if nothing is wrong.
    """

    path: str
    type: str
    verdicts: Mapping[Way, Verdict]
    reasons: Mapping[Way, str] = field(default_factory=dict)
    cure: str | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """A way of saving that works.

    Attributes:
        way: The way of saving.
        code: The call to make.
        note: What to know about the result.
    """

    way: Way
    code: str
    note: str


@dataclass(frozen=True, slots=True, repr=False)
class DiagnosisReport(Shown):
    """What can be kept of an object, and how.

    Attributes:
        type: The name of the object's class.
        ways: What each way of saving does with the whole object.
        attributes: The object's own attributes, then all other parts that some way does not keep.
        advice: The ways that work, the best first.
        recipe: A program that saves the weights and rebuilds the object; None without weights.
        notes: What else is good to know.
    """

    type: str
    ways: Mapping[Way, WayReport]
    attributes: tuple[AttributeReport, ...]
    advice: tuple[Advice, ...]
    recipe: Recipe | None = None
    notes: tuple[str, ...] = ()

    @property
    def troubles(self) -> tuple[AttributeReport, ...]:
        """The parts that at least one way of saving does not keep."""
        return tuple(row for row in self.attributes if row.reasons)

    def __getitem__(self, path: str) -> AttributeReport:
        """The report of the part at a path, such as "model.encoder"."""
        for row in self.attributes:
            if row.path == path:
                return row
        raise KeyError(path)

    def _card(self) -> Card:
        rows = [("the whole", "", {way: self.ways[way].verdict for way in WAYS})]
        others = [row for row in self.attributes if not row.reasons]
        rows += [(row.path, row.type, dict(row.verdicts)) for row in (*self.troubles, *others)]
        cells = [
            (name, kind, *(f"{MARKS[verdicts[way]]} {MEANINGS[verdicts[way]]}" for way in WAYS))
            for name, kind, verdicts in rows
        ]
        headers = ("part", "type", *(NAMES[way] for way in WAYS))
        lines: list[tuple[Tone, str]] = []
        for row in self.troubles:
            reasons = "; ".join(dict.fromkeys(row.reasons.values()))
            lines.append(("bad", f"{row.path}: {reasons}"))
            if row.cure:
                lines.append(("plain", f"→ {row.cure}"))
        lines += [("good", f"{one.code}  # {one.note}") for one in self.advice]
        lines += [("note", note) for note in self.notes]
        summary = " ".join(" ".join(self._summary()).removeprefix(f"{self.type}: ").split())
        return Card(
            "DiagnosisReport",
            self.type,
            summary,
            grids=[Grid(headers, cells, noun="part")],
            lines=lines,
        )

    def __str__(self) -> str:
        return "\n".join(map(display.clean, self._lines()))

    def _lines(self) -> Iterator[str]:
        yield from self._summary()
        yield ""
        yield from self._table()
        alone = [
            f"{NAMES[way]}: {one.reason}"
            for way, one in self.ways.items()
            if one.verdict in ("fails", "unjudged")
            and one.reason
            and not any(way in row.reasons for row in self.troubles)
        ]
        if self.troubles or alone:
            yield from ("", "In the way")
            for line in alone:
                yield from _wrapped(line, "  ", "    ")
            for row in self.troubles[:SHOWN]:
                yield from _trouble(row)
            yield from _more(len(self.troubles) - SHOWN)
        if self.advice:
            yield from ("", "What works, best first")
            for number, one in enumerate(self.advice, 1):
                yield f"  {number}. {one.code}"
                yield from _wrapped(one.note, "     ")
        if self.recipe is not None:
            yield from ("", "The cut: weights and a recipe (report.recipe)")
            yield from (f"  {line}".rstrip() for line in self.recipe.text.rstrip().splitlines())
        if self.notes:
            yield from ("", "Good to know")
            for note in self.notes:
                yield from _wrapped(note, "  - ", "    ")

    def _summary(self) -> Iterator[str]:
        words: dict[Verdict, str] = {
            "keeps": "kept by",
            "drops": "kept in part by",
            "fails": "refused by",
        }
        told = [
            f"{word} {_and([NAMES[way] for way in WAYS if self.ways[way].verdict == verdict])}"
            for verdict, word in words.items()
            if any(one.verdict == verdict for one in self.ways.values())
        ]
        yield from _wrapped(f"{self.type}: {'; '.join(told)}", "", "  ")

    def _table(self) -> Iterator[str]:
        yield _row("", NAMES)
        whole = {way: self.ways[way].verdict for way in WAYS}
        rows = [("the whole", whole)]
        first = [row for row in self.attributes if not row.reasons]
        for row in (*self.troubles[:SHOWN], *first[:SHOWN]):
            rows.append((_short(row.path, NAME_WIDTH - 1), dict(row.verdicts)))
        used: set[Verdict] = set()
        for name, verdicts in rows:
            used.update(verdicts.values())
            yield _row(name, {way: MARKS[verdict] for way, verdict in verdicts.items()})
        yield from _more(len(first) - SHOWN)
        key = [f"{MARKS[one]} {MEANINGS[one]}" for one in MARKS if one in used]
        yield from ("", "   ".join(key))


def _row(name: str, cells: Mapping[Way, str]) -> str:
    marks = "".join(f"{cells[way]:^{COLUMNS[way]}}" for way in WAYS)
    return f"{name:<{NAME_WIDTH}}{marks}".rstrip()


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _short(path: str, width: int) -> str:
    """A path without its start if it is too long, as the end says most."""
    path = path.removeprefix("model") if path.startswith("model.") else path
    return path if len(path) <= width else f"…{path[1 - width :]}"


def _trouble(row: AttributeReport) -> Iterator[str]:
    head = f"{row.path}  ({row.type})"
    yield from _folded(head, "  ", "      ")
    ways: dict[str, list[str]] = {}
    for way, reason in row.reasons.items():
        ways.setdefault(reason, []).append(NAMES[way])
    for reason, names in ways.items():
        yield from _wrapped(f"{', '.join(names)}: {reason}", "    ", "      ")
    if row.cure:
        yield from _wrapped(row.cure, "    → ", "      ")


def _wrapped(text: str, start: str, following: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=start,
        subsequent_indent=start if following is None else following,
        break_on_hyphens=False,
    )


def _folded(text: str, start: str, following: str) -> Iterator[str]:
    """Lines of text, broken before a dot, bracket or space."""
    line = start
    while len(line) + len(text) > WIDTH:
        room = WIDTH - len(line)
        cut = max(text.rfind(mark, 1, room) for mark in (".", "[", " "))
        cut = cut if cut > 0 else room
        yield line + text[:cut].rstrip()
        text, line = text[cut:].lstrip(), following
    yield line + text


def _more(count: int) -> Iterator[str]:
    if count > 0:
        yield f"  and {count} more"
