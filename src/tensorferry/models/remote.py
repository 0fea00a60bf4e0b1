"""Models at URLs: written and judged as local files, and copied whole.

    with fetched("s3://models/encoder", None) as path: ...      # a local copy, gone afterwards
    with sent("s3://models/encoder", None) as path: ...         # what is written there is copied

A model of one file appears in one step. Of a SavedModel, `saved_model.pb` is copied last: before
that, nothing under the name is a model. An existing SavedModel is not replaced, because readers
could see the program of one model and the variables of the other. Files are fetched through the
cache of the machine (`tensorferry.storage.cache`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tensorferry import storage
from tensorferry.errors import FormatError
from tensorferry.formats.savedmodel import model as savedmodel
from tensorferry.formats.savedmodel.target import check_store
from tensorferry.progress import Progress, Tally, following
from tensorferry.storage.backend import Options
from tensorferry.storage.sink import naming

# The files that are one object.
ARCHIVES = (".keras", ".h5", ".hdf5")
_PIECE = 1 << 22


@contextmanager
def folder() -> Iterator[str]:
    """A temporary folder that nobody else may enter."""
    path = tempfile.mkdtemp(prefix="tensorferry-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def fetched(url: str, options: Options, tell: Progress | None = None) -> Iterator[str]:
    """The path of a local copy of a model, which is gone when the block ends.

    Args:
        url: The URL of the model.
        options: Options for the store of the URL.
        tell: Is told how many bytes are fetched, and how many there are.

    Raises:
        FileNotFoundError: There is no model.
        FormatError: A name leads out of the model's folder.
    """
    with folder() as place:
        name = url.rstrip("/")
        target = os.path.join(place, os.path.basename(name) or "model")
        if name.lower().endswith(ARCHIVES):
            _fetch(name, target, options, _tally([name], options, tell))
        else:
            paths = storage.match(f"{name}/**/*", options=options)
            if not any(path.startswith(f"{name}/saved_model.") for path in paths):
                raise FileNotFoundError(f"{url}: there is no model")
            tally = _tally(paths, options, tell)
            for path in paths:
                _fetch(path, _inside(target, path.removeprefix(f"{name}/"), url), options, tally)
        with naming(target, url):
            yield target


def _inside(folder: str, name: str, url: str) -> str:
    """The path of an object's copy: its name is data, and may not lead elsewhere."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or os.sep in part or "\0" in part for part in parts):
        raise FormatError(f"a file is called {name[:60]!r}, which leads elsewhere", path=url)
    return os.path.join(folder, *parts)


def _tally(urls: Sequence[str], options: Options, tell: Progress | None) -> Tally:
    """Counts the bytes of objects; how many there are is asked for only if somebody is told."""
    if tell is None:
        return Tally(None)
    total = 0
    for url in urls:
        with storage.open_source(url, options=options) as source:
            total += source.size or 0
    return Tally(tell, total)


def _fetch(url: str, path: str, options: Options, tally: Tally) -> None:
    """Copies an object to a path, out of the cache of the machine."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    cached = {"cache": True, **(options or {})}
    with storage.open_source(url, options=cached) as source, open(path, "xb") as file:
        while piece := source.read(_PIECE):
            file.write(piece)
            tally.add(len(piece))


@contextmanager
def sent(url: str, options: Options, progress: Progress | bool | None = None) -> Iterator[str]:
    """A local path; the model that the block writes there is copied to a URL.

    Args:
        url: Where the model goes.
        options: Options for the store of the URL.
        progress: Is told how many bytes are sent, and how many there are.

    Raises:
        UnsupportedError: Nothing here writes such URLs.
    """
    with folder() as place:
        path = os.path.join(place, os.path.basename(url.rstrip("/")))
        yield path
        if os.path.exists(path):  # a dry run writes nothing
            with following(progress, url, "bytes") as tell:
                _send(path, url, options, tell)


def _send(path: str, url: str, options: Options, tell: Progress | None) -> None:
    """Copies a model; what decides that it is there comes last."""
    tally = Tally(tell, size_of(path))
    if os.path.isfile(path):
        with storage.open_sink(url, options=options) as sink:
            _copy(path, sink, tally)
        return
    inside = [
        os.path.relpath(os.path.join(place, file), path)
        for place, _, files in os.walk(path)
        for file in files
    ]
    inside.sort(key=lambda name: (name in savedmodel.FILES, name))
    with storage.Replacement(options=options) as files:
        for name in inside:
            target = f"{url.rstrip('/')}/{name.replace(os.sep, '/')}"
            _copy(os.path.join(path, name), files.open(target), tally)


def _copy(path: str, sink: storage.FileSink, tally: Tally) -> None:
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            sink.write(piece)
            tally.add(len(piece))


def size_of(path: str) -> int:
    """The number of bytes of a local model: a file, or all files of a folder."""
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(
        os.lstat(os.path.join(place, file)).st_size
        for place, _, files in os.walk(path)
        for file in files
    )


def check_target(url: str, kind: str, overwrite: bool, options: Options) -> None:
    """Refuses to replace what cannot be replaced as a whole.

    Raises:
        FileExistsError: It is there, and is not to be replaced.
        UnsupportedError: It is a SavedModel, which is several objects.
    """
    name = url.rstrip("/")
    if kind == "archive":
        if not overwrite and storage.exists(name, options=options):
            raise FileExistsError(f"{url}: is there, and overwrite=False")
        return
    check_store(url, options, overwrite=overwrite)
