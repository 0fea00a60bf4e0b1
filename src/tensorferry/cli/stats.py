"""`ferry stats`: the distribution of values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import options as shared, output, text
from tensorferry.cli.failures import Inputs, name_of

if TYPE_CHECKING:
    from tensorferry.files.find import Found
    from tensorferry.operations.measures import Summary
    from tensorferry.operations.stats import StatsReport

QUANTILES = {"5%": "0.05", "50%": "0.5", "95%": "0.95"}
HEADERS = (
    *("name", "dtype", "count", "missing", "min", *QUANTILES, "max", "mean", "std", "zeros"),
    *("NaN", "infinite", "distinct", "bytes", "empty", "a row"),
)
# What is left out first where there is no room.
LAST = ("dtype", "count", "empty", "a row", "zeros", "missing", "bytes", "5%", "95%", "mean", "50%")
# What the columns are called where there is more room.
WORDS = {"bytes": "bytes of a string", "a row": "values a row", "std": "standard deviation"}


@click.command("stats")
@shared.paths
@shared.selecting()
@shared.running
@shared.reading
@shared.as_json
def stats_command(
    paths: tuple[str, ...],
    select: tuple[str, ...],
    as_json: bool,
    options: dict[str, Any],
    **wanted: Any,
) -> int:
    """Count, missing, range, mean, deviation, zeros, NaN and quantiles of each tensor or column.

    In one pass. What is estimated, because there are many values, has a ~ before it: quantiles
    beyond 32,768 values, and the number of different strings beyond 262,144.
    """
    from tensorferry.files.find import counted_in
    from tensorferry.operations.stats import stats as measure

    def work(given: Found | str) -> StatsReport:
        name = name_of(given)
        with output.progress(name, shared.unit(wanted, counted_in(name))) as progress:
            return measure(given, select=select, progress=progress, **wanted, **options)

    inputs = Inputs(paths)
    reports = []
    for place, report in enumerate(inputs.each(work)):
        reports.append(report)
        if not as_json:
            if len(paths) > 1:
                if place:
                    output.line()
                output.line(text.paint(text.clean(report.path), "bold"))
            shared.echo(_render(report))
    if as_json:
        inputs.echo_json("stats", files=reports)
    return inputs.code


def _render(report: StatsReport) -> Iterable[str]:
    table = text.Table(HEADERS, right=range(2, len(HEADERS)), wider=WORDS, optional=LAST)
    for column in report.columns:
        values = column.values
        strings = values.distinct is not None  # the numbers are about their lengths then
        cells = {
            "name": column.name,
            "dtype": column.dtype,
            "count": text.number(values.count),
            "missing": text.number(column.missing or None),
            **(_of_strings(values) if strings else _of_numbers(values, column.moment)),
            "a row": _lengths(column.lengths),
        }
        red = [HEADERS.index(name) for name in ("NaN", "infinite") if cells.get(name)]
        table.add(*(cells.get(name, "") for name in HEADERS), red=red)
    if len(table):
        yield from table.lines()
    if any(column.values.complex for column in report.columns):
        yield text.paint("note: of complex numbers, magnitudes are told", "yellow")
    for note in report.notes:
        yield text.paint(f"note: {text.clean(note)}", "yellow")
    if report.rows is not None:
        noun = "record" if report.holds == "records" else "row"
        yield text.paint(text.plural(report.rows, noun), "dim")


def _of_strings(values: Summary) -> dict[str, str]:
    sign = "~" if values.estimated else ""
    return {
        "distinct": f"{sign}{text.number(values.distinct)}",
        "bytes": _span(values) if values.count else "",
        "empty": text.number(values.zeros or None),
    }


def _of_numbers(values: Summary, moment: str | None) -> dict[str, str]:
    sign = "~" if values.approximate else ""
    found = {name: values.quantiles.get(key) for name, key in QUANTILES.items()}
    return {
        "min": _short(values.minimum, moment),
        **{
            name: "" if number is None else sign + _short(number, moment)
            for name, number in found.items()
        },
        "max": _short(values.maximum, moment),
        "mean": _short(values.mean, moment),
        "std": "" if moment else _short(values.deviation, None),
        "zeros": _percent(values.zeros, values.count) if values.zeros and not moment else "",
        "NaN": text.number(values.nan or None),
        "infinite": text.number(values.infinite or None),
    }


def _short(number: float | None, moment: str | None) -> str:
    """A number in about four digits, but integers in full, and times as dates."""
    if number is None:
        return ""
    if moment:
        from tensorferry.operations.moments import text_of

        return str(text_of(round(number), moment))
    if isinstance(number, int):
        return str(number)
    if number == round(number) and abs(number) < 1e15:
        return str(round(number))
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e15 else f"{number:.4g}"


def _span(values: Summary) -> str:
    same = values.minimum == values.maximum
    return f"{values.minimum}" if same else f"{values.minimum}-{values.maximum}"


def _lengths(lengths: Summary | None) -> str:
    """How many values the rows of a ragged column have."""
    if lengths is None or not lengths.count:
        return ""
    same = lengths.minimum == lengths.maximum
    return _span(lengths) if same else f"{_span(lengths)}, mean {lengths.mean:.3g}"


def _percent(part: int, whole: int) -> str:
    return "<1%" if part / whole < 0.005 else f"{part / whole:.0%}"
