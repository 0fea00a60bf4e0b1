"""`ferry diff`: what differs between two files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import completing, options as shared, output, text
from tensorferry.cli.cells import cell

if TYPE_CHECKING:
    from tensorferry.operations.diff import DiffReport
    from tensorferry.operations.differences import TensorDiff

# How many names that only one of the files has are listed.
LISTED = 20
# What the columns are called where there is more room.
WORDS = {
    "": "equal",
    "differ": "values that differ",
    "of": "values compared",
    "largest": "largest difference",
    "mean": "mean difference",
    "first at": "first difference at",
}


@click.command("diff")
@click.argument("first", metavar="A", shell_complete=completing.files)
@click.argument("second", metavar="B", shell_complete=completing.files)
@click.option("--rtol", type=float, default=0.0, help="Relative tolerance, of B's numbers.")
@click.option("--atol", type=float, default=0.0, help="Absolute tolerance.")
@click.option(
    "--map", "mapping", multiple=True, metavar="OLD=NEW", help="What a tensor of A is called in B."
)
@click.option(
    "--key",
    metavar="COLUMN",
    help="Compare rows of one key, not of one position.",
    shell_complete=completing.names,
)
@shared.selecting("Only these tensors of A")
@click.option("--ignore-dtype", is_flag=True, help="The same numbers in another dtype are equal.")
@click.option("--all", "everything", is_flag=True, help="List what is equal, too.")
@click.option("--summary", is_flag=True, help="Only the counts, and what was renamed.")
@shared.running
@shared.as_json
def diff_command(
    first: str,
    second: str,
    mapping: tuple[str, ...],
    select: tuple[str, ...],
    everything: bool,
    summary: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Compares two files of any formats; the exit code is 1 if they differ.

    Tensors belong together by name, rows of records and tables by position or --key. NEW and OLD
    of --map may hold `*`, as in --map 'encoder/*=model.encoder.*'. By --key, the keys of B are in
    memory, and all of B if it is compressed or a bundle: give the larger file as A. Tensors that
    have the same content under another name are told as renamed.
    """
    if everything and summary:
        raise click.UsageError("--all lists everything, and --summary nothing: expected one")
    from tensorferry.files.find import counted_in
    from tensorferry.operations.diff import diff

    sides = shared.one_input(first), shared.one_input(second)
    with output.progress(first, shared.unit(given, counted_in(first))) as progress:
        report = diff(*sides, map=list(mapping), match=select, progress=progress, **given)
    if as_json:
        from tensorferry.operations.plain import plain

        shared.echo_json("diff", equal=report.equal, **plain(report))
    elif not text.MANNER.quiet:
        shared.echo([*_alone(report), _verdict(report)] if summary else _render(report, everything))
    return 0 if report.equal else 1


def _render(report: DiffReport, everything: bool) -> Iterable[str]:
    shown = [found for found in report.tensors if everything or not found.equal]
    sign = ("",) if everything else ()
    noun = "tensor" if report.rows_a is None else "column"
    headers = (noun, *sign, "differ", "of", "largest", "mean", "cosine", "first at", "A → B")
    right = range(1 + len(sign), len(headers) - 2)
    table = text.Table(headers, right=right, wider=WORDS, optional=("mean", "cosine", "of"))
    for found in shown:
        numbers = (found.mean, found.cosine) if found.differing else (None,) * 2
        table.add(
            found.name if found.name == found.other else f"{found.name} → {found.other}",
            *(("=" if found.equal else "≠",) if everything else ()),
            text.number(found.differing) if found.differing else "",
            text.number(found.elements) if found.differing else "",
            _largest(found),
            *map(text.number, numbers),
            _place(found),
            _both(found),
            colour=None if found.equal else "red",
        )
    if len(table):
        yield from table.lines()
    yield from _alone(report)
    yield _verdict(report)


def _largest(found: TensorDiff) -> str:
    """The largest difference, or that a value became NaN or infinite, or was."""
    if found.nonfinite:
        return "not finite"
    return text.number(found.largest) if found.differing else ""


def _alone(report: DiffReport) -> Iterable[str]:
    """What only one of the files has, and what has another name in the other."""
    from tensorferry.operations.list import collapse_names

    renamed = report.renamed
    pairs = collapse_names(f"{old} → {new}" for old, new in renamed.items())
    lines = [f"renamed: {pair}" for pair in pairs[:LISTED]]
    lines += [f"renamed: {len(pairs) - LISTED:,} more"] if len(pairs) > LISTED else []
    taken = set(renamed.values())
    alone = [name for name in report.only_a if name not in renamed]
    others = [name for name in report.only_b if name not in taken]
    for side, names, rows in (("A", alone, report.rows_a), ("B", others, report.rows_b)):
        found = collapse_names(names)
        lines += [f"only in {side}: {name}" for name in found[:LISTED]]
        lines += [f"only in {side}: {len(found) - LISTED:,} more"] if len(found) > LISTED else []
        lines += [f"only in {side}: {text.plural(rows, 'row')}"] if rows else []
    for line in lines:
        yield text.paint(text.clean(line), "yellow")


def _verdict(report: DiffReport) -> str:
    """The last line: how many differ, are the same, or have no counterpart."""
    same = sum(found.equal for found in report.tensors)
    noun = "tensor" if report.rows_a is None else "column"
    if report.equal:
        return text.paint(f"equal: {text.plural(same, noun)}", "green")
    renamed = len(report.renamed)
    parts = [
        f"{len(report.tensors) - same:,} differ",
        f"{same:,} same",
        f"{renamed:,} renamed" if renamed else "",
        f"{len(report.only_a) - renamed:,} only in A" if len(report.only_a) > renamed else "",
        f"{len(report.only_b) - renamed:,} only in B" if len(report.only_b) > renamed else "",
        f"{text.plural(report.rows_a, 'row')} only in A" if report.rows_a else "",
        f"{text.plural(report.rows_b, 'row')} only in B" if report.rows_b else "",
    ]
    return text.paint(", ".join(part for part in parts if part), "red")


def _place(found: TensorDiff) -> str:
    """Where the first difference is: in both files, and under which key."""
    if found.first is None:
        return ""
    if found.key is None:
        return text.shape(found.first)
    rows = f"row {found.first[0]}"
    if found.other_first is not None and found.other_first[0] != found.first[0]:
        rows = f"row {found.first[0]} of A, {found.other_first[0]} of B"
    inside = f" {text.shape(found.first[1:])}" if len(found.first) > 1 else ""
    return f"key {cell(found.key)}, {rows}{inside}"


def _both(found: TensorDiff) -> str:
    """What both files have: their dtypes or shapes if these differ, or the first values that do."""
    parts = []
    if found.dtypes[0] != found.dtypes[1]:
        parts.append(f"{found.dtypes[0]} → {found.dtypes[1]}")
    if found.reason == "shape":
        parts.append(f"{text.shape(found.shapes[0])} → {text.shape(found.shapes[1])}")
    words = {"entries": "other entries", "unreadable": "cannot be read", "rows": "lengths of rows"}
    if found.values is not None:
        left, right = map(_value, found.values, found.dtypes)
        parts.append(f"{left} → {right}")
    elif found.reason in words:
        parts.append(words[found.reason])
    return ", ".join(parts)


def _value(value: Any, dtype: str) -> str:
    """A value, with as many digits as its dtype has."""
    import numpy as np

    if value is None:
        return "null"
    if isinstance(value, float):
        return repr(value) if dtype == "float64" else str(np.float32(value))
    return cell(value)
