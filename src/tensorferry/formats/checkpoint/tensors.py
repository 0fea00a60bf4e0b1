"""The tensors of a checkpoint, made of the entries of its index.

Numbers are views of the mapped data files. The checksum of a tensor is verified when the tensor is
first read as a whole, and not when a part of it is read. Variants, which are objects of
TensorFlow's own, are listed and cannot be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tensorferry import _native
from tensorferry.codecs.leveldb import mask
from tensorferry.dtypes import DType
from tensorferry.errors import ChecksumError, FormatError, UnsupportedError
from tensorferry.formats.checkpoint import entries, slices
from tensorferry.formats.checkpoint.index import Index
from tensorferry.formats.checkpoint.strings import StoredStrings
from tensorferry.storage import Source
from tensorferry.tensors.entries import Entry, Extent
from tensorferry.tensors.infos import TensorInfo, infos_of
from tensorferry.tensors.stored import Stored, StoredArray, Unreadable, plain_storage
from tensorferry.tensors.values import NARROW, Array, Kind

# Where a piece of a tensor starts, and its number.
_Piece = tuple[tuple[int, ...], int]


class TensorReader:
    """Makes tensors of entries.

    Args:
        index: All entries, whose bytes are known to be there.
        files: The data files that they lie in.
        verify: Check the checksum of each.

    Raises:
        FormatError: The slices of a tensor do not fit it.
    """

    def __init__(self, index: Index, files: dict[int, Source], verify: bool) -> None:
        self.index = index
        self._files = files
        self._verify = verify
        self._arrays: dict[int, StoredArray] = {}
        self._sound: set[int] = set()  # tensors that were verified
        self._pieces = self._find_pieces() if index.slices else {}

    @cached_property
    def _kinds(self) -> list[entries.Kind]:
        """The kind of each number."""
        return list(map(self.index.kinds.__getitem__, self.index.columns[0].tolist()))

    def visible(self) -> dict[str, int]:
        """The keys and numbers of whole tensors.

        Raises:
            UnicodeDecodeError: A key is no text.
        """
        keys = self.index.keys
        if not self._pieces:
            return dict(zip(map(bytes.decode, keys), range(len(keys)), strict=True))
        hidden = {number for pieces in self._pieces.values() for _, number in pieces}
        return {k.decode(): number for number, k in enumerate(keys) if number not in hidden}

    def _find_pieces(self) -> dict[int, list[_Piece]]:
        """The pieces of each tensor that has some."""
        keys = self.index.keys
        numbers = dict(zip(keys, range(len(keys)), strict=True))
        return {number: self._pieces_of(number, numbers) for number in self.index.slices}

    def _pieces_of(self, number: int, numbers: Mapping[bytes, int]) -> list[_Piece]:
        entry, key = self.index.entry(number), self.index.keys[number]
        places, found = [], []
        try:
            for extents in entry.slices:
                place = slices.place(entry.kind.shape, extents)
                piece = numbers.get(slices.key(key, extents))
                if piece is None:
                    raise FormatError(f"the index lacks the slice at {list(place[0])}")
                kind = self.index.kind(piece)
                if kind.row is not entry.kind.row or kind.shape != place[1]:
                    raise FormatError(
                        f"the slice at {list(place[0])} is {kind.row.name} of shape "
                        f"{list(kind.shape)}, expected {entry.kind.row.name} of {list(place[1])}"
                    )
                places.append(place)
                found.append((place[0], piece))
            slices.check_cover(entry.kind.shape, places)
        except FormatError as error:
            raise error.located(tensor=entries.shown(key)) from None
        return found

    def make(self, number: int) -> Stored:
        """The tensor of a number."""
        kind = self._kinds[number]
        if kind.row.bits and number not in self._pieces:  # nearly all
            return StoredNumbers(kind, number, self)
        entry = self.index.entry(number)
        if kind.row.numpy is None:
            return Unreadable(_no_values(kind.row), kind.row.name, kind.shape, entry.size)
        if number in self._pieces:
            pieces = tuple((starts, self.make(piece)) for starts, piece in self._pieces[number])
            return slices.StoredSlices(kind.row, kind.shape, pieces)
        source = self._files[entry.shard]
        return StoredStrings(entry, source, self.index.big_endian, self._verify)

    def array(self, number: int) -> StoredArray:
        """A tensor of numbers, ready to be read; the same one each time: it is verified once."""
        found = self._arrays.get(number)
        if found is None:
            found = self._arrays[number] = self._make_array(number)
        return found

    def _make_array(self, number: int) -> StoredArray:
        entry = self.index.entry(number)
        row, source = entry.kind.row, self._files[entry.shard]
        assert row.numpy is not None
        load = _Verified(source, entry, number, self._sound) if self._verify else None
        dtype, stored = row.numpy, None
        if self.index.big_endian and dtype.itemsize > 1:
            if dtype.kind not in "iufc":  # bfloat16 and others that NumPy cannot swap
                dtype, stored = plain_storage(row), row
            dtype = dtype.newbyteorder(">")
        return StoredArray(Entry(dtype, entry.kind.shape, source, entry.offset, load=load), stored)

    def infos(
        self, numbers: Mapping[str, int], aliases: Mapping[str, str]
    ) -> dict[str, TensorInfo] | None:
        """What is known of tensors of numbers, by name; None if one of them is something else.

        Args:
            numbers: Those of the tensors, by name.
            aliases: Another name of each tensor that has one.
        """
        facts = [(kind.row.name, kind.shape, kind.nbytes) for kind in self.index.kinds]
        if self._pieces or None in [nbytes for _, _, nbytes in facts]:
            return None
        kinds = self.index.columns[0].tolist()
        return infos_of(numbers, [facts[kinds[at]] for at in numbers.values()], aliases)

    def arrays(self, numbers: Mapping[str, int]) -> dict[str, Array] | None:
        """Tensors of numbers by name, verified; None if one of them is something else.

        Args:
            numbers: Those of the tensors, by name.
        """
        buffers = {shard: source.buffer for shard, source in self._files.items()}
        if None in buffers.values() or self._pieces:
            return None
        kinds, shards, offsets = self.index.columns[:3].tolist()
        if not all(self._viewed[kinds[number]] for number in numbers.values()):
            return None
        self._check_ends()
        if self._verify and not self._are_sound(numbers.values(), buffers):
            return None
        views = [(kind.shape, kind.row.numpy) if kind else ((), None) for kind in self._viewed]
        found = {}
        for name, number in numbers.items():
            shape, dtype = views[kinds[number]]
            found[name] = np.ndarray(shape, dtype, buffers[shards[number]], offsets[number])
        return found

    def _are_sound(self, numbers: Collection[int], buffers: Mapping[int, Any]) -> bool:
        """Whether tensors have the checksums of their entries; those are not looked at again."""
        if self._sound.issuperset(numbers):
            return True
        columns = self.index.columns
        if len(numbers) < columns.shape[1]:
            columns = columns[:, list(numbers)]
        for shard, buffer in buffers.items():
            own = columns if len(buffers) == 1 else columns[:, columns[1] == shard]
            if not _native.bundle_sound(buffer, *np.ascontiguousarray(own[2:])):
                return False
        self._sound.update(numbers)
        return True

    def read(self, number: int) -> Array | None:
        """A tensor of numbers, verified; None if it has to be made, which says what is wrong."""
        row = self.index.columns[:, number].tolist()
        source = self._files.get(row[1])
        if source is None or source.buffer is None:
            return None
        if self._verify and number not in self._sound:
            source.check(row[2] + row[3])
        return self._view(number, row, source.buffer)

    def _view(self, number: int, row: list[int], buffer: Any) -> Array | None:
        """A tensor that lies in memory, verified; None if it is damaged or something else."""
        kind = self._viewed[row[0]]
        if kind is None or number in self._pieces:
            return None
        _, _, offset, size, crc = row
        if self._verify and number not in self._sound:
            if mask(_native.crc32c(buffer[offset : offset + size])) != crc:
                return None
            self._sound.add(number)
        return np.ndarray(kind.shape, kind.row.numpy, buffer, offset)

    @cached_property
    def _viewed(self) -> list[entries.Kind | None]:
        """The kinds of the index; None for each whose tensors are more than views of bytes."""
        return [
            kind
            if kind.row.bits and kind.row.numpy not in (None, *NARROW) and not self.index.big_endian
            else None
            for kind in self.index.kinds
        ]

    def _check_ends(self) -> None:
        """Makes sure that no data file was cut: see `Source.check`."""
        _, shards, offsets, sizes, _ = self.index.columns
        for shard, source in self._files.items():
            if source.mapped is None:  # a small file, which was read
                continue
            own = shards == shard
            source.check(int((offsets[own] + sizes[own]).max(initial=0)))

    def text(self, number: int) -> bytes:
        """The only string of a tensor."""
        kind, name = self.index.kind(number), self.index.name(number)
        if kind.row.name != "string" or kind.shape or number in self._pieces:
            raise FormatError(
                f"is {kind.row.name} of shape {list(kind.shape)}, expected one string", tensor=name
            )
        try:
            found: bytes = self.make(number).read().item()  # type: ignore[union-attr]
        except FormatError as error:
            raise error.located(tensor=name) from None
        return found


def _no_values(row: DType) -> UnsupportedError:
    return UnsupportedError(
        f"a {row.name} tensor holds objects of TensorFlow's, and no values",
        hint="the other tensors of the checkpoint can be read",
    )


class StoredNumbers(Stored):
    """A tensor of numbers in a data file; its entry is looked up when it is read."""

    __slots__ = ("_kind", "_number", "_reader")

    kind: Kind = "dense"

    def __init__(self, kind: entries.Kind, number: int, reader: TensorReader) -> None:
        self._kind = kind
        self._number = number
        self._reader = reader

    @property
    def dtype(self) -> DType:
        """The dtype of its values."""
        return self._kind.row

    @property
    def dtype_name(self) -> str:
        """The name of the dtype."""
        return self._kind.row.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return self._kind.shape

    @property
    def nbytes(self) -> int:
        """Number of bytes it takes in the file."""
        return self._kind.nbytes or 0

    @property
    def array(self) -> StoredArray:
        """The same tensor in the form that other formats have."""
        return self._reader.array(self._number)

    def extents(self) -> Iterable[Extent]:
        """Where its bytes lie."""
        return self.array.extents()

    def read(self) -> Array:
        """The values."""
        return self.array.read()

    def read_part(self, index: Any) -> Array:
        """Some of the values."""
        return self.array.read_part(index)


class _Verified:
    """Gives the bytes of an entry, and verifies them the first time."""

    __slots__ = ("_entry", "_number", "_sound", "_source")

    def __init__(self, source: Source, entry: entries.Entry, number: int, sound: set[int]) -> None:
        self._source = source
        self._entry = entry
        self._number = number
        self._sound = sound

    def __call__(self) -> Any:
        entry = self._entry
        data = self._source.range(entry.offset, entry.offset + entry.size)
        if self._number not in self._sound:
            self._source.check(entry.offset + entry.size)
            found = mask(_native.crc32c(data))
            if found != entry.crc:
                raise ChecksumError(
                    f"the data is corrupt: its checksum is {found:#010x}, stored {entry.crc:#010x}",
                    path=self._source.path,
                    offset=entry.offset,
                    hint="the file was changed after it was written, or belongs to another index; "
                    "verify=False gives the values all the same",
                )
            self._sound.add(self._number)
        return data
