"""`ferry formats`: what can be read and written here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tensorferry.cli import options as shared, output, text

if TYPE_CHECKING:
    from tensorferry.operations.formats import FormatInfo

# On fewer columns, metadata is not told of, and not what a format opens as.
NARROW = 120

NOUNS = {"bundle": "tensors", "records": "records", "table": "rows"}


@click.command("formats")
@shared.as_json
def formats_command(as_json: bool) -> None:
    """The formats, the endings of their files, and what has to be installed for them."""
    from tensorferry.operations.formats import list_formats, list_places

    found, places = list_formats(), list_places()
    if as_json:
        shared.echo_json("formats", formats=found, places=places)
        return
    headers = ("format", "holds", "endings", "compression inside", "metadata", "here", "")
    table = text.Table(headers, flexible=(3, 2))
    narrow = text.is_terminal() and text.width() < NARROW
    for row in found:
        table.add(
            row.name,
            NOUNS[row.holds],
            " ".join(row.suffixes),
            "" if narrow else " ".join(row.compressions),
            "" if narrow else _metadata(row),
            _here(row),
            row.install,
            colour=None if row.available else "yellow",
        )
    shared.echo(table.lines())
    output.line(text.paint("Every file can also be compressed as a whole: .gz, .zst", "dim"))
    for place in places:
        state = "yes" if place.available else f"no: {place.install}"
        output.line(text.paint(f"URLs ({place.name}): {state}", "dim"))


def _here(row: FormatInfo) -> str:
    """What can be done with it."""
    words = [word for word, can in (("read", row.reads), ("write", row.writes)) if can]
    return ", ".join(words) or "no"


def _metadata(row: FormatInfo) -> str:
    """Where metadata is kept."""
    return {"inside": "yes", "beside": "beside", "nowhere": "no"}[row.keeps_metadata]
