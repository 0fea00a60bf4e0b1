"""The contract of a format: facts in a table, a reader, a writer, and their options.

A format is declared once. Its line in `tensorferry.formats.table` holds the facts; its home, the
module that the line names, holds one object called `FORMAT`:

    FORMAT = Format(reads=Reader(), writes=Writer())

`Reads.open` returns a `Bundle` (named tensors) or `Rows` (an ordered set of rows).
`tensorferry.open` returns nothing else, and `Opened` is their common interface. Options are frozen
dataclasses. A format that is read with more than the common options has a subclass of its own, and
`choose` refuses an option that a format does not have, for every format in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Protocol,
    TypeVar,
    runtime_checkable,
)

from tensorferry.classes import NamedTuple, dataclass, field
from tensorferry.errors import FormatError, OptionError, Problem
from tensorferry.progress import Progress as Progress
from tensorferry.storage.place import Place, Target

if TYPE_CHECKING:
    from tensorferry.rows.rows import Rows
    from tensorferry.tensors.bundle import Bundle
    from tensorferry.tensors.content import Content
    from tensorferry.tensors.infos import TensorInfo

# The number of bytes at the start of a file by which formats are recognised.
HEAD = 64

Answer = Literal["surely", "perhaps", "no"]


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional dependency.

    Attributes:
        package: The package that is imported.
        name: The extra of tensorferry that installs it.
    """

    package: str
    name: str


class Glimpse(NamedTuple):
    """The parts of a file that are used to recognise its format.

    Attributes:
        name: The path or URL, without the suffix of a compression; "" where there is none.
        head: The first bytes, decompressed.
        tail: Reads up to the given number of last bytes; returns none if that would be expensive.
    """

    name: str
    head: bytes
    tail: Callable[[int], bytes] = lambda size: b""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A line of the table: what is known of a format without importing it.

    Attributes:
        name: The value of `format=`.
        home: The module that has its `FORMAT`.
        suffixes: Endings of its file names, with the dot; what is written gets the first.
        recognise: Whether a file is of this format, by a glimpse of it.
        opens: What `tensorferry.open` returns: tensors (a bundle) or rows.
        takes: What can be saved: anything, named tensors of every kind, named arrays of numbers,
            one array, or rows.
        metadata: Where a user's metadata is kept: inside the file, in a file beside it, nowhere.
        files: Whether it is always one file. Several files are found by their path.
        members: A regular expression for the names of its files, where it is several: any of them
            leads to it.
        is_folder: Whether it is a folder, whose name it has and of which everything is part of it.
        folder: The files by which a folder is known to hold it; the first of them is opened.
        checksums: Whether checksums cover the values, so that a changed bit is found.
        compressions: The format's own; every file can also be compressed as a whole.
        decompresses: Whether the format itself reads files that are compressed as a whole, piece
            by piece.
        read_needs: The package without which it cannot be read.
        write_needs: The package without which it cannot be written.
        streams_rows: Whether `tensorferry.writer` writes it, row by row.
        typed: Whether files say the types of their values; text says only what can be read from it.
        types_beside: Whether a schema beside a file keeps the types of Arrow's columns, which the
            format itself lacks.
        names_shards: Whether a shard without a suffix ("train-00000-of-00010") is taken for it.
        records: Whether a row is a record, bytes of its own that can be copied without decoding
            them.
        read_by: Who else reads it: "many" tools, "tensorflow" itself, or "few".
        reads_plain: Whether it has a reader of files of plain arrays.
    """

    name: str
    home: str
    suffixes: tuple[str, ...]
    recognise: Callable[[Glimpse], Answer]
    opens: Literal["tensors", "rows"]
    takes: Literal["anything", "tensors", "arrays", "one array", "rows"]
    metadata: Literal["inside", "beside", "nowhere"]
    files: Literal["one", "several"] = "one"
    members: str = ""
    is_folder: bool = False
    folder: tuple[str, ...] = ()
    checksums: bool = False
    compressions: tuple[str, ...] = ()
    decompresses: bool = False
    read_needs: Extra | None = None
    write_needs: Extra | None = None
    streams_rows: bool = False
    names_shards: bool = False
    typed: bool = True
    types_beside: bool = False
    records: bool = False
    read_by: Literal["many", "tensorflow", "few"] = "few"
    reads_plain: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """The sidecar of a file whose format has no metadata.

    Attributes:
        metadata: Texts by name, the note of tensorferry among them.
        check: Raises unless the file is the one that was described; called before the first read.
    """

    metadata: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[], None] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """How every format is read.

    Attributes:
        verify: Check the checksums, where the format has them.
    """

    verify: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorOptions(ReadOptions):
    """How files of tensors are read.

    Attributes:
        dequantize: Return floats for quantized values.
        parts: Return the arrays as they are stored, without joining them.
        kept: The content of the sidecar.
    """

    dequantize: bool = True
    parts: bool = False
    kept: Kept | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RowOptions(ReadOptions):
    """How files of rows are read.

    Attributes:
        columns: The columns wanted; others are not decoded.
        on_error: "raise" on damage, or "skip" it.
    """

    columns: Sequence[str] | None = None
    on_error: Literal["raise", "skip", "keep"] = "raise"


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions:
    """How every format is written; formats add what is their own."""


R = TypeVar("R", bound=ReadOptions)
W = TypeVar("W", bound=WriteOptions)
R_contra = TypeVar("R_contra", bound=ReadOptions, contravariant=True)


@runtime_checkable
class Opened(Protocol):
    """The common interface of `Bundle` and `Rows`.

    Attributes:
        facts: The facts of the format.
        place: Where it is; of several files, the first.
        files: The files.
        metadata: The user's metadata.
        notes: Remarks on how the file is read.
    """

    facts: Facts
    notes: list[str]

    @property
    def place(self) -> Place:
        """Where it is; of several files, the first."""

    @property
    def files(self) -> Sequence[str]:
        """The files."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The user's metadata."""

    def infos(self) -> Mapping[str, TensorInfo]:
        """Facts about each tensor or column, known without reading it."""

    def count(self, progress: Progress | None = None) -> int | None:
        """Number of tensors or rows; None where only reading everything would tell.

        Args:
            progress: Receives the number counted, if counting takes long.
        """

    def problems(self, progress: Progress | None = None) -> Iterator[Problem]:
        """Reads everything, and yields the problems."""

    def close(self) -> None:
        """Closes the files; values that were returned stay valid."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a writer.

    Attributes:
        nbytes: Number of bytes of all files; None where nobody counts them.
        files: The files.
        reading: The options needed to read the file, if it does not describe itself.
    """

    nbytes: int | None
    files: tuple[str, ...] = ()
    reading: Mapping[str, Any] = field(default_factory=dict)


class Reads(Protocol[R]):
    """Reads a format."""

    @property
    def options(self) -> type[R]:
        """The dataclass of the options it is read with."""

    def find(self, place: Place) -> Place | None:
        """The place of this format that a path leads to; None if it leads to none.

        Only asked of formats of several files: a folder leads to the model in it, a prefix to an
        index.
        """

    def open(self, place: Place, how: R) -> Opened:
        """Opens it without reading values; what is opened closes the place."""


class Plain(NamedTuple):
    """Arrays that lie in the memory of a file, each of them a tensor as it is.

    Attributes:
        places: The dtype of each array, its shape, and where its bytes start.
        metadata: The user's, without a note of ours.
        layout: That every file of the format has.
        version: Of the format, where the file says one.
    """

    places: dict[str, tuple[Any, tuple[int, ...], int]]
    metadata: dict[str, str] | None = None
    layout: dict[str, Any] | None = None
    version: str | None = None


class ReadsPlain(Protocol):
    """Reads files of plain arrays: see `tensorferry.files.plain`."""

    def plain(self, data: memoryview) -> Plain | None:
        """The arrays of a file that was recognised, of which these are all bytes.

        Returns:
            None for anything that needs a second thought, and for damage: `Reads.open` says what
            is wrong.
        """


class ReadsUsual(Protocol):
    """Reads local things of several files: see `tensorferry.files.plain`."""

    def open_usual(self, path: str, *, lends: bool) -> Bundle | None:
        """Opens what a path names, with the usual options, by few calls.

        Args:
            path: There is nothing of that very name.
            lends: Whether the arrays are handed out writable.

        Returns:
            None for anything that is not of the usual form: `Reads.open` reads it.

        Raises:
            FerryError: Something is wrong; `Reads.open` says it again.
        """


class ReadsRows(Protocol[R_contra]):
    """Reads a format of rows, of which several files are one thing."""

    def open_all(self, places: Sequence[Place], how: R_contra) -> Rows:
        """Opens files as one ordered set of rows; their schemas must agree."""


class Writes(Protocol[W]):
    """Writes a format."""

    @property
    def options(self) -> type[W]:
        """The dataclass of the options it is written with."""

    def write(self, content: Content, target: Target, how: W) -> Written:
        """Writes a value."""


class Finishes(Protocol):
    """Makes a whole of what several workers wrote: see `tensorferry.formats.shares`."""

    def finish(
        self, target: Target, *, save: str | None, metadata: Mapping[str, Any] | None
    ) -> Written:
        """Makes the whole visible.

        Args:
            target: The path that all workers wrote to.
            save: Which save is meant, where there are shares of several.
            metadata: The user's metadata.
        """


class RowWriter(Protocol):
    """Writes rows into files that appear when it is closed; see `tensorferry.writer`."""

    paths: list[str]

    @property
    def count(self) -> int:
        """Number of rows it was given."""

    def write(self, row: Any) -> None:
        """Writes one row: a dict from column names to values."""

    def write_batch(self, columns: Any) -> None:
        """Writes many rows: a dict from column names to columns of one length."""

    def close(self) -> None:
        """Finishes the files and lets them appear."""

    def __enter__(self) -> RowWriter: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None: ...


class WritesRows(Protocol[W]):
    """Writes a format row by row."""

    @property
    def options(self) -> type[W]:
        """The dataclass of the options it is written with."""

    def writer(
        self, target: Target, how: W, *, shards: int | None, metadata: Mapping[str, Any]
    ) -> RowWriter:
        """Opens a writer.

        Args:
            target: The file, or the name of a set of shards.
            how: The options.
            shards: Number of files, where it is a set.
            metadata: The user's metadata.
        """


@dataclass(frozen=True, slots=True)
class Format(Generic[R, W]):
    """The object in a format's module.

    Attributes:
        reads: Its reader.
        writes: Its writer of whole values, unless it is only read or takes nothing but rows.
        reads_rows: Its reader of many files, if it is one of rows.
        reads_plain: Its reader of files of plain arrays, if it has one.
        reads_usual: Its reader of things of the usual form, if it has one and several files.
        writes_rows: Its writer of single rows, if it has one.
        finishes: Makes a whole of what several workers wrote, if they can.
    """

    reads: Reads[R]
    writes: Writes[W] | None = None
    reads_rows: ReadsRows[R] | None = None
    reads_plain: ReadsPlain | None = None
    reads_usual: ReadsUsual | None = None
    writes_rows: WritesRows[W] | None = None
    finishes: Finishes | None = None


class SeveralError(FormatError):
    """A folder has several things of one format, and nothing says which is meant."""


def choose(options: type[R] | type[W], given: Mapping[str, Any], *, format: str) -> Any:
    """The options of a format, from those that were given.

    Args:
        options: The format's dataclass.
        given: Options by name.
        format: The name of the format, for errors.

    Raises:
        OptionError: The format has no such option; the nearest one is named.
    """
    if not given:
        return options()
    known = option_names(options)
    for name in given:
        if name not in known:
            error = refuse(name, [name for name in known if name != "kept"], who=format)
            if name.startswith("compression") and issubclass(options, ReadOptions):
                error.hint = "leave it out: the bytes say how they are compressed"
            raise error
    return options(**given)


def option_names(options: type[Any]) -> Collection[str]:
    """The names of the options in a format's dataclass; asked at every open."""
    known: dict[str, Any] = options.__dataclass_fields__
    return known


def refuse(name: str, known: Sequence[str], *, who: str) -> OptionError:
    """The error for an option that a format or function does not have."""
    import difflib  # for mistakes only

    near = difflib.get_close_matches(name, known, n=1)
    has = f"it has {', '.join(known)}" if known else "it has none"
    return OptionError(
        f"{who} has no option {name!r}; {has}",
        hint=f"did you mean {near[0]!r}?" if near else None,
    )
