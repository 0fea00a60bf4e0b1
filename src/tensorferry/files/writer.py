"""Writing row by row, into every format of rows.

    with ferry.writer("train.tfrecord", shards=10) as out:
        for image, label in examples:
            out.write({"image": image, "label": label})

The suffix decides the format. The files appear when the writer is closed, or not at all.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any, BinaryIO, Unpack

from tensorferry.codecs.compression import split_suffix
from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.find import format_named
from tensorferry.files.metadata import plain
from tensorferry.files.pouring import Poured
from tensorferry.formats import table
from tensorferry.formats.contract import RowWriter, choose
from tensorferry.formats.table import TABLE
from tensorferry.progress import Progress
from tensorferry.storage.place import Target
from tensorferry.storage.sink import FileSink


@keywords.shown(keywords.WritingRows)
def writer(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    format: str | None = None,
    shards: int | None = None,
    compression: str | None = None,
    durable: bool = True,
    metadata: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.WritingRows],
) -> RowWriter:
    """Opens a file, or a set of shards, for writing rows one by one or in batches.

        with ferry.writer("pred.parquet") as out:
            out.write({"id": 1, "text": "ja"})
            out.write_batch({"id": [2, 3], "text": ["nein", "doch"]})

    Args:
        path: The file; "name@10" for ten shards; "-" for the standard output; or a file that is
            open for writing, which the caller closes. The suffix decides the format: TFRecord,
            Parquet, Arrow, CSV or JSON Lines; TFRecord if the suffix is unknown.
        format: By default the suffix of the path decides.
        shards: Number of files: "name-00000-of-00010" and so on. Single rows go to the shards in
            turn, and a batch is divided among them.
        compression: For TFRecords "gzip" or "zlib", or "zstd", which TensorFlow does not read; by
            default the suffix decides (.gz, .zlib, .zst). For other formats, their own
            compressions. "none" turns compression off.
        durable: Wait until the bytes are on disk before the files appear.
        metadata: Metadata to store with the rows, if the format has a place for it.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.WritingRows`. Options that
            the format does not have are refused.

    Raises:
        UnsupportedError: The format cannot be written row by row.
        OptionError: The format has no such option.

    Examples:
        >>> with ferry.writer("train.tfrecord") as out:
        ...     out.write({"id": 7, "text": "ja"})
        >>> ferry.open("train.tfrecord")[0]["text"]
        b'ja'
    """
    file: Any = path
    if isinstance(path, str | os.PathLike) or not hasattr(path, "write"):
        target = Target(os.fspath(file), options=storage_options, durable=durable)
    else:
        target = Target(name_of(path) or "<stream>", into=FileSink(path))
        if shards is not None or options.get("append"):
            raise UnsupportedError("shards, and rows to append, are written to a path")
        compression = compression or split_suffix(target.path)[1]
    found, chosen = chosen_for(target.path, format, compression, options)
    return open_writer(found, target, chosen, shards=shards, metadata=metadata or {})


def name_of(file: Any) -> str:
    """The name of a file that the user opened, whose endings say what to write into it.

    A `gzip.GzipFile` has the name of the file that it writes, and compresses by itself.
    """
    name = getattr(file, "name", "")
    if not isinstance(name, str):
        return ""
    raw = getattr(file, "file", file)  # of `tempfile`
    is_plain = isinstance(raw, io.FileIO | io.BufferedWriter | io.BufferedRandom)
    return name if is_plain else split_suffix(name)[0]


def chosen_for(
    path: str, format: str | None, compression: str | None, options: keywords.WritingRows
) -> tuple[str, dict[str, Any]]:
    """The format that a path is written in, and the options of the format.

    Args:
        path: The file, or the name of a set of shards.
        format: By default that of the path's ending, and TFRecord without a known one.
        compression: As the user named it.
        options: The user's options.
    """
    usual = next(facts.name for facts in TABLE.values() if facts.names_shards)
    found = format or format_named(path) or usual
    chosen = keywords.given({**options, "append": options.get("append") or None})
    if compression == "none":  # whatever the format's default, or the suffix, says
        chosen["compression"] = None if table.facts_of(found).compressions else ""
    elif compression is not None:
        chosen["compression"] = compression
    return found, chosen


def write_rows(
    rows: Poured,
    format: str,
    target: Target,
    given: Mapping[str, Any],
    *,
    metadata: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[str]:
    """Writes rows, and returns the paths of the files.

    Args:
        rows: The rows of a user's value.
        format: The name of a format of rows.
        target: The file, or the name of a set of shards.
        given: Options of the format, and `shards`.
        metadata: The user's metadata.
        progress: Receives the number of rows written.

    Raises:
        UnsupportedError: The format cannot hold the rows, or their metadata.
    """
    options = dict(given)
    shards = options.pop("shards", None)
    with open_writer(format, target, options, shards=shards, metadata=metadata or {}) as out:
        rows.into(out, progress)
    return out.paths


def open_writer(
    format: str,
    target: Target,
    given: Mapping[str, Any],
    *,
    shards: int | None,
    metadata: Mapping[str, Any],
) -> RowWriter:
    """Opens a writer of a format.

    Args:
        format: The name of the format.
        target: The file, or the name of the set of shards.
        given: Options of the format.
        shards: Number of files, where it is a set.
        metadata: The user's metadata.

    Raises:
        UnsupportedError: The format is not written row by row, not compressed as a whole, or has no
            place for metadata.
    """
    facts = table.facts_of(format)
    if not facts.streams_rows:
        raise UnsupportedError(
            f"{format} is not written row by row",
            path=target.path,
            hint=f"name it as one of {', '.join(table.streamable())}, or use tensorferry.save",
        )
    stem, packed = split_suffix(target.path)
    if packed is not None and not facts.decompresses:
        raise UnsupportedError(
            f"{format} is not compressed as a whole while it is written row by row",
            path=target.path,
            hint=f"write {stem}, and compress it afterwards",
        )
    if metadata and facts.metadata == "nowhere":
        raise UnsupportedError(
            f"{format} has no place for metadata",
            path=target.path,
            hint="npz, safetensors, arrow and parquet have one",
        )
    writes = table.to_write(format).writes_rows
    assert writes is not None
    how = choose(writes.options, given, format=format)
    return writes.writer(target, how, shards=shards, metadata=plain(metadata))
