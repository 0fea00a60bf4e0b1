"""Random access: records by their number, in uncompressed local files.

Where the records are is found by an index beside the file, or else by walking over it once
(`tensorferry.formats.tfrecord.index`).
"""

from __future__ import annotations

import bisect
import itertools
import operator
import os
from collections.abc import Iterable
from functools import cached_property
from typing import SupportsIndex

import numpy as np

from tensorferry.errors import UnsupportedError
from tensorferry.formats.tfrecord import index as indexes
from tensorferry.formats.tfrecord.files import RecordFiles
from tensorferry.formats.tfrecord.frames import FOOTER, HEADER, Segment
from tensorferry.formats.tfrecord.options import RecordOptions
from tensorferry.progress import Progress, Tally
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
        self._joined: Array | None = None
        self._starts: Array | None = None  # the number of each file's first record, and of all
        self._firsts: list[int] = []  # the same

    @property
    def is_quick(self) -> bool:
        """Whether the places are known, or files beside tell them: else walking is quicker."""
        return self._indexes is not None or all(
            not part.place.is_url
            and any(os.path.exists(f"{part.place.path}{suffix}") for suffix in indexes.SUFFIXES)
            for part in self._files.parts
        )

    def indexes(self, progress: Progress | None = None) -> list[Array]:
        """Offset and length of the data of each record, for each file: int64 [records, 2].

        Args:
            progress: Is told how many files are done, and how many there are.

        Raises:
            UnsupportedError: A file is compressed, remote or a stream.
        """
        if self._files.is_stream:
            raise UnsupportedError("the records of a stream can only be read in order")
        if self._indexes is None:
            files = Tally(progress, len(self._files.parts))
            found = []
            for part in self._files.parts:
                found.append(self._index_of(part))
                files.add(1)
            self._indexes = found
            self._starts = np.cumsum([0, *map(len, self._indexes)])
            self._firsts = self._starts.tolist()
        return self._indexes

    def _index_of(self, part: Part) -> Array:
        passing = self._how.on_error != "raise"
        with self._files.reading(part.place) as source:
            whole = part.start is None and part.stop is None
            path = part.place.path if whole and not passing and part.place.is_named else None
            buffer = None if path is None else source.buffer
            if path is not None and buffer is not None:
                known = indexes.read(path, buffer)
                known = indexes.recall(path, buffer) if known is None else known
                if known is not None:
                    return known
            index = indexes.build(
                self._files.frames(
                    part,
                    source,
                    verify=self._how.verify and passing,
                    on_error=self._how.on_error,
                    damages=self._damages,
                )
            )
            if path is not None and buffer is not None:
                indexes.remember(path, buffer.nbytes, index)
            return index

    def parts_between(self, start: int, stop: int) -> list[Part]:
        """The parts of files that some records lie in, which follow each other."""
        indexes, parts = self.indexes(), self._files.parts
        assert self._starts is not None
        if not 0 <= start <= stop <= self._starts[-1]:
            raise IndexError(f"records {start} to {stop} of {self._starts[-1]}")
        found: list[Part] = []
        for part, index, before in zip(parts, indexes, self._starts.tolist(), strict=False):
            first, end = max(start - before, 0), min(stop - before, len(index))
            if first < end or (start == stop and not found and part is parts[-1]):
                begin = int(index[first, 0]) - HEADER if first < len(index) else 0
                close = int(index[end - 1].sum()) + FOOTER if first < end else begin
                size = close - begin
                found.append(Part(part.place, begin, close, part.first + first, end - first, size))
        return found

    @property
    def verify(self) -> bool:
        """Whether the checksums of records are still to be checked when they are read.

        Otherwise it was done for the index, or they are to be kept as they are.
        """
        return self._how.verify and self._how.on_error == "raise"

    def find(self, number: int) -> tuple[bytes | memoryview, int] | None:
        """The file of one record, and where its frame starts; None if the files are too many.

        Raises:
            IndexError: There are not as many records.
        """
        if self._indexes is None:
            self.indexes()
        total = self._firsts[-1]
        if not -total <= number < total:
            raise IndexError(f"record {number} of {total}")
        parts = self._files.parts
        if len(parts) > OPEN_AT_ONCE:
            return None
        number %= total
        file = 0 if len(parts) == 1 else bisect.bisect_right(self._firsts, number) - 1
        return parts[file].place.open().everything(), self._spans.item(number, 0) - HEADER

    @property
    def is_held(self) -> bool:
        """Whether the files are few enough to be open at the same time."""
        return len(self._files.parts) <= OPEN_AT_ONCE

    def find_all(
        self, where: Iterable[SupportsIndex]
    ) -> tuple[list[bytes | memoryview], Array, Array] | None:
        """The files of some records, the file of each, and where its frame starts, as `find`."""
        if not self.is_held:
            return None
        parts, spans, numbers = self._files.parts, self._spans, _as_numbers(where)
        if len(parts) > 1:
            return self.locate(self.numbers(numbers))
        try:
            starts = spans.take(numbers, axis=0)[:, 0] - HEADER
        except IndexError:
            self.numbers(numbers)  # says which
            raise
        return [_whole(parts[0])], np.zeros(len(starts), np.int64), starts

    def locate(self, numbers: Array) -> tuple[list[bytes | memoryview], Array, Array]:
        """The same, for numbers from 0 on; all files are open at the same time."""
        parts = self._files.parts
        starts = self._spans[numbers, 0] - HEADER
        if len(parts) == 1:
            return [_whole(parts[0])], np.zeros(len(starts), np.int64), starts
        assert self._starts is not None
        files = np.searchsorted(self._starts, numbers, side="right") - 1
        used, which = np.unique(files, return_inverse=True)
        buffers = [_whole(parts[file]) for file in used.tolist()]
        return buffers, which.astype(np.int64, copy=False), starts

    @cached_property
    def average(self) -> int:
        """Number of bytes of a record, on average."""
        spans = self._spans
        return int(spans[:, 1].mean()) if len(spans) else 0

    def numbers(self, where: Iterable[SupportsIndex]) -> Array:
        """The numbers of records, counted from the first.

        Raises:
            IndexError: There are not as many records.
        """
        self.indexes()
        total = self._firsts[-1]
        numbers = _as_numbers(where)
        # Those below zero are larger than all others here.
        if not len(numbers) or np.maximum.reduce(numbers.view(np.uint64)) < total:
            return numbers
        if not -total <= numbers.min() <= numbers.max() < total:
            wrong = numbers[(numbers < -total) | (numbers >= total)][0]
            raise IndexError(f"record {wrong} of {total}")
        numbers[numbers < 0] += total
        return numbers

    def segments(self, where: Iterable[SupportsIndex]) -> list[Segment]:
        """The frames of records, in the order asked for.

        Raises:
            IndexError: There are not as many records.
        """
        numbers = self.numbers(where)
        if len(numbers) < 2 or self._how.on_error != "raise":  # there may be damage between two
            return self._segments_at(numbers, numbers + 1)
        # Records that follow each other are one segment.
        cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
        firsts = numbers[np.concatenate([[0], cuts])]
        lasts = numbers[np.concatenate([cuts - 1, [len(numbers) - 1]])]
        return self._segments_at(firsts, lasts + 1)

    def _segments_at(self, firsts: Array, ends: Array) -> list[Segment]:
        """The frames of records from some numbers to others, which may lie in several files."""
        assert self._starts is not None
        files = np.searchsorted(self._starts, firsts, side="right") - 1
        if len(self._files.parts) > 1:
            crossing = np.searchsorted(self._starts, ends, side="left") - 1 > files
            if crossing.any():
                firsts, ends = self._cut(firsts, ends)
                files = np.searchsorted(self._starts, firsts, side="right") - 1
        spans, lasts = self._spans, ends - 1
        return self._made(
            files.tolist(),
            (firsts - self._starts[files]).tolist(),
            (ends - firsts).tolist(),
            (spans[firsts, 0] - HEADER).tolist(),
            (spans[lasts, 0] + spans[lasts, 1] + FOOTER).tolist(),
        )

    def _cut(self, firsts: Array, ends: Array) -> tuple[Array, Array]:
        """The same records, cut where a file ends."""
        assert self._starts is not None
        pairs: list[tuple[int, int]] = []
        for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
            inside = self._starts[(self._starts > first) & (self._starts < end)].tolist()
            pairs += itertools.pairwise([first, *dict.fromkeys(inside), end])
        cut = np.array(pairs, np.int64)
        return cut[:, 0], cut[:, 1]

    @property
    def _spans(self) -> Array:
        """Offset and length of the data of each record of all files."""
        if self._joined is None:
            indexes = self.indexes()
            self._joined = indexes[0] if len(indexes) == 1 else np.concatenate(indexes)
        return self._joined

    def _made(
        self,
        files: list[int],
        records: list[int],
        counts: list[int],
        starts: list[int],
        ends: list[int],
    ) -> list[Segment]:
        parts = self._files.parts
        verify = self.verify
        places = zip(files, records, counts, starts, ends, strict=True)
        if len(parts) > OPEN_AT_ONCE:
            # Copied, because a view of a file keeps its descriptor.
            read = self._files.recent.read
            return [
                Segment(
                    read(parts[file].place, start, end),
                    *(0, count, end - start, start, parts[file].first + record),
                    *(parts[file].place.path, verify),
                )
                for file, record, count, start, end in places
            ]
        of = {
            file: (_whole(parts[file]), parts[file].first, parts[file].place.path)
            for file in set(files)
        }
        return [
            Segment(of[file][0], start, count, end, 0, of[file][1] + record, of[file][2], verify)
            for file, record, count, start, end in places
        ]

    def write_indexes(self, progress: Progress | None = None) -> list[str]:
        """Writes an index beside each file, as text, and gives their names."""
        names = []
        for part, index in zip(self._files.parts, self.indexes(progress), strict=True):
            if part.start is not None or part.stop is not None:
                raise UnsupportedError(
                    "an index is of a whole file, and this is a part", path=part.place.path
                )
            target = Target(f"{part.place.path}{indexes.SUFFIXES[0]}", options=part.place.options)
            with target.sink() as sink:
                indexes.write(index, sink)
            names.append(target.path)
        return names


def _as_numbers(where: Iterable[SupportsIndex]) -> Array:
    """Numbers as an array of their own: int64 [rows]."""
    numbers = np.array(where) if isinstance(where, (list, np.ndarray)) else None
    if numbers is None or numbers.dtype != np.int64 or numbers.ndim != 1:
        return np.fromiter(map(operator.index, where), np.int64)
    return numbers


def _whole(part: Part) -> bytes | memoryview:
    """All bytes of a file.

    Raises:
        TruncatedError: It is mapped, and was cut meanwhile.
    """
    source = part.place.open()
    data = source.everything()
    source.check(len(data))
    return data
