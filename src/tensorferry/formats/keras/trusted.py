"""What our own reader refuses of an HDF5 file, read with h5py on the caller's word.

    ferry.open("data.h5", hdf5="h5py")

The HDF5 library follows links into other files, opens the files that virtual datasets name, and has
many known faults on damaged files. It therefore sees a file only if the caller trusts it. What our
own reader can read is still read by it.

A dataset of compounds becomes a tensor for each of its members, "pair/a". Strings are strings;
references, sequences and opaque bytes stay unreadable.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tensorferry import dtypes, limits
from tensorferry.classes import dataclass
from tensorferry.dtypes import DType
from tensorferry.errors import FormatError, LimitError, MissingExtraError, UnsupportedError
from tensorferry.formats.keras.weights import Weights
from tensorferry.storage import Source
from tensorferry.tensors.entries import Entry
from tensorferry.tensors.stored import Stored, StoredArray, Unreadable
from tensorferry.tensors.values import Array, Kind

Reads = Callable[[], Array]


def open_file(source: Source) -> Any:
    """The file, opened by h5py.

    Raises:
        MissingExtraError: h5py is not installed.
        FormatError: The HDF5 library does not read it.
    """
    try:
        import h5py
    except ModuleNotFoundError:
        raise MissingExtraError(
            'hdf5="h5py" needs h5py, which is not installed',
            hint="pip install 'tensorferry[keras]'",
        ) from None
    try:
        return h5py.File(io.BytesIO(bytes(source.everything())), "r")
    except OSError as error:
        raise FormatError(f"the HDF5 library does not read it: {error}", path=source.path) from None


def add(weights: Weights, source: Source, file: Any) -> None:
    """Adds what our reader lists as unreadable, or, if it lists nothing at all, everything.

    Args:
        weights: Of the file; changed.
        source: Holds the file.
        file: Opened by h5py; closed with the weights.
    """
    weights.closing.append(file.close)
    weights.stored = every = dict(weights.stored)
    refused = {
        weights.paths[name]: name
        for name, stored in every.items()
        if isinstance(stored, Unreadable)
    }
    starts = list(refused) if every else [""]
    seen: set[Any] = set()
    for start in starts:
        found = dict(_datasets(file, start, seen, limits.depth))
        tensors = {
            name: stored
            for path, dataset in found.items()
            for name, stored in _tensors(path, dataset, source)
        }
        known = refused.get(start)
        if known is not None and tensors:
            del every[known], weights.paths[known]
        for path, stored in tensors.items():
            name = known if known is not None and path == start else path
            every[name] = stored
            weights.paths[name] = path


def _datasets(file: Any, path: str, seen: set[Any], left: int) -> Iterator[tuple[str, Any]]:
    """The datasets at and below a path; links are followed, each group is entered once."""
    import h5py

    if not left:
        raise LimitError(f"groups nest deeper than {limits.depth}", tensor=path[:200])
    try:
        found = file[path] if path else file
    except (KeyError, OSError, RuntimeError, ValueError):
        return  # a link that leads nowhere stays as it is listed
    if isinstance(found, h5py.Dataset):
        yield path, found
    elif isinstance(found, h5py.Group):
        if found.id in seen:
            return
        seen.add(found.id)
        for name in found:
            yield from _datasets(file, f"{path}/{name}".lstrip("/"), seen, left - 1)


def _tensors(path: str, dataset: Any, source: Source) -> Iterator[tuple[str, Stored]]:
    if dataset.shape is None:
        return
    for names, dtype in _members(dataset.dtype):
        stored = _stored(dataset, names, dtype, source)
        if stored is not None:
            yield "/".join((path, *names)), stored


def _members(dtype: np.dtype[Any]) -> Iterator[tuple[tuple[str, ...], np.dtype[Any]]]:
    """The members of a compound, those of compounds inside it included; else the type itself."""
    if dtype.names is None:
        yield (), dtype
        return
    for name in dtype.names:
        for inner, kind in _members(dtype[name]):
            yield (name, *inner), kind


def _stored(
    dataset: Any, names: tuple[str, ...], dtype: np.dtype[Any], source: Source
) -> Stored | None:
    import h5py

    shape = (*dataset.shape, *dtype.shape)
    base = dtype.base
    load = partial(_read, dataset, names, source.path)
    if h5py.check_string_dtype(base) is not None:
        return TrustedTexts(shape, load)
    if base.kind not in "biufc" or h5py.check_ref_dtype(base) is not None:
        return None
    return StoredArray(Entry(base, shape, source, None, load=load, stored=None), None)


def _read(dataset: Any, names: tuple[str, ...], path: str) -> Array:
    try:
        found = dataset[()]
    except (OSError, RuntimeError, ValueError) as error:
        what = f"the HDF5 library does not read it: {error}"
        raise FormatError(what, path=path, tensor=dataset.name) from None
    for name in names:
        found = found[name]
    return np.ascontiguousarray(found).reshape(np.shape(found))


@dataclass(frozen=True, slots=True)
class TrustedTexts(Stored):
    """Strings that h5py reads.

    Attributes:
        shape: The dimensions.
        load: Reads them.
    """

    shape: tuple[int, ...]
    load: Reads
    nbytes: int = 0
    kind: Kind = "string"
    dtype: DType = dtypes.STRING

    def read(self) -> Array:
        """The strings."""
        found = self.load()
        array: Array = np.empty(found.size, object)
        array[:] = [each.encode() if isinstance(each, str) else each for each in found.flat]
        return array.reshape(self.shape)

    def read_part(self, index: Any) -> Array:
        """Some of the strings."""
        return np.asarray(self.read()[index])


def refuse(path: str) -> UnsupportedError:
    """The error for a file that is no HDF5 file itself."""
    return UnsupportedError(
        'hdf5="h5py" is for HDF5 files: this is an archive, or an index of several files',
        path=path,
        hint="open it without this option",
    )
