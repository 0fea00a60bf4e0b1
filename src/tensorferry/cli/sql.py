"""`ferry sql`: a query over files of rows."""

from __future__ import annotations

import click

from tensorferry.cli import options as shared, output as out, text


@click.command("sql")
@click.argument("query")
@shared.form
@shared.force
@shared.target
@shared.as_json
def sql_command(query: str, to: str | None, output: str | None, force: bool, as_json: bool) -> None:
    """Runs a SELECT of DuckDB's SQL over files of rows, whose paths stand in double quotes.

    The result is printed as `ferry head` prints rows, or written into OUT: Parquet, Arrow, CSV,
    JSON Lines or TFRecords. A query reads the files that it names as tables and nothing else, and
    writes none.
    """
    from tensorferry.cli.rows import print_rows
    from tensorferry.operations import sql

    if output is None and force:
        raise click.UsageError("--force replaces a file, and none is written\nhint: add -o OUT")
    if output is None:
        with sql.query(query) as result:
            print_rows("sql", sql.rows_of(result), as_json, to)
        return
    if to is not None:
        raise click.UsageError("--to is for what is printed\nhint: the name of OUT says its format")
    with out.progress(output, "rows") as progress:
        report = sql.write(query, output, force=force, progress=progress)
    if as_json:
        from tensorferry.operations.plain import plain

        shared.echo_json("sql", **plain(report))
    else:
        out.report(f"{text.clean(output)}: {text.plural(report.count, 'row')}")
