"""Random access: records by their number, in uncompressed local files.

Where the records are is found by an index beside the file, or else by walking over it once
(`tensorferry.formats.tfrecord.index`).
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import SupportsIndex

import numpy as np

from tensorferry.errors import UnsupportedError
from tensorferry.formats.tfrecord import index as indexes
from tensorferry.formats.tfrecord.files import RecordFiles
from tensorferry.formats.tfrecord.frames import FOOTER, HEADER, Segment
from tensorferry.formats.tfrecord.options import RecordOptions
from tensorferry.rows.rows import Damage
from tensorferry.rows.splits import Part
from tensorferry.storage.place import OPEN_AT_ONCE, Target
from tensorferry.tensors.values import Array


class Access:
    """Where the records of files are; known once it was asked for.

    Args:
        files: The files.
        how: How they are read.
        damages: Takes what is skipped or kept on the way.
    """

    def __init__(self, files: RecordFiles, how: RecordOptions, damages: list[Damage]) -> None:
        self._files = files
        self._how = how
        self._damages = damages
        self._indexes: list[Array] | None = None

    @property
    def is_quick(self) -> bool:
        """Whether the places are known, or files beside tell them: else walking is quicker."""
        return self._indexes is not None or all(
            not part.place.is_url
            and any(os.path.exists(f"{part.place.path}{suffix}") for suffix in indexes.SUFFIXES)
            for part in self._files.parts
        )

    def indexes(self) -> list[Array]:
        """Offset and length of the data of each record, for each file: int64 [records, 2].

        Raises:
            UnsupportedError: A file is compressed, remote or a stream.
        """
        if self._files.is_stream:
            raise UnsupportedError("the records of a stream can only be read in order")
        if self._indexes is None:
            self._indexes = [self._index_of(part) for part in self._files.parts]
        return self._indexes

    def _index_of(self, part: Part) -> Array:
        passing = self._how.on_error != "raise"
        with self._files.reading(part.place) as source:
            whole = part.start is None and part.stop is None
            if whole and not passing and source.buffer is not None and part.place.is_named:
                index = indexes.read(part.place.path, source.buffer)
                if index is not None:
                    return index
            return indexes.build(
                self._files.frames(
                    part,
                    source,
                    verify=self._how.verify and passing,
                    on_error=self._how.on_error,
                    damages=self._damages,
                )
            )

    def segments(self, where: Iterable[SupportsIndex]) -> list[Segment]:
        """The frames of records, in the order asked for.

        Raises:
            IndexError: There are not as many records.
        """
        starts = np.cumsum([0, *map(len, self.indexes())])
        segments = []
        for number in where:
            record = operator.index(number)
            if not -starts[-1] <= record < starts[-1]:
                raise IndexError(f"record {number} of {starts[-1]}")
            record %= int(starts[-1])
            file = int(np.searchsorted(starts, record, side="right")) - 1
            segments.append(self._segment_at(file, record - int(starts[file])))
        return segments

    def _segment_at(self, file: int, record: int) -> Segment:
        part = self._files.parts[file]
        offset, length = self.indexes()[file][record].tolist()
        start, end = offset - HEADER, offset + length + FOOTER
        # Otherwise it was checked for the index, or is to be kept as it is.
        verify = self._how.verify and self._how.on_error == "raise"
        named = part.first + record, part.place.path, verify
        if len(self._files.parts) <= OPEN_AT_ONCE:
            return Segment(part.place.open().everything(), start, 1, end, 0, *named)
        # Copied, because a view of a file keeps its descriptor.
        frame = self._files.recent.read(part.place, start, end)
        return Segment(frame, 0, 1, end - start, start, *named)

    def write_indexes(self) -> list[str]:
        """Writes an index beside each file, as text, and gives their names."""
        names = []
        for part, index in zip(self._files.parts, self.indexes(), strict=True):
            if part.start is not None or part.stop is not None:
                raise UnsupportedError(
                    "an index is of a whole file, and this is a part", path=part.place.path
                )
            target = Target(f"{part.place.path}{indexes.SUFFIXES[0]}", options=part.place.options)
            with target.sink() as sink:
                indexes.write(index, sink)
            names.append(target.path)
        return names
