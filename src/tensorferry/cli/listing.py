"""`ferry ls` and `ferry tree`: the tensors of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tensorferry.cli import options as shared, output, text
from tensorferry.cli.facts import WORDS, in_memory, unreadable
from tensorferry.cli.failures import Inputs, name_of
from tensorferry.errors import FormatError

if TYPE_CHECKING:
    from tensorferry.files.find import Found
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
        shared.selecting(),
        shared.paths,
    ):
        function = option(function)
    return function


@click.command("ls")
@click.option("--all", "everything", is_flag=True, help="One line each: collapse nothing.")
@click.option("-1", "names_only", is_flag=True, help="Only names, one a line, all of them.")
@_listing_options
def ls_command(
    paths: tuple[str, ...], everything: bool, names_only: bool, as_json: bool, **wanted: Any
) -> int:
    """Tensors, features or columns with dtype, shape and size; repeated layers on one line."""
    if names_only and (as_json or everything):
        raise click.UsageError("-1 prints names, one a line: expected no --json and no --all")
    inputs = Inputs(paths)
    listings = []
    for _, listing in _headed(inputs, wanted, quiet=as_json):
        if as_json:
            listings.append(listing)
        elif names_only:
            shared.echo(text.clean(info.name) for info in listing.tensors)
        else:
            shared.echo(_table(listing, everything))
    if as_json:
        inputs.echo_json("ls", files=listings)
    return inputs.code


@click.command("tree")
@_listing_options
def tree_command(paths: tuple[str, ...], as_json: bool, **wanted: Any) -> int:
    """Tensors as a tree of their names, with the size of each branch; repeated layers once."""
    from tensorferry.operations.list import grow

    inputs = Inputs(paths)
    files = []
    for found, listing in _headed(inputs, wanted, quiet=as_json):
        model = _find_model(found, wanted)
        if as_json:
            files.append({"path": listing.path, "tree": grow(listing.tensors), "model": model})
        else:
            shared.echo(_tree(listing, model))
    if as_json:
        inputs.echo_json("tree", files=files)
    return inputs.code


def _tree(listing: Listing, info: ModelInfo | None) -> Iterable[str]:
    """The tensors of one input as a tree, with the signatures of a model before them."""
    from tensorferry.operations.list import collapse, grow, is_slot

    headers = ("name", "dtype", "shape", "count", "size", "in memory")
    table = text.Table(headers, right=(3, 4, 5), wider=WORDS)
    if info is not None:
        from tensorferry.cli import model

        for cells in model.branches(info):
            table.add(*cells, "", "", "")
    slots = [info for info in listing.tensors if is_slot(info)]
    others = [info for info in listing.tensors if not is_slot(info)]
    _branches(table, grow(others), "", listing.holds != "tensors")
    if slots and others:
        table.add("optimizer:", "", "", "", "", "", colour="dim")
    _branches(table, grow(slots), "", listing.holds != "tensors")
    if len(table):
        yield from table.lines()
    yield from unreadable(collapse(listing.tensors))
    yield text.paint(_total(listing), "dim")


def _find_model(found: Found | str, wanted: dict[str, Any]) -> ModelInfo | None:
    """The model that a SavedModel is, whose signatures stand before its variables."""
    from tensorferry.operations.glance import find_one, is_model

    if wanted["select"] or not is_model(find_one(found, format=wanted["format"])):
        return None
    from tensorferry.operations.inspect import inspect

    try:
        return inspect(found, format=wanted["format"], **wanted["options"]).model
    except FormatError as error:
        output.note(text.clean(f"ferry: no signatures: {error}".splitlines()[0]))
        return None


def _headed(
    inputs: Inputs, wanted: dict[str, Any], *, quiet: bool
) -> Iterator[tuple[Found | str, Listing]]:
    """Each input and its listing, with its name above where there are several."""
    from tensorferry.operations.list import list_tensors

    def work(given: Found | str) -> tuple[Found | str, Listing]:
        with output.waiting(name_of(given)):
            listing = list_tensors(
                given,
                match=wanted["select"],
                sort=wanted["sort"],
                format=wanted["format"],
                **wanted["options"],
            )
        return given, listing

    for place, (found, listing) in enumerate(inputs.each(work)):
        if len(inputs) > 1 and not quiet:
            if place:
                output.line()
            output.line(text.paint(text.clean(listing.path), "bold"))
        yield found, listing


def _table(listing: Listing, everything: bool) -> Iterable[str]:
    from tensorferry.operations.list import collapse

    if everything:
        entries = [entry for info in listing.tensors for entry in collapse([info])]
    else:
        entries = collapse(listing.tensors)
    slots = [entry for entry in entries if entry.optimizer]
    others = [entry for entry in entries if not entry.optimizer]
    headers = ("name", "dtype", "shape", "kind", "count", "size", "in memory")
    table = text.Table(headers, right=(4, 5, 6), wider=WORDS)
    rows = listing.holds != "tensors"
    for entry in others:
        _add(table, entry, rows)
    if slots and others:
        table.add("optimizer:", "", "", "", "", "", "", colour="dim")
    for entry in slots:
        _add(table, entry, rows)
    if len(table):
        yield from table.lines()
    yield from unreadable(collapse(listing.tensors))
    yield text.paint(_total(listing), "dim")


def _total(listing: Listing) -> str:
    """How many there are, and how much they take."""
    from tensorferry.operations.list import memory_of, total
    from tensorferry.tensors.infos import elements_in

    size = total([info.nbytes for info in listing.tensors])
    memory = total([memory_of(info) for info in listing.tensors])
    values = [elements_in(info) for info in listing.tensors]
    known = text.plural(sum(filter(None, values)), "value") if None not in values else ""
    noun = {"tensors": "tensor", "records": "feature", "rows": "column"}[listing.holds]
    of = "" if len(values) == listing.total else f" of {listing.total:,}"
    parts = [text.plural(len(values), noun) + of]
    if values:
        differs = bool(memory) and memory != size
        parts += [known, text.size(size) + " in the file" * differs if size else ""]
        parts += [f"{text.size(memory)} in memory" if differs else ""]
    return ", ".join(part for part in parts if part)


def _add(table: text.Table, entry: Entry, rows: bool) -> None:
    """Adds a line; of features and columns, the shape is that of one row."""
    dtype = f"{entry.dtype} as {entry.quantized}" if entry.quantized else entry.dtype
    kind = "" if entry.kind in ("dense", "string") else entry.kind
    many = f"{entry.count} x" if entry.count > 1 else ""
    sizes = text.shape(entry.shape[1:] if rows else entry.shape)
    size, memory = text.size(entry.nbytes), in_memory(entry)
    table.add(entry.name, dtype, sizes, kind, many, size, memory)


def _branches(table: text.Table, nodes: Sequence[Node], indent: str, rows: bool) -> None:
    for place, node in enumerate(nodes):
        last = place == len(nodes) - 1
        name = f"{indent}{'└ ' if last else '├ '}{text.clean(node.name)}"
        dtype = node.entry.dtype if node.entry else ""
        sizes = text.shape(node.entry.shape[1 if rows else 0 :]) if node.entry else ""
        # What is below stands for each of those that are alike, their size for all of them.
        many = f"{node.count} x" if node.count > 1 else ""
        size = text.size(node.nbytes) if node.nbytes else ""
        table.add(name, dtype, sizes, many, size, in_memory(node))
        _branches(table, node.children, indent + ("  " if last else "│ "), rows)
