"""`ferry hash`: a digest of the content, whatever the format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import options as shared, output, text
from tensorferry.cli.failures import Inputs, name_of

if TYPE_CHECKING:
    from tensorferry.files.find import Found


@click.command("hash")
@shared.paths
@click.option("--tensors", is_flag=True, help="Of each tensor, too.")
@click.option("--no-tree", is_flag=True, help="The digest of large tensors that 0.1.0 gave.")
@shared.selecting()
@shared.running
@shared.reading
@shared.as_json
def hash_command(
    paths: tuple[str, ...],
    tensors: bool,
    no_tree: bool,
    select: tuple[str, ...],
    format: str | None,
    options: dict[str, Any],
    engine: Any,
    as_json: bool,
) -> int:
    """A digest of the content: the same tensors give the same from every format.

    Names, dtypes, shapes and values count; order, compression and metadata do not. Tensors beyond
    16 MiB are hashed by all processors; their digests begin with "sha256-tree:".
    """
    from tensorferry.files.find import counted_in
    from tensorferry.operations.hash import HashReport, hash as digest

    def work(given: Found | str) -> HashReport:
        name = name_of(given)
        with output.progress(name, shared.unit({"engine": engine}, counted_in(name))) as progress:
            return digest(
                given,
                select=select,
                progress=progress,
                format=format,
                tree=not no_tree,
                engine=engine,
                **options,
            )

    inputs = Inputs(paths)
    reports = []
    for report in inputs.each(work):
        reports.append(report)
        if as_json:
            continue
        output.line(f"{report.digest}  {text.clean(report.path)}")
        if tensors:
            for one in report.tensors:
                output.line(f"  {one.digest}  {text.clean(one.name)}")
    if as_json:
        inputs.echo_json("hash", files=reports)
    return inputs.code
