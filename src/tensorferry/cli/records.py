"""`ferry repair`, `index`, `split`, `merge` and `slice`: TFRecord files into others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import completing, options as shared, output as out, text
from tensorferry.cli.failures import Inputs

if TYPE_CHECKING:
    from tensorferry.files.find import Found

_RANGE = re.compile(r"^-[0-9]+:")

# The most damages that are listed.
LISTED = 20

_COMPRESSION = click.option("--compression", metavar="KIND", help="gzip, zlib or zstd.")


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
    with out.progress(target, "records") as progress:
        report = repair_file(source, target, force=force, engine=engine, progress=progress)
    if as_json:
        shared.echo_json("repair", **_parts(report))
        return
    lost = len(report.damages)
    out.report(
        f"{text.clean(target)}: {text.plural(report.count, 'record')}, "
        f"{text.plural(lost, 'damage')} left out"
    )
    for damage in report.damages[:LISTED]:
        place = f"record {damage.record}, byte {damage.offset}, {damage.size} bytes"
        out.report(f"  {place}: {text.clean(damage.problem)}")


@click.command("index")
@shared.paths
@shared.as_json
def index_command(paths: tuple[str, ...], as_json: bool) -> int:
    """Writes an index beside TFRecord files, which makes random access quick."""
    from tensorferry.operations.reshard import write_indexes

    inputs = Inputs(paths)
    names: list[str] = []
    for written in inputs.each(lambda found: write_indexes([found])):
        names += written
        if not as_json:
            shared.echo(map(text.clean, written))
    if as_json:
        inputs.echo_json("index", files=names)
    return inputs.code


@click.command("split")
@click.argument("source", metavar="IN", shell_complete=completing.files)
@click.argument("target", required=False, metavar="OUT", shell_complete=completing.files)
@click.option("--shards", type=click.IntRange(1), help="Into so many files.")
@click.option("--records", type=click.IntRange(1), help="Into files of so many records at most.")
@shared.shard_size("Into files of about this size: 100MB.")
@_COMPRESSION
@shared.force
@shared.target
@shared.as_json
def split_command(
    source: str,
    target: str | None,
    output: str | None,
    shards: int | None,
    records: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Splits TFRecords into files OUT-00000-of-00010 and so on, in their order."""
    target = shared.one_output(target, output)
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
@shared.force
@shared.target
@shared.as_json
def merge_command(paths: tuple[str, ...], output: str | None, as_json: bool, **given: Any) -> int:
    """Puts TFRecord files together into one, in the order given."""
    from dataclasses import replace

    sources, target = shared.inputs_and_output(paths, output, "ferry merge a.tfrecord b.tfrecord c")
    inputs = Inputs(sources)
    every = inputs.all_found()
    if inputs.code:
        return inputs.code
    found = shared.together(every) or _records(every)
    _convert("merge", replace(found, name=" ".join(sources)), target, as_json, **given)
    return 0


def _records(inputs: list[Found]) -> Found:
    """Several inputs as one, taken for TFRecords whatever their names are."""
    from tensorferry.files.find import Found
    from tensorferry.operations.reshard import RECORDS

    places = tuple(place for found in inputs for place in found.places)
    return Found(inputs[0].name, places, RECORDS)


def _convert(command: str, source: Found, target: str, as_json: bool, **given: Any) -> None:
    from tensorferry.cli.convert import render
    from tensorferry.operations.convert import convert
    from tensorferry.operations.reshard import RECORDS

    with out.progress(target, "records") as progress:
        report = convert(source, target, format=RECORDS, progress=progress, **given)
    if as_json:
        shared.echo_json(command, **_parts(report))
    else:
        out.report(render(report))


class Ranged(click.Command):
    """A command that takes `-50:` for a range, though it looks like an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the arguments."""
        # A space before it makes it none, and means nothing before a number.
        return super().parse_args(ctx, [_RANGE.sub(r" \g<0>", argument) for argument in args])


@click.command("slice", cls=Ranged)
@click.argument("source", metavar="IN", shell_complete=completing.files)
@click.argument("target", required=False, metavar="OUT", shell_complete=completing.files)
@click.argument("part", required=False, metavar="[START:STOP[:STEP]]")
@click.option("--where", metavar="CONDITION", help="Only records like this: 'label == 3'.")
@_COMPRESSION
@shared.force
@shared.target
@shared.as_json
def slice_command(
    source: str,
    target: str | None,
    part: str | None,
    output: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Copies some TFRecords into a new file, byte by byte: 100:200, -50:, ::10."""
    from tensorferry.operations.reshard import cut

    if output is not None and part is None:  # the first argument behind IN is the range
        target, part = None, target
    target = shared.one_output(target, output)
    report = cut(shared.one_input(source), target, **_range(part), **given)
    if as_json:
        shared.echo_json("slice", **_parts(report))
    else:
        out.report(f"{text.clean(target)}: {text.plural(report.count, 'record')}")


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
    from tensorferry.operations.plain import plain

    parts: dict[str, Any] = plain(report)
    return parts
