"""Many tensors of one file, which are listed and read together.

A file may have thousands of small tensors, and making a `Stored` for each
(`tensorferry.tensors.stored`) takes longer than reading it. These mappings make a `Stored` on
access, and read all tensors without any.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tensorferry import dtypes
from tensorferry.tensors.entries import Entries, Place
from tensorferry.tensors.infos import TensorInfo, infos_of
from tensorferry.tensors.stored import Stored, StoredArray
from tensorferry.tensors.values import NARROW, Array, clean_bits


class ManyStored(Mapping[str, Stored]):
    """Tensors of a file, made on access, which are faster to read together."""

    def read_quickly(self, name: str) -> Array | None:
        """A tensor; None if it has to be read by its `Stored`, which raises the error."""
        return None

    def read_all(self) -> dict[str, Array] | None:
        """All tensors; None if they have to be read one by one."""
        return None

    def views(self) -> dict[str, Array] | None:
        """All tensors as views, of which nothing is read; None if some are no views."""
        return None

    def infos(self, aliases: Mapping[str, str]) -> dict[str, TensorInfo] | None:
        """The infos of all tensors; None if they have to be looked up one by one.

        Args:
            aliases: Another name of each tensor that has one.
        """
        return None


def cleaned(arrays: dict[str, Array], places: Mapping[str, Place]) -> dict[str, Array]:
    """The arrays of a file, without bits that their dtypes do not have."""
    if not _has_narrow(places):
        return arrays
    return {name: clean_bits(array) for name, array in arrays.items()}


def _has_narrow(places: Mapping[str, Place]) -> bool:
    """Whether a dtype has fewer bits than its bytes."""
    return not NARROW.isdisjoint([dtype for dtype, _, _ in places.values()])


class StoredArrays(ManyStored):
    """The tensors of a file of which each is one array, and stored as itself."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> Stored:
        return StoredArray(self._entries[name])

    def __contains__(self, name: object) -> bool:
        return name in self._entries.places

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries.places)

    def __len__(self) -> int:
        return len(self._entries.places)

    def read_quickly(self, name: str) -> Array | None:
        """A view of the file, if it is in memory."""
        array = self._entries.read(name)
        return clean_bits(array) if array is not None and array.dtype in NARROW else array

    def read_all(self) -> dict[str, Array] | None:
        """Views of the file, if it is in memory."""
        arrays = self._entries.read_all()
        return None if arrays is None else cleaned(arrays, self._entries.places)

    def views(self) -> dict[str, Array] | None:
        """Views of the file, if it is in memory and its bits can be trusted."""
        return None if _has_narrow(self._entries.places) else self._entries.views()

    def infos(self, aliases: Mapping[str, str]) -> dict[str, TensorInfo]:
        """The infos of all tensors."""
        places = self._entries.places
        found = {dtype for dtype, _, _ in places.values()}
        names = {dtype: (dtypes.from_numpy(dtype).name, dtype.itemsize) for dtype in found}
        facts = (
            (names[dtype][0], shape, math.prod(shape) * names[dtype][1])
            for dtype, shape, _ in places.values()
        )
        return infos_of(places, facts, aliases)
