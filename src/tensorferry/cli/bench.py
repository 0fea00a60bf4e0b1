"""`ferry bench`: a tensor or a file in every format and compression."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from tensorferry.cli import completing, options as shared, output, text

if TYPE_CHECKING:
    from tensorferry.operations.bench import BenchReport

PURPOSES = {
    "storage": "storage",
    "transfer": "transfer",
    "interop": "other tools",
    "tensorflow": "TensorFlow",
}


@click.command("bench")
@click.argument("path", required=False, metavar="[FILE]", shell_complete=completing.files)
@click.option("--shape", metavar="2,3", help="Of a tensor of random numbers instead of a file.")
@click.option("--dtype", help="Of that tensor; by default float32.")
@click.option(
    "--runs", type=click.IntRange(1), default=3, show_default=True, help="The best counts."
)
@shared.as_json
def bench_command(
    path: str | None, shape: str | None, dtype: str | None, runs: int, as_json: bool
) -> None:
    """Writes and reads what is in a file, or a tensor, in every format and compression.

    With a recommendation for storage, transfer, other tools and TensorFlow. Of a large file the
    first 64 MB count. Files are in the system's cache: this is about formats, not about disks.
    """
    if (path is None) == (shape is None):
        raise click.UsageError("expected a FILE, or --shape")
    if path is not None and dtype is not None:
        raise click.UsageError("--dtype is for --shape: a FILE has its own")
    from tensorferry.operations.bench import time_file, time_shape

    with output.progress(path or "bench", "formats") as progress:
        if path is not None:
            report = time_file(shared.one_input(path), runs=runs, progress=progress)
        else:
            sizes = shared.parse_sizes(shape or "")
            report = time_shape(sizes, dtype or "float32", runs=runs, progress=progress)
    if as_json:
        shared.echo_json("bench", report=report)
    else:
        shared.echo(_render(report))


def _render(report: BenchReport) -> Iterable[str]:
    yield text.paint(text.clean(report.about), "bold")
    noun = text.plural(report.tensors, "tensor")
    part = "" if report.complete else "the first part: "
    yield f"{part}{noun}, {text.size(report.nbytes)} in memory"
    if report.given is not None and report.complete:
        yield f"now {text.size(report.given.nbytes)} as {report.given.name}"
    table = text.Table(
        ("format", "compression", "size", "write", "read", ""), right=(2, 3, 4), flexible=(5,)
    )
    best = {(f.format, f.compression, f.encoding) for f in report.recommendations}
    for timing in report.timings:
        table.add(
            timing.format,
            timing.packing,
            text.size(timing.nbytes),
            _time(timing.write),
            _time(timing.read),
            timing.problem,
            colour="cyan" if (timing.format, timing.compression, timing.encoding) in best else None,
        )
    yield from table.lines()
    yield ""
    choices = text.Table(("for", "choose", "because it is"), flexible=(2,))
    for found in report.recommendations:
        name = " ".join(filter(None, (found.format, found.compression, found.encoding)))
        choices.add(PURPOSES[found.purpose], name, found.reason)
    yield from choices.lines()


def _time(seconds: float | None) -> str | None:
    from tensorferry.operations.bench import brief

    return None if seconds is None else brief(seconds)
