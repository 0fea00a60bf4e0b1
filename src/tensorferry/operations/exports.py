"""Exports: a tensor as an npy file and rows as CSV, in pieces.

Nothing larger than a piece is in memory beside what reading needs. Files on disk are made by
`tensorferry.operations.convert`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO, StringIO
from typing import Any

import numpy as np

from tensorferry.errors import UnsupportedError
from tensorferry.files.bytes import dumps
from tensorferry.operations.cells import number_text
from tensorferry.operations.distribution import pieces_of
from tensorferry.operations.pages import Row
from tensorferry.operations.plain import plain
from tensorferry.operations.subject import Subject
from tensorferry.tensors.entries import chunks


def npy(subject: Subject, name: str) -> Iterator[bytes]:
    """The npy file of a dense tensor of numbers, in pieces.

    Raises:
        UnsupportedError: The tensor does not exist, or npy cannot hold it.
    """
    tensor = subject.tensor(name)
    if not isinstance(tensor, np.ndarray) or tensor.dtype == object:
        raise UnsupportedError(
            "npy holds dense tensors of numbers only",
            path=subject.name,
            tensor=name,
            hint="ferry convert writes the others into npz, safetensors or JSON",
        )
    if tensor.dtype.kind == "V" or tensor.dtype.type.__module__ == "ml_dtypes":
        yield dumps(tensor, format="npy")
        return
    header = BytesIO()
    description = np.lib.format.header_data_from_array_1_0(tensor)
    np.lib.format.write_array_header_2_0(header, {**description, "fortran_order": False})
    yield header.getvalue()
    for chunk in chunks(tensor):
        for piece in pieces_of(chunk):
            yield piece.tobytes()


def csv_of(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[str]:
    """Rows as CSV, line by line; values other than numbers and text are JSON."""
    yield _line(["row", *columns])
    for row in rows:
        yield _line([row.number, *(_field(row.values.get(name)) for name in columns)])


def csv_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Rows of the same columns as CSV, line by line, their names first."""
    for number, row in enumerate(rows):
        if not number:
            yield _line(list(row))
        yield _line([_field(value) for value in row.values()])


def _line(fields: Sequence[Any]) -> str:
    text = StringIO()
    csv.writer(text).writerow(fields)
    return text.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, float):
        value = np.float64(value)
    if value is None:
        return ""
    if isinstance(value, np.generic):
        return number_text(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return json.dumps(plain(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str | int | float) else json.dumps(plain(value))
