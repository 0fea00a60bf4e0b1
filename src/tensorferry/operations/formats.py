"""Catalog: which formats there are, which of them can be read and written here, and what else."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from tensorferry import formats

# What only writing needs: the package, and the extra that installs it.
WRITERS = {"keras": ("h5py", "keras")}

# What is no format, but needs an extra, too.
PLACES = {
    "s3:// gs:// az:// https://": ("obstore", "cloud"),
}


@dataclass(frozen=True)
class FormatInfo:
    """A format.

    Attributes:
        name: What is passed as `format=`.
        suffixes: Endings of its files.
        holds: What `tensorferry.open` gives for it: "bundle", "records" or "table".
        available: Whether all that can be done with it can be done here.
        compressions: Those that are its own; every file can also be compressed as a whole.
        metadata: Whether it has a place for metadata.
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
    for name, row in formats.TABLE.items():
        missing = _missing(row.needs)
        missing_writer = _missing(WRITERS.get(name))
        found.append(
            FormatInfo(
                name,
                row.suffixes,
                row.holds,
                not missing and not missing_writer,
                row.compressions,
                row.metadata,
                missing or missing_writer,
                reads=missing is None,
                writes=row.written and not missing and not missing_writer,
            )
        )
    return found


def list_places() -> list[PlaceInfo]:
    """Where files may be."""
    return [
        PlaceInfo(name, _missing(needs) is None, _missing(needs)) for name, needs in PLACES.items()
    ]


def _missing(needs: tuple[str, str] | None) -> str | None:
    """The command that installs a package, if it is not there."""
    if needs is None or _is_installed(needs[0]):
        return None
    return f"pip install 'tensorferry[{needs[1]}]'"


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # something that hides it stands in its place
        return False
