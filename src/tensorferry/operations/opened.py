"""Opened: tensors, records and tables behind one face, for all that looks at any of them.

    with open_input("train.tfrecord") as opened:
        opened.infos()              # a TensorInfo of each tensor, feature or column
        opened.tensor("label")      # all of it
        opened.batches(1024)        # dicts of columns; tensors of a bundle come whole

Records that are no Examples have one column, "record", with their bytes. Which inputs there are is
`tensorferry.files.find`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Self

import numpy as np

from tensorferry import storage
from tensorferry.errors import (
    ChecksumError,
    FerryError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)
from tensorferry.files import open as opening
from tensorferry.files.find import Input
from tensorferry.formats.tfrecord import frames as tfrecord
from tensorferry.formats.tfrecord.records import Records
from tensorferry.rows.schema import Feature
from tensorferry.storage import STANDARD_STREAM
from tensorferry.storage.pages import release
from tensorferry.tensors.infos import elements_in as elements_in
from tensorferry.tensors.values import RaggedTensor, SparseTensor, TensorInfo

Holds = Literal["tensors", "records", "rows"]

RECORD = "record"
"""The column of records that are no Examples."""

ROWS = 1024
"""Rows of a batch, unless they are large."""


class Opened:
    """What was opened; the base of the three kinds.

    Attributes:
        name: As the user named it.
        format: The name of its format.
        holds: What it is made of.
        files: The files, as far as they are known.
        metadata: What the user kept with it.
        notes: What there is to say about how it is read.
    """

    holds: Holds

    def __init__(self, name: str, format: str, files: Sequence[str], metadata: Any) -> None:
        self.name = name
        self.format = format
        self.files = (name,) if name == STANDARD_STREAM else tuple(files)
        self.metadata: Mapping[str, Any] = metadata
        self.notes: list[str] = []
        self._infos: dict[str, TensorInfo] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the files."""
        raise NotImplementedError

    def count(self) -> int | None:
        """How many tensors, records or rows; None where only reading all of it tells."""
        raise NotImplementedError

    def infos(self) -> dict[str, TensorInfo]:
        """What is known of the tensors, features or columns, by name."""
        if self._infos is None:
            self._infos = self._find_infos()
        return self._infos

    def _find_infos(self) -> dict[str, TensorInfo]:
        raise NotImplementedError

    def optional(self) -> frozenset[str]:
        """The columns that rows may lack: a batch has them as none or one value a row."""
        return frozenset()

    def tensor(self, name: str) -> Any:
        """A tensor, or a whole column."""
        raise NotImplementedError

    def part(self, name: str, index: tuple[Any, ...]) -> Any:
        """A slice of a tensor or column; only that is read, where the file allows it."""
        raise NotImplementedError

    def batches(self, rows: int = ROWS, *, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Dicts of columns, so many rows each; a bundle gives its tensors one by one, whole."""
        raise NotImplementedError

    def rows(self, *, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """One row after the other."""
        raise NotImplementedError

    def _part_of_rows(self, name: str, index: tuple[Any, ...]) -> Any:
        """A slice of a column; rows behind it are not read."""
        self.check_names([name])
        first = index[0] if index else slice(None)
        if isinstance(first, int) and first >= 0:
            stop: int | None = first + 1
        else:
            backward = not isinstance(first, slice) or (first.start or 0) < 0
            stop = None if backward or (first.step or 1) < 0 else first.stop
        if stop is None or stop < 0:
            return _part(self.tensor(name), index)
        for batch in self.batches(max(stop, 1), columns=[name]):
            return _part(batch[name], index)
        return _part(self.tensor(name), index)

    @property
    def noun(self) -> str:
        """What one of the things that `infos` tells of is called."""
        return "tensor" if self.holds == "tensors" else "column"

    def _unknown(self, name: str) -> FerryError:
        import difflib

        names = list(self.infos())
        near = difflib.get_close_matches(name, names, n=3) or names[:5]
        noun = self.noun
        hint = f"there are {', '.join(near)}" if near else f"there is no {noun} in it"
        return UnsupportedError(f"no {noun} is called {name!r}", path=self.name, hint=hint)

    def check_names(self, names: Sequence[str]) -> None:
        """Refuses names that are not there.

        Raises:
            UnsupportedError: One of them is not; near ones are named.
        """
        infos = self.infos()
        for name in names:
            if name not in infos:
                raise self._unknown(name)


class OpenedTensors(Opened):
    """A bundle."""

    holds = "tensors"

    def __init__(self, name: str, bundle: Any) -> None:
        super().__init__(name, bundle.format, bundle.files, bundle.metadata)
        self.bundle = bundle

    def close(self) -> None:
        """Lets go of the file."""
        self.bundle.close()

    def count(self) -> int:
        """How many tensors."""
        return len(self.bundle)

    def _find_infos(self) -> dict[str, TensorInfo]:
        return {name: self.bundle.info[name] for name in self.bundle}

    def tensor(self, name: str) -> Any:
        """A tensor."""
        if name not in self.bundle:
            raise self._unknown(name)
        return self.bundle[name]

    def part(self, name: str, index: tuple[Any, ...]) -> Any:
        """A slice of a tensor."""
        if name not in self.bundle:
            raise self._unknown(name)
        if self.bundle.info[name].kind in ("ragged", "list"):
            return _part(self.bundle[name], index)
        return self.bundle.slice(name, index)

    def batches(self, rows: int = ROWS, *, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """One tensor at a time, whole."""
        for name in self.bundle if columns is None else columns:
            tensor = self.tensor(name)
            yield {name: tensor}
            release(tensor)

    def rows(self, *, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Rows of tensors that are as long as each other."""
        names = list(self.bundle) if columns is None else list(columns)
        length = rows_in(self.infos(), names, self.name)
        tensors = {name: self.tensor(name) for name in names}
        listed = {
            name: list(tensor.rows()) if isinstance(tensor, SparseTensor) else tensor
            for name, tensor in tensors.items()
        }
        for row in range(length):
            yield {name: tensor[row] for name, tensor in listed.items()}


def rows_in(infos: Mapping[str, TensorInfo], names: Sequence[str], path: str) -> int:
    """How many rows tensors have, if they are columns.

    Raises:
        UnsupportedError: Their first dimensions differ.
    """
    lengths = {name: infos[name].shape[0] if infos[name].shape else None for name in names}
    if len(set(lengths.values())) != 1 or None in lengths.values():
        found = ", ".join(f"{name}: {length}" for name, length in list(lengths.items())[:4])
        raise UnsupportedError(
            f"the tensors are no columns of one length ({found or 'there are none'})",
            path=path,
            hint="choose some that are with --columns or --select, or look at one: ferry show",
        )
    return next(length for length in lengths.values() if length is not None)


class OpenedRecords(Opened):
    """TFRecords."""

    holds = "records"

    def __init__(
        self, name: str, records: Records, given: Any, options: Mapping[str, Any], raw: bool
    ) -> None:
        self._given, self._options = given, dict(options)
        super().__init__(name, tfrecord.NAME, list(map(str, records.paths)), {})
        self.records = records
        self._raw = raw
        self._looked = raw

    @property
    def is_stream(self) -> bool:
        """Whether it can be read once only."""
        return any(path == STANDARD_STREAM for path in self.files) or hasattr(self._given, "read")

    @property
    def is_raw(self) -> bool:
        """Whether the records are no Examples, or are to be seen as bytes."""
        if not self._looked:
            self._looked = True
            try:
                if not self.records.schema and not self.is_stream:
                    # Records that are no Examples were skipped, if it was opened so.
                    with suppress(ChecksumError, TruncatedError):
                        Records(self._given).schema  # noqa: B018  # looked for when asked
            except (ChecksumError, TruncatedError):
                raise
            except FormatError as error:
                if self.is_stream:
                    raise
                self._raw = True
                self.notes.append(f"read as bytes: {error.message}")
                self.records = self._open(None)
        return self._raw

    def _open(self, columns: Sequence[str] | None) -> Records:
        options = {**self._options, "raw": True} if self._raw else self._options
        return Records(self._given, columns=columns, **options)

    def _selected(self, columns: Sequence[str] | None) -> Records:
        if self.is_raw or columns is None or self.is_stream:
            return self.records
        self.check_names(columns)
        return Records(
            self._given, columns=columns, **{**self._options, "schema": self.records.schema}
        )

    def bytes_of_records(self) -> Iterator[bytes]:
        """The records as they are in the files."""
        if not self.is_stream:
            return iter(Records(self.records.paths, raw=True))
        # What was looked at to find the schema is still there, and nowhere else.
        self.records._raw = True
        return iter(self.records)

    def close(self) -> None:
        """Lets go of the files."""
        self.records.close()

    def count(self) -> int | None:
        """How many records; not of streams and remote files, which would have to be read."""
        if self.is_stream or any(map(storage.is_url, self.files)):
            return None
        return len(self.records)

    def _find_infos(self) -> dict[str, TensorInfo]:
        # The first dimension, that of the rows, is open.
        if self.is_raw:
            return {RECORD: TensorInfo(RECORD, "string", (None,), kind="string")}
        return {name: _info(feature) for name, feature in self.records.schema.items()}

    def optional(self) -> frozenset[str]:
        """The features that records may lack, and that hold one value or tensor otherwise."""
        if self.is_raw:
            return frozenset()
        features = self.records.schema.features
        return frozenset(
            feature.name
            for feature in features
            if feature.optional
            and feature.default is None
            and not feature.sequence
            and (feature.encoding == "tensor" or feature.shape[:1] != (None,))
        )

    def tensor(self, name: str) -> Any:
        """A whole column."""
        self.check_names([name])
        for batch in self.batches(tfrecord.MANY, columns=[name]):
            return batch[name]
        return np.empty(0, object)

    def part(self, name: str, index: tuple[Any, ...]) -> Any:
        """Some rows of a column, and what is wanted of them."""
        return self._part_of_rows(name, index)

    def batches(self, rows: int = ROWS, *, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Dicts of columns."""
        records = self._selected(columns)
        wanted = None if columns is None else set(columns)
        for batch in records.batches(rows):
            if self.is_raw:
                yield {RECORD: _bytes_column(batch)}
            else:
                yield {n: c for n, c in batch.items() if wanted is None or n in wanted}

    def rows(self, *, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """One record after the other."""
        records = self._selected(columns)
        if self.is_raw:
            return ({RECORD: record} for record in records)
        return iter(records)


class OpenedTable(Opened):
    """A table of Arrow or Parquet."""

    holds = "rows"

    def __init__(self, name: str, table: Any, format: str) -> None:
        super().__init__(name, format, [table.path], table.metadata)
        self.table = table

    def close(self) -> None:
        """Lets go of the file."""
        self.table.close()

    def count(self) -> int:
        """How many rows."""
        return len(self.table)

    def _find_infos(self) -> dict[str, TensorInfo]:
        return dict(self.table.info)

    def optional(self) -> frozenset[str]:
        """The columns that are null in some row."""
        return frozenset(self.table.optional)

    def tensor(self, name: str) -> Any:
        """A whole column."""
        self.check_names([name])
        return self.table[name]

    def part(self, name: str, index: tuple[Any, ...]) -> Any:
        """Some rows of a column, and what is wanted of them."""
        return self._part_of_rows(name, index)

    def batches(self, rows: int = ROWS, *, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Dicts of columns."""
        self.check_names(columns or [])
        for batch in self.table.batches(rows):
            yield {n: c for n, c in batch.items() if columns is None or n in columns}

    def rows(self, *, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """One row after the other."""
        self.check_names(columns or [])
        for row in self.table:
            yield {n: v for n, v in row.items() if columns is None or n in columns}


def open_input(
    given: Any,
    *,
    format: str | None = None,
    raw: bool = False,
    thorough: bool = False,
    **options: Any,
) -> Any:
    """Opens one input.

    Args:
        given: An `Input`, or whatever `tensorferry.open` takes.
        format: By default recognised.
        raw: See records as bytes.
        thorough: Look at all records to find their features, not only at the first, where they can
            be read twice: a feature that comes late is not left out.
        **options: Of `tensorferry.open`; those of records are left out for other formats.

    Returns:
        An `Opened` of one of the three kinds.
    """
    name = given.name if isinstance(given, Input) else _name_of(given)
    path = given.path if isinstance(given, Input) else given
    records: dict[str, Any] = {
        key: options.pop(key) for key in ("on_error", "threads") if key in options
    }
    if raw:
        options["raw"] = True
    opened = opening.open(path, format=format, **options)
    if isinstance(opened, Mapping):  # a bundle of any format
        return OpenedTensors(name, opened)
    if isinstance(opened, Records):
        if thorough and path != STANDARD_STREAM and not hasattr(opened.paths[0], "read"):
            records.setdefault("infer", "all")
        if records:
            # Only now it is known that there are records; a stream has been read from already.
            path = opened.paths[0] if hasattr(opened.paths[0], "read") else path
            opened = Records(path, **{**options, **records})
        options.pop("raw", None)
        return OpenedRecords(name, opened, path, {**options, **records}, raw)
    return OpenedTable(name, opened, opened.format)


def _name_of(given: Any) -> str:
    if isinstance(given, list | tuple) and given:
        return f"{given[0]} and {len(given) - 1} more" if len(given) > 1 else str(given[0])
    return os.fspath(given) if isinstance(given, str | os.PathLike) else str(given)


def _info(feature: Feature) -> TensorInfo:
    varies = (None,) if feature.sequence or (feature.optional and feature.default is None) else ()
    shape = (None, *varies, *feature.shape)
    if None in shape[1:]:
        kind: Any = "ragged"
    else:
        kind = "string" if feature.dtype == "string" else "dense"
    return TensorInfo(feature.name, feature.dtype, shape, kind=kind)


def _bytes_column(records: list[bytes]) -> Any:
    column = np.empty(len(records), object)
    column[:] = records
    return column


def _part(column: Any, index: tuple[Any, ...]) -> Any:
    """A slice of a column of any kind: rows first, then what is wanted of each."""
    if isinstance(column, np.ndarray):
        return column[index]
    if isinstance(column, SparseTensor):
        if index:
            raise UnsupportedError("a sparse tensor has no slices", hint="show all of it")
        return column
    if not index:
        return column
    first, rest = index[0], index[1:]
    if isinstance(first, int):
        row = column[first]
        return _part(row, rest) if isinstance(row, np.ndarray | RaggedTensor) else row
    rows = [column[number] for number in range(*first.indices(len(column)))]
    rows = [_part(row, rest) if rest else row for row in rows]
    if isinstance(column, RaggedTensor) and rows and not any(isinstance(i, int) for i in rest):
        return RaggedTensor.from_rows(
            [row.to_list() if isinstance(row, RaggedTensor) else row for row in rows],
            dtype=column.dtype,
        )
    return rows
