"""Moments: times and dates of tables as text, as ISO 8601 has them.

    moments = moments_in(opened)            # {"when": "timestamp[us]"}
    text_of(1376956800000000, "timestamp[us]")      # "2013-08-20T00:00:00"

In a tensor, a time is a number of units since 1970 (or since midnight), which a person cannot read.
A duration stays a number.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry.rows.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

_KIND = re.compile(r"(timestamp|date32|date64|time32|time64)\[(day|s|ms|us|ns)(, tz=.*)?\]")
_ZEROS = re.compile(r"\.?0*$")


def moments_in(opened: Any) -> Mapping[str, str]:
    """The columns of a table that hold times or dates, with Arrow's names of their types."""
    if not isinstance(opened, Rows) or opened.facts.records:
        return {}
    return dict(_inside(opened.arrow_schema, ""))


def _inside(fields: Any, before: str) -> Iterator[tuple[str, str]]:
    for field in fields:
        yield from _of(field.type, before + field.name)


def _of(kind: pa.DataType, name: str) -> Iterator[tuple[str, str]]:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        yield from _inside([kind.field(n) for n in range(kind.num_fields)], f"{name}/")
    elif pa.types.is_map(kind):
        yield from _inside([kind.key_field, kind.item_field], f"{name}/")
    elif pa.types.is_nested(kind) and kind.num_fields == 1:
        yield from _of(kind.field(0).type, name)
    elif _KIND.fullmatch(str(kind)):
        yield name, str(kind)


def text_of(value: Any, kind: str) -> Any:
    """A value of such a column: a text, a list of texts, or None."""
    if value is None:
        return None
    if isinstance(value, np.ndarray) and value.ndim:
        return [text_of(part, kind) for part in value]
    found = _KIND.fullmatch(kind)
    if found is None or not isinstance(value, np.integer | np.ndarray | int):
        return value
    unit = {"day": "D"}.get(found[2], found[2])
    text = str(np.datetime64(int(value), unit))  # type: ignore[call-overload]
    if found[1].startswith("date"):
        return text.partition("T")[0]
    if found[1].startswith("time") and found[1] != "timestamp":
        text = text.partition("T")[2]
    if "." in text:
        text = _ZEROS.sub("", text)
    return text + ("Z" if found[3] else "")


def plain_value(value: Any) -> Any:
    """A value of Arrow's in Python: times and dates are text, whole decimals are integers."""
    if isinstance(value, decimal.Decimal):
        is_whole = value.as_tuple().exponent == 0
        return int(value) if is_whole else str(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return str(value)
    if isinstance(value, list):
        return [plain_value(one) for one in value]
    if isinstance(value, dict):
        return {name: plain_value(one) for name, one in value.items()}
    return value
