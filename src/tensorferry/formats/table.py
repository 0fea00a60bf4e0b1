"""The table of formats: the one list of what there is, what it is called and what it can do.

No other module lists formats or suffixes. To add a format: its module or folder, a line here, a
test, and a page in docs/formats. The order is that in which formats are asked whether they
recognise a file. Nothing is imported before it is used.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

from tensorferry.errors import MissingExtraError, UnknownFormatError
from tensorferry.expressions import expression
from tensorferry.formats import signatures
from tensorferry.formats.contract import Extra, Facts, Format
from tensorferry.storage import url as urls

_ARROW = Extra("pyarrow", "arrow")

TABLE: dict[str, Facts] = {
    facts.name: facts
    for facts in (
        Facts(
            name="tfrecord",
            home="tensorferry.formats.tfrecord.format",
            suffixes=(".tfrecord", ".tfrecords"),
            recognise=signatures.tfrecord,
            opens="rows",
            takes="rows",
            metadata="nowhere",
            checksums=True,
            decompresses=True,
            streams_rows=True,
            names_shards=True,
            records=True,
            read_by="tensorflow",
        ),
        Facts(
            name="npy",
            home="tensorferry.formats.npy",
            suffixes=(".npy",),
            recognise=signatures.npy,
            opens="tensors",
            takes="one array",
            metadata="beside",
            read_by="many",
            reads_plain=True,
        ),
        # Keras archives are also zip archives, so they are checked before npz.
        Facts(
            name="keras",
            home="tensorferry.formats.keras.format",
            suffixes=(".weights.h5", ".keras", ".h5", ".weights.json"),
            folder=("model.weights.h5", "config.json"),
            recognise=signatures.keras,
            opens="tensors",
            takes="arrays",
            metadata="nowhere",
        ),
        Facts(
            name="npz",
            home="tensorferry.formats.npz",
            suffixes=(".npz",),
            recognise=signatures.npz,
            opens="tensors",
            takes="anything",
            metadata="inside",
            checksums=True,
            compressions=("deflate",),
            read_by="many",
        ),
        Facts(
            name="safetensors",
            home="tensorferry.formats.safetensors.format",
            suffixes=(".safetensors", ".safetensors.index.json"),
            recognise=signatures.safetensors,
            opens="tensors",
            takes="anything",
            metadata="inside",
            read_by="many",
            reads_plain=True,
        ),
        Facts(
            name="arrow",
            home="tensorferry.formats.arrow.format",
            suffixes=(".arrow", ".feather", ".ipc", ".arrows"),
            recognise=signatures.arrow,
            opens="rows",
            takes="anything",
            metadata="inside",
            compressions=("lz4", "zstd"),
            read_needs=_ARROW,
            write_needs=_ARROW,
            streams_rows=True,
            read_by="many",
        ),
        Facts(
            name="parquet",
            home="tensorferry.formats.parquet.format",
            suffixes=(".parquet", ".parq", ".pq"),
            recognise=signatures.parquet,
            opens="rows",
            takes="anything",
            metadata="inside",
            checksums=True,
            compressions=("snappy", "zstd", "lz4", "gzip", "brotli"),
            read_needs=_ARROW,
            write_needs=_ARROW,
            streams_rows=True,
            read_by="many",
        ),
        Facts(
            name="csv",
            home="tensorferry.formats.csv",
            suffixes=(".csv",),
            recognise=signatures.nothing,
            opens="rows",
            takes="rows",
            metadata="nowhere",
            read_needs=_ARROW,
            write_needs=_ARROW,
            streams_rows=True,
            typed=False,
            types_beside=True,
            read_by="many",
        ),
        Facts(
            name="jsonlines",
            home="tensorferry.formats.jsonlines",
            suffixes=(".jsonl", ".ndjson"),
            recognise=signatures.nothing,
            opens="rows",
            takes="rows",
            metadata="nowhere",
            read_needs=_ARROW,
            write_needs=_ARROW,
            streams_rows=True,
            typed=False,
            types_beside=True,
            read_by="many",
        ),
        Facts(
            name="tensorproto",
            home="tensorferry.formats.tensorproto.format",
            suffixes=(".pb", ".tensorproto"),
            recognise=signatures.tensorproto,
            opens="tensors",
            takes="one array",
            metadata="beside",
            read_by="tensorflow",
        ),
        Facts(
            name="structure",
            home="tensorferry.formats.structure.format",
            suffixes=(".structure",),
            recognise=signatures.structure,
            opens="tensors",
            takes="anything",
            metadata="beside",
        ),
        Facts(
            name="json",
            home="tensorferry.formats.json.format",
            suffixes=(".json",),
            recognise=signatures.json,
            opens="tensors",
            takes="anything",
            metadata="beside",
        ),
        Facts(
            name="raw",
            home="tensorferry.formats.raw",
            suffixes=(".raw", ".bin"),
            recognise=signatures.nothing,
            opens="tensors",
            takes="one array",
            metadata="beside",
        ),
        Facts(
            name="savedmodel",
            home="tensorferry.formats.savedmodel.format",
            suffixes=(),
            recognise=signatures.savedmodel,
            opens="tensors",
            takes="anything",
            metadata="inside",
            files="several",
            is_folder=True,
            members=r"(^|[/\\])saved_model\.\w+$",
            checksums=True,
            read_by="tensorflow",
        ),
        Facts(
            name="checkpoint",
            home="tensorferry.formats.checkpoint.format",
            suffixes=(".ckpt",),
            recognise=signatures.checkpoint,
            opens="tensors",
            takes="anything",
            metadata="inside",
            files="several",
            members=r"\.index$|\.data-\d+-of-\d+$|(^|[/\\])checkpoint$",
            checksums=True,
            read_by="tensorflow",
        ),
    )
}


def facts_of(name: str) -> Facts:
    """The facts of a format.

    Raises:
        UnknownFormatError: There is no format of that name.
    """
    facts = TABLE.get(name)
    if facts is None:
        meant = named(f"x.{str(name).lstrip('.')}")
        raise UnknownFormatError(
            f"no format is called {name!r}",
            hint=f"expected one of {', '.join(TABLE)}"
            if meant is None
            else f"did you mean {meant!r}?",
        )
    return facts


def to_read(name: str) -> Format[Any, Any]:
    """A format that is to be read.

    Raises:
        UnknownFormatError: There is no format of that name.
        MissingExtraError: A package that reading needs is not installed.
    """
    facts = facts_of(name)
    _require(facts.read_needs, f"reading {name} files")
    return _load(facts.home)


def to_write(name: str) -> Format[Any, Any]:
    """A format that is to be written.

    Raises:
        UnknownFormatError: There is no format of that name.
        MissingExtraError: A package that writing needs is not installed.
    """
    facts = facts_of(name)
    _require(facts.write_needs, f"writing {name} files")
    return _load(facts.home)


@cache
def _load(home: str) -> Format[Any, Any]:
    found = import_module(home).FORMAT
    assert isinstance(found, Format)
    return found


def _require(extra: Extra | None, what: str) -> None:
    if extra is None or sys.modules.get(extra.package) is not None:
        return
    try:
        import_module(extra.package)
    except ImportError:
        raise MissingExtraError(
            f"{what} needs {extra.package}, which is not installed",
            hint=f"pip install 'tensorferry[{extra.name}]'",
        ) from None


def streamable() -> list[str]:
    """The names of the formats that are written row by row."""
    return [name for name, facts in TABLE.items() if facts.streams_rows]


def named(path: str) -> str | None:
    """The format of a path's suffix: the longest suffix that matches."""
    path = urls.bare(path)
    path = path.lower()  # "A.NPY"
    dot = path.find(".")
    while dot >= 0:
        if path[dot:] in _ENDINGS:
            return _ENDINGS[path[dot:]]
        dot = path.find(".", dot + 1)
    return "checkpoint" if ".ckpt-" in path and _STEP.search(path) else None


# The suffix that TensorFlow's savers append to the name of a checkpoint: "model.ckpt-900".
_STEP = expression(r"\.ckpt-\d{1,18}$")


_ENDINGS = {suffix: facts.name for facts in TABLE.values() for suffix in facts.suffixes}
"""The format of each suffix, which starts with a dot."""
