"""`ferry verify`: whether every byte is sound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import options as shared, output, text
from tensorferry.cli.facts import NOUNS, describe
from tensorferry.cli.failures import Inputs, name_of
from tensorferry.cli.hints import for_command

if TYPE_CHECKING:
    from tensorferry.files.find import Found
    from tensorferry.operations.verify import VerifyReport

# How many problems of a file are listed.
LISTED = 50


@click.command("verify")
@shared.paths
@click.option("--quick", is_flag=True, help="Look at the structure only, not at the values.")
@click.option("--nan", is_flag=True, help="Tell of NaN and infinite values, too.")
@click.option("--duplicates", is_flag=True, help="Tell of records that occur twice, too.")
@shared.running
@shared.reading
@shared.as_json
def verify_command(
    paths: tuple[str, ...], as_json: bool, options: dict[str, Any], **wanted: Any
) -> int:
    """Checks every checksum, offset and length; the exit code is 1 if something is wrong.

    Of a directory, all files are checked, and all checkpoints.
    """
    if wanted["quick"] and wanted["nan"]:
        raise click.UsageError("--quick looks at no values, and --nan does: expected one of them")
    from tensorferry.files.find import counted_in
    from tensorferry.operations.verify import verify

    def work(given: Found | str) -> VerifyReport:
        name = name_of(given)
        with output.progress(name, shared.unit(wanted, counted_in(name))) as progress:
            return verify(given, progress=progress, **wanted, **options)

    inputs = Inputs(paths, every=True)
    reports = []
    for report in inputs.each(work):
        reports.append(report)
        if not as_json and not (text.MANNER.quiet and report.sound):
            shared.echo(_render(report))
    if as_json:
        from tensorferry.operations.plain import plain

        inputs.echo_json("verify", files=[{**plain(r), "sound": r.sound} for r in reports])
    return inputs.code or (0 if all(report.sound for report in reports) else 1)


def _render(report: VerifyReport) -> Iterable[str]:
    verdict = text.paint("sound", "green") if report.sound else text.paint("damaged", "red")
    about = [report.format] if report.format else []
    if report.count is not None and report.holds is not None:
        about.append(text.plural(report.count, NOUNS[report.holds]))
    if report.quick:
        about.append("structure only")
    elif report.sound and not report.checksums:
        about.append("no checksums in it")
    if report.problems:
        about.append(text.plural(len(report.problems), "problem"))
    yield f"{verdict}  {text.clean(report.path)}  ({', '.join(about)})"
    for problem in report.problems[:LISTED]:
        yield f"  {describe(problem)}"
    if len(report.problems) > LISTED:
        yield f"  and {len(report.problems) - LISTED} more: --json lists all"
    for note in report.notes[:LISTED]:
        yield text.paint(f"  note: {text.clean(note)}", "yellow")
    hint = next((problem.hint for problem in report.problems if problem.hint), None)
    if hint:
        yield text.paint(f"  hint: {text.clean(for_command(hint))}", "dim")
