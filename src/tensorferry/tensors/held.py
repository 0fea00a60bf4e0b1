"""Tensors that are already in memory, or are quantized, with the interface of stored ones.

`Held` is a tensor that had to be read together with others. `Quantized` is a tensor whose stored
values represent floats. `tensorferry.tensors.stored` has the tensors in files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tensorferry import dtypes
from tensorferry.classes import dataclass, replace
from tensorferry.codecs import quantization
from tensorferry.dtypes import DType
from tensorferry.errors import FormatError
from tensorferry.tensors.entries import Extent
from tensorferry.tensors.infos import Kind, TensorInfo, infos_of
from tensorferry.tensors.many import ManyStored
from tensorferry.tensors.note import Note
from tensorferry.tensors.stored import Stored
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, Tensor


@dataclass(frozen=True, slots=True)
class Held(Stored):
    """A tensor that had to be read together with others."""

    tensor: Tensor | list[Array]

    @property
    def kind(self) -> Kind:
        """The kind of the tensor."""
        if isinstance(self.tensor, list):
            return "list"
        if isinstance(self.tensor, SparseTensor):
            return "sparse"
        if isinstance(self.tensor, RaggedTensor):
            return "ragged"
        return "string" if self.tensor.dtype == object else "dense"

    @property
    def dtype(self) -> DType:
        """The dtype of its values."""
        if isinstance(self.tensor, list):
            return dtypes.from_numpy(
                np.result_type(*self.tensor) if self.tensor else np.dtype("f4")
            )
        return dtypes.from_numpy(self.tensor.dtype)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """None for each dimension that varies."""
        if isinstance(self.tensor, list):
            return (
                len(self.tensor),
                *(None for _ in (self.tensor[0].shape if self.tensor else ())),
            )
        return self.tensor.shape

    @property
    def nbytes(self) -> int:
        """Number of bytes its parts take in memory."""
        if isinstance(self.tensor, list):
            return sum(array.nbytes for array in self.tensor)
        if isinstance(self.tensor, SparseTensor):
            return self.tensor.indices.nbytes + _nbytes(self.tensor.values)
        if isinstance(self.tensor, RaggedTensor):
            splits = sum(part.nbytes for part in self.tensor.nested_row_splits)
            return splits + _nbytes(self.tensor.flat_values)
        return _nbytes(self.tensor)

    def read(self) -> Any:
        """The tensor."""
        return self.tensor

    def read_part(self, index: Any) -> Any:
        """A slice of the tensor."""
        if isinstance(self.tensor, list):
            return self.tensor[index]
        if isinstance(self.tensor, SparseTensor):
            raise TypeError("a sparse tensor has no slices: select among its entries")
        return np.asarray(self.tensor[index])


class HeldTensors(ManyStored):
    """The tensors of a value that was read as a whole, by name."""

    def __init__(self, tensors: Mapping[str, Tensor | list[Array]]) -> None:
        self._tensors = tensors

    def __getitem__(self, name: str) -> Stored:
        return Held(self._tensors[name])

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def read_quickly(self, name: str) -> Array | None:
        """A tensor, if it is an array."""
        tensor = self._tensors[name]
        return tensor if isinstance(tensor, np.ndarray) else None

    def infos(self, aliases: Mapping[str, str]) -> dict[str, TensorInfo] | None:
        """The infos of all tensors, if each is an array of numbers."""
        arrays = [each for each in self._tensors.values() if isinstance(each, np.ndarray)]
        found = {array.dtype for array in arrays}
        if len(arrays) < len(self._tensors) or _OBJECTS in found:
            return None
        names = {dtype: dtypes.from_numpy(dtype).name for dtype in found}
        facts = ((names[array.dtype], array.shape, array.nbytes) for array in arrays)
        return infos_of(self._tensors, facts, aliases)


_OBJECTS = np.dtype(object)


@dataclass(frozen=True, slots=True)
class Quantized(Stored):
    """A tensor of which other values are stored, by a recipe of `tensorferry.codecs`."""

    stored: Stored
    recipe: quantization.Recipe

    @property
    def kind(self) -> Kind:
        """The kind of the tensor."""
        return self.stored.kind

    @property
    def dtype(self) -> DType:
        """The dtype of the floats that the stored values represent."""
        return dtypes.as_dtype(self.recipe.dtype)

    @property
    def quantized(self) -> str:
        """The dtype that is stored."""
        return self.stored.dtype.name

    @property
    def shape(self) -> tuple[int | None, ...]:
        """None for each ragged dimension."""
        return self.stored.shape

    @property
    def nbytes(self) -> int:
        """Number of bytes it takes in the file."""
        return self.stored.nbytes

    def extents(self) -> Iterable[Extent]:
        """The position of its bytes."""
        return self.stored.extents()

    def read(self) -> Tensor:
        """The tensor."""
        tensor = self.stored.read()
        return with_values(tensor, quantization.dequantize(values_of(tensor), self.recipe))

    def read_part(self, index: Any) -> Array:
        """Some of the values."""
        part = self.stored.read_part(index)
        if self.kind != "dense" or self.recipe.axis is None:
            return quantization.dequantize(part, self.recipe)
        # Each element by the scale of its channel.
        axes = [-1 if axis == self.recipe.axis else 1 for axis in range(len(self.shape))]
        numbers = np.arange(self.shape[self.recipe.axis]).reshape(axes)  # type: ignore[arg-type]
        channels = np.asarray(np.broadcast_to(numbers, self.shape)[index])  # type: ignore[arg-type]
        assert self.recipe.scale is not None
        assert self.recipe.zero_point is not None
        recipe = replace(
            self.recipe,
            axis=0,
            scale=self.recipe.scale[channels.ravel()],
            zero_point=self.recipe.zero_point[channels.ravel()],
        )
        return quantization.dequantize(part.reshape(-1), recipe).reshape(part.shape)


def values_of(tensor: Tensor) -> Array:
    """The numbers or strings of a tensor of any kind."""
    if isinstance(tensor, SparseTensor):
        return tensor.values
    return tensor.flat_values if isinstance(tensor, RaggedTensor) else tensor


def with_values(tensor: Tensor, values: Array) -> Tensor:
    """A tensor of the same kind and places, with other values."""
    if isinstance(tensor, SparseTensor):
        return SparseTensor(tensor.indices, values, tensor.dense_shape)
    if isinstance(tensor, RaggedTensor):
        return RaggedTensor(values, tensor.nested_row_splits)
    return values


def _nbytes(array: Array) -> int:
    return sum(map(len, array.ravel().tolist())) if array.dtype == object else array.nbytes


def dequantized(stored: Mapping[str, Stored], note: Note) -> Mapping[str, Stored]:
    """The tensors of a file, with quantized values as floats.

    Raises:
        FormatError: The note quantizes a tensor that the file lacks.
    """
    if not note.quantized:
        return stored
    found = dict(stored)
    for name, described in note.quantized.items():
        if name not in found:
            raise FormatError("the note quantizes a tensor that is not there", tensor=name[:60])
        found[name] = Quantized(found[name], quantization.Recipe.from_json(described))
    return found
