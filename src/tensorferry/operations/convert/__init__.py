"""Conversion: what is in one file into another, whatever the two formats, without holding it all.

    ferry.convert("train-*.tfrecord", "train.parquet")
    ferry.convert("model.npz", "model.safetensors", dtype="bfloat16", select=["encoder/*"])

    from, to    tensors                 records                  table
    tensors     one tensor at a time    rows, if of one length   as `tensorferry.save` does
    records     one column at a time    records, as bytes        batches
    rows        one column at a time    batches                  batches

How values go over is `tensorferry.operations.convert.transfer`; many files at once are
`tensorferry.operations.convert.sets`.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorferry import formats, storage
from tensorferry.codecs import compression as codecs
from tensorferry.errors import UnknownFormatError, UnsupportedError
from tensorferry.files.sizes import sizes_of
from tensorferry.formats.safetensors import file as safetensors
from tensorferry.operations.convert import casting
from tensorferry.operations.convert.transfer import (
    SINGLE,
    Changes,
    Progress,
    Transfer,
    has_place_for_metadata,
)
from tensorferry.operations.diff import DiffReport, diff
from tensorferry.operations.names import Renaming
from tensorferry.operations.opened import Opened, OpenedTensors, open_input
from tensorferry.storage import STANDARD_STREAM, shards as shard_names
from tensorferry.storage.shards import parse_size


@dataclass(frozen=True)
class ConvertReport:
    """What was converted.

    Attributes:
        source: As it was named.
        target: The same.
        format: Of the target.
        holds: What the source holds: "tensors", "records" or "rows".
        count: How many tensors, records or rows went over.
        files: The files of the target.
        nbytes: Their size; None where nothing was written, or to a stream.
        seconds: How long it took.
        written: Whether it was; not if only tried, or done before.
        notes: What the target has no place for.
        quantized: The largest error of a quantized number.
        verified: Whether the target was compared with the source and is the same.
        differences: What differs, if something does.
    """

    source: str
    target: str
    format: str
    holds: str
    count: int | None
    files: tuple[str, ...]
    nbytes: int | None = None
    seconds: float = 0.0
    written: bool = True
    notes: tuple[str, ...] = ()
    quantized: float | None = None
    verified: bool | None = None
    differences: DiffReport | None = None


def convert(
    source: Any,
    target: Any,
    *,
    format: str | None = None,
    dtype: str | None = None,
    quantize: Any = None,
    compression: str | None = None,
    select: Sequence[str] = (),
    rename: Mapping[str, str] | Sequence[str] | None = None,
    shards: int | None = None,
    shard_size: int | str | None = None,
    force: bool = False,
    digest: bool = False,
    dry_run: bool = False,
    verify: bool = False,
    durable: bool = True,
    progress: Progress | None = None,
    options: Mapping[str, Any] | None = None,
) -> ConvertReport:
    """Writes what is in a file into another one, which appears when it is whole.

    Args:
        source: Whatever `tensorferry.open` takes.
        target: A path or URL, or "-" for the standard output.
        format: Of the target; by default what its name ends with.
        dtype: Floats, or integers, become of this dtype; what does not fit is refused.
        quantize: As in `tensorferry.save`.
        compression: As in `tensorferry.save` and `tensorferry.writer`.
        select: Patterns of names; other tensors or columns are left out.
        rename: New names: {"old": "new"} or ["a/*=b.*"].
        shards: Of records: write so many files, each with the rows that follow each other.
        shard_size: Of records and safetensors: about how large files may be.
        force: Replace a target that is there.
        digest: Keep the digest of the content in the metadata, for `tensorferry.verify`.
        dry_run: Only say what would be done.
        verify: Compare the target with the source afterwards.
        durable: Wait until the disk has it.
        progress: See `Progress`.
        options: To open the source with.

    Raises:
        FileExistsError: The target is there, and `force` is not set.
        UnsupportedError: The target's format has no place for it.
    """
    path = os.fspath(target)
    found = _format_of(path, format)
    changes = Changes(
        tuple(select), Renaming.parse(rename), None if dtype is None else casting.parse(dtype)
    )
    started = time.monotonic()
    with open_input(source, thorough=True, **(options or {})) as opened:
        if verify and (opened.name == STANDARD_STREAM or path == STANDARD_STREAM):
            raise UnsupportedError("a stream cannot be read again to verify it")
        names = changes.names(opened)
        files = _files(opened, path, found, shards, shard_size)
        _check_free(files, force)
        if shard_size is not None and found == safetensors.NAME:
            _check_free([path + safetensors.INDEX], force)
        notes = _notes(opened, found, changes)
        if dry_run:
            count = len(names) if opened.holds == "tensors" else opened.count()
            return ConvertReport(
                opened.name, path, found, opened.holds, count, files, written=False, notes=notes
            )
        job = Transfer(opened, names, changes, path, found, files, compression, durable, progress)
        job.digest = digest
        count, saved = job.run(quantize, shard_size)
        name, holds = opened.name, opened.holds
    errors = [report.largest_error for report in saved.quantized.values()] if saved else []
    report = ConvertReport(
        name,
        path,
        found,
        holds,
        count,
        files,
        sizes_of(files) if saved is None else saved.nbytes,
        time.monotonic() - started,
        notes=notes,
        quantized=max(errors, default=None),
    )
    return _verified(report, source, changes) if verify else report


def _verified(report: ConvertReport, source: Any, changes: Changes) -> ConvertReport:
    rtol, atol = (0.0, 0.0) if changes.dtype is None else casting.error_of(changes.dtype)
    target = list(report.files) if len(report.files) > 1 else report.target
    # The one tensor may have had another name; formats without names call it "tensor".
    rename = {"*": "tensor"} if report.format in SINGLE else dict(changes.rename.rules)
    found = diff(
        source,
        target,
        rtol=rtol,
        atol=max(atol, report.quantized or 0.0),
        map=rename,
        match=changes.select,
        ignore_dtype=changes.dtype is not None,
    )
    return replace(report, verified=found.equal, differences=None if found.equal else found)


def _format_of(path: str, format: str | None) -> str:
    name, _ = codecs.split_suffix(path)
    found = format or formats.named(name)
    if found is None and shard_names.parse_shard(path):
        found = "tfrecord"
    if found is None and "@" in os.path.basename(name):
        found = formats.named(name.rpartition("@")[0]) or formats.named(name)
    if found is None:
        raise UnknownFormatError(
            "the name does not say which format to write",
            path=path,
            hint=f"name it with --to or format=: one of {', '.join(formats.writable())}",
        )
    formats.to_write(found)
    return found


def _files(
    opened: Opened, path: str, format: str, count: int | None, size: int | str | None
) -> tuple[str, ...]:
    """The files that will be there; parts of a safetensors model are named when they are known."""
    records = formats.TABLE[format].holds == "records"
    if count is not None and not records:
        raise UnsupportedError(
            f"{format} is not written in a number of shards", path=path, hint="use shard_size"
        )
    if records and size is not None and count is None:
        total = sizes_of(opened.files) or 0
        count = max(1, -(-total // parse_size(size)))
    shorthand = records and "@" in os.path.basename(path)
    if count is None and not shorthand:
        return (path,)
    return tuple(shard_names.shard_names(path, count))


def _check_free(files: Sequence[str], force: bool) -> None:
    for name in files:
        if not force and name != STANDARD_STREAM and storage.exists(name):
            raise FileExistsError(
                errno.EEXIST, "it exists already; --force (force=True) replaces it", name
            )


def _notes(opened: Opened, format: str, changes: Changes) -> tuple[str, ...]:
    notes = list(opened.notes)
    if opened.metadata and not has_place_for_metadata(format):
        notes.append(f"{format} has no place for metadata: {', '.join(opened.metadata)}")
    nested = isinstance(opened, OpenedTensors) and getattr(opened.bundle, "layout", None)
    nested = nested and opened.format not in SINGLE
    if nested and (changes.select or changes.rename) and format not in SINGLE:
        notes.append("the tensors are no longer nested as they were")
    return tuple(notes)
