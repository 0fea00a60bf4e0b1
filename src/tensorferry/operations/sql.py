"""SQL over files of rows, by DuckDB, which reads them as Arrow's record batches.

    with query('select label, count(*) from "train-*.tfrecord" group by label') as result:
        for row in rows_of(result): ...

A table is a file, a pattern or a set of shards, in quotes. DuckDB has no access to anything else:
the text of a query can neither read nor write files, load extensions, or change settings, and it is
one `select`. Rows are read while the query runs; sorts and joins keep what they need in memory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from tensorferry.errors import FerryError, MissingExtraError, UnsupportedError
from tensorferry.files.writer import open_writer
from tensorferry.operations.freight import RowsReport, check_free, format_of
from tensorferry.operations.moments import plain_value
from tensorferry.operations.subject import open_one
from tensorferry.progress import Progress
from tensorferry.rows.rows import Rows
from tensorferry.storage.place import Target

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",  # else it is a folder in the current one, into which rows are written
}
"""What DuckDB is not allowed to do; afterwards the settings are locked."""


@contextmanager
def query(sql: str) -> Iterator[pa.RecordBatchReader]:
    """Runs a query, and returns its result, which is computed while it is read.

    Args:
        sql: One `select`; tables are paths in quotes.

    Raises:
        MissingExtraError: DuckDB or PyArrow is not installed.
        UnsupportedError: The text is not a query, or does something that is not allowed.
        FileNotFoundError: A table is not a file.
    """
    duckdb = _duckdb()
    import pyarrow as pa

    with ExitStack() as stack:
        connection = stack.enter_context(duckdb.connect(":memory:", config=SETTINGS))
        connection.execute("set lock_configuration = true")
        tables: list[_Table] = []
        try:
            _check(connection, sql)
            for name in tables_in(sql):
                found = _open(name)
                if found is not None:
                    stack.callback(found.rows.close)
                    tables.append(found)
                    connection.register(name, found)
            result = connection.sql(sql)
            with _translated(tables):
                yield _renamed(pa.RecordBatchReader.from_stream(result))
        except duckdb.Error as error:
            raise _error(tables, error) from None


def _duckdb() -> Any:
    try:
        import duckdb
        import pyarrow as pa  # noqa: F401  # whose batches it reads
    except ImportError as error:
        raise MissingExtraError(
            f"SQL needs {error.name or 'duckdb'}, which is not installed",
            hint="pip install 'tensorferry[sql]'",
        ) from None
    return duckdb


def _check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuses everything but one query.

    Raises:
        UnsupportedError: It is something else.
    """
    statements = connection.extract_statements(sql)
    kinds = [str(statement.type).rpartition(".")[2].lower() for statement in statements]
    if kinds != ["select"]:
        found = "nothing" if not kinds else f"`{'`, `'.join(kinds)}`"
        raise UnsupportedError(
            f"expected one `select`, found {found}",
            hint="`ferry convert` and `ferry sql ... -o OUT` write files",
        )


def tables_in(sql: str) -> list[str]:
    """The names in quotes that stand where a query names its tables.

    Raises:
        UnsupportedError: Two of them are one name for DuckDB, which ignores upper and lower case.
    """
    found: dict[str, str] = {}
    before, listing = "", False
    for text in _tokens(sql):
        word = text.lower()
        if text[0] in "\"'":
            if before in ("from", "join") or (listing and before == ","):
                name = text[1:-1].replace(text[0] * 2, text[0])
                other = found.setdefault(name.casefold(), name)
                if other != name:
                    raise UnsupportedError(
                        f"the tables {other!r} and {name!r} differ in upper and lower case alone",
                        hint=f'write one of them as "./{name}"',
                    )
        elif word in ("from", "join", *_ENDS):
            listing = word not in _ENDS
        before = word
    return list(found.values())


def _tokens(sql: str) -> Iterator[str]:
    """The words, names and signs of a query, as DuckDB tells them apart; no comments."""
    import duckdb

    data = sql.encode(errors="surrogateescape")
    tokens = duckdb.tokenize(sql)
    ends = [start for start, _ in tokens[1:]]
    for (start, kind), end in zip(tokens, [*ends, len(data)], strict=False):
        text = data[start:end].decode(errors="surrogateescape").strip()
        if kind != duckdb.token_type.comment and text:
            yield text


# Behind these, a comma leads to no other table.
_ENDS = {"where", "group", "order", "having", "limit", "select", "union", "window", "qualify"}


class _Table:
    """Rows that can be read as often as a query wants to, and the error that ended it."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.error: FerryError | OSError | None = None

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.rows.arrow_schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.rows.arrow_batches()
        except (FerryError, OSError) as error:
            self.error = error
            raise


def _open(name: str) -> _Table | None:
    """The rows of a table; None if the name is none of a file."""
    try:
        subject = open_one(name, thorough=True)
    except FileNotFoundError:
        if os.path.basename(name) == name and not re.search(r"[.*?@\[]", name):
            return None  # the name of another part of the query
        raise
    rows = subject.opened
    if not isinstance(rows, Rows) or rows.is_stream:
        subject.close()
        kind = "a stream" if isinstance(rows, Rows) else f"tensors ({subject.format})"
        raise UnsupportedError(
            f"expected a file of rows, found {kind}",
            path=name,
            hint="`ferry convert` writes it into one, such as rows.parquet",
        )
    return _Table(rows)


def _renamed(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The result with names that tell its columns apart."""
    import pyarrow as pa

    names: list[str] = []
    for name in reader.schema.names:
        other, number = name, 1
        while other in names:
            number += 1
            other = f"{name}_{number}"
        names.append(other)
    if names == reader.schema.names:
        return reader
    schema = pa.schema(
        [field.with_name(name) for field, name in zip(reader.schema, names, strict=True)]
    )
    return pa.RecordBatchReader.from_batches(
        schema, (batch.rename_columns(names) for batch in reader)
    )


@contextmanager
def _translated(tables: list[_Table]) -> Iterator[None]:
    """Errors of reading, which come through Arrow, as what they were."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise _error(tables, error) from None


def _error(tables: list[_Table], error: Exception) -> Exception:
    """What went wrong: with a file, or with the query."""
    for table in tables:
        if table.error is not None:
            return table.error
    lines = str(error).strip().splitlines() or [type(error).__name__]
    message = re.sub(r"^\w+ Error: ", "", lines[0].strip())
    is_name = "does not exist" in message and "Table" in message
    hint = None
    if is_name or "disabled" in message or "configuration" in message:
        hint = 'a query reads the files that it names in double quotes: from "train.parquet"'
    return UnsupportedError(f"the query does not run: {message}", hint=hint)


def write(
    sql: str,
    target: str,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> RowsReport:
    """Writes the result of a query into a file of rows.

    Args:
        sql: The query.
        target: The file, whose ending says the format.
        force: Replace an existing target.
        progress: Receives the number of rows written.

    Raises:
        FileExistsError: The target exists, and `force` is not set.
    """
    check_free(target, force=force)
    facts = format_of(target, None)
    with (
        query(sql) as result,
        open_writer(facts.name, Target(target), {}, shards=None, metadata={}) as out,
    ):
        out.write_batch(result.schema.empty_table())  # a table without rows has columns, too
        for batch in result:
            out.write_batch(batch)
            if progress is not None:
                progress(out.count, None)
    return RowsReport(sql, target, out.count)


def rows_of(result: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    """The rows of a result, as dicts of Python's values; times and dates are text."""
    for batch in result:
        for row in batch.to_pylist():
            yield {name: plain_value(value) for name, value in row.items()}
