"""`ferry repair` and `index`: TFRecord files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import completing, options as shared, output as out, text
from tensorferry.cli.failures import Inputs, name_of

if TYPE_CHECKING:
    from tensorferry.files.find import Found

# The most damages that are listed.
LISTED = 20


@click.command("repair")
@click.argument("source", metavar="IN", shell_complete=completing.files)
@click.argument("target", required=False, metavar="OUT", shell_complete=completing.files)
@shared.force
@shared.running
@shared.target
@shared.as_json
def repair_command(
    source: str,
    target: str | None,
    output: str | None,
    force: bool,
    engine: Any,
    as_json: bool,
) -> None:
    """Writes every whole record of a damaged TFRecord file into a new one, uncompressed."""
    from tensorferry.operations.reshard import repair_file

    target = shared.one_output(target, output)
    with out.progress(target, "tasks" if engine is not None else "records") as progress:
        report = repair_file(source, target, force=force, engine=engine, progress=progress)
    if as_json:
        shared.echo_json("repair", **_parts(report))
        return
    lost = len(report.damages)
    out.report(
        f"{text.clean(target)}: {text.plural(report.count, 'record')}, "
        f"{text.plural(lost, 'damaged place')} left out"
    )
    for damage in report.damages[:LISTED]:
        place = f"record {damage.record}, byte {damage.offset}, {damage.size} bytes"
        out.report(f"  {place}: {text.clean(damage.problem)}")


@click.command("index")
@shared.paths
@shared.as_json
def index_command(paths: tuple[str, ...], as_json: bool) -> int:
    """Writes an index beside TFRecord files, which makes random access quick."""
    from tensorferry.operations.reshard import write_index

    def work(given: Found | str) -> list[str]:
        with out.waiting(name_of(given), "files") as progress:
            return write_index(given, progress)

    inputs = Inputs(paths)
    names: list[str] = []
    for written in inputs.each(work):
        names += written
        if not as_json:
            shared.echo(map(text.clean, written))
    if as_json:
        inputs.echo_json("index", files=names)
    return inputs.code


def _parts(report: Any) -> dict[str, Any]:
    from tensorferry.operations.plain import plain

    parts: dict[str, Any] = plain(report)
    return parts
