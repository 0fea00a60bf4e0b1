"""Sidecars: metadata beside files whose format has no place for it.

`pred.npy` has `pred.npy.json`, which is UTF-8 JSON:

    {"tensorferry": 1, "files": [{"size": ..., "crc32c": ..., "metadata": {...}, "options": {...}}]}

Each of "files" is about the one file that has this size and checksum. Two files cannot be replaced
in one step. While the file is replaced, its sidecar describes both the old and the new file, so
each finds its own metadata, whenever a reader comes or the writer dies.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Self

from tensorferry import _native, storage
from tensorferry.classes import dataclass, field
from tensorferry.codecs import json_text as json
from tensorferry.errors import ChecksumError, FormatError
from tensorferry.storage import Source, byte_view, journal, url as urls
from tensorferry.storage.folders import absolute
from tensorferry.storage.place import Place, ReplacedError
from tensorferry.storage.sink import ReplacingSink
from tensorferry.storage.temporary import Identity, identity_of

SUFFIX = ".json"
KEY = "tensorferry"
VERSION = 1
# Raw bytes are the only format that does not describe itself.
OPTIONS = ("shape", "dtype", "byteorder", "order")
# A sidecar is small; what is larger belongs to something else.
MAX_SIZE = 64 << 20
# How many seconds a writer waits for another one of the same file.
PATIENCE = 60.0


@dataclass(frozen=True)
class About:
    """The content of a sidecar.

    Attributes:
        size: The size of the file.
        crc32c: The checksum of its bytes.
        metadata: As a format with a place for it has it, strings by name.
        options: For reading it, where its format needs some.
    """

    size: int
    crc32c: int
    metadata: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def has_something(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.metadata or self.options)

    def check(self, source: Source) -> None:
        """Verifies that the file is the one.

        Raises:
            ChecksumError: It is not.
        """
        found = _native.crc32c(source.everything())
        if found != self.crc32c:
            raise ChecksumError(
                f"the checksum is 0x{found:08x}, 0x{self.crc32c:08x} by {source.path}{SUFFIX}",
                path=source.path,
                hint="the file was changed: restore it, or remove the file beside it",
            )


class OtherFileError(ChecksumError):
    """A sidecar is not about the file that was opened."""


class Sink:
    """Passes bytes on, and counts them and their checksum: for files that are not read again."""

    def __init__(self, sink: storage.Sink) -> None:
        self.position = 0
        self.crc32c = 0
        self._sink = sink

    def write(self, buffer: Any, /) -> None:
        """Takes the bytes of a contiguous buffer."""
        view = byte_view(buffer)
        self.crc32c = _native.crc32c(view, self.crc32c)
        self.position += view.nbytes
        self._sink.write(view)


def _checksum(sink: ReplacingSink | Sink) -> int:
    """The checksum of what was written: most files have no sidecar, and need none."""
    if isinstance(sink, Sink):
        return sink.crc32c
    found = 0
    for piece in sink.written():
        found = _native.crc32c(piece, found)
    return found


def find(place: Place) -> About | None:
    """The content of a file's sidecar; None if there is none.

    Only the size of the file is compared if that is enough to tell: see `About.check`.

    Args:
        place: The file.

    Raises:
        FormatError: The file is not a sidecar.
        OtherFileError: It is one of other files.
        ReplacedError: The file was replaced just now: opened again, it is another one.
    """
    if not place.is_named:
        return None
    source = place.open()
    known = _read(place.path, place.options)
    # A sidecar always describes the current file, which must still be the one that was opened.
    if not place.is_url and not place.is_current():
        raise ReplacedError("it was replaced while it was opened", path=place.path)
    if not known:
        return None
    if source.size is None:
        return None
    fitting = [about for about in known if about.size == source.size]
    if len(fitting) > 1:
        found = _native.crc32c(source.everything())
        fitting = [about for about in fitting if about.crc32c == found]
    if not fitting:
        raise OtherFileError(
            f"{source.path}{SUFFIX} is about a file of another size or checksum",
            path=source.path,
            hint="the file was changed or cut: restore it, or remove the file beside it",
        )
    return fitting[-1]


def _read(path: str, options: Mapping[str, Any] | None) -> list[About]:
    """The content of a file's sidecar, if there is one."""
    if urls.is_signed(path):
        return []  # the signature holds for this file alone
    if not storage.is_url(path) and not _is_there(path):
        return []
    place = Place(path, options=options).companion(urls.extended(path, SUFFIX))
    try:
        source = place.open()
        if source.size is not None and source.size > MAX_SIZE:
            return []
        tree = json.parse(source.everything())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError:
        if urls.bare(path) == path:
            raise
        return []  # the query may hold for this file alone
    except FormatError as error:
        raise error.located(path=path + SUFFIX) from None
    finally:
        place.close()
    if not isinstance(tree, dict) or KEY not in tree:
        return []  # somebody else's
    files = tree.get("files")
    if tree[KEY] != VERSION or not isinstance(files, list):
        raise FormatError(
            f"a sidecar of version {str(tree[KEY])[:20]}, expected {VERSION}", path=path + SUFFIX
        )
    return [_about(node, path + SUFFIX) for node in files]


def _is_there(path: str) -> bool:
    """Whether a regular file has the name of a sidecar; nobody named a folder, pipe or device."""
    return identity_of(path + SUFFIX) is not None


def _about(node: Any, path: str) -> About:
    types: dict[str, type] = {"size": int, "crc32c": int, "metadata": dict, "options": dict}
    if not isinstance(node, dict) or node.keys() != types.keys():
        raise FormatError("a sidecar describes a file by other fields than ours", path=path)
    for name, kind in types.items():
        if type(node[name]) is not kind:
            raise FormatError(f"{name!r} of a sidecar is no {kind.__name__}", path=path)
    if not all(isinstance(value, str) for value in node["metadata"].values()):
        raise FormatError("the metadata of a sidecar is no object of strings", path=path)
    shape, *others = (node["options"].get(name) for name in OPTIONS)
    is_shape = isinstance(shape, list) and all(type(size) is int for size in shape)
    if node["options"] and not (
        node["options"].keys() == set(OPTIONS)
        and is_shape
        and all(isinstance(option, str) for option in others)
    ):
        raise FormatError("the options of a sidecar are not those of raw values", path=path)
    return About(**node)


@dataclass
class Replacing:
    """Replaces a file together with its sidecar: a block around the writing of the file.

    A file without metadata has no sidecar in the end.

    Attributes:
        path: The file.
        durable: Whether to wait until the disk has the bytes.
        options: Options for the store of a URL.
    """

    path: str
    durable: bool
    options: Mapping[str, Any] | None = None
    new: About | None = None
    old: list[About] = field(default_factory=list)
    file: Identity | None = None
    _writer: AbstractContextManager[None] = field(default_factory=nullcontext)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._end()
            else:
                with suppress(OSError):
                    self._undo()
        finally:
            self._writer.__exit__(kind, error, trace)

    def announce(
        self, sink: ReplacingSink | Sink, metadata: dict[str, str], options: dict[str, Any]
    ) -> None:
        """Lets the sidecar be about both files, when the new one is written but not visible.

        Args:
            sink: That the new file was written to.
            metadata: Of the new file.
            options: For reading it.
        """
        if not metadata and not options and isinstance(sink, ReplacingSink):
            # If there is no sidecar either, nobody may start one before the file is renamed.
            if sink.claim(journal.path_of(absolute(self.path))) and not _is_there(self.path):
                return
            sink.disclaim()
        new = About(sink.position, _checksum(sink), metadata, options)
        # Others wait here until the file and its sidecar are of one writer.
        writer = storage.only_writer(self.path, patience=PATIENCE)
        writer.__enter__()
        self._writer = writer
        self.old, self.new = _read(self.path, self.options), new
        self.file = identity_of(self.path)
        if self.old or new.has_something:
            self._write([*(self.old or _describe(self.path, self.options)), new])

    def _end(self) -> None:
        """Lets the sidecar be about the new file."""
        if self.new is not None and self.new.has_something:
            self._write([self.new])
        elif self.old:
            storage.remove(urls.extended(self.path, SUFFIX), options=self.options)

    def _undo(self) -> None:
        """Lets the sidecar be as it was, if the file is."""
        if self.new is None or storage.is_url(self.path) or identity_of(self.path) != self.file:
            return
        if self.old:
            self._write(self.old)
        elif self.new.has_something:
            storage.remove(self.path + SUFFIX)

    def _write(self, files: list[About]) -> None:
        tree = {KEY: VERSION, "files": [vars(about) for about in files]}
        path = urls.extended(self.path, SUFFIX)
        with storage.open_sink(path, durable=self.durable, options=self.options) as sink:
            sink.write(json.to_text(tree))


def _describe(path: str, options: Mapping[str, Any] | None) -> list[About]:
    """The existing file without a sidecar, if there is one."""
    try:
        with storage.open_source(path, options=options) as source:
            data = source.everything()
            return [About(len(data), _native.crc32c(data))]
    except FileNotFoundError:
        return []
