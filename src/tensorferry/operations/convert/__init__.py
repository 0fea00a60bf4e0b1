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
from typing import Any, Literal, TypedDict

import numpy as np

from tensorferry import display, dtypes, engines, frameworks, storage
from tensorferry.cards import Card, Shown, Tone, is_technical
from tensorferry.classes import dataclass, replace
from tensorferry.codecs import compression as codecs
from tensorferry.errors import Problem, UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.find import format_named
from tensorferry.formats import detect, table
from tensorferry.formats.contract import Facts, option_names
from tensorferry.formats.savedmodel.model import NAME as SAVED_MODEL
from tensorferry.operations.convert import casting, tables
from tensorferry.operations.convert.running import Running
from tensorferry.operations.convert.transfer import Changes, Plan, Transfer, Writing
from tensorferry.operations.diff import Comparing, DiffReport, compare_opened
from tensorferry.operations.glance import total_size
from tensorferry.operations.names import Renaming
from tensorferry.operations.shares import Opening
from tensorferry.operations.subject import Subject, open_one
from tensorferry.progress import Progress, Unit, duration, following
from tensorferry.rows.rows import Rows
from tensorferry.storage import STANDARD_STREAM, shards as shard_names
from tensorferry.storage.place import Place
from tensorferry.storage.shards import parse_size
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.infos import ROOT
from tensorferry.tensors.values import RaggedTensor, SparseTensor


class Reading(keywords.Opening, total=False):
    """Options to open the source of a conversion with.

    Attributes:
        format: By default detected from the bytes.
        storage_options: For the store of its URL; by default those of the conversion.
    """

    format: str | None
    storage_options: Mapping[str, Any] | None


class Converting(TypedDict, total=False):
    """Options of `convert` that are the same for many files; see there."""

    dtype: str | None
    quantize: Any
    compression: str | None
    casts: Mapping[str, str] | None
    select: Sequence[str]
    drop: Sequence[str]
    rename: Mapping[str, str] | Sequence[str] | None
    set: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None
    shards: int | None
    shard_size: int | str | None
    level: int | None
    batch_rows: int | None
    byte_stream_split: bool | None
    layout: Literal["names", "objects"] | None
    digest: bool
    dry_run: bool
    verify: bool
    durable: bool
    engine: engines.Choice | None
    options: Reading | None
    storage_options: Mapping[str, Any] | None


@dataclass(frozen=True, repr=False)
class ConvertReport(Shown):
    """The result of `convert`.

    Attributes:
        source: The source as it was given.
        target: The same.
        format: Of the target.
        holds: What the source holds: "tensors", "records" or "rows".
        count: Number of converted tensors, records or rows.
        files: The files of the target.
        nbytes: Size of the files; None if nothing was written, or for a stream.
        seconds: How long it took.
        written: Whether the target was written; False for a dry run, or if it existed before.
        notes: What the target cannot hold.
        quantized: The largest error of a quantized number.
        verified: Whether the target was compared with the source and is equal, including types.
        differences: The differences, if values differ.
        retyped: Whether columns have other types in the target; notes say which.
        damages: Damaged parts of the source that were skipped.
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
    retyped: bool = False
    damages: tuple[Problem, ...] = ()

    def _card(self) -> Card:
        noun = {"tensors": "tensor", "records": "record", "rows": "row"}[self.holds]
        parts = [self.format if self.written else f"{self.format}, not written"]
        if self.count is not None:
            parts.append(display.plural(self.count, noun))
        if self.nbytes is not None:
            parts += [display.size(self.nbytes), duration(self.seconds)]
        if self.verified is not None:
            types = "other types" if self.differences is None else "different"
            parts.append("verified" if self.verified else types)
        tone: Tone = "good" if self.verified else "plain" if self.verified is None else "bad"
        files = display.plural(len(self.files), "file") if len(self.files) > 1 else None
        fields = [("files", files), ("largest error", self.quantized)]
        lines: list[tuple[Tone, str]] = [("note", note) for note in self.notes]
        name = f"{self.source} → {self.target}"
        return Card("ConvertReport", name, ", ".join(parts), tone, fields, lines=lines)


def convert(
    source: Any,
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    dtype: str | None = None,
    quantize: Any = None,
    compression: str | None = None,
    casts: Mapping[str, str] | None = None,
    select: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | Sequence[str] | None = None,
    set: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    shards: int | None = None,
    shard_size: int | str | None = None,
    level: int | None = None,
    batch_rows: int | None = None,
    byte_stream_split: bool | None = None,
    layout: Literal["names", "objects"] | None = None,
    force: bool = False,
    digest: bool = False,
    dry_run: bool = False,
    verify: bool = False,
    durable: bool = True,
    engine: engines.Choice | None = None,
    progress: Progress | bool | None = None,
    options: Reading | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ConvertReport:
    """Converts a file to another format, or changes its tensors; the target is written atomically.

        ferry.convert("model.npz", "model.safetensors", dtype="bfloat16")

    Args:
        source: Anything that `tensorferry.open` takes.
        target: A path or URL, or "-" for the standard output.
        format: The format of the target; by default its suffix decides.
        dtype: The dtype to convert floats, or integers, to; values that do not fit are refused.
        quantize: As in `tensorferry.save`.
        compression: As in `tensorferry.save` and `tensorferry.writer`.
        casts: The same for some names: {"encoder/*": "float16"}; the first match counts.
        select: Patterns of names; other tensors or columns are left out.
        drop: Patterns of names to leave out.
        rename: New names: {"old": "new"} or ["a/*=b.*"].
        set: Tensors by name, which replace existing ones or are added at the end.
        metadata: Metadata to add to the existing metadata; None removes a key.
        shards: Rows: the number of files to write, each with consecutive rows.
        shard_size: Records and safetensors: the approximate size of a file.
        level: npz and TFRecords: the compression level.
        batch_rows: Arrow and Parquet: number of rows in a record batch or row group.
        byte_stream_split: Parquet: encode floats with byte-stream-split, which compresses better.
        layout: Checkpoints: keys are "names", or paths of "objects".
        force: Replace an existing target.
        digest: Store the digest of the content in the metadata, for `tensorferry.verify`.
        dry_run: Only report what would be done.
        verify: Compare the target with the source afterwards.
        durable: Wait until the bytes are on disk.
        engine: What converts the parts: "local", "ray" or an engine; by default the calling thread.
            One task writes one shard, or the only file of the target. A repeated task writes the
            same file, and all files appear together.
        progress: True shows a bar; a function receives the number of bytes of tensors, or of rows,
            done and the total, if known; with an engine, the number of tasks.
        options: The format of the source, and options to open it with.
        storage_options: Options for the stores of URLs.

    Raises:
        FileExistsError: The target exists, and `force` is not set.
        UnsupportedError: The target's format cannot hold the content, or a tensor cannot be read.
        OptionError: A format has no such option.

    Examples:
        >>> saved = ferry.save({"w": np.zeros(3)}, "model.ckpt")
        >>> ferry.convert("model.ckpt", "model.safetensors", verify=True).verified
        True
    """
    path = os.fspath(target)
    facts = _facts_of(path, format)
    changes = Changes(
        select=tuple(select),
        drop=tuple(drop),
        rename=Renaming.parse(rename),
        dtype=None if dtype is None else casting.parse(dtype),
        casts=tuple((pattern, casting.parse(name)) for pattern, name in (casts or {}).items()),
        added=tensors_of(set or {}),
        metadata=dict(metadata or {}),
    )
    own = {"level": level, "batch_rows": batch_rows, "layout": layout}
    how = Writing(
        compression=compression,
        quantize=quantize,
        shard_size=shard_size,
        digest=digest,
        durable=durable,
        storage_options=storage_options,
        options=keywords.given({**own, "byte_stream_split": byte_stream_split}),
    )
    started = time.monotonic()
    opening = opening_of(source, options, storage_options)
    chosen = None if engine is None else engines.choose(engine)
    with opening.open() as subject:
        if verify and STANDARD_STREAM in (subject.name, path):
            raise UnsupportedError("a stream cannot be read again to verify it")
        files = _files(subject, path, facts, shards, how)
        _check_free(path, files, facts, how, force)
        if facts.name == SAVED_MODEL and not storage.is_url(storage.localize(path)):
            from tensorferry.formats.savedmodel.target import check

            check(storage.localize(path))
        unit: Unit = "bytes" if subject.holds == "tensors" else "rows"
        with following(progress, path, unit if chosen is None else "tasks") as tell:
            run = None if chosen is None else Running(opening, chosen)
            report = _transfer(subject, path, files, facts, changes, how, tell, dry_run, run)
    if dry_run:
        return report
    report = replace(report, seconds=time.monotonic() - started)
    return _verified(report, opening, changes, storage_options, chosen) if verify else report


def _transfer(
    subject: Subject,
    path: str,
    files: tuple[str, ...],
    facts: Facts,
    changes: Changes,
    how: Writing,
    progress: Progress | None,
    dry_run: bool,
    run: Running | None,
) -> ConvertReport:
    """Writes what was opened, unless it is only asked what would be written."""
    is_copy = facts.records and subject.facts.records and not changes
    if run is not None and not is_copy:
        run = replace(run, opening=run.opening.surveyed(subject, run.engine))
    in_arrow = _goes_in_arrow(subject, path, facts, changes, how)
    names = {} if is_copy else changes.names(subject, as_tensors=not in_arrow)
    plan = Plan(names, changes, facts, path, files, how, in_arrow)
    report = ConvertReport(
        subject.name,
        path,
        facts.name,
        subject.holds,
        len(plan.new_names),
        files,
        written=False,
        notes=_notes(subject, facts, changes),
    )
    if not (in_arrow and _keeps_types(facts, path)):
        lost = tables.lost_types(subject, names, facts.name)
        report = replace(report, notes=(*report.notes, *lost), retyped=bool(lost))
    if dry_run:
        in_rows = subject.holds != "tensors"
        return replace(report, count=subject.count()) if in_rows else report
    transfer = Transfer(subject, plan, progress)
    count, saved = transfer.run() if run is None else run.convert(transfer)
    report = replace(report, damages=tuple(subject.damages()))
    is_kept = _keeps_types(facts, path) and path != STANDARD_STREAM
    if in_arrow and is_kept and tables.has_rare_types(subject):
        with open_one(files[0], storage_options=how.storage_options) as target:
            changed = tables.changed_types(subject, names, target)
        report = replace(report, notes=(*report.notes, *changed), retyped=bool(changed))
    if saved is None:
        nbytes = total_size(Place(name, options=how.storage_options) for name in files)
        return replace(report, count=count, nbytes=nbytes, written=True)
    errors = [one.largest_error for one in saved.quantized.values()]
    largest = max(errors, default=None)
    return replace(
        report,
        count=count,
        files=saved.files or files,
        nbytes=saved.nbytes,
        written=True,
        quantized=largest,
    )


def _goes_in_arrow(
    subject: Subject, path: str, facts: Facts, changes: Changes, how: Writing
) -> bool:
    """Whether columns go over as Arrow has them: from a table into one, without new dtypes."""
    if not tables.is_table(subject) or not facts.streams_rows or facts.records:
        return False
    is_whole = codecs.split_suffix(path)[1] is not None or how.quantize is not None
    return changes.dtype is None and not changes.casts and not is_whole


def _keeps_types(facts: Facts, path: str) -> bool:
    """Whether files of a format say Arrow's types, themselves or by the schema beside them."""
    return facts.typed or (facts.types_beside and path != STANDARD_STREAM)


def tensors_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors of a user, by their names.

    Raises:
        UnsupportedError: One of them is no tensor.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        tensor = frameworks.accept(value)
        if not isinstance(tensor, np.ndarray | SparseTensor | RaggedTensor):
            try:
                tensor = frameworks.accept(np.asarray(tensor))
            except (ValueError, TypeError, UnsupportedError):
                raise UnsupportedError(
                    f"what is set is {type(value).__name__}, expected a tensor", tensor=name
                ) from None
        found[name] = tensor
    return found


def opening_of(
    source: Any, options: Reading | None, storage_options: Mapping[str, Any] | None
) -> Opening:
    """How a source is opened, of which everything is wanted."""
    chosen = keywords.given(options or {})
    return Opening.of(
        source,
        format=chosen.pop("format", None),
        storage_options=chosen.pop("storage_options", storage_options),
        options=keywords.Opening(**chosen),  # type: ignore[typeddict-item]  # refused by the format
        thorough=True,
    )


def _verified(
    report: ConvertReport,
    opening: Opening,
    changes: Changes,
    storage_options: Mapping[str, Any] | None,
    engine: engines.Engine | None,
) -> ConvertReport:
    """The report, with what differs between the target and the source."""
    facts = table.facts_of(report.format)
    new = [*(dtype for _, dtype in changes.casts), *([changes.dtype] if changes.dtype else [])]
    rtol, atol = map(max, zip((0.0, 0.0), *map(casting.error_of, new), strict=True))
    # The one tensor may have had another name; formats without names call it "tensor".
    single = facts.takes == "one array"
    is_set = facts.opens == "rows" and len(report.files) > 1
    target = list(report.files) if is_set else report.target
    written = Opening.of(target, storage_options=storage_options, thorough=True)
    with opening.open() as first, written.open() as second:
        is_kept = _keeps_types(facts, report.target)
        if tables.is_table(first) and is_kept and not new and not report.quantized:
            names = changes.names(first, as_tensors=False)
            if isinstance(second.opened, Rows) and tables.same(first, names, second):
                return replace(report, verified=not report.retyped)
        # Text has a float32 in as many digits as tell it from others, and gives back a float64.
        typed = facts.typed and first.facts.typed
        kept: list[str] = []
        if changes.drop or changes.added:
            names = changes.names(first)
            kept = [old for old, new in names.items() if new not in changes.added]
            if not kept:  # nothing of the source is in the target
                return replace(report, verified=not report.retyped)
        how = Comparing(
            rtol=rtol if typed else max(rtol, casting.error_of(dtypes.as_dtype("float32"))[0]),
            atol=max(atol, report.quantized or 0.0),
            map={"*": ROOT} if single else dict(changes.rename.rules),
            match=tuple(kept) or changes.select,
            ignore_dtype=bool(new) or not typed,
        )
        found = compare_opened((opening, first), (written, second), how, engine)
    differences = None if found.equal else found
    return replace(report, verified=found.equal and not report.retyped, differences=differences)


def _facts_of(path: str, format: str | None) -> Facts:
    """The format to write."""
    found = format or format_named(path)
    if found is None:
        raise detect.unnamed(path, "name it with --to or format=:")
    table.to_write(found)
    return table.facts_of(found)


def _files(
    subject: Subject, path: str, facts: Facts, count: int | None, how: Writing
) -> tuple[str, ...]:
    """The files that will be there; parts of a safetensors model are named when they are known."""
    size = how.shard_size
    bytes_each = None if size is None else parse_size(size)
    if size is not None and count is not None:
        raise UnsupportedError("shards and shard_size both say how many files: expected one")
    in_shards = facts.records or (facts.streams_rows and subject.holds != "tensors")
    writes = table.to_write(facts.name).writes
    splits = facts.records or (writes is not None and "shard_size" in option_names(writes.options))
    if size is not None and not splits:
        raise UnsupportedError(f"{facts.name} is written into one file, of any size", path=path)
    if count is not None and not in_shards:
        raise UnsupportedError(
            f"{facts.name} is not written in a number of shards",
            path=path,
            hint="use shard_size" if splits else "leave the number out",
        )
    if facts.records and bytes_each is not None:
        count = max(1, -(-(subject.nbytes() or 0) // bytes_each))
    shorthand = in_shards and "@" in os.path.basename(path)
    if count is None and not shorthand:
        return (path,)
    files = tuple(shard_names.shard_names(path, count))
    if how.digest and len(files) > 1:
        raise UnsupportedError("the digest of a whole is not kept with its shards", path=path)
    return files


def _check_free(path: str, files: Sequence[str], facts: Facts, how: Writing, force: bool) -> None:
    """Refuses to replace what is there, an index of several files among it."""
    if force or path == STANDARD_STREAM:
        return
    taken = [name for name in files if storage.exists(name, options=how.storage_options)]
    if not taken and (how.shard_size is not None or facts.files == "several"):
        place = Place(path, options=how.storage_options)
        index = table.to_read(facts.name).reads.find(place)
        taken = [] if index is None else [index.path]
    if taken:
        raise FileExistsError(
            errno.EEXIST, "it exists already; --force (force=True) replaces it", taken[0]
        )


def _leaves_program(subject: Subject, facts: Facts) -> bool:
    """Whether a model becomes one that has its tensors, and not its program."""
    if not subject.format == facts.name == SAVED_MODEL:
        return False
    from tensorferry.formats.savedmodel.target import has_program

    return has_program(subject.opened.place)


def _notes(subject: Subject, facts: Facts, changes: Changes) -> tuple[str, ...]:
    """What the target has no place for."""
    opened = subject.opened
    notes = list(opened.notes)
    if _leaves_program(subject, facts):
        notes.append("the program of the model is left out: its tensors are what is written")
    names = [name for name in subject.metadata if not is_technical(name)]
    if names and facts.metadata == "nowhere":
        notes.append(f"{facts.name} has no place for metadata: {', '.join(names)}")
    nested = isinstance(opened, Bundle) and bool(opened.layout)
    single = "one array" in (subject.facts.takes, facts.takes)
    if nested and not single and not changes.are_in_place:
        notes.append("the tensors are no longer nested as they were")
    return tuple(notes)
