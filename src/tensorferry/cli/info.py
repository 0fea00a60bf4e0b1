"""`ferry info`: what is in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import options as shared, output
from tensorferry.cli.facts import render
from tensorferry.cli.failures import Inputs, name_of
from tensorferry.operations.fileinfo import FileInfo

if TYPE_CHECKING:
    from tensorferry.files.find import Found


@click.command("info")
@shared.paths
@shared.reading
@shared.as_json
def info_command(
    paths: tuple[str, ...], format: str | None, options: dict[str, Any], as_json: bool
) -> int:
    """What is in files: format, number of tensors or records, dtypes, size, metadata.

    Of a model also signatures, ops and assets, and what it would do when it is loaded.

    The exit code is 1 if something is wrong at a glance; `ferry verify` looks closer.
    """
    from tensorferry.operations.inspect import inspect

    def work(given: Found | str) -> FileInfo:
        with output.waiting(name_of(given), "records") as progress:
            return inspect(given, format=format, progress=progress, **options)

    inputs = Inputs(paths)
    found: list[FileInfo] = []
    for info in inputs.each(work):
        if not as_json:
            if found:
                output.line()
            shared.echo(render(info))
        found.append(info)
    if as_json:
        from tensorferry.operations.plain import plain

        extra = [{"dtypes": info.dtypes, "elements": info.elements} for info in found]
        trees = [{**plain(info), **more} for info, more in zip(found, extra, strict=True)]
        inputs.echo_json("info", files=trees)
    return inputs.code or (1 if any(info.problems for info in found) else 0)
