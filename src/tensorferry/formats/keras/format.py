"""Weights of Keras as a format: read from every kind of file, written as Keras 3 does.

    ferry.open("model.keras")                                        or .weights.h5, .h5, .json
    ferry.save(tensors, "model.weights.h5", paths={"dense/kernel": "layers/dense/vars/0"})
    ferry.save(tensors, "model.weights.json", shard_size="5GB")      several files

The `.keras` archive of a model is not made: one that is there gets other weights. This module says
which options there are and makes bundles; opening is `tensorferry.formats.keras.reader`, writing
`tensorferry.formats.keras.writer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.formats.contract import Format, TensorOptions, WriteOptions, Written
from tensorferry.storage.place import Place, Target, size_of

if TYPE_CHECKING:
    from tensorferry.tensors.bundle import Bundle
    from tensorferry.tensors.content import Content

NAME = "keras"
ARCHIVE, INDEX, WEIGHTS = ".keras", ".weights.json", ".weights.h5"
HDF5 = (".h5", ".hdf5")
SHARD_SIZE = "5GB"


@dataclass(frozen=True, kw_only=True, slots=True)
class KerasReading(TensorOptions):
    """How weights are read.

    Attributes:
        hdf5: "own", or "h5py" to read what our own reader refuses with the HDF5 library: only for
            files that are trusted.
    """

    hdf5: Literal["own", "h5py"] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class KerasWriting(WriteOptions):
    """How weights are written.

    Attributes:
        shard_size: The most bytes in a file, as in "5GB"; makes several files with an index.
        paths: Where each tensor is written, by name; by default its name is its path:
            "layers/dense/vars/0".
        layers: The name of the layer that each group belongs to: {"layers/dense": "first"}.
    """

    shard_size: int | str | None = None
    paths: Mapping[str, str] | None = None
    layers: Mapping[str, str] | None = None


class Reader:
    """Opens weights."""

    options = KerasReading

    def find(self, place: Place) -> Place | None:
        """None: a file of weights, or the index of several, is named itself."""
        return None

    def open(self, place: Place, how: KerasReading) -> Bundle:
        """A bundle of the variables; their paths in the HDF5 file are other names of theirs."""
        from tensorferry.formats.keras.reader import open_weights
        from tensorferry.formats.table import TABLE
        from tensorferry.tensors.bundle import Bundle

        if how.hdf5 not in ("own", "h5py", None):
            raise ValueError(f'hdf5 is {how.hdf5!r}, expected "own" or "h5py"')
        weights = open_weights(place, verify=how.verify, trusted=how.hdf5 == "h5py")
        lost = weights.lost
        opened = Bundle(
            weights.stored,
            facts=TABLE[NAME],
            place=place,
            metadata=weights.metadata,
            files=weights.files,
            aliases={name: path for name, path in weights.paths.items() if path != name},
            details=weights,
            closing=[weights.close],
            version=weights.metadata.get("keras_version"),
            checksums=weights.checksums,
            left_out=lost,
        )
        if lost:
            opened.notes.append(
                f"values of the optimizer that cannot be read are left out: {len(lost)}"
            )
        if weights.plain:
            opened.notes.append("plain HDF5, not written by Keras: each dataset is a tensor")
        return opened


class Writer:
    """Writes weights."""

    options = KerasWriting

    def write(self, content: Content, target: Target, how: KerasWriting) -> Written:
        """Writes tensors.

        Raises:
            UnsupportedError: A tensor is of a kind that Keras does not keep as a weight, its name
                is no path, or there is something to keep that these files have no place for.
        """
        from tensorferry.formats.keras import writer

        if target.path.endswith(HDF5) and not target.path.endswith(WEIGHTS):
            raise UnsupportedError(
                "other HDF5 files than .weights.h5 are read, not written",
                path=target.path,
                hint=f"weights of Keras: name it {target.path.rpartition('.')[0]}{WEIGHTS}; "
                "npz and safetensors take every tensor",
            )
        tensors = dict(content.tensors())
        content.refuse_texts(NAME)
        if how.shard_size is not None or (target.is_path and target.path.endswith(INDEX)):
            return self._write_shards(tensors, target, how)
        if target.path.endswith(ARCHIVE):
            return self._replace(tensors, target)
        with target.sink() as sink:
            writer.write(tensors, sink, paths=how.paths, layers=how.layers)
        return Written(size_of(sink), (target.path,))

    def _write_shards(self, tensors: dict[str, Any], target: Target, how: KerasWriting) -> Written:
        from tensorferry.formats.keras import writer
        from tensorferry.storage.shards import parse_size

        if not target.is_path:
            raise UnsupportedError("several files must be saved to a path", path=target.path)
        size = parse_size(SHARD_SIZE if how.shard_size is None else how.shard_size)
        return writer.save_shards(
            tensors, target, shard_size=size, paths=how.paths, layers=how.layers
        )

    def _replace(self, tensors: dict[str, Any], target: Target) -> Written:
        from tensorferry.formats.keras import writer

        place = target.place()
        if not target.is_path or not place.exists():
            raise UnsupportedError(
                "a .keras archive has the config of a model, too: its weights can only be replaced",
                path=target.path,
                hint="name it .weights.h5",
            )
        with target.sink() as sink:
            writer.replace_weights(place, tensors, sink)
        return Written(size_of(sink), (target.path,))


FORMAT = Format(reads=Reader(), writes=Writer())
