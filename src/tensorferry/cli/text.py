"""Text: tables, sizes and numbers for people, as wide as the terminal; nothing is cut in a pipe.

Whatever comes out of a file is printed through `clean`: names and strings of a file may hold
escape sequences, which a terminal would obey. `tensorferry.cli.output` prints, and cleans whatever
was forgotten.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TextIO

from tensorferry.classes import dataclass, field
from tensorferry.display import (
    clean as clean,
    columns_of as columns_of,
    cut as cut,
    number as number,
    plural as plural,
    shape as shape,
    size as size,
)

Colour = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}

# A column is not made narrower than this, and not than the other before columns are left out.
NARROWEST, READABLE = 12, 20
# Where each row is a block of lines, names are not wider than this, or than half of the terminal.
WIDEST = 30


@dataclass
class Manner:
    """How the command of this run prints, as its options say.

    Attributes:
        plain: Without colours, whatever the terminal can.
        quiet: Only results and errors: no progress, and no report of what was done.
        expanded: A block of lines for each row of a table, whatever fits.
        unpaged: Without a pager, however much there is.
    """

    plain: bool = False
    quiet: bool = False
    expanded: bool = False
    unpaged: bool = False

    def reset(self) -> None:
        """Forgets what the options of the last run said."""
        self.plain = self.quiet = self.expanded = self.unpaged = False


MANNER = Manner()


def is_terminal() -> bool:
    """Whether the standard output is a terminal."""
    return sys.stdout.isatty()


def is_coloured(stream: TextIO) -> bool:
    """Whether a stream gets colours.

    The option --no-color and the variable NO_COLOR turn them off, FORCE_COLOR turns them on where
    there is no terminal.
    """
    if MANNER.plain or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """How many columns the terminal has."""
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def paint(text: str, colour: Colour | None) -> str:
    """The text in a colour, where there are colours."""
    if colour is None or not text or not is_coloured(sys.stdout):
        return text
    return f"\x1b[{CODES[colour]}m{text}\x1b[0m"


@dataclass
class Table:
    """Lines of cells, aligned; one block of lines a row, where the terminal is too narrow.

    Attributes:
        headers: Of the columns; cleaned.
        right: Which columns are aligned to the right.
        flexible: Which columns give way on a narrow terminal.
        cut_ends: Whether cells lose their ends then, not their middles.
        whole: Whether columns without any cell are shown, too.
        wider: What the headers are called in blocks, where there is room for more words.
        optional: The headers of columns that are left out where there is no room, in this order.
    """

    headers: Sequence[str]
    right: Sequence[int] = ()
    flexible: Sequence[int] = (0,)
    cut_ends: bool = False
    whole: bool = False
    wider: Mapping[str, str] = field(default_factory=dict)
    optional: Sequence[str] = ()
    _lines: list[tuple[list[str], Colour | None]] = field(default_factory=list)
    _red: set[tuple[int, int]] = field(default_factory=set)

    def add(self, *cells: Any, colour: Colour | None = None, red: Sequence[int] = ()) -> None:
        """Adds a line; cells are cleaned.

        Args:
            *cells: Of the columns.
            colour: Of the line.
            red: Which of the cells are red, whatever the colour of the line.
        """
        self._red |= {(len(self._lines), place) for place in red}
        self._lines.append((["" if cell is None else clean(cell) for cell in cells], colour))

    def __post_init__(self) -> None:
        self.headers = [clean(header) for header in self.headers]

    def __len__(self) -> int:
        return len(self._lines)

    def lines(self) -> Iterable[str]:
        """The text; columns without any cell are left out."""
        used = [
            place
            for place in range(len(self.headers))
            if self.whole or any(cells[place] for cells, _ in self._lines)
        ]
        widths = {
            place: max(
                columns_of(self.headers[place]),
                *(columns_of(cells[place]) for cells, _ in self._lines),
            )
            for place in used
        }
        left_out = self._leave_out(widths) if is_terminal() else []
        if MANNER.expanded or (
            is_terminal() and not (self._narrow(widths) and self._tells(widths))
        ):
            yield from self._blocks(used)
            return
        yield paint(self._heading(widths), "bold")
        for row, (cells, colour) in enumerate(self._lines):
            yield self._line(cells, widths, colour, row)
        if left_out:
            yield paint(cut(f"not shown: {', '.join(left_out)}; -x shows all", width()), "dim")

    def _leave_out(self, widths: dict[int, int]) -> list[str]:
        """Leaves columns out until the others fit, and gives their names."""
        left_out = []
        places = [self.headers.index(name) for name in self.optional if name in self.headers]
        for place in (place for place in places if place in widths):
            least = [
                min(most, READABLE) if column in self.flexible else most
                for column, most in widths.items()
            ]
            if sum(least) + 2 * (len(least) - 1) <= width():
                break
            del widths[place]
            left_out.append(self.headers[place])
        return left_out

    def _narrow(self, widths: dict[int, int]) -> bool:
        """Makes columns as narrow as the terminal wants it, if that can be."""
        excess = sum(widths.values()) + 2 * (len(widths) - 1) - width()
        flexible = [place for place in self.flexible if place in widths]
        while excess > 0 and flexible:
            widest = max(flexible, key=lambda place: widths[place])
            if widths[widest] <= NARROWEST:
                return False
            widths[widest] -= 1
            excess -= 1
        return excess <= 0

    def _tells(self, widths: dict[int, int]) -> bool:
        """Whether the headers tell the columns apart, cut as they are."""
        names = [cut(self.headers[place], most) for place, most in widths.items()]
        return len(set(names)) == len({self.headers[place] for place in widths})

    def _heading(self, widths: dict[int, int]) -> str:
        """The headers: names are cut in the middle."""
        cells = {place: cut(self.headers[place], most) for place, most in widths.items()}
        return self._line([cells.get(place, "") for place in range(len(self.headers))], widths)

    def _line(
        self,
        cells: Sequence[str],
        widths: dict[int, int],
        colour: Colour | None = None,
        row: int | None = None,
    ) -> str:
        parts = []
        for place, most in widths.items():
            cell = cut(cells[place], most, end=self.cut_ends)
            space = " " * (most - columns_of(cell))
            cell = paint(cell, "red" if (row, place) in self._red else colour)
            parts.append(space + cell if place in self.right else cell + space)
        return "  ".join(parts).rstrip()

    def _blocks(self, used: Sequence[int]) -> Iterable[str]:
        """A block of each row: the names of the columns, and what they have there."""
        names = {
            place: self.wider.get(self.headers[place], self.headers[place]) + ":" for place in used
        }
        most = max(WIDEST, width() // 2) if is_terminal() else sys.maxsize
        longest = min(max(map(columns_of, names.values()), default=0), most)
        room = max(width() - longest - 1, NARROWEST) if is_terminal() else sys.maxsize
        for row, (cells, colour) in enumerate(self._lines):
            for place in used:
                if cells[place] or self.whole:
                    name = cut(names[place], longest)
                    space = " " * (longest - columns_of(name) + 1)
                    value = cut(cells[place], room, end=self.cut_ends and place != 0)
                    shade = "red" if (row, place) in self._red else colour
                    yield f"{paint(name, 'dim')}{space}{paint(value, shade)}".rstrip()
            yield ""


def fields(pairs: Iterable[tuple[str, Any]]) -> Iterable[str]:
    """Names and values below each other; empty values are left out."""
    found = [(name, clean(value)) for name, value in pairs if value not in (None, "", (), {})]
    longest = max((len(name) for name, _ in found), default=0)
    for name, value in found:
        room = width() - longest - 2 if is_terminal() else sys.maxsize
        yield f"{paint(name.ljust(longest), 'dim')}  {cut(value, max(room, NARROWEST))}"
