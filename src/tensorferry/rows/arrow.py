"""Rows as tables of Arrow, pandas, polars and Hugging Face, and by the interface of all these.

    rows.to_pandas(), rows.to_polars(), rows.to_arrow(), rows.to_hf()
    pl.DataFrame(rows), pa.table(rows), duckdb.sql("select * from rows")

The second line reads rows piece by piece (`__arrow_c_stream__`): whoever takes them decides how
many are in memory. Frames themselves are `tensorferry.frameworks.frames`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tensorferry.errors import MissingExtraError
from tensorferry.progress import Progress, Tally, following

if TYPE_CHECKING:
    import datasets
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from tensorferry.storage.place import Place


class AsArrow(ABC):
    """What rows are as Arrow's tables."""

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The `pyarrow.Schema` of the columns, in the types that the files give them."""

    @abstractmethod
    def arrow_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as `pyarrow.RecordBatch`es of `arrow_schema`, as many in each as suits."""

    @property
    @abstractmethod
    def place(self) -> Place:
        """The first of the files."""

    @abstractmethod
    def known_count(self) -> int | None:
        """Number of rows, if telling it takes no time."""

    def arrow_reader(self) -> pa.RecordBatchReader:
        """The rows as a `pyarrow.RecordBatchReader`, read while it is read.

        Raises:
            MissingExtraError: PyArrow is not installed.
        """
        pa = _pyarrow()
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self.arrow_batches())

    def to_arrow(self, *, progress: Progress | bool | None = None) -> pa.Table:
        """All rows as a `pyarrow.Table`, in the types that the files give the columns.

            ferry.open("train.parquet").to_arrow()

        Args:
            progress: True shows a bar; a function is told how many rows are read, and how many
                there are, if that is known.
        """
        pa = _pyarrow()
        with following(progress, self.place.shown, "rows") as tell:
            tally = None if tell is None else Tally(tell, self.known_count())
            batches = []
            for batch in self.arrow_batches():
                batches.append(batch)
                if tally is not None:
                    tally.add(batch.num_rows)
        return pa.Table.from_batches(batches, None if batches else self.arrow_schema)

    def to_pandas(self, *, progress: Progress | bool | None = None) -> pd.DataFrame:
        """All rows as a `pandas.DataFrame`.

            ferry.open("train.parquet").to_pandas()

        A frame that was saved comes back with its index and its categories.

        Args:
            progress: See `to_arrow`.

        Raises:
            MissingExtraError: pandas or PyArrow is not installed.
        """
        from tensorferry.frameworks import frames

        return frames.to_pandas(self.to_arrow(progress=progress))

    def to_polars(self, *, progress: Progress | bool | None = None) -> pl.DataFrame:
        """All rows as a `polars.DataFrame`.

            ferry.open("train.parquet").to_polars()

        Args:
            progress: See `to_arrow`.

        Raises:
            MissingExtraError: polars or PyArrow is not installed.
        """
        from tensorferry.frameworks import frames

        return frames.to_polars(self.to_arrow(progress=progress))

    def to_hf(self, *, progress: Progress | bool | None = None) -> datasets.Dataset:
        """All rows as a `datasets.Dataset` of Hugging Face, over the memory of `to_arrow`.

            ferry.open("train-*.tfrecord").to_hf().with_format("torch")

        Args:
            progress: See `to_arrow`.

        Raises:
            MissingExtraError: datasets or PyArrow is not installed.
        """
        from tensorferry.frameworks import frames

        return frames.to_hf(self.to_arrow(progress=progress))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.arrow_reader().__arrow_c_stream__(requested_schema)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(
            "Arrow's tables need pyarrow, which is not installed",
            hint="pip install 'tensorferry[arrow]'",
        ) from None
    return pyarrow
