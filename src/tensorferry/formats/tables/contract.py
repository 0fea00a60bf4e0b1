"""What a format of columns provides so that its files are a `Table`: how they open in pieces.

`tensorferry.formats.tables.reads` makes a whole reader of it, and
`tensorferry.formats.tables.table` the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorferry.classes import dataclass
from tensorferry.errors import UnknownFormatError
from tensorferry.formats.contract import Facts, RowOptions
from tensorferry.formats.detect import detect
from tensorferry.formats.table import TABLE, to_read
from tensorferry.formats.tables.pieces import Reader
from tensorferry.storage.place import Place
from tensorferry.storage.source import Source

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, slots=True)
class TableOptions(RowOptions):
    """How files of columns are read.

    Attributes:
        optional: The columns that may be null, which batches have as none or one value a row. By
            default they are found in the metadata of all files, or in all of their text. "all" are
            those that the schema allows to be null: for whoever wants a few rows.
        dequantize: Give the floats that quantized values stand for, of a bundle.
        parts: Open a bundle of the columns as they are stored, whatever was noted about them.
    """

    optional: Sequence[str] | None = None
    dequantize: bool = True
    parts: bool = False


class Opens(ABC):
    """Opens the files of a format of columns."""

    name: str
    options: type[TableOptions] = TableOptions

    @abstractmethod
    def pieces(self, source: Source, how: TableOptions, like: Any) -> Reader:
        """Opens a file in pieces.

        Args:
            source: The file.
            how: The options.
            like: The schema of the first file of several, for formats whose files do not tell it.
        """

    def prepared(self, how: TableOptions, place: Place) -> TableOptions:
        """The options with what stands beside the first file."""
        return how

    def settled(self, how: TableOptions, schema: pa.Schema) -> TableOptions:
        """The options with which others open parts of a table, whose schema is known."""
        return how


def reads_of(facts: Facts) -> Opens:
    """The reader of a format of columns."""
    reads: Any = to_read(facts.name).reads
    assert isinstance(reads, Opens)
    return reads


def recognised(place: Place) -> Facts:
    """The format of columns that a file is of.

    Raises:
        UnknownFormatError: It is of none.
    """
    try:
        found = detect(place)
        if found.format is not None and found.compression is None:
            facts = TABLE[found.format]
            if facts.opens == "rows" and isinstance(to_read(facts.name).reads, Opens):
                return facts
        head = found.head
    except BaseException:
        place.close()
        raise
    path = place.path
    place.close()
    raise UnknownFormatError(
        f"bytes that start with {head[:16].hex(' ')!r} are neither Arrow nor Parquet",
        path=path,
        offset=0,
        hint='format="arrow" reads streams of versions before 0.15',
    )
