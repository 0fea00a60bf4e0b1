"""`ferry diff`: what differs between two files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import completing, options as shared, text

if TYPE_CHECKING:
    from tensorferry.operations.diff import DiffReport
    from tensorferry.operations.differences import TensorDiff

# How many names that only one of the files has are listed.
LISTED = 20


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
@shared.as_json
def diff_command(
    first: str,
    second: str,
    mapping: tuple[str, ...],
    select: tuple[str, ...],
    everything: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Compares two files of any formats; the exit code is 1 if they differ.

    Tensors belong together by name, rows of records and tables by position or --key. NEW and OLD
    of --map may hold `*`, as in --map 'encoder/*=model.encoder.*'. By --key, the keys of B are in
    memory, and all of B if it is compressed or a bundle: give the larger file as A.
    """
    from tensorferry.operations.diff import diff

    sides = shared.one_input(first), shared.one_input(second)
    report = diff(*sides, map=list(mapping), match=select, **given)
    if as_json:
        from tensorferry.operations.plain import plain

        shared.echo_json("diff", equal=report.equal, **plain(report))
    elif not text.MANNER.quiet:
        shared.echo(_render(report, everything))
    return 0 if report.equal else 1


def _render(report: DiffReport, everything: bool) -> Iterable[str]:
    from tensorferry.operations.list import collapse_names

    shown = [found for found in report.tensors if everything or not found.equal]
    headers = ("tensor", "", "differ", "of", "largest", "mean", "cosine", "first at", "what")
    table = text.Table(headers, right=(2, 3, 4, 5, 6), flexible=(0, 8))
    for found in shown:
        table.add(
            found.name,
            "=" if found.equal else "≠",
            text.number(found.differing),
            text.number(found.elements),
            text.number(found.largest),
            text.number(found.mean),
            text.number(found.cosine),
            "" if found.first is None else text.shape(found.first),
            _reason(found),
            colour=None if found.equal else "red",
        )
    if len(table):
        yield from table.lines()
    for alone, side in ((report.only_a, report.a), (report.only_b, report.b)):
        names = collapse_names(alone)
        for name in names[:LISTED]:
            yield text.paint(text.clean(f"only in {side}: {name}"), "yellow")
        if len(names) > LISTED:
            yield text.paint(text.clean(f"only in {side}: {len(names) - LISTED} more"), "yellow")
    for rows, side in ((report.rows_a, report.a), (report.rows_b, report.b)):
        if rows:
            yield text.paint(text.clean(f"only in {side}: {text.plural(rows, 'row')}"), "yellow")
    equal = sum(found.equal for found in report.tensors)
    common = f"{equal:,} of {len(report.tensors):,} are the same"
    if report.equal:
        yield text.paint(f"equal: {common}", "green")
    else:
        yield text.paint(f"different: {common if report.tensors else 'nothing in common'}", "red")


def _reason(found: TensorDiff) -> str:
    if found.reason == "dtype":
        return f"{found.dtypes[0]}, {found.dtypes[1]}"
    if found.reason == "shape":
        return f"{text.shape(found.shapes[0])}, {text.shape(found.shapes[1])}"
    words = {"rows": "lengths of rows", "entries": "entries", "unreadable": "cannot be read"}
    return words.get(found.reason or "", "")
