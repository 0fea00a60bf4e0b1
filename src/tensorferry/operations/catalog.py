"""Catalog: which formats there are, and which of them can be read and written here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from tensorferry import formats


@dataclass(frozen=True)
class FormatInfo:
    """A format.

    Attributes:
        name: What is passed as `format=`.
        suffixes: Endings of its files.
        holds: What `tensorferry.open` gives for it: "bundle", "records" or "table".
        available: Whether it can be read and written here.
        compressions: Those that are its own; every file can also be compressed as a whole.
        metadata: Whether it has a place for metadata.
        install: The command that installs what is missing.
    """

    name: str
    suffixes: tuple[str, ...]
    holds: str
    available: bool
    compressions: tuple[str, ...] = ()
    metadata: bool = False
    install: str | None = None


def list_formats() -> list[FormatInfo]:
    """All formats, in the order in which they are recognised."""
    found = []
    for name, row in formats.TABLE.items():
        package, extra = row.needs or (None, None)
        available = package is None or _is_installed(package)
        found.append(
            FormatInfo(
                name,
                row.suffixes,
                row.holds,
                available,
                row.compressions,
                row.metadata,
                None if available else f"pip install 'tensorferry[{extra}]'",
            )
        )
    return found


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # something that hides it stands in its place
        return False
