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
    from tensorferry.operations.stats import ColumnStatistics, StatsReport

# From so many columns on, the deviation is shown, and quantiles.
MEDIUM, WIDE = 100, 120


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

    In one pass; quantiles and the number of different strings are approximate where there are many.
    """
    from tensorferry.files.find import counted_in
    from tensorferry.operations.stats import collect

    def work(given: Found | str) -> StatsReport:
        name = name_of(given)
        with output.progress(name, shared.unit(wanted, counted_in(name))) as progress:
            return collect(given, match=select, progress=progress, **wanted, **options)

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
    width = text.width() if text.is_terminal() else WIDE
    quantiles = {"5%": "0.05", "50%": "0.5", "95%": "0.95"} if width >= WIDE else {}
    deviation = ["std"] if width >= MEDIUM else []
    headers = ("name", "dtype", "count", "min", *quantiles, "max", "mean", *deviation, "about")
    right = range(2, len(headers) - 1)
    table = text.Table(headers, right=right, flexible=(0, len(headers) - 1))
    for column in report.columns:
        values = column.values
        if values.distinct is not None:  # of strings, the numbers are about their lengths
            middle = [""] * (len(headers) - 4)
        else:
            found = [values.quantiles.get(key) for key in quantiles.values()]
            numbers = [values.minimum, *found, values.maximum, values.mean]
            numbers += [values.deviation] if deviation else []
            middle = [_short(number) for number in numbers]
        table.add(column.name, column.dtype, text.number(values.count), *middle, _about(column))
    if len(table):
        yield from table.lines()
    for note in report.notes:
        yield text.paint(f"note: {text.clean(note)}", "yellow")
    if report.rows is not None:
        noun = "record" if report.holds == "records" else "row"
        yield text.paint(text.plural(report.rows, noun), "dim")


def _short(number: float | None) -> str:
    if number is None:
        return ""
    return str(number) if isinstance(number, int) and abs(number) < 10**7 else f"{number:.4g}"


def _span(values: Summary) -> str:
    same = values.minimum == values.maximum
    return str(values.minimum) if same else f"{values.minimum}-{values.maximum}"


def _percent(part: int, whole: int) -> str:
    return "<1%" if part / whole < 0.005 else f"{part / whole:.0%}"


def _about(column: ColumnStatistics) -> str:
    """What else there is to say of a column."""
    values, parts = column.values, []
    parts.append(f"{column.missing:,} missing" if column.missing else "")
    if values.distinct is not None:
        sign = "~" if values.estimated else ""
        parts.append(f"{sign}{values.distinct:,} distinct")
        parts.append(f"{_span(values)} bytes" if values.count else "")
        parts.append(f"{values.zeros:,} empty" if values.zeros else "")
    else:
        parts.append(f"{_percent(values.zeros, values.count)} zeros" if values.zeros else "")
    parts.append(f"{values.nan:,} NaN" if values.nan else "")
    parts.append(f"{values.infinite:,} infinite" if values.infinite else "")
    lengths = column.lengths
    if lengths is not None and lengths.count:
        parts.append(f"{_span(lengths)} a row (mean {lengths.mean:.3g})")
    if values.complex:
        parts.append("magnitudes")
    return ", ".join(part for part in parts if part)
