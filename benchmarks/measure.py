"""Timing, tables and results: what every benchmark shares."""

from __future__ import annotations

import gc
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
# The columns of words, which are aligned to the left; the others are numbers.
WORDS = {"by", "size", "server", "spread", "limit"}


def best(
    functions: dict[str, Callable[[], Any]],
    *,
    seconds: float = 1.0,
    settle: Callable[[], Any] = lambda: None,
) -> dict[str, float]:
    """The shortest time of each function, in seconds a call.

    They take turns, so that a slow moment of the machine hits all of them; each gets about
    `seconds` in all, and at least five rounds. A function that takes more than `seconds` for one
    call runs twice. `settle` is called before each, and takes no time.
    """
    calls, times = {}, {}
    for name, function in functions.items():
        settle()
        first = _time(function)
        settle()
        once = _time(function)
        times[name] = min(first, once)
        if once < seconds:
            calls[name] = max(1, int(seconds / 20 / max(once, 1e-7)))
    gc.disable()
    try:
        for _ in range(20 if min(calls.values(), default=1) > 1 else 5):
            for name, number in calls.items():
                function = functions[name]
                settle()
                start = time.perf_counter()
                for _ in range(number):
                    function()
                times[name] = min(times[name], (time.perf_counter() - start) / number)
    finally:
        gc.enable()
    return times


def _time(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


@dataclass
class Report:
    """The answers of one benchmark: rows of a table, printed and kept as JSON."""

    question: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, **row: Any) -> None:
        """Adds a row."""
        self.rows.append(row)

    def finish(self, name: str) -> None:
        """Prints the table and writes benchmarks/results/<name>.json."""
        print(f"\n{self.question}\n")
        table = lines(self.rows)
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table:
            cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
            print("  " + "  ".join(cells).rstrip())
        for note in self.notes:
            print(f"  {note}")
        self.keep(name)

    def keep(self, name: str) -> None:
        """Writes benchmarks/results/<name>.json."""
        RESULTS.mkdir(exist_ok=True)
        content = {
            "question": self.question,
            "machine": machine(),
            "rows": self.rows,
            "notes": self.notes,
        }
        (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")


def lines(rows: list[dict[str, Any]]) -> list[list[str]]:
    """A table's cells as text, the names of its columns first."""
    columns = list(rows[0])
    return [columns, *[[_text(row.get(key, "")) for key in columns] for row in rows]]


def markdown(rows: list[dict[str, Any]]) -> str:
    """The same as a table of Markdown."""
    head, *body = lines(rows)
    rule = ["---" if name in WORDS else "---:" for name in head[1:]]
    table = [head, ["---", *rule], *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in table)


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """A time as a person reads it."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def machine() -> dict[str, Any]:
    """Where and with what this was measured."""
    packages = ("numpy", "tensorflow_cpu", "safetensors", "pyarrow", "tensorferry")
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
