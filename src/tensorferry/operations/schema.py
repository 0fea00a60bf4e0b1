"""Schemas of records, tables and columns, in the languages of others."""

from __future__ import annotations

import json
from typing import Any, Literal

from tensorferry.operations.opened import OpenedRecords, OpenedTable, open_input, rows_in
from tensorferry.rows.schema import Schema
from tensorferry.rows.schema.feature import make_feature

Language = Literal["tf", "tfmd", "arrow", "json"]


def schema_of(path: Any, **options: Any) -> Schema:
    """The schema of what is in a file, as that of records.

    Args:
        path: Whatever `tensorferry.open` takes: records, a table, or tensors of one length.
        **options: Of `tensorferry.open`.

    Raises:
        UnsupportedError: The tensors are no columns.
    """
    with open_input(path, thorough=True, **options) as opened:
        if isinstance(opened, OpenedRecords):
            return opened.records.schema
        infos = opened.infos()
        if not isinstance(opened, OpenedTable):
            rows_in(infos, list(infos), opened.name)
        optional = opened.optional()
        features = []
        for info in infos.values():
            shape = info.shape[2:] if info.name in optional else info.shape[1:]
            features.append(
                make_feature(info.name, info.dtype, shape, optional=info.name in optional)
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
