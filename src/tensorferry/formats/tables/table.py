"""Tables: files of columns opened as one ordered set of rows.

    with Table("predictions.parquet", columns=["id", "scores"]) as table:
        for batch in table.batches(1024):       # a dict of columns
            ...

Files stand in pieces (record batches, row groups), which a format's reader
(`tensorferry.formats.tables.pieces`) gives one at a time, with the columns wanted only. Nothing
larger than a piece, or the pieces of one batch, is in memory, except for columns and tables that
are asked for as a whole. What is read of an uncompressed Arrow file are views of the file.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tensorferry.budget import Budget
from tensorferry.classes import NamedTuple
from tensorferry.errors import FerryError, LimitError, OptionError, Problem
from tensorferry.formats.table import TABLE
from tensorferry.formats.tables import choice, metadata as marks, pieces
from tensorferry.formats.tables.contract import TableOptions, reads_of, recognised
from tensorferry.formats.tables.dealing import CONVERTED, dealt
from tensorferry.formats.tables.files import Files
from tensorferry.formats.tables.stream import Stream
from tensorferry.progress import METER, Progress, following
from tensorferry.rows.columns import nbytes_of, rows_between
from tensorferry.rows.rows import ROWS, Batch, Damage, Indices, Row, Rows, To, check_rows, hand
from tensorferry.rows.schema import Schema
from tensorferry.rows.splits import Part, Split, deal
from tensorferry.storage.place import Place
from tensorferry.tensors.entries import Extent
from tensorferry.tensors.infos import TensorInfo
from tensorferry.tensors.note import Note

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.contract import Facts, RowOptions
    from tensorferry.formats.tables.columns import Leaf
    from tensorferry.formats.tables.outline import Outline


# The rows of fewer files are counted to be shown.
COUNTED = 64


class Wanted(NamedTuple):
    """The leaves to be read, the schema of their columns, and those that rows may lack."""

    names: list[str]
    schema: pa.Schema
    optional: set[str]


class Table(Rows):
    """The rows of files of columns (Arrow, Parquet, CSV, JSON Lines), read on demand.

    Iterating yields rows (dicts), and `batches(n)` yields dicts of columns. `table["name"]` is a
    whole column, and `len`, `table[7]`, `table[2:5]` and `table[[3, 1, 4]]` work on every format.
    In a row, a null is None. Values stay valid when the table is closed. A table that was opened by
    paths can be pickled; other processes open the files again.

    A column of a type that tensors do not have is listed by `infos` with the reason, and left out
    of rows and batches; naming it in `columns` raises the error.

    Args:
        source: A path or URL, "-" for the standard input, a binary file object, the bytes
            themselves, a `Source` or a `Place`; or a list of these, whose schemas agree.
        columns: The columns to read, by their names in the schema or in `infos`; by default all.
        format: "arrow", "parquet", "csv" or "jsonlines"; by default recognised from the bytes of
            the first file, or from the ending of its name.
        verify: Check everything that is read: checksums, offsets, indices, text.
        on_error: "skip" leaves out damaged row groups and record batches, and lists them in
            `damages`. Row numbers still count the skipped rows.

    Raises:
        FormatError: The first file is damaged, or of neither format.
        UnknownFeatureError: There is no such column.
        MissingExtraError: PyArrow is not installed.
    """

    _how: TableOptions

    def __init__(
        self,
        source: Any,
        *,
        columns: Sequence[str] | None = None,
        format: str | None = None,
        verify: bool = True,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> None:
        given = source if isinstance(source, list | tuple) else [source]
        places = [one if isinstance(one, Place) else Place(one) for one in given]
        facts = recognised(places[0]) if format is None else TABLE[format]
        how = reads_of(facts).options(columns=columns, verify=verify, on_error=on_error)
        self._begin([Part(place) for place in places], how, facts)

    @classmethod
    def of_parts(cls, parts: Sequence[Part], how: RowOptions, *, facts: Facts) -> Table:
        """The rows of some parts of files, in their order."""
        assert isinstance(how, TableOptions)
        table = cls.__new__(cls)
        table._begin(list(parts), how, facts)
        return table

    def _begin(self, parts: list[Part], how: TableOptions, facts: Facts) -> None:
        reads = reads_of(facts)
        how = reads.prepared(how, parts[0].place)
        super().__init__(list(dict.fromkeys(part.place for part in parts)), how, facts=facts)
        if how.on_error not in ("raise", "skip"):
            raise OptionError(
                f"on_error is {how.on_error!r}, expected 'raise' or 'skip' for {facts.name}"
            )
        self._parts = parts
        self._described: tuple[list[Outline], dict[str, TensorInfo]] | None = None
        try:
            self._files = Files(
                parts,
                lambda source, like: reads.pieces(source, how, like),
                self._skip_file if how.on_error == "skip" else None,
            )
            self._pieces = Stream(
                self._files, parts, self.damages if how.on_error == "skip" else None
            )
            if how.columns is not None:
                choice.choose(self._files.outlines, how.columns, self.path)
        except BaseException:
            self.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (tuple(self._parts), self._how, self.facts.name)

    def close(self) -> None:
        """Closes the files; values that were returned stay valid."""
        super().close()
        if "_pieces" in vars(self):
            self._pieces.forget()
        if "_files" in vars(self):
            self._files.close()

    # What there is

    @property
    def path(self) -> str:
        """The path of the first file."""
        return self.place.path

    def __len__(self) -> int:
        return self._pieces.count()

    def count(self, progress: Progress | bool | None = None) -> int:
        """Number of rows: all files are opened for it."""
        return len(self)

    def known_count(self) -> int | None:
        """Number of rows, unless many files have to be opened for it."""
        return len(self) if len(self.places) <= COUNTED else None

    @property
    def columns(self) -> list[str]:
        """The names of the columns that rows and batches have."""
        return [leaf.name for leaf in self._chosen(None)]

    @property
    def arrow_schema(self) -> pa.Schema:
        """The `pyarrow.Schema` of the columns, with those of several leaves as one.

        It has the columns of types that tensors lack, too.
        """
        schema, apart = self._in_arrow()
        return choice.together([], schema, apart).schema if apart else schema

    def _in_arrow(self) -> tuple[pa.Schema, list[Outline]]:
        """The schema of all columns wanted, and the leaves of structs that stand alone in it."""
        asked = self._how.columns
        if asked is None:
            return self._schema_of(choice.legible(self._files)), []
        leaves = self._chosen(None)
        return self._schema_of(choice.columns_of(leaves)), choice.members(leaves, asked)

    def _schema_of(self, columns: Sequence[str]) -> Any:
        import pyarrow as pa

        whole = self._files.schema
        if len(self._files) == 1 and whole.names == list(columns):
            return whole
        fields = [whole.field(name) for name in columns]
        if len(self._files) > 1:  # one that was never null in the first file may be in another
            fields = [field.with_nullable(True) for field in fields]
        return pa.schema(fields, whole.metadata)

    @property
    def schema(self) -> Schema:
        """What the columns are; those that cannot be read are in its notes."""
        leaves = self._chosen(None)
        return choice.schema_of(
            leaves, self._optional(leaves), [leaf for leaf in self.leaves() if leaf.error]
        )

    def infos(self) -> Mapping[str, TensorInfo]:
        """What is known of each column without reading it, also of those that cannot be read."""
        return self.info

    @property
    def info(self) -> dict[str, TensorInfo]:
        """The same as `infos()`."""
        leaves = self.leaves()
        if self._described is not None and self._described[0] == leaves:
            return self._described[1]
        rows = (len(self),) if self.in_rows else ()
        optional = self._optional([leaf for leaf in leaves if leaf.error is None])
        sizes: dict[str, int] = {}
        for number in range(len(self._files)):
            if self._files.rows(number):
                for name, size in self._files.reader(number).sizes().items():
                    sizes[name] = sizes.get(name, 0) + size
        found = {leaf.name: choice.describe(leaf, rows, optional, sizes) for leaf in leaves}
        self._described = leaves, found
        return found

    def leaves(self) -> list[Outline]:
        """The leaves that `infos` tells of."""
        if self._how.columns is None:
            return self._files.outlines
        return choice.choose(self._files.outlines, self._how.columns, self.path)

    @property
    def optional(self) -> frozenset[str]:
        """The columns that are null in some row."""
        return frozenset(self._optional(self._chosen(None)))

    def _optional(self, leaves: Sequence[Outline]) -> set[str]:
        given = self._how.optional
        if given is None or (given == "all" and not self.in_rows):
            return self._files.optional(leaves)
        if given == "all":
            return {leaf.name for leaf in choice.nullable(leaves)}
        return {leaf.name for leaf in leaves} & set(given)

    @property
    def metadata(self) -> dict[str, Any]:
        """What the user kept with the first file."""
        return self.note[1]

    @property
    def note(self) -> tuple[Note, dict[str, Any]]:
        """What tensorferry noted about the first file, and the user's metadata."""
        return choice.note_of(self._files, self.path)

    @property
    def in_rows(self) -> bool:
        """Whether its rows are those of columns; otherwise the only row holds whole tensors."""
        return marks.in_rows(self._files.metadata)

    @property
    def version(self) -> str | None:
        """The version of the format that the first file names."""
        return self._files.reader(0).version()

    @property
    def compressions(self) -> list[str]:
        """The format's own compressions that the first file uses."""
        return sorted(self._files.reader(0).compressions())

    @property
    def compression(self) -> str | None:
        """The same, as one text."""
        return ", ".join(self.compressions) or None

    # Columns

    def select(self, columns: Sequence[str]) -> Table:
        """Returns the same rows with some of their columns, over the same open files.

        Closing either table closes the files of both.
        """
        self.check_names(columns)
        table = type(self).__new__(type(self))
        vars(table).update(vars(self))
        table._how = dataclasses.replace(self._how, columns=list(columns))
        table._pieces = self._pieces.again()
        return table

    def check_names(self, names: Sequence[str]) -> None:
        """Refuses columns that are not there, or that cannot be read.

        Raises:
            UnknownFeatureError: There is no such column; the error suggests similar names.
            UnsupportedError: It is there and cannot be read.
        """
        self._chosen(names)

    def _chosen(self, names: Sequence[str] | None) -> list[Outline]:
        """The leaves of the columns named, or else of those that the table was opened with."""
        leaves = choice.choose(self._files.outlines, self._how.columns, self.path)
        if names is None:
            return leaves
        if self._how.columns is None:
            leaves = self._files.outlines
        return choice.choose(leaves, names, self.path)

    def arrow_batches(self) -> Iterator[pa.RecordBatch]:
        """The record batches of the files, with all columns wanted in the types they have there."""
        schema, apart = self._in_arrow()
        for batch in self._stream(schema.names):
            yield choice.together([batch], schema, apart)

    def to_arrow(self, *, progress: Progress | bool | None = None) -> pa.Table:
        """The whole table as a `pyarrow.Table`, with the columns as the files have them."""
        self._files.check_memory(self._in_arrow()[0].names)
        return super().to_arrow(progress=progress)

    def value(self, *, to: To = "numpy") -> Batch:
        """Reads all columns."""
        plain = None if to == "arrow" else self._plain()
        if plain is not None:
            return hand(plain, to)  # type: ignore[no-any-return]
        from tensorferry.formats.tables.chunks import out_of_one_row

        leaves = self._settled(None, all_rows=True)
        columns = choice.columns_of(leaves)
        self._files.check_memory(columns)
        batches = list(self._stream(columns))
        if to == "arrow":
            return choice.together(batches, self._schema_of(columns))  # type: ignore[no-any-return]
        values = self._values(batches, self._wanted(leaves))
        if not self.in_rows:
            with pieces.translated():
                values = out_of_one_row(values)
        return hand(values, to)  # type: ignore[no-any-return]

    def _plain(self) -> Batch | None:
        """All columns, if the only file is a plain one and nobody asked for a part of it."""
        (part, *others), how, plain = self._parts, self._how, self._files.plain
        if plain is None or others or part.start is not None or self._pieces.is_part:
            return None
        if how.columns is not None or how.optional is not None or not self.in_rows:
            return None
        self._files.reader(0)  # which is an error if the table is closed
        values = plain.values()
        METER.add(sum(map(nbytes_of, values.values())))
        return values

    def extents(self, column: str) -> Iterator[Extent]:
        """Where the pieces of a column of the schema lie."""
        return self._files.extents(column)

    # Batches and rows

    def batches(
        self,
        rows: int = ROWS,
        *,
        columns: Sequence[str] | None = None,
        to: To = "numpy",
        drop_remainder: bool = False,
    ) -> Iterator[Any]:
        """Batches of so many rows, over the boundaries of pieces and files.

        Args:
            rows: Number of rows of a batch; the last may be shorter.
            columns: The columns to read; by default those the table was opened with.
            to: The framework of the columns; "arrow" returns a `pyarrow.RecordBatch`, in which a
                struct is one column unless its members are named.
            drop_remainder: Leave out a shorter last batch.
        """
        rows = check_rows(rows)
        leaves = self._settled(columns, all_rows=True)
        if to == "arrow":
            asked = self._how.columns if columns is None else columns
            yield from self._slices(rows, leaves, choice.members(leaves, asked), drop_remainder)
            return
        wanted = self._wanted(leaves)
        for parts, count in self._dealt(rows, leaves, most=CONVERTED):
            if drop_remainder:
                count -= count % rows
            if not count:
                return
            values = self._values(parts, wanted)
            if count <= rows:
                yield hand(values, to)
                continue
            for start in range(0, count, rows):
                stop = start + rows
                batch = {n: rows_between(column, start, stop) for n, column in values.items()}
                yield hand(batch, to)

    def _slices(
        self, rows: int, leaves: Sequence[Outline], apart: Sequence[Outline], whole: bool
    ) -> Iterator[pa.RecordBatch]:
        """Record batches of so many rows.

        Args:
            rows: Number of rows of a batch.
            leaves: What is read.
            apart: Those of them that are members of structs, and become columns of their own.
            whole: Leave out a shorter last batch.
        """
        schema = self._schema_of(choice.columns_of(leaves))
        for parts, count in self._dealt(rows, leaves, most=None):
            batch = choice.together(parts, schema, apart)
            if count == rows or (count < rows and not whole):
                yield batch
                continue
            if whole:
                count -= count % rows
            for start in range(0, count, rows):
                yield batch.slice(start, rows)

    def __iter__(self) -> Iterator[Row]:
        leaves = self._settled(None, all_rows=True)
        wanted = self._wanted(leaves)
        for parts, count in self._dealt(ROWS, leaves):
            yield from self._rows(parts, wanted, count)

    def __getitems__(self, indices: Indices) -> list[Row]:
        """Several rows, in the order asked for; each piece is read once."""
        placed = self._files.all_rows()
        starts = np.cumsum([0, *(rows for _, _, rows in placed)])
        total = int(starts[-1])
        numbers = []
        for given in indices:
            row = operator.index(given)
            if not -total <= row < total:
                raise IndexError(f"row {row} of {total}")
            numbers.append(row % total)
        if not numbers:
            return []
        leaves = self._settled(None)
        columns = choice.columns_of(leaves)
        order = sorted(set(numbers))
        parts: list[pa.RecordBatch] = []
        for start, stop in choice.runs(order) if columns else ():
            while start < stop:
                place = int(np.searchsorted(starts, start, side="right")) - 1
                end = min(stop, int(starts[place + 1]))
                number, index, _ = placed[place]
                batches = self._pieces.piece(number, index, columns, check=self._check)
                parts += choice.between(batches, start - int(starts[place]), end - start)
                start = end
        rows = self._rows(parts, self._wanted(leaves), len(order))
        found = dict(zip(order, rows, strict=True))
        return [found[number] for number in numbers]

    def _dealt(
        self, rows: int, leaves: Sequence[Outline], *, most: int | None = 1
    ) -> Iterator[tuple[list[Any], int]]:
        """Slices of record batches that make up batches, and their number of rows: see `dealt`."""
        columns = choice.columns_of(leaves)
        if columns:
            return dealt(self._stream(columns, rows), rows, most=most)
        total = len(self)
        return (([], min(rows, total - start)) for start in range(0, total, rows))

    def _stream(self, columns: Sequence[str], rows: int | None = None) -> Iterator[Any]:
        """The record batches of the rows wanted: see `Stream.batches`."""
        return self._pieces.batches(columns, rows, check=self._check)

    def _check(self, batches: list[Any], columns: Sequence[str]) -> None:
        """Raises what is wrong inside of a piece, for those who skip damage."""
        leaves = [leaf for leaf in self._files.outlines if not leaf.error]
        self._values(batches, self._wanted([leaf for leaf in leaves if leaf.column in columns]))

    def _skip_file(self, place: Place, error: FerryError) -> None:
        damage = Damage(place.path, 0, error.offset or 0, place.size() or 0, error.message)
        self.damages.append(damage)

    def _settled(self, columns: Sequence[str] | None, *, all_rows: bool = False) -> list[Outline]:
        """The leaves to be read.

        Of columns that nobody named, those are left out that cannot be read for what is in the
        first piece: nulls inside of lists, or what PyArrow itself cannot read.

        Args:
            columns: The columns that were named.
            all_rows: Whether all rows are read next, of which the first piece is kept.
        """
        if columns is not None or self._how.columns is not None or self._files.settled:
            return self._chosen(columns)
        chosen = self._chosen(None)
        unfit: dict[Outline, FerryError] = {}
        if any(leaf.listed for leaf in chosen):  # only these are looked at
            unfit |= choice.unfit(self._files, chosen, self._first_piece(chosen, all_rows))
        self._files.settled = True
        if not unfit:
            return chosen
        self._files.refuse(unfit)
        for leaf, error in unfit.items():
            self.notes.append(f"column {leaf.name!r} is left out: {error.message}")
        return self._chosen(None)

    def _first_piece(self, leaves: Sequence[Outline], all_rows: bool) -> list[Any] | None:
        """The first piece, which is kept, if it is used next; None if it cannot be read at once.

        Text is parsed as a whole, so a part of it is not read faster.
        """
        try:
            number = next(n for n in range(len(self._files)) if self._files.pieces(n))
            if not all_rows and not self._files.reader(number).is_parsed:
                return None
            index, columns = self._files.pieces(number)[0], choice.columns_of(leaves)
            return self._pieces.piece(number, index, columns, check=self._check)
        except (StopIteration, FerryError):
            return None

    def _wanted(self, leaves: Sequence[Outline]) -> Wanted:
        names = [leaf.name for leaf in leaves]
        return Wanted(names, self._schema_of(choice.columns_of(leaves)), self._optional(leaves))

    def _values(self, parts: list[pa.RecordBatch], wanted: Wanted) -> dict[str, Leaf]:
        from tensorferry.formats.tables import values as arrow_values

        names, schema, optional = wanted
        try:
            with pieces.translated():
                if self._files.are_usual and len(parts) == 1 and not optional:
                    usual = arrow_values.usual(names, parts[0])
                    if usual is not None:
                        return usual
                found = arrow_values.from_batches(schema, parts, optional=optional, wanted=names)
        except FerryError as error:
            raise error.located(path=self.path) from error.__cause__
        return {name: found[name] for name in names}

    def _rows(self, parts: list[pa.RecordBatch], wanted: Wanted, count: int) -> Iterator[Row]:
        if not wanted.names:
            return iter([{} for _ in range(count)])
        values = self._values(parts, wanted)
        columns = [
            choice.row_values(leaf, name in wanted.optional) for name, leaf in values.items()
        ]
        return (dict(zip(values, row, strict=True)) for row in zip(*columns, strict=True))

    # Parts of it

    def portion(self, start: int, stop: int) -> Table:
        """Some rows that follow each other: see `Rows.portion`."""
        table = type(self).__new__(type(self))
        vars(table).update(vars(self))
        table._pieces = self._pieces.within(start, stop)
        return table

    def splits(self, count: int) -> list[Split]:
        """Divides the rows by file and piece: see `Rows.splits`."""
        leaves = self._settled(None)
        how = dataclasses.replace(
            reads_of(self.facts).settled(self._how, self._files.schema),
            columns=choice.names_of(leaves, self._files.outlines),
            optional=sorted(self._optional(leaves)),
        )
        parts = self._files.parts(choice.columns_of(leaves))
        if not parts:
            parts = [Part(self.place, 0, 0, 0, 0, 0)]
        groups = deal(parts, count)
        return [
            Split(number, tuple(choice.joined(group)), type(self), how, self.facts)
            for number, group in enumerate(groups)
        ]

    def problems(self, progress: Progress | bool | None = None) -> Iterator[Problem]:
        """Reads everything, and tells what is damaged: each column of each piece."""
        with following(progress, self.place.shown, "rows") as tell:
            yield from self._problems(tell)

    def _problems(self, progress: Progress | None) -> Iterator[Problem]:
        done, total = 0, None
        if progress is not None and len(self._files) == 1:
            total = len(self)
        for number in range(len(self._files)):
            try:
                placed = list(
                    zip(self._files.pieces(number), self._files.rows(number), strict=True)
                )
            except FerryError as error:
                yield Problem.of(error, self._files.path(number))
                continue
            first = self._parts[number].first
            budget = Budget(self._files.reader(number).size if placed else 0)
            for index, rows in placed:
                found = choice.damages(self._files, number, index, self._chosen(None), budget)
                try:
                    for damage in found:
                        problem = Problem.of(damage, self._files.path(number))
                        yield dataclasses.replace(problem, record=first)
                except LimitError as error:
                    yield dataclasses.replace(Problem.of(error, self.path), record=first)
                    return
                first += rows
                done += rows
                if progress is not None:
                    progress(done, total)


def _reopen(parts: Sequence[Part], how: TableOptions, format: str) -> Table:
    return Table.of_parts(parts, how, facts=TABLE[format])
