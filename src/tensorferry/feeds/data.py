"""The rows of a feed: from whatever a user passes as data, with the checks that need no reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.open import open as open_rows
from tensorferry.formats.tfrecord.records import Records
from tensorferry.rows.rows import Rows


def rows_with_columns(
    data: Any, storage_options: Mapping[str, Any] | None, options: keywords.Reading
) -> Rows:
    """Rows that have columns: records that are read as bytes have one, called "record".

    Args:
        data: What `tensorferry.open` takes, or rows that are open.
        storage_options: For the store of a URL.
        options: Those of `tensorferry.open`.

    Raises:
        UnsupportedError: The data has no rows, or no columns, or is a stream.
    """
    if isinstance(data, Records) and data.raw:
        raise UnsupportedError(
            "records that were opened with raw=True have no columns",
            path=data.files[0],
            hint="give the feed the path of the file, and raw=True: the column is 'record'",
        )
    chosen: Any = {**options, "fallback": True} if options.get("raw") else options
    return _rows(data, storage_options, chosen)


def seekable_rows(data: Any, options: keywords.Reading, *, instead: str) -> Rows:
    """Rows that can be read one by one.

    Args:
        data: What `tensorferry.open` takes, or rows that are open.
        options: Those of `tensorferry.open`.
        instead: The function that reads other rows, for the error.

    Raises:
        UnsupportedError: The data has no rows, or they can only be read in order.
    """
    found = _rows(data, None, options)
    if not found.is_seekable:
        raise UnsupportedError(
            f"rows of {found.format} cannot be read one by one here",
            path=found.place.shown,
            hint=f"{instead} reads them in order, or shuffled in windows",
        )
    return found


def _rows(data: Any, storage_options: Mapping[str, Any] | None, options: keywords.Reading) -> Rows:
    if isinstance(data, Rows):
        found = data.select(columns) if (columns := options.get("columns")) is not None else data
    else:
        opened = open_rows(data, storage_options=storage_options, **options)
        if not isinstance(opened, Rows):
            opened.close()
            raise UnsupportedError(
                f"{opened.format} holds tensors, expected rows", path=opened.path
            )
        found = opened
    if found.is_stream:
        raise UnsupportedError(
            "a stream can be read once, a feed reads its data in every epoch",
            hint="copy it into a file",
        )
    return found
