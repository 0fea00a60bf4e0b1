"""How columns become the pages of a Parquet file: PyArrow's writer, and what it is told.

Row groups that are encoded at once, in threads, are `tensorferry.formats.parquet.groups`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.formats.tables import pieces
from tensorferry.storage import Sink

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.columns import Leaf

Compression = Literal["zstd", "snappy", "gzip", "lz4", "brotli"]

COMPRESSION: Compression = "zstd"


def write(
    leaves: Mapping[str, Leaf],
    sink: Sink,
    *,
    metadata: Mapping[str, str] | None = None,
    rows: bool | None = None,
    compression: Compression | None = COMPRESSION,
    byte_stream_split: bool = False,
    batch_rows: int | None = None,
) -> None:
    """Writes named tensors as columns.

    Args:
        leaves: Arrays, SparseTensors, RaggedTensors or lists of arrays, by name.
        sink: Takes the bytes.
        metadata: Texts that stand beside the schema.
        rows: Whether each step of the first dimension is a row. False puts each leaf whole into the
            only row. By default they are rows if all leaves have the same first dimension.
        compression: Of the pages: "zstd", "snappy", "gzip", "lz4", "brotli" or None.
        byte_stream_split: Whether the bytes of floats are split: see `Encoding`.
        batch_rows: Number of rows in a row group; by default as many as PyArrow puts there.

    Raises:
        UnsupportedError: A leaf has no place in Parquet.
        MissingExtraError: PyArrow is not installed.
    """
    pa = pieces.require_pyarrow()
    from tensorferry.formats.tables import columns as arrow_columns

    batch = arrow_columns.to_batch(leaves, metadata=metadata or {}, rows=rows)
    target = pa.PythonFile(pieces.SinkFile(sink), "w")
    encoding = Encoding(compression, byte_stream_split)
    with encoding.writer(target, batch.schema) as writer:
        for part in pieces.pieces(batch, batch_rows):
            writer.write_table(pa.Table.from_batches([part]))


@dataclass(frozen=True, slots=True)
class Encoding:
    """How columns become pages.

    Attributes:
        compression: Of the pages.
        byte_stream_split: Whether the bytes of floats are put together by their place in the value,
            all first bytes before all second ones, which compresses better.
        spare_floats: Whether floats are not even tried to be written as dictionaries: they hardly
            repeat, and trying it takes most of the time.
    """

    compression: Compression | None = COMPRESSION
    byte_stream_split: bool = False
    spare_floats: bool = False

    def check(self) -> None:
        """Refuses a compression that Parquet does not have.

        Raises:
            UnsupportedError: There is no such compression.
        """
        if self.compression not in (None, "zstd", "snappy", "gzip", "lz4", "brotli"):
            raise UnsupportedError(
                f"compression is {self.compression!r}, expected zstd, snappy, gzip, lz4, brotli "
                "or None"
            )

    def writer(self, target: Any, schema: pa.Schema) -> Any:
        """A writer of PyArrow's that takes tables of a schema.

        Args:
            target: A file of PyArrow's.
            schema: Of the tables.

        Raises:
            UnsupportedError: Parquet has no such compression.
        """
        import pyarrow as pa
        from pyarrow import parquet

        self.check()
        dictionary: bool | list[str] = True
        split: bool | list[str] = False
        if self.byte_stream_split or self.spare_floats:
            leaves = list(_leaves_of(schema))
            dictionary = [path for path, kind in leaves if not pa.types.is_floating(kind)]
            if self.byte_stream_split:
                split = [path for path, kind in leaves if pa.types.is_floating(kind)]
        return parquet.ParquetWriter(
            target,
            schema,
            compression=self.compression or "none",
            write_page_checksum=True,
            use_dictionary=dictionary,
            use_byte_stream_split=split,
        )


def _leaves_of(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """The leaves of a schema: their paths in Parquet, and their types."""
    import pyarrow as pa

    pending = [(field.name, field.type) for field in reversed(schema)]
    while pending:
        path, kind = pending.pop()
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if pa.types.is_struct(kind):
            pending += ((f"{path}.{member.name}", member.type) for member in reversed(kind))
        elif (
            pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or pa.types.is_fixed_size_list(kind)
        ):
            pending.append((f"{path}.list.element", kind.value_type))
        else:
            yield path, kind
