"""Reading a format of columns: rows as a `Table`, whole tensors as a `Bundle`.

A format has a subclass of `TableReads` that opens its files in pieces
(`tensorferry.formats.tables.pieces`). Everything else is the same for all of them:

    class Reads(TableReads):
        name = "parquet"

        def pieces(self, source, how, like):
            return Reader(source, verify=how.verify)

Files that `tensorferry.save` wrote and that hold whole tensors, a structure or quantized values
open as a `Bundle`, each of whose tensors reads its own column only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry import dtypes
from tensorferry.classes import dataclass
from tensorferry.dtypes import DType
from tensorferry.formats.table import TABLE
from tensorferry.formats.tables.contract import Opens, TableOptions
from tensorferry.formats.tables.table import Table
from tensorferry.rows.splits import Part
from tensorferry.storage.place import Place
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.entries import Extent
from tensorferry.tensors.held import dequantized
from tensorferry.tensors.infos import Kind
from tensorferry.tensors.stored import Stored, Unreadable
from tensorferry.tensors.values import Array, SparseTensor

if TYPE_CHECKING:
    from tensorferry.formats.tables.outline import Outline


class TableReads(Opens):
    """Reads a format of columns."""

    def find(self, place: Place) -> Place | None:
        """A table is one file, or several that are named."""
        return None

    def open(self, place: Place, how: TableOptions) -> Table | Bundle:
        """Opens a file: rows as a `Table`, whole tensors and structures as a `Bundle`."""
        table = self.open_all([place], how)
        try:
            note, metadata = table.note
            if table.in_rows and not (note.layout or note.quantized or how.parts):
                return table
            stored = dict(_stored(table))
            found = stored if how.parts or not how.dequantize else dequantized(stored, note)
            return Bundle(
                found,
                facts=table.facts,
                place=place,
                note=None if how.parts else note,
                metadata=metadata,
                version=table.version,
                compression=", ".join(table.compressions) or None,
                closing=[table.close],
            )
        except BaseException:
            table.close()
            raise

    def open_all(self, places: Sequence[Place], how: TableOptions) -> Table:
        """Opens files as one table; their schemas must agree."""
        return Table.of_parts([Part(place) for place in places], how, facts=TABLE[self.name])


def _stored(table: Table) -> Iterable[tuple[str, Stored]]:
    infos = table.infos()
    for leaf in table.leaves():
        info = infos[leaf.name]
        if leaf.error is not None:
            yield leaf.name, Unreadable(leaf.error, leaf.dtype, info.shape, info.nbytes or 0)
        else:
            nbytes = info.nbytes if info.nbytes is not None else _size(leaf, info.shape)
            yield leaf.name, StoredColumn(table, leaf, info.kind, info.shape, nbytes)


def _size(leaf: Outline, shape: tuple[int | None, ...]) -> int:
    """Number of bytes of a tensor of a fixed shape; 0 if only reading tells."""
    bits = dtypes.BY_NAME[leaf.dtype].bits
    sizes = [size for size in shape if size is not None]
    if len(sizes) < len(shape) or leaf.sparse or leaf.several or leaf.dtype == dtypes.STRING.name:
        return 0
    return int(np.prod(sizes, dtype=np.float64)) * bits // 8


@dataclass(frozen=True, slots=True)
class StoredColumn(Stored):
    """A tensor that is a column, or that stands whole in the only row of one."""

    table: Table
    leaf: Outline
    kind: Kind
    shape: tuple[int | None, ...]
    nbytes: int

    @property
    def dtype(self) -> DType:
        """The dtype of its values."""
        return dtypes.BY_NAME[self.leaf.dtype]

    def extents(self) -> Iterable[Extent]:
        """Where the pieces of its column lie."""
        return self.table.extents(self.leaf.column)

    def read(self) -> Any:
        """The tensor."""
        return self.table.select([self.leaf.name]).value()[self.leaf.name]

    def read_part(self, index: Any) -> Array:
        """What indexing it gives; all of it is read."""
        tensor = self.read()
        if isinstance(tensor, SparseTensor):
            raise TypeError("a sparse tensor has no slices: read it, and select among its entries")
        return tensor[index] if isinstance(tensor, list) else np.asarray(tensor[index])
