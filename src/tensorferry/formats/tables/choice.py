"""Choosing leaves of a table's schema, describing them, and putting their rows together.

A column of the schema is one leaf, or several if it is a struct: "point" is "point/x" and
"point/y". Users may name either. What a leaf is stands in its outline
(`tensorferry.formats.tables.outline`); the table itself is `tensorferry.formats.tables.table`.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensorferry import dtypes
from tensorferry.budget import Budget
from tensorferry.classes import replace
from tensorferry.errors import FerryError, FormatError, UnknownFeatureError, UnsupportedError
from tensorferry.formats.tables import metadata as marks, pieces
from tensorferry.rows.columns import nbytes_of
from tensorferry.rows.schema import Feature, Schema
from tensorferry.rows.schema.feature import make_feature
from tensorferry.rows.splits import Part
from tensorferry.tensors.infos import Kind, TensorInfo
from tensorferry.tensors.note import Note
from tensorferry.tensors.values import RaggedTensor, SparseTensor

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.columns import Leaf
    from tensorferry.formats.tables.files import Files
    from tensorferry.formats.tables.outline import Outline

TOGETHER = 256
"""Number of columns that are verified in one reading, at most."""

TOGETHER_BYTES = 64 << 20
"""Number of bytes that they take in memory."""


def choose(outlines: Sequence[Outline], names: Sequence[str] | None, path: str) -> list[Outline]:
    """The leaves that are named, in the order of the names; by default all that can be read.

    Args:
        outlines: The leaves there are.
        names: Of columns or leaves. A struct that is named stands for its leaves that can be read.
        path: The file, for errors.

    Raises:
        UnknownFeatureError: There is no such column; near ones are named.
        UnsupportedError: It is there and cannot be read.
        FormatError: It is damaged, or two leaves have one name.
    """
    if names is None:
        chosen = [leaf for leaf in outlines if leaf.error is None]
    else:
        by_column: dict[str, list[Outline]] = {}
        by_name: dict[str, list[Outline]] = {}
        for leaf in outlines:
            by_column.setdefault(leaf.column, []).append(leaf)
            by_name.setdefault(leaf.name, []).append(leaf)
        chosen = []
        for name in dict.fromkeys(names):
            found = by_column.get(name) or by_name.get(name)
            if not found:
                raise _unknown(name, list(by_name), path)
            chosen += _readable(found, name, path)
        chosen = list(dict.fromkeys(chosen))
    if len({leaf.name for leaf in chosen}) < len(chosen):
        counts = Counter(leaf.name for leaf in chosen)
        twice = next(name for name, count in counts.items() if count > 1)
        raise FormatError(
            f"there are several columns {twice!r}, expected different names",
            path=path,
            hint="rename them: pyarrow.Table.rename_columns",
        )
    return chosen


def _readable(found: Sequence[Outline], name: str, path: str) -> list[Outline]:
    """The leaves of a name that can be read; if none can, the error of the first is raised."""
    readable = [leaf for leaf in found if leaf.error is None]
    if not readable:
        assert found[0].error is not None
        kind, arguments = found[0].error.__reduce__()
        error: FerryError = kind(*arguments)
        raise error.located(path=path, tensor=name)
    return readable


def _unknown(name: str, names: Sequence[str], path: str) -> UnknownFeatureError:
    near = difflib.get_close_matches(name, names, n=3)
    hint = f"did you mean {', '.join(map(repr, near))}?" if near else None
    if not near and names:
        hint = f"there are {', '.join(names)[:200]}"
    return UnknownFeatureError(f"no column is called {name!r}", path=path, hint=hint)


def legible(files: Files) -> list[str]:
    """The columns of the schema that PyArrow can read, whether tensors have such types or not.

    Only columns with values inside of others are tried, on the first piece: it reads all others,
    and lists of numbers.
    """
    if files.legible is not None:
        return files.legible
    names: list[str] = files.schema.names
    kinds = zip(names, files.schema.types, strict=True)
    doubtful = [name for name, kind in kinds if nests(kind) and not _lists_numbers(kind)]
    refused: set[str] = set()
    if doubtful and not marks.is_ours(files.schema.metadata):
        for columns, found in _tried(files, doubtful):
            if isinstance(found, UnsupportedError):
                refused.update(columns)
    files.legible = [name for name in names if name not in refused]
    return files.legible


def _tried(
    files: Files, columns: Sequence[str]
) -> Iterator[tuple[list[str], list[Any] | FerryError]]:
    """The first piece, some columns at a time; or a column, and why it cannot be read.

    Text is parsed as a whole, so its columns come together, or none of them does: what is wrong
    with them is told when the rows are read.
    """
    number = next((number for number in range(len(files)) if files.pieces(number)), None)
    if number is None or not columns:
        return
    reader, index = files.reader(number), files.pieces(number)[0]
    pending = [list(columns)] if reader.is_parsed else list(_together(reader, index, columns))
    while pending:
        names = pending.pop(0)
        try:
            yield names, reader.batches(index, names)
        except FerryError as error:
            if len(names) == 1:
                yield names, error
            elif not reader.is_parsed:
                pending[:0] = [[name] for name in names]


def nests(kind: pa.DataType) -> bool:
    """Whether values of a type hold others: lists and structs, but not tensors of one shape."""
    import pyarrow as pa

    if isinstance(kind, pa.FixedShapeTensorType):
        return bool(kind.value_type.num_fields)
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return bool(kind.num_fields)


def _lists_numbers(kind: pa.DataType) -> bool:
    """Whether values of a type are lists of numbers."""
    import pyarrow as pa

    types = pa.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and types.is_primitive(kind.value_type))


def columns_of(leaves: Sequence[Outline]) -> list[str]:
    """The columns of the schema that leaves stand in, each once."""
    return list(dict.fromkeys(leaf.column for leaf in leaves))


def names_of(leaves: Sequence[Outline], outlines: Sequence[Outline]) -> list[str]:
    """Names that stand for leaves: those of columns, unless some of their leaves are left out."""
    taken = set(leaves)
    partial = {leaf.column for leaf in outlines if leaf not in taken}
    names = [leaf.name if leaf.column in partial else leaf.column for leaf in leaves]
    return list(dict.fromkeys(names))


def members(leaves: Sequence[Outline], names: Sequence[str] | None) -> list[Outline]:
    """The leaves that were asked for by a name that is not their column's."""
    asked = set(names or ())
    return [leaf for leaf in leaves if leaf.column not in asked and leaf.name in asked]


# What leaves are


def note_of(files: Files, path: str) -> tuple[Note, dict[str, Any]]:
    """What tensorferry noted in the metadata of a schema, and the user's own."""
    try:
        if files.plain is not None:
            return Note.from_metadata(files.plain.texts())
        from tensorferry.formats.tables import values as arrow_values

        return Note.from_metadata(arrow_values.metadata_of(files.schema))
    except FerryError as error:
        raise error.located(path=path) from error.__cause__


def describe(
    leaf: Outline, rows: tuple[int, ...], optional: Collection[str], sizes: Mapping[str, int]
) -> TensorInfo:
    """What is known of a leaf.

    Args:
        leaf: Its outline.
        rows: The first dimension, unless the tensor is the whole column.
        optional: The leaves that are null in some row.
        sizes: Number of bytes of the file by column.
    """
    is_optional = leaf.name in optional and not leaf.several
    shape = (*rows, *((None,) if is_optional else ()), *leaf.shape)
    # Of a column that is several leaves, nothing tells the part of each.
    nbytes = sizes.get(leaf.column) if leaf.name == leaf.column else None
    reason = None if leaf.error is None else leaf.error.message
    return TensorInfo(leaf.name, leaf.dtype, shape, nbytes, kind_of(leaf, shape), unreadable=reason)


def kind_of(leaf: Outline, shape: tuple[int | None, ...]) -> Kind:
    """How the tensor of a leaf is made."""
    if leaf.several:
        return "list"
    if leaf.sparse:
        return "sparse"
    if None in shape:
        return "ragged"
    return "string" if leaf.dtype == dtypes.STRING.name else "dense"


def nullable(leaves: Sequence[Outline]) -> list[Outline]:
    """The leaves that may be null in some row, by the schema."""
    return [leaf for leaf in leaves if leaf.nullable and not leaf.listed]


def schema_of(
    leaves: Sequence[Outline], optional: Collection[str], others: Sequence[Outline]
) -> Schema:
    """The schema that records of these leaves have.

    Args:
        leaves: Those that can be read.
        optional: Those that are null in some row.
        others: Those that cannot be read, which are noted.
    """
    features = [_feature(leaf, leaf.name in optional) for leaf in leaves]
    notes = [
        f"column {leaf.name!r} is left out: {leaf.error.message}" for leaf in others if leaf.error
    ]
    return Schema(tuple(features), tuple(notes))


def _feature(leaf: Outline, optional: bool) -> Feature:
    options: dict[str, Any] = {"optional": optional}
    shape = leaf.shape
    if shape[:2] == (None, None) and None not in shape[2:]:
        options["sequence"], shape = True, shape[1:]
    try:
        return make_feature(leaf.name, leaf.dtype, shape, **options)
    except FormatError:  # open dimensions that only a serialized tensor has
        return Feature(
            leaf.name, "bytes", leaf.shape, leaf.dtype, encoding="tensor", optional=optional
        )


# What is wrong with them


def unfit(
    files: Files, leaves: Sequence[Outline], held: Sequence[Any] | None = None
) -> Iterator[tuple[Outline, FerryError]]:
    """The leaves that cannot be read for what is in the first piece.

    Only leaves inside of lists, and columns that PyArrow may refuse, are looked at: of the others
    the type has told.

    Args:
        files: The files.
        leaves: All that are wanted.
        held: The first piece with their columns, if it was read already.
    """
    columns: dict[str, list[Outline]] = {}
    for leaf in leaves:
        columns.setdefault(leaf.column, []).append(leaf)
    doubtful = [name for name, some in columns.items() if any(leaf.listed for leaf in some)]
    if not doubtful or marks.is_ours(files.schema.metadata):
        return
    tried = _tried(files, doubtful) if held is None else [(doubtful, held)]
    for names, found in tried:
        for name in names:
            if isinstance(found, FerryError):
                if isinstance(found, UnsupportedError):
                    yield from ((leaf, found) for leaf in columns[name])
                continue  # damage is told, or skipped, when the rows are read
            for leaf in columns[name]:
                if leaf.listed:
                    try:
                        _read(files, found, leaf)
                    except UnsupportedError as error:
                        yield leaf, error
                    except FormatError:
                        break


def _read(files: Files, batches: Sequence[Any], leaf: Outline) -> None:
    from tensorferry.formats.tables import values as arrow_values

    field = files.schema.field(leaf.column)
    with pieces.translated():
        for batch in batches:  # one by one: nobody wants them together
            arrow_values.from_chunks(field, [batch.column(leaf.column)], wanted=[leaf.name])


def damages(
    files: Files, number: int, index: int, leaves: Sequence[Outline], budget: Budget
) -> Iterator[FerryError]:
    """What is damaged in a piece; columns are read alone where something is wrong.

    What we cannot read, though nothing is wrong with it, is no damage.

    Args:
        files: The files of a table.
        number: Of the file.
        index: Of the piece.
        leaves: What is read.
        budget: Of the file: one by one, its pieces would fit into memory, but not into a lifetime.

    Raises:
        LimitError: The pieces take more than the file may, together.
    """
    reader = files.reader(number)
    by_column: dict[str, list[Outline]] = {}
    for leaf in leaves:
        by_column.setdefault(leaf.column, []).append(leaf)
    names = list(by_column)
    pending = [names] if reader.is_parsed else list(_together(reader, index, names))
    while pending:
        columns = pending.pop(0)
        try:
            with files.located(number):
                batches = reader.batches(index, columns)
        except FerryError as error:
            if len(columns) > 1 and not reader.is_parsed:
                pending[:0] = [[name] for name in columns]
            elif not isinstance(error, UnsupportedError):
                yield _placed(error, reader, index, columns)
            continue
        for column in columns:
            try:
                with files.located(number):
                    for leaf in by_column[column]:
                        _read(files, batches, leaf)
            except UnsupportedError:
                continue
            except FerryError as error:
                yield _placed(error, reader, index, [column])
        if columns and reader.memory(index, columns):  # else the file holds all bytes of it
            size = sum(map(nbytes_of, batches))
            budget.take(size, what="a column", offset=reader.offset(index, columns[0]))


def _together(reader: pieces.Reader, index: int, names: Sequence[str]) -> Iterator[list[str]]:
    """Some columns of a piece at a time: for each reading, PyArrow goes through all there are."""
    group: list[str] = []
    size = 0
    for name in names:
        more = reader.memory(index, [name])
        if group and (len(group) == TOGETHER or size + more > TOGETHER_BYTES):
            yield group
            group, size = [], 0
        group.append(name)
        size += more
    if group:
        yield group


def _placed(
    error: FerryError, reader: pieces.Reader, index: int, columns: Sequence[str]
) -> FerryError:
    """An error of some columns of a piece, with its place."""
    if error.offset is None:
        error.offset = reader.offset(index, columns[0])
    return error.located(tensor=columns[0]) if len(columns) == 1 else error


# Rows of record batches


def between(batches: Sequence[Any], start: int, count: int) -> list[Any]:
    """Slices of record batches with the rows from one on."""
    parts = []
    first = 0
    for batch in batches:
        last = first + batch.num_rows
        if first < start + count and last > start:
            skipped = max(start - first, 0)
            parts.append(batch.slice(skipped, min(start + count, last) - first - skipped))
        first = last
    return parts


def together(parts: Sequence[Any], schema: pa.Schema, apart: Sequence[Outline] = ()) -> Any:
    """Record batches as one.

    Args:
        parts: The batches.
        schema: Of the batches.
        apart: Leaves of structs that become columns of their own.
    """
    import pyarrow as pa

    parts = [
        part
        if part.schema.equals(schema, check_metadata=True)
        else pa.RecordBatch.from_arrays(part.columns, schema=schema)
        for part in parts
    ]
    if len(parts) == 1:
        batch = parts[0]
    else:
        found = pa.Table.from_batches(parts, schema).combine_chunks().to_batches()
        batch = found[0] if found else pa.RecordBatch.from_pylist([], schema)
    if not apart:
        return batch
    from tensorferry.formats.tables.members import member_of

    inside: dict[str, list[str]] = {}
    for leaf in apart:
        inside.setdefault(leaf.column, []).append(leaf.name)
    fields, arrays = [], []
    for field, array in zip(schema, batch.columns, strict=True):
        if field.name not in inside:
            fields.append(field)
            arrays.append(array)
        for name in inside.get(field.name, ()):
            found = member_of(array, name.removeprefix(f"{field.name}/"))
            fields.append(pa.field(name, found.type))
            arrays.append(found)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, schema.metadata))


def row_values(leaf: Leaf, optional: bool) -> list[Any]:
    """The values of a column, row by row; None where a row is null."""
    if isinstance(leaf, SparseTensor):
        return list(leaf.rows())
    values = list(leaf)
    if optional and isinstance(leaf, RaggedTensor):
        return [row[0] if len(row) else None for row in values]
    return values


def runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as ranges of those that follow each other."""
    start = previous = numbers[0]
    for number in numbers[1:]:
        if number != previous + 1:
            yield start, previous + 1
            start = number
        previous = number
    yield start, previous + 1


def joined(parts: Sequence[Part]) -> list[Part]:
    """Parts of files, those that follow each other in one file as one."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if last is not None and last.place == part.place and last.stop == part.start:
            found[-1] = replace(
                last,
                stop=part.stop,
                rows=(last.rows or 0) + (part.rows or 0),
                nbytes=(last.nbytes or 0) + (part.nbytes or 0),
            )
        else:
            found.append(part)
    return found
