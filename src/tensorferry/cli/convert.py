"""`ferry convert`: from one format into another."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import completing, options as shared, output as out, text
from tensorferry.cli.failures import Inputs
from tensorferry.progress import duration

if TYPE_CHECKING:
    from tensorferry.operations.convert import ConvertReport


def _parse_quantize(context: Any, parameter: Any, given: str | None) -> Any:
    """A kind, or all that `quantize=` takes as an object of JSON."""
    if given is None or not given.startswith("{"):
        return given
    import json

    try:
        return json.loads(given)
    except ValueError:
        raise click.UsageError(f"--quantize is {given!r}, expected a kind, or JSON") from None


@click.command("convert")
@click.argument(
    "paths", nargs=-1, required=True, metavar="IN... OUT", shell_complete=completing.files
)
@click.option(
    "--to",
    "to",
    metavar="FORMAT",
    help="The format, if OUT's name does not say it.",
    shell_complete=completing.formats,
)
@click.option(
    "--dtype",
    metavar="NAME",
    help="Floats (or integers) become of this dtype.",
    shell_complete=completing.dtypes,
)
@click.option(
    "--quantize",
    metavar="KIND",
    callback=_parse_quantize,
    help='Floats become int8, uint8, float16, ..., or as \'{"kind": "int8", "axis": 0}\' says.',
    shell_complete=completing.quantizations,
)
@shared.compression
@shared.selecting()
@shared.dropping
@shared.renaming
@shared.setting
@shared.keeping
@click.option("--shards", type=click.IntRange(1), help="Write TFRecords into so many files.")
@shared.shard_size("About how large files may be, as in 500MB.")
@click.option("--jobs", type=click.IntRange(1), default=1, help="Files at the same time.")
@click.option("--resume", is_flag=True, help="Go on with a directory; what is whole stays.")
@click.option("--digest", is_flag=True, help="Keep a digest of the content, for `ferry verify`.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--verify", is_flag=True, help="Compare OUT with IN afterwards.")
@shared.keep_going
@shared.force
@shared.target
@shared.running
@shared.reading
@shared.as_json
def convert_command(
    paths: tuple[str, ...],
    output: str | None,
    to: str | None,
    jobs: int,
    resume: bool,
    keep_going: bool,
    set: tuple[str, ...],
    as_json: bool,
    format: str | None,
    options: dict[str, Any],
    **given: Any,
) -> int:
    """Writes what is in files into another format, one tensor or batch at a time.

    Several inputs go into a directory OUT (with --to), or, if they are rows of one format, into one
    file. Nothing is replaced without --force, and OUT appears when it is whole. The exit code is 1
    if --verify finds a difference.
    """
    sources, target = shared.inputs_and_output(
        paths, output, "ferry convert model.npz model.safetensors"
    )
    if as_json and target == "-":
        raise click.UsageError("--json and OUT - both go to the standard output")
    reading = {**options, **({} if format is None else {"format": format})}
    inputs = Inputs(sources)
    given["set"] = _tensors(set, target)
    reports = _convert(inputs, target, to, jobs, resume, keep_going, {**given, "options": reading})
    if keep_going:
        inputs.leave_out(damage for report in reports for damage in report.damages)
    if as_json:
        inputs.echo_json("convert", conversions=reports)
    else:
        for report in reports:
            out.report(render(report))
            for note in report.notes:
                out.report(text.clean(f"note: {note}"))
            if report.damages and not keep_going:
                out.report(f"note: {text.plural(len(report.damages), 'damage')} left out")
    return inputs.code or (1 if any(report.verified is False for report in reports) else 0)


def _tensors(pairs: tuple[str, ...], target: str) -> dict[str, Any] | None:
    """The tensors that are to be set."""
    if not pairs:
        return None
    from tensorferry.operations.edit import tensors_in

    if target.endswith(os.sep) or os.path.isdir(target):
        raise click.UsageError("--set is for one file, and OUT is a directory")
    return tensors_in(pairs)


def _convert(
    inputs: Inputs,
    target: str,
    to: str | None,
    jobs: int,
    resume: bool,
    keep_going: bool,
    given: dict[str, Any],
) -> list[ConvertReport]:
    from tensorferry.files.find import counted_in
    from tensorferry.operations.convert import convert
    from tensorferry.operations.convert.sets import convert_all

    if _is_for_many(target, to):
        if to is None:
            raise click.UsageError(
                f"{target} is a directory\nhint: say the format of the files in it: --to npz"
            )
        with out.progress(f"into {target}", "files") as progress:
            return convert_all(
                inputs.all_found(),
                target,
                format=to,
                jobs=jobs,
                resume=resume,
                progress=progress,
                failed=inputs.note,
                **given,
            )
    if resume or jobs > 1:
        raise click.UsageError("--resume and --jobs are for many files, into a directory OUT")
    every = inputs.readable() if keep_going else inputs.all_found()
    if not every or (inputs.code and not keep_going):
        return []  # one output of a part of the inputs would not be what was asked for
    found = shared.together(every)
    if found is None:
        raise click.UsageError(
            f"{len(inputs)} inputs for one output\nhint: into a directory: OUT/ with --to FORMAT"
        )
    counted = counted_in(found.place.path)
    if keep_going and counted != "tensors":
        given["options"] = {"on_error": "skip", **given["options"]}
    unit = shared.unit(given, "bytes" if counted == "tensors" else counted)
    with out.progress(os.path.basename(target), unit) as progress:
        return [convert(found, target, format=to, progress=progress, **given)]


def _is_for_many(target: str, to: str | None) -> bool:
    """Whether files go into a directory, each under its own name."""
    from tensorferry.files.find import of_several_files
    from tensorferry.formats.table import TABLE
    from tensorferry.storage.place import Place

    if not os.path.isdir(target):
        return target.endswith("/")
    there = of_several_files(Place(target))
    if there is None or there.format is None or not TABLE[there.format].is_folder:
        return True
    if to != there.format:
        raise click.UsageError(
            f"{target} is a {there.format}, which other files do not go into\n"
            f"hint: replace it with --to {there.format} --force, or choose another directory"
        )
    return False


def render(report: ConvertReport) -> str:
    """A conversion, on one line."""
    arrow = text.clean(report.target)
    if report.source != report.target or report.target == "-":
        arrow = f"{text.clean(report.source)} → {arrow}"
    if len(report.files) > 1:
        arrow += f" ({len(report.files)} files)"
    about = [report.format]
    if report.count is not None:
        noun = {"tensors": "tensor", "records": "record", "rows": "row"}[report.holds]
        about.append(text.plural(report.count, noun))
    if not report.written:
        about.append("would be written" if report.nbytes is None else "is there already")
        return f"{arrow}: {', '.join(about)}"
    if report.nbytes is not None:
        about.append(text.size(report.nbytes))
    about.append(duration(report.seconds))
    if report.quantized is not None:
        about.append(f"largest error {report.quantized:.3g}")
    if report.verified is not None:
        types = "OTHER TYPES: see the notes" if report.differences is None else None
        about.append("verified" if report.verified else types or "DIFFERENT: see ferry diff")
    return f"{arrow}: {', '.join(about)}"
