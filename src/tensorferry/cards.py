"""Cards: bundles, rows and reports as one line, as text and as HTML.

    class DiffReport(Shown):
        def _card(self) -> Card: ...

`repr` shows the first line, `print` shows everything, and notebooks show the HTML. Names and values
come from files, so each passes through `tensorferry.display`. No other module turns them into
markup.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from tensorferry import display
from tensorferry.classes import dataclass, field

# How many rows of a table, and how many lines, are shown; how many characters of each.
ROWS = 20
LINES = 12
CHARACTERS = 120

Tone = Literal["plain", "good", "note", "bad"]

# Colours that can be read on white and on black: a notebook may be either.
_COLOURS = {"plain": "inherit", "good": "#2a9d4a", "note": "#b7791f", "bad": "#d64545"}
_QUIET = "opacity:0.65"
_TABLE = "border-collapse:collapse;font-size:inherit"
_CELL = "text-align:{side};vertical-align:top;padding:2px 12px 2px 0;font-weight:{weight};"
_LINE = "border-bottom:1px solid rgba(128,128,128,0.35);"


@dataclass(frozen=True)
class Grid:
    """A table of a card.

    Attributes:
        headers: The column headers.
        rows: Cells, row by row; only as many as are shown have to be there.
        right: The columns that are aligned to the right: numbers.
        total: Number of rows that there are.
        noun: The noun for a row, as in "and 12 more tensors".
    """

    headers: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    right: tuple[int, ...] = ()
    total: int | None = None
    noun: str = "row"

    @property
    def shown(self) -> list[list[str]]:
        """The rows that are shown, as texts."""
        return [[cell(one) for one in row] for row in self.rows[:ROWS]]

    @property
    def used(self) -> list[int]:
        """The columns that are not empty."""
        found = self.shown
        return [place for place in range(len(self.headers)) if any(row[place] for row in found)]

    @property
    def more(self) -> str:
        """How many rows are left out; "" if none are."""
        left = (len(self.rows) if self.total is None else self.total) - len(self.rows[:ROWS])
        return f"and {display.plural(left, f'more {self.noun}')}" if left > 0 else ""


@dataclass(frozen=True)
class Card:
    """How an object is shown.

    Attributes:
        kind: The name of its class.
        name: The subject: a path.
        summary: The rest of its first line.
        tone: Whether that is good news.
        fields: Names and values; those without a value are left out.
        grids: Tables.
        lines: Notes and problems, each with its tone.
    """

    kind: str
    name: str
    summary: str
    tone: Tone = "plain"
    fields: Sequence[tuple[str, Any]] = ()
    grids: Sequence[Grid] = ()
    lines: Sequence[tuple[Tone, str]] = field(default=())

    def line(self) -> str:
        """The card as one line."""
        return f"{self.kind}({cell(display.scrub(self.name))}: {display.clean(self.summary)})"

    def text(self) -> str:
        """Lines of text."""
        return "\n".join(self._text())

    def _text(self) -> Iterator[str]:
        yield f"{cell(display.scrub(self.name))}: {display.clean(self.summary)}"
        found = [(name, cell(value)) for name, value in self.fields if value not in _NOTHING]
        longest = max((len(name) for name, _ in found), default=0)
        yield from (f"  {name:<{longest}}  {value}" for name, value in found)
        for grid in self.grids:
            yield from _text_of(grid)
        for tone, line in self._told():
            prefix = {"bad": "problem: ", "note": "note: "}.get(tone, "")
            yield f"  {prefix}{display.clean(line)}"

    def _told(self) -> Iterator[tuple[Tone, str]]:
        yield from self.lines[:LINES]
        if len(self.lines) > LINES:
            yield "plain", f"and {len(self.lines) - LINES} more"

    def html(self) -> str:
        """A part of a page, for notebooks."""
        return (
            '<div class="tensorferry" style="line-height:1.4">' + "".join(self._html()) + "</div>"
        )

    def _html(self) -> Iterator[str]:
        kind, name = (
            display.escape_html(self.kind),
            display.escape_html(cell(display.scrub(self.name))),
        )
        summary = display.escape_html(self.summary)
        colour = f"color:{_COLOURS[self.tone]}" if self.tone != "plain" else _QUIET
        told = f'<span style="{colour}">{summary}</span>'
        about = f"<code>{name}</code> " if name else ""
        yield f"<div><b>{kind}</b> {about}{told}</div>"
        found = [(name, cell(value)) for name, value in self.fields if value not in _NOTHING]
        if found:
            rows = [_row([name, value], (), header=0) for name, value in found]
            yield f'<table style="{_TABLE};margin:2px 0">{"".join(rows)}</table>'
        for grid in self.grids:
            yield _html_of(grid)
        for tone, line in self._told():
            yield f'<div style="color:{_COLOURS[tone]}">{display.escape_html(line)}</div>'


_NOTHING: tuple[Any, ...] = (None, "", (), {})


def pairs(metadata: Mapping[str, Any]) -> str:
    """A user's metadata on one line, without the keys that libraries use for themselves."""
    return ", ".join(
        f"{name}={value}" for name, value in metadata.items() if not is_technical(name)
    )


def is_technical(name: str) -> bool:
    """Whether a key of metadata is one of a library's, and not of a person."""
    return name == "pandas" or name.startswith("tensorferry.")


def cell(value: Any) -> str:
    """A value on one line, short enough for a table."""
    if value is None:
        return ""
    return display.cut(display.clean(str(value)[: 8 * CHARACTERS]), CHARACTERS)


def _text_of(grid: Grid) -> Iterator[str]:
    rows, used = grid.shown, grid.used
    if not rows:
        return
    lines = [[grid.headers[place] for place in used], *([row[p] for p in used] for row in rows)]
    widths = [max(map(display.columns_of, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = []
        for place, text, width in zip(used, line, widths, strict=True):
            space = " " * (width - display.columns_of(text))
            cells.append(space + text if place in grid.right else text + space)
        yield ("  " + "  ".join(cells)).rstrip()
    if grid.more:
        yield f"  {grid.more}"


def _html_of(grid: Grid) -> str:
    rows, used = grid.shown, grid.used
    if not rows:
        return ""
    right = tuple(number for number, place in enumerate(used) if place in grid.right)
    head = _row([grid.headers[place] for place in used], right, header=None)
    body = "".join(_row([row[place] for place in used], right) for row in rows)
    more = f'<div style="{_QUIET}">{display.escape_html(grid.more)}</div>' if grid.more else ""
    return (
        f'<table style="{_TABLE};margin:4px 0">'
        f"<thead>{head}</thead><tbody>{body}</tbody></table>{more}"
    )


def _row(cells: Sequence[str], right: tuple[int, ...], header: int | None = -1) -> str:
    """A row: all of it a head, or the cell of one column, or none."""
    parts = []
    for place, text in enumerate(cells):
        is_head = header is None or place == header
        tag, weight = ("th", "600") if is_head else ("td", "normal")
        style = _CELL.format(side="right" if place in right else "left", weight=weight)
        style += _LINE if header is None else ""
        parts.append(f'<{tag} style="{style}">{display.escape_html(text)}</{tag}>')
    return f"<tr>{''.join(parts)}</tr>"


class Shown:
    """Shown as a card: one line as `repr`, everything as `str`, and HTML in notebooks."""

    __slots__ = ()

    @abstractmethod
    def _card(self) -> Card:
        """What is shown."""

    def __repr__(self) -> str:
        return self._card().line()

    def __str__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()
