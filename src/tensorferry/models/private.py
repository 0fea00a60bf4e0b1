"""Private copies of models: what is judged is what TensorFlow and Keras then read.

Between two readings of a file somebody may have replaced it. So the files that a framework will
read are copied first, into a directory that only this user can enter; the copy is judged, and the
copy is loaded. It has nothing else: of a SavedModel its program, its variables and its assets. A
`.keras` archive is unpacked instead of copied.

A link in a model may lead anywhere. A linked file is copied if it lies in the model, or among the
blobs of a Hugging Face cache whose snapshot the model is; others are problems, which the caller may
allow. Only regular files are opened.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO

from tensorferry.classes import dataclass, field
from tensorferry.errors import FerryError, FormatError
from tensorferry.formats.keras.unpacking import unpack
from tensorferry.storage import system
from tensorferry.storage.local import ReadSource
from tensorferry.storage.source import SMALL_FILE, Source

_VARIABLES = re.compile(r"variables\.(index|data-\d{5}-of-\d{5})")


@dataclass
class Copy:
    """A private copy of a model.

    Attributes:
        path: The copy: a directory or a file.
        original: The path of the model that was copied.
        problems: Paths inside the model that were not copied, each with the reason.
    """

    path: str
    original: str
    problems: list[tuple[str, str]] = field(default_factory=list)
    _directory: str = ""
    _process: int = field(default_factory=os.getpid)

    def remove(self) -> None:
        """Deletes the copy; what is mapped or open stays readable."""
        if os.getpid() == self._process:  # a forked child that ends leaves it to its parent
            try:
                for name in os.listdir(self._directory):  # of most there are only files
                    os.unlink(os.path.join(self._directory, name))
                os.rmdir(self._directory)
            except OSError:
                shutil.rmtree(self._directory, ignore_errors=True)

    def keep_assets(self) -> None:
        """Deletes all but the assets, which are read again when the model is saved again."""
        with os.scandir(self.path) as found:
            for entry in found:
                if entry.is_dir() and entry.name != "assets":
                    shutil.rmtree(entry.path, ignore_errors=True)
                elif not entry.is_dir():
                    os.unlink(entry.path)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Lets errors name the original instead of the copy."""
        try:
            yield
        except FerryError as error:
            error.path = _renamed(error.path, self)
            error.message = str(_renamed(error.message, self))
            error.hint = _renamed(error.hint, self)
            raise


def _renamed(text: str | None, copy: Copy) -> str | None:
    return text if text is None else text.replace(copy.path, copy.original.rstrip("/"))


def copy_file(path: str, suffix: str) -> Copy:
    """A private copy of a file.

    Args:
        path: The file.
        suffix: The suffix of the copy.

    Raises:
        FormatError: It is no regular file.
    """
    directory = tempfile.mkdtemp(prefix="tensorferry-")
    copy = Copy(os.path.join(directory, f"model{suffix}"), path, _directory=directory)
    with _removing(copy):
        _copy(path, copy.path)
    return copy


def unpack_archive(path: str) -> Copy:
    """A private folder with the members of a `.keras` archive, which Keras loads as it is.

    Raises:
        FormatError: It is no regular file, or no archive, or a damaged one.
    """
    directory = tempfile.mkdtemp(prefix="tensorferry-")
    copy = Copy(directory, path, _directory=directory)
    with _removing(copy), _open(path) as opened:
        size = os.fstat(opened.fileno()).st_size
        if size <= SMALL_FILE:
            source = Source(path, buffer=memoryview(opened.read(size)))
        else:  # read, not mapped: the file is not ours, and may be cut
            source = ReadSource(path, opened, size)
        unpack(source, copy.path)
    return copy


def pack(folder: str) -> str:
    """The path of a `.keras` archive of the files in a private folder, and in the folder."""
    path = os.path.join(folder, "model.keras")
    members = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    with zipfile.ZipFile(path, "x") as archive:
        for member in members:
            archive.write(member, os.path.relpath(member, folder))
    return path


def copy_savedmodel(program: str, *, links: bool) -> Copy:
    """A private copy of what TensorFlow reads of a SavedModel.

    Args:
        program: Its saved_model.pb or .pbtxt.
        links: Copy linked files as well, wherever they lie.

    Raises:
        FormatError: A file is no regular file.
    """
    original = os.path.dirname(program) or "."
    directory = tempfile.mkdtemp(prefix="tensorferry-")
    copy = Copy(os.path.join(directory, "model"), original, _directory=directory)
    with _removing(copy):
        os.mkdir(copy.path)
        _copy(program, os.path.join(copy.path, os.path.basename(program)))
        inside = None if links else _places(original)
        for name in _files(original, copy):
            target = os.path.join(copy.path, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with suppress(FileNotFoundError):  # a link to nothing; whoever names it misses it
                if not _copy(os.path.join(original, name), target, inside):
                    copy.problems.append((name, "it is a link that leads out of the model"))
    return copy


@contextmanager
def _removing(copy: Copy) -> Iterator[None]:
    try:
        with copy.named():
            yield
    except BaseException:
        copy.remove()
        raise


def _files(original: str, copy: Copy) -> Iterator[str]:
    """The variables and assets of a model, by their path in it."""
    variables = os.path.join(original, "variables")
    if os.path.isdir(variables):
        names = sorted(filter(_VARIABLES.fullmatch, os.listdir(variables)))
        yield from (os.path.join("variables", name) for name in names)
    for place, directories, files in os.walk(os.path.join(original, "assets")):
        directories.sort()
        folder = os.path.relpath(place, original)
        for name in directories:
            if os.path.islink(os.path.join(place, name)):
                linked = os.path.join(folder, name)
                copy.problems.append((linked, "it is a link to a directory"))
        yield from (os.path.join(folder, name) for name in sorted(files))


def _places(original: str) -> list[str]:
    """The directories in which the files of a model may lie."""
    model = os.path.realpath(original)
    places = [model]
    above, name = os.path.split(model)
    while name:
        if name == "snapshots" and os.path.isdir(os.path.join(above, "blobs")):
            places.append(os.path.join(above, "blobs"))
        above, name = os.path.split(above)
    return places


def _copy(source: str, target: str, inside: list[str] | None = None) -> bool:
    """Copies a regular file.

    Args:
        source: The file.
        target: Where the copy is made.
        inside: The directories in which the file has to lie; None for anywhere.

    Returns:
        Whether the file lies there; otherwise nothing is copied.
    """
    with _open(source) as opened:
        status = os.fstat(opened.fileno())
        if inside is not None and not _is_inside(source, status, inside):
            return False
        with open(target, "xb", buffering=0) as written:
            try:
                _copy_bytes(opened.fileno(), written.fileno(), status.st_size)
            except OSError as error:
                error.filename = target  # a full disk, whose temporary directory is meant
                raise
    return True


def _open(path: str) -> FileIO:
    """A regular file, opened; a pipe or a device in its place is not waited for."""
    opened = FileIO(os.open(path, system.READ | system.NONBLOCK))
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise FormatError("is no regular file", path=path)
    return opened


def _is_inside(path: str, opened: os.stat_result, places: list[str]) -> bool:
    """Whether an open file is the one that a path leads to, and lies in one of some directories."""
    real = os.path.realpath(path)
    found = os.lstat(real)
    same = (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)
    return same and any(real.startswith(os.path.join(place, "")) for place in places)


def _copy_bytes(source: int, target: int, size: int) -> None:
    """Copies what a file has; holes stay holes, or a small file could fill the disk."""
    end = 0
    while end < size:
        start, end = system.next_data(source, end, size)
        while start < end:
            count = system.copy_some(source, target, start, min(end - start, 1 << 30))
            if not count:
                return  # somebody cut the file; whoever reads the copy says what is missing
            start += count
    os.ftruncate(target, size)
