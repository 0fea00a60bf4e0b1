"""`ferry hash`: a digest of the content, whatever the format."""

from __future__ import annotations

from typing import Any

import click

from tensorferry.cli import options as shared, text


@click.command("hash")
@shared.paths
@click.option("--tensors", is_flag=True, help="Of each tensor, too.")
@shared.reading
@shared.as_json
def hash_command(
    paths: tuple[str, ...], tensors: bool, as_json: bool, options: dict[str, Any], **given: Any
) -> None:
    """A digest of the content: the same tensors give the same from every format.

    Names, dtypes, shapes and values count; order, compression and metadata do not.
    """
    from tensorferry.files import find as inputs
    from tensorferry.operations.hash import hash_content

    reports = []
    for found in inputs.find(paths):
        report = hash_content(found, **given, **options)
        reports.append(report)
        if as_json:
            continue
        print(f"{report.digest}  {text.clean(report.path)}")
        if tensors:
            for one in report.tensors:
                print(f"  {one.digest}  {text.clean(one.name)}")
    if as_json:
        shared.echo_json("hash", files=reports)
