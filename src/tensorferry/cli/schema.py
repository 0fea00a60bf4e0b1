"""`ferry schema`: what the rows of records and tables are made of."""

from __future__ import annotations

from typing import Any

import click

from tensorferry.cli import completing, options as shared, output


@click.command("schema")
@click.argument("path", shell_complete=completing.files)
@click.option(
    "--as",
    "language",
    type=click.Choice(["tf", "tfmd", "arrow", "json"]),
    default="tf",
    show_default=True,
    help="A spec for tf.io.parse_example, a schema.pbtxt, Arrow's, or our own JSON.",
)
@shared.reading
@shared.as_json
def schema_command(
    path: str, language: Any, format: str | None, options: dict[str, Any], as_json: bool
) -> None:
    """The schema of records, or of tables and columns as if they were records."""
    from tensorferry.operations.schema import schema_of, write_schema

    hidden: dict[str, str] = {}
    with output.waiting(path):
        source = shared.one_input(path)
        schema = schema_of(source, format=format, omit=hidden.update, **options)
    if hidden:
        output.left_out(hidden)
    if as_json:
        shared.echo_json("schema", schema=schema.to_json(), text=write_schema(schema, language))
    else:
        output.block(write_schema(schema, language))
