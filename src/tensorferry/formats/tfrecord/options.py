"""Options: how TFRecords are read and written."""

from __future__ import annotations

from typing import Any, Literal

from tensorferry.classes import dataclass
from tensorferry.formats.contract import RowOptions, WriteOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordOptions(RowOptions):
    """How TFRecords are read.

    Attributes:
        schema: What the records hold: see `tensorferry.rows.schema.as_schema`. By default the
            schema in a file beside the data, or else what the records themselves show.
        infer: Whether the "first" records tell the schema, or "all" are looked at. Of a stream,
            which can be read once, it is always the first.
        raw: Give the bytes of each record, for files that hold other messages than Examples.
        threads: Number of threads that decode; by default one for each processor.
        fallback: Give the bytes as the one column "record" if the records are no Examples, or if
            `raw` asks for them: every file is rows with columns then.
    """

    schema: Any = None
    infer: Literal["first", "all"] = "first"
    raw: bool = False
    threads: int | None = None
    fallback: bool = False

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip", "keep"):
            raise ValueError(f"on_error is {self.on_error!r}, expected raise, skip or keep")
        if self.infer not in ("first", "all"):
            raise ValueError(f"infer is {self.infer!r}, expected first or all")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordWriting(WriteOptions):
    """How TFRecords are written.

    Attributes:
        compression: "gzip" or "zlib", which TensorFlow reads, or "zstd", which it does not; by
            default what the suffix says (.gz, .zlib, .zst), and an empty string for none.
        level: The level of the compression.
        schema: How features are written, where their types do not say it.
        append: Continue an existing, uncompressed file, whose frames are checked first.
        quantize: The columns of floats that are made smaller: `{"embedding": "int8"}`. Their scale
            is kept in a schema beside the file, and they are read as floats.
    """

    compression: str | None = None
    level: int | None = None
    schema: Any = None
    append: bool = False
    quantize: Any = None
