"""Catalog: which formats there are, which of them can be read and written here, and what else."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from tensorferry.classes import dataclass
from tensorferry.formats.contract import Extra, Facts
from tensorferry.formats.table import TABLE

# What is no format, but needs an extra, too.
PLACES = {
    "s3:// gs:// az:// https://": Extra("obstore", "cloud"),
}


@dataclass(frozen=True)
class FormatInfo:
    """A format.

    Attributes:
        name: The value of `format=`.
        suffixes: Endings of its files.
        holds: What `tensorferry.open` returns for it: "bundle", "records" or "table".
        available: Whether all that can be done with it can be done here.
        compressions: Those that are its own; every file can also be compressed as a whole.
        metadata: Whether it has a place for metadata.
        keeps_metadata: Where a user's metadata is kept: "inside" the file, in a file "beside" it,
            or "nowhere".
        install: The command that installs what is missing.
        reads: Whether it can be read here.
        writes: Whether it can be written here.
    """

    name: str
    suffixes: tuple[str, ...]
    holds: str
    available: bool
    compressions: tuple[str, ...] = ()
    metadata: bool = False
    install: str | None = None
    reads: bool = True
    writes: bool = True
    keeps_metadata: Literal["inside", "beside", "nowhere"] = "nowhere"


@dataclass(frozen=True)
class PlaceInfo:
    """Where files may be, beside the local disk.

    Attributes:
        name: The beginnings of its URLs.
        available: Whether they work here.
        install: The command that installs what is missing.
    """

    name: str
    available: bool
    install: str | None = None


def list_formats() -> list[FormatInfo]:
    """All formats, in the order in which they are recognised."""
    found = []
    for facts in TABLE.values():
        missing, missing_writer = _missing(facts.read_needs), _missing(facts.write_needs)
        found.append(
            FormatInfo(
                facts.name,
                facts.suffixes,
                _holds(facts),
                not missing and not missing_writer,
                facts.compressions,
                facts.metadata == "inside",
                missing or missing_writer,
                reads=missing is None,
                writes=not missing and not missing_writer,
                keeps_metadata=facts.metadata,
            )
        )
    return found


def _holds(facts: Facts) -> str:
    if facts.opens == "tensors":
        return "bundle"
    return "records" if facts.records else "table"


def list_places() -> list[PlaceInfo]:
    """Where files may be."""
    return [
        PlaceInfo(name, _missing(needs) is None, _missing(needs)) for name, needs in PLACES.items()
    ]


def _missing(needs: Extra | None) -> str | None:
    """The command that installs a package, if it is not there."""
    if needs is None or _is_installed(needs.package):
        return None
    return f"pip install 'tensorferry[{needs.name}]'"


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # something that hides it stands in its place
        return False
