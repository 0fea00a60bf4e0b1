"""The files of a table: each opened when it is needed, and all of one schema.

The pieces of several files follow each other as the pieces of one do. A file that is opened is
compared with the first: column names, their order and types must agree, metadata may differ. Of
many files, only the `OPEN_AT_ONCE` used last are kept open; what is known of the others is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any

from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.formats.tables import choice, metadata as marks, pieces
from tensorferry.formats.tables.pieces import Reader
from tensorferry.formats.tables.plain import Plain
from tensorferry.rows.splits import Part
from tensorferry.storage.place import OPEN_AT_ONCE, Place
from tensorferry.storage.source import Source
from tensorferry.tensors.entries import Extent

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorferry.formats.tables.outline import Outline

Broken = Callable[[Place, FerryError], None]


class Located:
    """Says in errors which file it was."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, FerryError):
            error.located(path=self._place.path)


class Files:
    """Parts of files that are one table.

    Args:
        parts: In order; `start` and `stop` are numbers of pieces.
        opens: Opens a file, given the schema of the first one that was opened.
        broken: Is told of a file that is damaged as a whole, which then has no pieces; None if that
            is an error.

    Attributes:
        outlines: The leaves of the schema. Those that turn out to be unreadable are replaced.
        plain: What is known of the only file, if it is a plain one.
        legible: The columns that PyArrow can read; None until somebody asked.
        are_usual: Whether all columns are known to be numbers, texts and lists of numbers of one
            size, without metadata.
    """

    def __init__(
        self, parts: Sequence[Part], opens: Callable[[Source, Any], Reader], broken: Broken | None
    ) -> None:
        self._parts = parts
        self._opens = opens
        self._broken = broken
        self._readers: OrderedDict[Place, Reader] = OrderedDict()
        self._rows: dict[int, list[int]] = {}
        self._optional: dict[str, bool] = {}
        self._outlines: list[Outline] | None = None
        self._first: str | None = None
        self._schema: Any = None
        self._is_closed = False
        self._lock = RLock()
        self.settled = self.are_usual = False
        self.legible: list[str] | None = None
        self.plain: Plain | None = None
        self._open_first()

    def __len__(self) -> int:
        return len(self._parts)

    def _open_first(self) -> None:
        failed: FerryError | None = None
        for number in range(len(self)):
            try:
                self.reader(number)
            except FerryError as error:
                failed = failed or error
                if self._broken is None:
                    raise
            if self._first is not None:
                break
        if self._first is None:
            raise failed or ValueError("a table of no files")

    @property
    def outlines(self) -> list[Outline]:
        """The leaves of the columns, in order; those that cannot be read have an error."""
        if self._outlines is None:
            from tensorferry.formats.tables import outline as arrow_outline

            with self.located(0), pieces.translated():
                self._outlines = arrow_outline.outline(self.schema)
        return self._outlines

    @property
    def schema(self) -> pa.Schema:
        """The `pyarrow.Schema` of the first file."""
        if self._schema is None:
            assert self.plain is not None
            self._schema = self.plain.schema()
        return self._schema

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """The metadata of that schema."""
        return self.schema.metadata or {} if self.plain is None else self.plain.metadata

    def path(self, number: int) -> str:
        """The path of a file."""
        return self._parts[number].place.path

    def reader(self, number: int) -> Reader:
        """A file, opened.

        Raises:
            FormatError: The file is damaged, or its schema is another than that of the first.
            ValueError: The table is closed.
        """
        with self._lock:
            return self._open_reader(number)

    def _open_reader(self, number: int) -> Reader:
        place = self._parts[number].place
        if self._is_closed:
            raise ValueError(f"{place.path}: the table is closed")
        reader = self._readers.get(place)
        if reader is None:
            with self.located(number):
                like = None if self._first is None else self.schema
                reader = self._opens(place.open(), like)
                self._check(place.path, reader)
            self._make_room()
            self._readers[place] = reader
        self._readers.move_to_end(place)
        if number not in self._rows:
            part = self._parts[number]
            self._rows[number] = reader.rows[part.start : part.stop]
        return reader

    def _make_room(self) -> None:
        """Closes the file that was not used for the longest time, if it can be opened again."""
        if len(self._readers) < OPEN_AT_ONCE:
            return
        oldest = next((place for place in self._readers if place.is_named), None)
        if oldest is not None:
            del self._readers[oldest]
            oldest.close()

    def _check(self, path: str, reader: Reader) -> None:
        if self._first is None and reader.plain is not None and len(self._parts) == 1:
            self._first, self.plain = path, reader.plain
        elif self._first is None:
            schema = reader.schema
            if len(self._parts) > 1 and not marks.in_rows(schema.metadata):
                raise UnsupportedError(
                    "it holds whole tensors, not rows: it cannot be opened together with others",
                    hint="open the files one by one",
                )
            self._first, self._schema, self._outlines = path, schema, reader.outlines
            self.are_usual = reader.outlines is not None
        else:
            check_schemas(reader.schema, self._first, self.schema)

    def rows(self, number: int) -> list[int]:
        """Number of rows of each piece of a file; none of a file that is damaged as a whole."""
        if number not in self._rows:
            try:
                self.reader(number)
            except FormatError as error:
                if self._broken is None:
                    raise
                self._broken(self._parts[number].place, error)
                self._rows[number] = []
        return self._rows[number]

    def pieces(self, number: int) -> range:
        """The numbers of the pieces of a file."""
        first = self._parts[number].start or 0
        return range(first, first + len(self.rows(number)))

    def all_rows(self) -> list[tuple[int, int, int]]:
        """For each piece the number of its file, its own, and its number of rows."""
        return [
            (number, index, rows)
            for number in range(len(self))
            for index, rows in zip(self.pieces(number), self.rows(number), strict=True)
        ]

    def parts(self, columns: Sequence[str]) -> list[Part]:
        """The smallest parts that can be read alone: the pieces that have rows."""
        found: list[Part] = []
        for number, part in enumerate(self._parts):
            first = part.first
            for index, rows in zip(self.pieces(number), self.rows(number), strict=True):
                if rows:
                    spans = self.reader(number).spans(index, columns)
                    size = sum(stop - start for start, stop in spans)
                    found.append(Part(part.place, index, index + 1, first, rows, size))
                first += rows
        return found

    def extents(self, column: str) -> Iterator[Extent]:
        """Where the pieces of a column lie."""
        for number, part in enumerate(self._parts):
            for index in self.pieces(number):
                reader = self.reader(number)
                for start, stop in reader.spans(index, [column]):
                    yield part.place.open(), start, stop

    def check_memory(self, columns: Sequence[str]) -> None:
        """Refuses columns that take, as a whole, more memory than their files justify."""
        total = held = 0
        for number in range(len(self)):
            if self.pieces(number):
                reader = self.reader(number)
                total += sum(reader.memory(index, columns) for index in self.pieces(number))
                held += reader.size
        with self.located(0):
            pieces.check_memory(total, held=held)

    def optional(self, leaves: Sequence[Outline]) -> set[str]:
        """The leaves that are null in some row of any file.

        Only leaves that the schema allows to be null are looked for, and only then all files are
        opened.
        """
        possible = choice.nullable(leaves)
        new = [leaf for leaf in possible if leaf.name not in self._optional]
        if new:
            found: set[str] = set()
            for number in range(len(self)):
                if self.rows(number):
                    with self.located(number), pieces.translated():
                        found |= self.reader(number).optional(new)
            self._optional |= {leaf.name: leaf.name in found for leaf in new}
        return {leaf.name for leaf in possible if self._optional[leaf.name]}

    def refuse(self, unfit: Mapping[Outline, FerryError]) -> None:
        """Notes that some leaves cannot be read."""
        from tensorferry.classes import replace

        self._outlines = [
            replace(leaf, error=unfit[leaf]) if leaf in unfit else leaf for leaf in self.outlines
        ]

    def located(self, number: int) -> Located:
        """Says in errors which file it was."""
        return Located(self._parts[number].place)

    def close(self) -> None:
        """Closes all files."""
        with self._lock:
            self._is_closed = True
            self._readers.clear()
            if self.plain is not None:
                self.plain.data = None
            for part in self._parts:
                part.place.close()


def check_schemas(found: Any, path: str, expected: Any) -> None:
    """Refuses a file whose columns are others than those of the first file.

    Args:
        found: The schema of the file.
        path: The first file.
        expected: Its schema.

    Raises:
        FormatError: A column differs in its name, type or note; it is named.
    """
    from tensorferry.formats.tables.columns import Note

    hint = "open files of one schema together, others one by one"
    for place in range(max(len(found), len(expected))):
        if place >= len(expected):
            name = found.field(place).name
            raise FormatError(f"column {name!r} is missing in {path}", tensor=name, hint=hint)
        if place >= len(found):
            name = expected.field(place).name
            raise FormatError(f"column {name!r} of {path} is missing", tensor=name, hint=hint)
        here, there = found.field(place), expected.field(place)
        if here.name != there.name:
            raise FormatError(
                f"column {place} is called {here.name!r}, and {there.name!r} in {path}",
                tensor=here.name,
                hint=hint,
            )
        if here.type != there.type:
            raise FormatError(
                f"column {here.name!r} is {here.type}, and {there.type} in {path}",
                tensor=here.name,
                hint=hint,
            )
        if (here.metadata or there.metadata) and Note.of(here) != Note.of(there):
            raise FormatError(
                f"column {here.name!r} has the note {Note.of(here).metadata()}, "
                f"and {Note.of(there).metadata()} in {path}",
                tensor=here.name,
                hint=hint,
            )
    if not marks.in_rows(found.metadata):
        raise FormatError(f"it holds whole tensors, and {path} rows", hint="open it alone")
