"""`ferry count`: how many rows or tensors there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import options as shared, output, text
from tensorferry.cli.failures import Inputs, name_of

if TYPE_CHECKING:
    from tensorferry.files.find import Found


@click.command("count")
@shared.paths
@shared.where
@shared.running
@shared.reading
@shared.as_json
def count_command(
    paths: tuple[str, ...], as_json: bool, options: dict[str, Any], **given: Any
) -> int:
    """Prints the number of rows, or of tensors; of several files, each with its name, and the sum.

    Tables say it in their footers. TFRecords are walked over, which `ferry index` makes quicker;
    compressed ones are read.
    """
    from tensorferry.operations.count import count

    def work(found: Found | str) -> tuple[str, int]:
        name = name_of(found)
        with output.progress(name, shared.unit(given, "rows")) as progress:
            return name, count(found, progress=progress, **given, **options)

    inputs = Inputs(paths)
    counts = list(inputs.each(work))
    total = sum(number for _, number in counts)
    if as_json:
        files = [{"path": name, "count": number} for name, number in counts]
        inputs.echo_json("count", files=files, total=total)
    elif len(inputs) == 1:
        for _, number in counts:
            output.line(str(number))
    else:
        table = text.Table(("count", "file"), right=(0,), flexible=(1,))
        for name, number in counts:
            table.add(number, name)
        table.add(total, "total")
        shared.echo(table.lines())
    return inputs.code
