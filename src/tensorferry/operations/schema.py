"""Schemas of records, tables and columns, in the languages of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, Unpack

from tensorferry.files import keywords
from tensorferry.operations.subject import open_one, rows_in
from tensorferry.rows.rows import Rows
from tensorferry.rows.schema import Schema
from tensorferry.rows.schema.feature import make_feature

Language = Literal["tf", "tfmd", "arrow", "json"]


@keywords.shown(keywords.Opening)
def schema_of(
    path: Any,
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    omit: Callable[[Mapping[str, str]], None] | None = None,
    **options: Unpack[keywords.Opening],
) -> Schema:
    """The schema of what is in a file, as that of records.

    Args:
        path: Records, a table, or tensors of equal length, as `tensorferry.open` takes them.
        format: By default detected from the bytes.
        storage_options: Options for the store of a URL.
        omit: Called with the columns that a schema of records cannot have, and the reasons.
        **options: Options of the format: see `tensorferry.files.keywords.Opening`.

    Raises:
        UnsupportedError: The tensors are not columns.
    """
    with open_one(
        path, format=format, storage_options=storage_options, options=options, thorough=True
    ) as subject:
        if subject.unreadable and omit is not None:
            omit(subject.unreadable)
        if isinstance(subject.opened, Rows):
            return subject.opened.schema
        rows_in(subject, list(subject.infos))
        features = (
            make_feature(info.name, info.dtype, info.shape[1:]) for info in subject.infos.values()
        )
        return Schema(tuple(features))


def write_schema(schema: Schema, language: Language) -> str:
    """The text of a schema.

    Args:
        schema: Of records.
        language: "tf" for a spec of `tf.io.parse_example`, "tfmd" for a `schema.pbtxt`, "arrow" for
            the columns in Arrow, "json" for our own.
    """
    if language == "tf":
        return schema.to_tf_spec()
    if language == "tfmd":
        return schema.to_tfmd().rstrip("\n")
    if language == "arrow":
        return str(schema.to_arrow())
    return json.dumps(schema.to_json(), indent=2)
