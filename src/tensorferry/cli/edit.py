"""`ferry edit`: surgery on weights."""

from __future__ import annotations

from typing import Any

import click

from tensorferry.cli import completing, options as shared, output as out, text


@click.command("edit")
@click.argument("path", metavar="FILE", shell_complete=completing.files)
@shared.dropping
@shared.renaming
@shared.setting
@click.option(
    "--cast",
    "casts",
    multiple=True,
    metavar="NAMES=DTYPE",
    help="Floats (or integers) become of this dtype: '*=bfloat16', 'head/*=float32'.",
    shell_complete=completing.dtypes,
)
@shared.keeping
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@shared.force
@shared.target
@shared.reading
@shared.as_json
def edit_command(
    path: str,
    output: str | None,
    set: tuple[str, ...],
    casts: tuple[str, ...],
    as_json: bool,
    format: str | None,
    options: dict[str, Any],
    **given: Any,
) -> None:
    """Changes some tensors of a file, or its metadata; everything else stays as it is.

    FILE is replaced in one step, when the changed one is whole, or stays as it is with -o OUT. A
    name or pattern that fits no tensor is an error, and nothing is written.
    """
    from tensorferry.cli.convert import render
    from tensorferry.operations.edit import edit, tensors_in
    from tensorferry.operations.plain import plain

    reading = {**options, **({} if format is None else {"format": format})}
    with out.progress(output or path, "bytes") as progress:
        report = edit(
            path,
            output,
            set=tensors_in(set),
            casts=shared.parse_pairs("--cast", casts),
            progress=progress,
            options=reading,  # type: ignore[arg-type]  # refused by the format
            **given,
        )
    if as_json:
        shared.echo_json("edit", **plain(report))
        return
    out.report(render(report))
    for note in report.notes:
        out.report(text.clean(f"note: {note}"))
