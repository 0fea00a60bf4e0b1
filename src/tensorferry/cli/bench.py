"""`ferry bench`: how fast files and formats are here."""

from __future__ import annotations

from typing import Any

import click

from tensorferry.cli import options as shared, text


@click.command("bench")
@click.argument("path", required=False, metavar="[FILE]")
@click.option("--shape", metavar="2,3", help="Of a tensor to write and read in every format.")
@click.option("--dtype", default="float32", show_default=True, help="Of that tensor.")
@click.option(
    "--runs", type=click.IntRange(1), default=3, show_default=True, help="The best counts."
)
@shared.as_json
def bench_command(
    path: str | None, shape: str | None, dtype: str, runs: int, as_json: bool
) -> None:
    """How long a file takes to open, read, verify and hash; or a tensor in every format.

    Files are in the system's cache: this is about formats, not about disks.
    """
    if (path is None) == (shape is None):
        raise click.UsageError("expected a FILE, or --shape")
    from tensorferry.operations.benchmark import time_file, time_formats

    if path is not None:
        timings = time_file(shared.one_input(path), runs=runs)
    else:
        timings = time_formats(shared.parse_sizes(shape or ""), dtype, runs=runs)
    if as_json:
        from tensorferry.cli.plain import plain

        shared.echo_json("bench", timings=[{**plain(t), "rate": t.rate} for t in timings])
        return
    table = text.Table(("format", "action", "time", "size", "rate", ""), right=(2, 3, 4))
    for timing in timings:
        rate = "" if timing.rate is None else f"{text.size(round(timing.rate))}/s"
        table.add(
            timing.format,
            timing.action,
            _time(timing.seconds),
            text.size(timing.nbytes),
            rate,
            timing.problem,
        )
    shared.echo(table.lines())


def _time(seconds: float | None) -> Any:
    if seconds is None:
        return None
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"
