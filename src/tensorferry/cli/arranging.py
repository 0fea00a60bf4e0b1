"""`ferry slice`, `sample`, `shuffle`, `split` and `merge`: rows of files into other files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import completing, options as shared, output as out, text
from tensorferry.cli.failures import Inputs
from tensorferry.cli.options import Function

if TYPE_CHECKING:
    from tensorferry.files.find import Found
    from tensorferry.operations.convert import ConvertReport
    from tensorferry.operations.freight import RowsReport

_RANGE = re.compile(r"^-[0-9]+:")
_IS_RANGE = re.compile(r"^\s*-?[0-9]*(:-?[0-9]*){1,2}$")


def _one_into_one(function: Function) -> Function:
    """The arguments IN and OUT, and how rows are read and written."""
    steps: tuple[Callable[[Function], Function], ...] = (
        shared.as_json,
        shared.reading,
        shared.rows_target,
        click.argument("target", required=False, metavar="OUT", shell_complete=completing.files),
        click.argument("source", metavar="IN", shell_complete=completing.files),
    )
    for step in steps:
        function = step(function)
    return function


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
@shared.where
@shared.rows_target
@shared.reading
@shared.as_json
def slice_command(
    source: str,
    target: str | None,
    part: str | None,
    output: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Copies some rows into a new file, as they are stored: 100:200, -50:, ::10.

    Rows are those of TFRecords, Parquet, Arrow, CSV or JSON Lines. With --where, the numbers are
    those of the rows for which the condition holds.
    """
    from tensorferry.operations.reshard import cut

    if output is not None and part is None:  # the first argument behind IN is the range
        target, part = None, target
    if target is not None and _IS_RANGE.match(target):
        name = part or "OUT"
        raise click.UsageError(
            f"OUT comes before the range\nhint: `ferry slice {source} {name} {target.strip()}`"
        )
    target = shared.one_output(target, output)
    with out.progress(target, "rows") as progress:
        report = cut(
            shared.one_input(source), target, progress=progress, **_range(part), **_named(**given)
        )
    _say("slice", [report], as_json)


def _range(part: str | None) -> dict[str, Any]:
    texts = (part or ":").split(":")
    try:
        numbers = [int(number) if number.strip() else None for number in texts]
    except ValueError:
        numbers = []
    if not 2 <= len(numbers) <= 3:
        raise click.UsageError(f"a range is {part!r}, expected START:STOP or START:STOP:STEP")
    return dict(zip(("start", "stop", "step"), numbers, strict=False))


@click.command("sample")
@_one_into_one
@click.option("-n", "limit", type=click.IntRange(0), help="How many rows.")
@click.option("--ratio", type=click.FloatRange(0, 1), help="Which part of the rows, as in 0.1.")
@shared.seed
def sample_command(
    source: str,
    target: str | None,
    output: str | None,
    limit: int | None,
    ratio: float | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Writes some rows, chosen at random, into a new file, in their order.

    The same seed chooses the same rows, whatever the format: those that come first after `ferry
    shuffle` with this seed.
    """
    from tensorferry.operations.sample import sample

    if (limit is None) == (ratio is None):
        raise click.UsageError("expected one of -n and --ratio, as in: -n 1000")
    size = limit if limit is not None else float(ratio or 0.0)
    target = shared.one_output(target, output)
    with out.progress(target, "rows") as progress:
        report = sample(
            shared.one_input(source), target, size, progress=progress, **_named(**given)
        )
    _say("sample", [report], as_json)


@click.command("shuffle")
@_one_into_one
@shared.seed
def shuffle_command(
    source: str, target: str | None, output: str | None, as_json: bool, **given: Any
) -> None:
    """Writes all rows into a new file, in a random order.

    The same seed gives the same order, whatever the format. Rows that do not fit into memory lie in
    temporary files beside OUT meanwhile.
    """
    from tensorferry.operations.shuffle import shuffle

    target = shared.one_output(target, output)
    with out.progress(target, "rows") as progress:
        report = shuffle(shared.one_input(source), target, progress=progress, **_named(**given))
    _say("shuffle", [report], as_json)


@click.command("split")
@click.argument("source", metavar="IN", shell_complete=completing.files)
@click.argument("targets", nargs=-1, metavar="OUT...", shell_complete=completing.files)
@click.option("--ratio", metavar="0.9,0.1", help="At random, into one OUT for each number.")
@click.option(
    "--by",
    metavar="NAMES",
    help="With --ratio: rows of one key stay together.",
    shell_complete=completing.names,
)
@shared.seed
@click.option("--shards", type=click.IntRange(1), help="In their order, into so many files.")
@click.option(
    "--rows",
    cls=shared.Renamed,
    former=("--records",),
    type=click.IntRange(1),
    help="In their order, into files of so many rows at most.",
)
@shared.shard_size("In their order, into files of about this size: 100MB.")
@shared.rows_target
@shared.as_json
def split_command(
    source: str,
    targets: tuple[str, ...],
    output: str | None,
    ratio: str | None,
    by: str | None,
    seed: int,
    shards: int | None,
    rows: int | None,
    shard_size: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Splits rows into several files: at random into named ones, or into shards of a set.

    With --ratio, the files get as many rows as the numbers say; with --by, a digest of the key
    decides, so that a key is in the same file whatever else there is. The same seed gives the same
    files. Otherwise rows go, in their order, into OUT-00000-of-00010 and so on.
    """
    sizes: dict[str, Any] = {"shards": shards, "rows": rows, "shard_size": shard_size}
    wanted = [value for value in (ratio, *sizes.values()) if value is not None]
    if len(wanted) != 1:
        raise click.UsageError("expected one of --ratio, --shards, --rows and --shard-size")
    if ratio is None and (by is not None or seed):
        raise click.UsageError(
            "--by and --seed are for a choice at random\nhint: add --ratio 0.9,0.1"
        )
    every = [*targets, *([] if output is None else [output])]
    found = shared.one_input(source)
    if ratio is not None:
        from tensorferry.operations.names import parse_patterns
        from tensorferry.operations.split import split

        keys = None if by is None else parse_patterns([by])
        with out.progress(source, "rows") as progress:
            reports = split(
                found,
                every,
                ratio=_ratio(ratio),
                by=keys,
                seed=seed,
                progress=progress,
                **_named(**given),
            )
        _say("split", reports, as_json)
        return
    from tensorferry.operations.split import divide

    if len(every) != 1:
        raise click.UsageError("expected one OUT, as an argument or behind -o")
    with out.progress(every[0], "rows") as progress:
        _tell(
            "split", divide(found, every[0], progress=progress, **sizes, **_named(**given)), as_json
        )


def _ratio(text_given: str) -> list[float]:
    try:
        return [float(part) for part in re.split("[,:/]", text_given)]
    except ValueError:
        raise click.UsageError(
            f"a ratio is {text_given!r}, expected numbers as in 0.9,0.1"
        ) from None


@click.command("merge")
@click.argument(
    "paths", nargs=-1, required=True, metavar="IN... OUT", shell_complete=completing.files
)
@shared.keep_going
@shared.rows_target
@shared.as_json
def merge_command(
    paths: tuple[str, ...],
    output: str | None,
    keep_going: bool,
    as_json: bool,
    to: str | None,
    **given: Any,
) -> int:
    """Puts files of rows together into one, in the order given."""
    from tensorferry.classes import replace
    from tensorferry.operations.convert import convert
    from tensorferry.operations.freight import format_of

    sources, target = shared.inputs_and_output(paths, output, "ferry merge a.tfrecord b.tfrecord c")
    inputs = Inputs(sources)
    every = inputs.readable() if keep_going else inputs.all_found()
    if not every or (inputs.code and not keep_going):
        return inputs.code
    found = shared.together(every) or _records(every)
    chosen = format_of(target, found.format, to).name
    reading: dict[str, Any] = {"options": {"on_error": "skip"}} if keep_going else {}
    with out.progress(target, "rows") as progress:
        more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
        source = replace(found, name=f"{sources[0]}{more}")
        report = convert(source, target, format=chosen, progress=progress, **reading, **given)
    inputs.leave_out(report.damages)
    _tell("merge", report, as_json)
    return inputs.code


def _records(inputs: list[Found]) -> Found:
    """Several inputs as one, taken for TFRecords whatever their names are.

    Raises:
        UsageError: They are of several formats.
    """
    from tensorferry.files.find import Found, rows_format
    from tensorferry.formats import table

    places = tuple(place for found in inputs for place in found.places)
    for name in filter(None, (table.named(place.path) for place in places)):
        if table.TABLE[name].opens == "tensors":
            raise click.UsageError(
                f"files of rows are merged, and {name} holds tensors\n"
                "hint: in Python, ferry.save({**ferry.open(A), **ferry.open(B)}, OUT) joins them"
            )
    formats = sorted({rows_format(place.path) or "" for place in places} - {""})
    if len(formats) > 1:
        raise click.UsageError(
            f"the inputs are {' and '.join(formats)}, expected one format\n"
            f"hint: `ferry convert` makes one of the other"
        )
    records = next(facts.name for facts in table.TABLE.values() if facts.records)
    return Found(inputs[0].name, places, *(formats or [records]))


def _named(
    to: str | None, format: str | None = None, options: dict[str, Any] | None = None, **given: Any
) -> dict[str, Any]:
    """The options of a command as those of an operation, whose `format` is that of the target."""
    if options is None:
        return {"format": to, **given}
    reading = {**options, **({} if format is None else {"format": format})}
    return {"format": to, "options": reading, **given}


def _say(command: str, reports: list[RowsReport], as_json: bool) -> None:
    """What was written."""
    if as_json:
        from tensorferry.operations.plain import plain

        if len(reports) == 1 and command != "split":
            shared.echo_json(command, **plain(reports[0]))
        else:
            shared.echo_json(command, parts=reports)
        return
    total = sum(report.count for report in reports)
    for report in reports:
        share = f" ({report.count / total:.1%})" if len(reports) > 1 and total else ""
        out.report(f"{text.clean(report.target)}: {text.plural(report.count, 'row')}{share}")


def _tell(command: str, report: ConvertReport, as_json: bool) -> None:
    from tensorferry.cli.convert import render

    if as_json:
        from tensorferry.operations.plain import plain

        shared.echo_json(command, **plain(report))
        return
    out.report(render(report))
    for note in report.notes:
        out.report(text.clean(f"note: {note}"))
