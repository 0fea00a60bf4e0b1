"""`ferry formats`: what can be read and written here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tensorferry.cli import options as shared, text

if TYPE_CHECKING:
    from tensorferry.operations.catalog import FormatInfo

# On fewer columns, metadata is not told of.
NARROW = 110


@click.command("formats")
@shared.as_json
def formats_command(as_json: bool) -> None:
    """The formats, the endings of their files, and what has to be installed for them."""
    from tensorferry.operations.catalog import list_formats

    found = list_formats()
    if as_json:
        shared.echo_json("formats", formats=found)
        return
    headers = ("format", "endings", "opens as", "compression inside", "metadata", "here")
    table = text.Table(headers, flexible=(3, 1))
    narrow = text.is_terminal() and text.width() < NARROW
    for row in found:
        table.add(
            row.name,
            " ".join(row.suffixes),
            row.holds,
            " ".join(row.compressions),
            "" if narrow else _metadata(row),
            "yes" if row.available else row.install,
            colour=None if row.available else "yellow",
        )
    shared.echo(table.lines())
    print(text.paint("Every file can also be compressed as a whole: .gz, .zst", "dim"))


def _metadata(row: FormatInfo) -> str:
    """Where metadata is kept."""
    if row.metadata:
        return "yes"
    return "beside" if row.holds == "bundle" else "no"
