"""`ferry repair`, `index`, `split`, `merge` and `slice`: TFRecord files into others."""

from __future__ import annotations

import sys
from typing import Any

import click

from tensorferry.cli import completing, options as shared, text
from tensorferry.cli.progress import ProgressLine

# How many damages are listed.
LISTED = 20

_FORCE = click.option("--force", is_flag=True, help="Replace what is there.")
_COMPRESSION = click.option("--compression", metavar="KIND", help="gzip, zlib or zstd.")


@click.command("repair")
@click.argument("source", metavar="IN", shell_complete=completing.files)
@click.argument("target", metavar="OUT", shell_complete=completing.files)
@_FORCE
@shared.as_json
def repair_command(source: str, target: str, force: bool, as_json: bool) -> None:
    """Writes every whole record of a damaged TFRecord file into a new one, uncompressed."""
    from tensorferry.operations.reshard import repair_file

    report = repair_file(source, target, force=force)
    if as_json:
        shared.echo_json("repair", **_parts(report))
        return
    lost = len(report.damages)
    print(
        f"{text.clean(target)}: {text.plural(report.count, 'record')}, "
        f"{text.plural(lost, 'damage')} left out",
        file=sys.stderr,
    )
    for damage in report.damages[:LISTED]:
        place = f"record {damage.record}, byte {damage.offset}, {damage.size} bytes"
        print(f"  {place}: {text.clean(damage.problem)}", file=sys.stderr)


@click.command("index")
@shared.paths
@shared.as_json
def index_command(paths: tuple[str, ...], as_json: bool) -> None:
    """Writes an index beside TFRecord files, which makes random access quick."""
    from tensorferry.files import find as inputs
    from tensorferry.operations.reshard import write_indexes

    names = write_indexes(inputs.find(paths))
    if as_json:
        shared.echo_json("index", files=names)
    else:
        shared.echo(map(text.clean, names))


@click.command("split")
@click.argument("source", metavar="IN", shell_complete=completing.files)
@click.argument("target", metavar="OUT", shell_complete=completing.files)
@click.option("--shards", type=click.IntRange(1), help="Into so many files.")
@click.option("--records", type=click.IntRange(1), help="Into files of so many records at most.")
@click.option("--shard-size", metavar="SIZE", help="Into files of about this size: 100MB.")
@_COMPRESSION
@_FORCE
@shared.as_json
def split_command(
    source: str, target: str, shards: int | None, records: int | None, as_json: bool, **given: Any
) -> None:
    """Splits TFRecords into files OUT-00000-of-00010 and so on, in their order."""
    if sum(value is not None for value in (shards, records, given["shard_size"])) != 1:
        raise click.UsageError("expected one of --shards, --records and --shard-size")
    found = shared.one_input(source)
    if records is not None:
        from tensorferry.operations.inspect import inspect

        count = inspect(found).count or 0
        shards = max(1, -(-count // records))
    _convert("split", found, target, as_json, shards=shards, **given)


@click.command("merge")
@click.argument(
    "paths", nargs=-1, required=True, metavar="IN... OUT", shell_complete=completing.files
)
@_COMPRESSION
@_FORCE
@shared.as_json
def merge_command(paths: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Puts TFRecord files together into one, in the order given."""
    from tensorferry.files import find as inputs

    if len(paths) < 2:
        raise click.UsageError("expected IN... and OUT")
    found = inputs.find(paths[:-1])
    # A pattern or a directory stands for its files, in their order.
    files = [name for one in found for name in (one.files or _files(one.name))]
    _convert("merge", inputs.Input(" ".join(paths[:-1]), tuple(files)), paths[-1], as_json, **given)


def _files(name: str) -> list[str]:
    from tensorferry.storage import shards

    return shards.expand(name)


def _convert(command: str, source: Any, target: str, as_json: bool, **given: Any) -> None:
    from tensorferry.cli.convert import render
    from tensorferry.operations.convert import convert

    with ProgressLine(target, unit="rows") as progress:
        report = convert(source, target, format="tfrecord", progress=progress, **given)
    if as_json:
        shared.echo_json(command, **_parts(report))
    else:
        print(render(report), file=sys.stderr)


@click.command("slice")
@click.argument("source", metavar="IN", shell_complete=completing.files)
@click.argument("target", metavar="OUT", shell_complete=completing.files)
@click.argument("part", required=False, metavar="[START:STOP[:STEP]]")
@click.option("--where", metavar="CONDITION", help="Only records like this: 'label == 3'.")
@_COMPRESSION
@_FORCE
@shared.as_json
def slice_command(source: str, target: str, part: str | None, as_json: bool, **given: Any) -> None:
    """Copies some TFRecords into a new file, byte by byte: 100:200, -50:, ::10."""
    from tensorferry.operations.reshard import cut

    report = cut(shared.one_input(source), target, **_range(part), **given)
    if as_json:
        shared.echo_json("slice", **_parts(report))
    else:
        print(f"{text.clean(target)}: {text.plural(report.count, 'record')}", file=sys.stderr)


def _range(part: str | None) -> dict[str, Any]:
    texts = (part or ":").split(":")
    try:
        numbers = [int(number) if number.strip() else None for number in texts]
    except ValueError:
        numbers = []
    if not 2 <= len(numbers) <= 3:
        raise click.UsageError(f"a range is {part!r}, expected START:STOP or START:STOP:STEP")
    return dict(zip(("start", "stop", "step"), numbers, strict=False))


def _parts(report: Any) -> dict[str, Any]:
    from tensorferry.cli.plain import plain

    parts: dict[str, Any] = plain(report)
    return parts
