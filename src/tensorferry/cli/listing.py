"""`ferry ls` and `ferry tree`: the tensors of files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import completing, options as shared, text
from tensorferry.errors import FormatError

if TYPE_CHECKING:
    from tensorferry.models.outline import ModelInfo
    from tensorferry.operations.list import Entry, Listing, Node


def _listing_options(function: Any) -> Any:
    for option in (
        shared.as_json,
        shared.reading,
        click.option(
            "--sort",
            type=click.Choice(["file", "name", "size"]),
            default="file",
            show_default=True,
            help="The order; by size the largest come first.",
        ),
        click.option(
            "--match",
            multiple=True,
            metavar="GLOB",
            help="Only names like this.",
            shell_complete=completing.names,
        ),
        shared.paths,
    ):
        function = option(function)
    return function


@click.command("ls")
@click.option("--all", "everything", is_flag=True, help="One line each: collapse nothing.")
@_listing_options
def ls_command(paths: tuple[str, ...], everything: bool, as_json: bool, **wanted: Any) -> None:
    """Tensors, features or columns with dtype, shape and size; repeated layers on one line."""
    listings = _list(paths, **wanted)
    if as_json:
        shared.echo_json("ls", files=listings)
        return
    for listing in _headed(listings):
        shared.echo(_table(listing, everything))


@click.command("tree")
@_listing_options
def tree_command(paths: tuple[str, ...], as_json: bool, **wanted: Any) -> None:
    """Tensors as a tree of their names, with the size of each branch; repeated layers once."""
    from tensorferry.operations.list import grow, is_slot

    listings = _list(paths, **wanted)
    if as_json:
        files = [
            {
                "path": found.path,
                "tree": grow(found.tensors),
                "model": _find_model(found.path, wanted),
            }
            for found in listings
        ]
        shared.echo_json("tree", files=files)
        return
    for listing in _headed(listings):
        table = text.Table(("name", "dtype", "shape", "count", "size"), right=(3, 4))
        found = _find_model(listing.path, wanted)
        if found is not None:
            from tensorferry.cli import model

            for cells in model.branches(found):
                table.add(*cells, "", "")
        slots = [info for info in listing.tensors if is_slot(info)]
        others = [info for info in listing.tensors if not is_slot(info)]
        _branches(table, grow(others), "", listing.holds != "tensors")
        if slots and others:
            table.add("optimizer:", "", "", "", "", colour="dim")
        _branches(table, grow(slots), "", listing.holds != "tensors")
        if len(table):
            shared.echo(table.lines())
        print(text.paint(_total(listing), "dim"))


def _find_model(path: str, wanted: dict[str, Any]) -> ModelInfo | None:
    """The model that a SavedModel is, whose signatures stand before its variables."""
    from tensorferry.files import find as inputs

    if wanted["match"] or inputs.model_of(path, wanted["format"], None) is None:
        return None
    from tensorferry.operations.inspect import inspect

    try:
        return inspect(path, format=wanted["format"], **wanted["options"]).model
    except FormatError as error:
        print(text.clean(f"ferry: no signatures: {error}".splitlines()[0]), file=sys.stderr)
        return None


def _list(
    paths: tuple[str, ...], format: str | None, options: dict[str, Any], match: Any, sort: Any
) -> list[Listing]:
    from tensorferry.files import find as inputs
    from tensorferry.operations.list import list_tensors

    return [
        list_tensors(given, match=match, sort=sort, format=format, **options)
        for given in inputs.find(paths)
    ]


def _headed(listings: Sequence[Listing]) -> Iterable[Listing]:
    """Each listing, with its name above where there are several."""
    for place, listing in enumerate(listings):
        if len(listings) > 1:
            print(("\n" if place else "") + text.paint(text.clean(listing.path), "bold"))
        yield listing


def _table(listing: Listing, everything: bool) -> Iterable[str]:
    from tensorferry.operations.list import collapse

    if everything:
        entries = [entry for info in listing.tensors for entry in collapse([info])]
    else:
        entries = collapse(listing.tensors)
    slots = [entry for entry in entries if entry.optimizer]
    others = [entry for entry in entries if not entry.optimizer]
    table = text.Table(("name", "dtype", "shape", "kind", "count", "size"), right=(4, 5))
    rows = listing.holds != "tensors"
    for entry in others:
        _add(table, entry, rows)
    if slots and others:
        table.add("optimizer:", "", "", "", "", "", colour="dim")
    for entry in slots:
        _add(table, entry, rows)
    if len(table):
        yield from table.lines()
    yield text.paint(_total(listing), "dim")


def _total(listing: Listing) -> str:
    """How many there are, and how much they take."""
    from tensorferry.tensors.infos import elements_in

    sizes = [info.nbytes for info in listing.tensors]
    total = text.size(sum(filter(None, sizes))) if any(sizes) else ""
    values = [elements_in(info) for info in listing.tensors]
    known = text.plural(sum(filter(None, values)), "value") if None not in values else ""
    noun = {"tensors": "tensor", "records": "feature", "rows": "column"}[listing.holds]
    of = "" if len(values) == listing.total else f" of {listing.total:,}"
    parts = [text.plural(len(values), noun) + of, known if values else "", total]
    return ", ".join(part for part in parts if part)


def _add(table: text.Table, entry: Entry, rows: bool) -> None:
    """Adds a line; of features and columns, the shape is that of one row."""
    dtype = f"{entry.dtype} as {entry.quantized}" if entry.quantized else entry.dtype
    kind = "" if entry.kind in ("dense", "string") else entry.kind
    many = f"{entry.count} x" if entry.count > 1 else ""
    sizes = text.shape(entry.shape[1:] if rows else entry.shape)
    table.add(entry.name, dtype, sizes, kind, many, text.size(entry.nbytes))


def _branches(table: text.Table, nodes: Sequence[Node], indent: str, rows: bool) -> None:
    for place, node in enumerate(nodes):
        last = place == len(nodes) - 1
        name = f"{indent}{'└ ' if last else '├ '}{text.clean(node.name)}"
        dtype = node.entry.dtype if node.entry else ""
        sizes = text.shape(node.entry.shape[1 if rows else 0 :]) if node.entry else ""
        # What is below stands for each of those that are alike, their size for all of them.
        many = f"{node.count} x" if node.count > 1 else ""
        table.add(name, dtype, sizes, many, text.size(node.nbytes) if node.nbytes else "")
        _branches(table, node.children, indent + ("  " if last else "│ "), rows)
