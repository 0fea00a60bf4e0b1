"""Plain files: columns of numbers without nulls, as they lie in memory.

Their columns are views of the file: what PyArrow and we do for a table of any kind would take five
times as long. Whoever wants anything but whole columns goes the way of all other files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorferry.classes import dataclass
from tensorferry.formats.tables import metadata as marks

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.columns import Leaf


@dataclass(slots=True)
class Plain:
    """What is known of a plain file.

    Attributes:
        metadata: Of its schema.
        rows: Number of rows of each piece.
        columns: Name, dtype, whether nulls would be allowed, and the place in the file where the
            values of each piece start.
        data: All bytes of the file; None if it was closed.
    """

    metadata: dict[bytes, bytes]
    rows: list[int]
    columns: list[tuple[str, str, bool, list[int]]]
    data: memoryview | None

    def texts(self) -> dict[str, str]:
        """The metadata as texts, without our own key."""
        return marks.texts_of(self.metadata)

    def schema(self) -> pa.Schema:
        """The schema, as PyArrow reads it from the file."""
        import pyarrow as pa

        fields = [
            pa.field(name, pa.from_numpy_dtype(np.dtype(dtype)), nullable)
            for name, dtype, nullable, _ in self.columns
        ]
        return pa.schema(fields, self.metadata or None)

    def values(self) -> dict[str, Leaf]:
        """All columns: views of the file, or copies where they stand in several pieces."""
        assert self.data is not None
        found: dict[str, Leaf] = {}
        for name, dtype, _, places in self.columns:
            parts = [
                np.frombuffer(self.data, dtype, count, place)
                for count, place in zip(self.rows, places, strict=True)
            ]
            found[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return found
