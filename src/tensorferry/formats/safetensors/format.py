"""The reader and the writer of safetensors, of one file or of several with an index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.formats.arrays import ArrayReader, Contents
from tensorferry.formats.contract import Format, Plain, TensorOptions, WriteOptions, Written
from tensorferry.formats.safetensors import file, shards
from tensorferry.storage.place import Place, Target, size_of
from tensorferry.tensors.content import Content

if TYPE_CHECKING:
    from tensorferry.formats.shares import Given


@dataclass(frozen=True, kw_only=True, slots=True)
class Writing(WriteOptions):
    """How safetensors files are written.

    Attributes:
        shard_size: The most bytes of arrays in a file, as in "5GB"; makes several, with an index.
        shard: Write the share of one of several workers: see `tensorferry.formats.shares`.
    """

    shard_size: int | str | None = None
    shard: Given | None = None


class Reader(ArrayReader[TensorOptions]):
    """Reads safetensors files."""

    name = file.NAME
    options = TensorOptions

    def find(self, place: Place) -> Place | None:
        """The file, or the index of a model of several files where there is no such file."""
        if place.path.endswith(shards.INDEX) or place.exists():
            return place
        index = place.at(place.path + shards.INDEX)
        return index if index.exists() else None

    def contents(self, place: Place, how: TensorOptions) -> Contents:
        """The arrays of a file, or of all files of an index."""
        if place.path.endswith(shards.INDEX):
            return shards.read_parts(place)
        return file.read_parts(place.open())

    def plain(self, data: memoryview) -> Plain | None:
        """The arrays of a file."""
        return file.read_plain(data)


class Writer:
    """Writes safetensors files."""

    options = Writing

    def write(self, content: Content, target: Target, how: Writing) -> Written:
        """Writes arrays, into several files if `shard_size` says so."""
        if how.shard is not None:
            if not target.is_path or how.shard_size is not None:
                raise UnsupportedError(
                    "the share of a worker is one file, written to a path", path=target.path
                )
            from tensorferry.formats.safetensors import sharing

            return sharing.save_share(content, target, how.shard)
        parts = content.parts(file.storage)
        if how.shard_size is not None:
            if not target.is_path:
                raise UnsupportedError(
                    "only uncompressed safetensors files are split by shard_size", path=target.path
                )
            return shards.save_parts(list(parts), target, content.texts, shard_size=how.shard_size)
        with target.sink() as sink:
            file.write_parts(parts, sink, content.texts)
            return Written(size_of(sink), (target.path,))

    def finish(
        self, target: Target, *, save: str | None, metadata: Mapping[str, Any] | None
    ) -> Written:
        """Writes the index of the files that several workers wrote."""
        from tensorferry.formats.safetensors import sharing

        return sharing.finish(target, save=save, metadata=metadata)


FORMAT = Format(reads=Reader(), writes=Writer(), reads_plain=Reader(), finishes=Writer())
