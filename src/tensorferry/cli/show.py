"""`ferry show`: the values of a tensor or of a slice of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import completing, options as shared, output, text
from tensorferry.cli.cells import cell

if TYPE_CHECKING:
    from tensorferry.operations.measures import Summary
    from tensorferry.operations.show import Excerpt, Histogram

BARS = " ▁▂▃▄▅▆▇█"

# Beyond so many values, JSON has them only if all are asked for.
MANY = 10_000


@click.command("show")
@click.argument("path", shell_complete=completing.files)
@click.argument("name", required=False, metavar="[NAME[0:2,:5]]", shell_complete=completing.names)
@click.option("--all", "everything", is_flag=True, help="Print all values, however many.")
@shared.reading
@shared.as_json
def show_command(
    path: str,
    name: str | None,
    everything: bool,
    format: str | None,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    """The values of a tensor or of a slice of it, with their range, mean and a histogram.

    NAME may end with an index; it can be left out where there is one tensor. Of records and tables,
    NAME is a column, and the first part of the index means rows.
    """
    from tensorferry.operations.show import excerpt

    if name is not None and os.path.isfile(name) and not os.path.lexists(path):
        raise click.UsageError(f"the file comes first\nhint: `ferry show {name} {path}`")
    with output.waiting(path):
        found = excerpt(shared.one_input(path), name, format=format, **options)
    if as_json:
        import numpy as np

        from tensorferry.classes import replace
        from tensorferry.tensors.values import count_lists

        is_array = isinstance(found.values, np.ndarray)
        lists = count_lists(found.values.shape) if is_array else 0
        whole = everything or max(found.summary.count, lists) <= MANY
        shown = found if whole else replace(found, values=None)
        shared.echo_json("show", excerpt=shown, complete=whole)
    else:
        shared.echo(_render(found, everything))


def _render(found: Excerpt, everything: bool) -> Iterable[str]:
    kind = "" if found.kind in ("dense", "string") else f" {found.kind}"
    title = f"{found.name}  {found.dtype} {text.shape(found.shape)}{kind}"
    yield text.paint(text.clean(title), "bold")
    yield from _values(found.values, everything)
    yield from summary_lines(found.summary)
    if found.histogram is not None:
        yield _bars(found.histogram)


def _values(values: Any, everything: bool) -> Iterable[str]:
    import numpy as np

    from tensorferry.tensors.values import SparseTensor

    if isinstance(values, np.ndarray) and values.dtype != object and values.dtype.names is None:
        with np.printoptions(
            threshold=values.size + 1 if everything else 200,
            edgeitems=3,
            linewidth=text.width() if text.is_terminal() else 100,
        ):
            yield from str(values).splitlines()
        return
    if isinstance(values, np.ndarray):
        values = values.reshape(-1) if values.ndim else [values[()]]
    elif isinstance(values, SparseTensor):
        pairs = zip(values.indices.tolist(), values.values, strict=True)
        values = [f"{place}: {cell(value)}" for place, value in pairs]
    elif values is None or isinstance(values, bytes) or np.isscalar(values):
        values = [values]
    most = len(values) if everything else 20
    for number in range(min(most, len(values))):
        yield text.clean(cell(values[number]))
    if len(values) > most:
        yield text.paint(f"and {len(values) - most:,} more: --all", "dim")


def summary_lines(summary: Summary) -> Iterable[str]:
    """The numbers of a summary, on one line or two."""
    of_strings = summary.distinct is not None
    noun = "length " if of_strings else "magnitude " if summary.complex else ""
    pairs = [
        ("count", text.number(summary.count)),
        (f"{noun}min", text.number(summary.minimum)),
        (f"{noun}max", text.number(summary.maximum)),
        (f"{noun}mean", text.number(summary.mean)),
        ("std", "" if of_strings else text.number(summary.deviation)),
        ("empty" if of_strings else "zeros", text.number(summary.zeros)),
        ("NaN", "" if of_strings else text.number(summary.nan)),
        ("infinite", text.number(summary.infinite) if summary.infinite else ""),
        ("distinct", ("~" if summary.estimated else "") + text.number(summary.distinct)),
    ]
    line, room = "", text.width() if text.is_terminal() else 1 << 30
    taken = 0
    for name, value in pairs:
        if not value:
            continue
        length = len(name) + len(value) + 3
        if taken and taken + length - 2 > room:
            yield line.rstrip()
            line, taken = "", 0
        line += f"{text.paint(name, 'dim')} {value}  "
        taken += length
    yield line.rstrip()


def _bars(histogram: Histogram) -> str:
    highest = max(histogram.counts)
    bars = "".join(BARS[-(-count * (len(BARS) - 1) // highest)] for count in histogram.counts)
    low, high = histogram.edges[0], histogram.edges[-1]
    return f"{low:.4g} {text.paint(bars, 'cyan')} {high:.4g}"
