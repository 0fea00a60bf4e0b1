"""Conversion of many files into a directory, several at once, and again where it was interrupted.

A list in the directory, `.ferry-convert.json`, says of each file that is finished what it was made
of and the SHA-256 of its bytes. To resume, a file is left alone only if its bytes have that digest:
that it exists says nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Unpack

from tensorferry import storage
from tensorferry.codecs import compression as codecs
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.files.find import Found
from tensorferry.formats import table
from tensorferry.formats.table import TABLE
from tensorferry.operations.convert import Converting, ConvertReport, convert
from tensorferry.operations.subject import open_one
from tensorferry.storage import leftovers
from tensorferry.storage.place import Place
from tensorferry.storage.shards import parse_shard

LIST = ".ferry-convert.json"
VERSION = 1
# How much of a file is hashed at a time.
BLOCK = 1 << 20


class _StoppedError(Exception):
    """Raised in threads that are to end."""


def convert_all(
    sources: Sequence[Found],
    directory: str,
    *,
    format: str,
    jobs: int = 1,
    resume: bool = False,
    force: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
    failed: Callable[[Exception, str], None] | None = None,
    **options: Unpack[Converting],
) -> list[ConvertReport]:
    """Converts files into a directory, each under its own name with the ending of the format.

    A set of shards becomes as many files: what is finished of it stays finished.

    Args:
        sources: The files.
        directory: Where the files go; it is made if it is not there.
        format: To convert to.
        jobs: Number of files that are converted at the same time.
        resume: Leave out what is there already, whole and made of the same.
        force: Replace what is there.
        progress: Is told how many files are done, and how many there are.
        failed: Is told of the error of a file, and its name; the others are converted all the same.
            By default the first error stops the conversion.
        **options: As in `tensorferry.operations.convert.convert`.

    Raises:
        UnsupportedError: Two of them would get the same name.
    """
    if storage.is_url(directory):
        raise UnsupportedError("many files are converted into a local directory", path=directory)
    sources = [part for source in sources for part in source.apart()]
    targets = _targets(sources, directory, format)
    if not options.get("dry_run"):
        os.makedirs(directory, exist_ok=True)
    done = _Finished(os.path.join(directory, LIST), _about(options), format)
    stop = threading.Event()

    def work(source: Found, target: str) -> ConvertReport:
        return _convert(source, target, format, done, resume, force, stop, options)

    reports: dict[str, ConvertReport] = {}
    pool = ThreadPoolExecutor(max(jobs, 1))
    try:
        running = {pool.submit(work, source, target): target for target, source in targets.items()}
        for count, future in enumerate(as_completed(running), 1):
            target = running[future]
            error = future.exception()
            if isinstance(error, Exception) and failed is not None:
                failed(error, targets[target].name)
            else:
                reports[target] = future.result()
            if progress is not None:
                progress(count, len(running))
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
    return [reports[target] for target in targets if target in reports]


def _convert(
    source: Found,
    target: str,
    format: str,
    done: _Finished,
    resume: bool,
    force: bool,
    stop: threading.Event,
    options: Converting,
) -> ConvertReport:
    """Converts one file, unless it is finished or all threads are to end."""

    def tell(*_: Any) -> None:
        if stop.is_set():
            raise _StoppedError

    tell()
    if resume and done.has(source, target):
        files = tuple(_files_of(target, format))
        nbytes = sum(map(os.path.getsize, files))
        return ConvertReport(source.name, target, format, "", None, files, nbytes, written=False)
    replaces = force or (resume and done.lists(target))
    begins = not options.get("dry_run") and (replaces or not _is_there(target, format))
    if begins:
        done.begin(target)
    try:
        report = convert(source, target, format=format, force=replaces, progress=tell, **options)
    except (FerryError, OSError):
        if begins and not _is_there(target, format):
            done.forget(target)  # what will be there is not ours
        raise
    if report.written:
        done.add(source, report)
    return report


def _about(options: Converting) -> dict[str, str]:
    """The options that make a difference to the bytes; those of stores may be secret."""
    found: dict[str, Any] = dict(options)
    for name in ("dry_run", "verify", "durable", "engine", "storage_options"):
        found.pop(name, None)
    reading = found.pop("options", None) or {}
    found["options"] = {k: v for k, v in sorted(reading.items()) if k != "storage_options"}
    return {name: str(value) for name, value in sorted(found.items())}


def _targets(sources: Sequence[Found], directory: str, format: str) -> dict[str, Found]:
    table.to_write(format)
    ending = next(iter(TABLE[format].suffixes), "")
    targets: dict[str, Found] = {}
    for source in sources:
        # A model is called by its folder, everything else by its file.
        is_model = source.format is not None and TABLE[source.format].is_folder
        path = source.name if is_model else source.place.path
        target = os.path.join(directory, _stem(os.path.basename(path.rstrip("/"))) + ending)
        if target in targets:
            raise UnsupportedError(
                f"{targets[target].name} and {source.name} would both become {target}",
                hint="convert them into different directories",
            )
        targets[target] = source
    return targets


def _stem(name: str) -> str:
    """A name without its ending: "train-00001-of-00004" of "train.tfrecord-00001-of-00004"."""
    stem, _ = codecs.split_suffix(name)
    shard = parse_shard(stem)
    base = stem if shard is None else shard[0]
    known = table.named(base)
    ends = TABLE[known].suffixes if known else ()
    base = next((base[: -len(end)] for end in ends if base.endswith(end)), base)
    return base if shard is None else f"{base}-{shard[1]:05}-of-{shard[2]:05}"


def _is_there(target: str, format: str) -> bool:
    if TABLE[format].files == "one":
        return os.path.exists(target)
    return table.to_read(format).reads.find(Place(target)) is not None


def _files_of(target: str, format: str) -> Sequence[str]:
    """The files of a target that is there."""
    facts = TABLE[format]
    if facts.files == "one":
        return [target]
    if facts.is_folder:
        return sorted(os.path.join(at, name) for at, _, names in os.walk(target) for name in names)
    with open_one(target, format=format) as subject:
        return sorted(subject.files)


class _Finished:
    """The list of files that are finished."""

    def __init__(self, path: str, options: Mapping[str, str], format: str) -> None:
        self._path = path
        self._format = format
        self._made_by = {**options, "format": format}
        self._lock = threading.Lock()
        leftovers.check_file(path)
        tree = leftovers.read(path) or {}  # without a list, all is done again
        files = tree.get("files") if tree.get("version") == VERSION else None
        self._files: dict[str, Any] = files if isinstance(files, dict) else {}

    def lists(self, target: str) -> bool:
        """Whether a file was made, or begun, by a run before."""
        return os.path.basename(target) in self._files

    def begin(self, target: str) -> None:
        """Says that a file is about to be made."""
        self._write(target, {})

    def forget(self, target: str) -> None:
        """Says that a file was not made after all."""
        self._write(target, None)

    def has(self, source: Found, target: str) -> bool:
        """Whether a file is there, whole, and made of the same in the same way."""
        entry = self._files.get(os.path.basename(target))
        if not isinstance(entry, dict) or not _is_there(target, self._format):
            return False
        made_of = entry.get("source") == _identity(source) and entry.get("by") == self._made_by
        if not made_of:
            return False
        try:
            return bool(entry.get("sha256") == _digest(_files_of(target, self._format)))
        except FerryError:  # it is damaged
            return False

    def add(self, source: Found, report: ConvertReport) -> None:
        """Says that a file is finished."""
        entry = {
            "source": _identity(source),
            "by": self._made_by,
            "sha256": _digest(_files_of(report.target, self._format)),
        }
        self._write(report.target, entry)

    def _write(self, target: str, entry: dict[str, Any] | None) -> None:
        with self._lock:
            self._files[os.path.basename(target)] = entry
            if entry is None:
                del self._files[os.path.basename(target)]
            tree = {"version": VERSION, "files": self._files}
            with storage.open_sink(self._path, durable=False) as sink:
                sink.write(json.dumps(tree, indent=1).encode())


def _identity(source: Found) -> list[Any]:
    """What a source is: its files, their sizes and times."""
    found: list[Any] = []
    for name in source.paths:
        if os.path.isfile(name):
            about = os.stat(name)
            found.append([os.path.abspath(name), about.st_size, about.st_mtime_ns])
        else:
            found.append([name])
    return found


def _digest(files: Sequence[str]) -> str:
    total = hashlib.sha256()
    for name in files:
        with open(name, "rb") as file:
            while block := file.read(BLOCK):
                total.update(block)
    return total.hexdigest()
