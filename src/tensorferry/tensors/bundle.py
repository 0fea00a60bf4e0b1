"""Bundles: files of named tensors, opened without reading them.

    with ferry.open("model.safetensors") as bundle:
        bundle.info["encoder/kernel"]        # TensorInfo(dtype="float32", shape=(512, 512), ...)
        bundle["encoder/kernel"]             # the tensor
        bundle.slice("encoder/kernel", np.s_[:10])

How a file's contents become tensors is `tensorferry.tensors.content`; files, their names and
compression are `tensorferry.files.open`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tensorferry import dtypes, frameworks
from tensorferry.codecs import quantization
from tensorferry.dtypes import DType
from tensorferry.errors import FerryError
from tensorferry.storage import Source
from tensorferry.tensors import layout
from tensorferry.tensors.note import Note
from tensorferry.tensors.stored import Stored
from tensorferry.tensors.values import Array, Kind, RaggedTensor, SparseTensor, Tensor, TensorInfo

Framework = Literal["numpy", "tensorflow", "torch", "jax"]


class Bundle(Mapping[str, Any]):
    """Named tensors of a file, read when they are asked for. See `tensorferry.open`.

    Attributes:
        path: The file.
        format: The name of its format.
        files: Its files, where there may be several.
        metadata: What the user kept with it.
        info: What is known of each tensor without reading it.
        details: What else its format knows of it: the object graph of a checkpoint, the config of a
            Keras model.
    """

    def __init__(
        self,
        stored: Mapping[str, Stored],
        *,
        path: str,
        format: str,
        note: Note,
        metadata: Mapping[str, Any],
        check: Callable[[], None] | None = None,
        to: Framework = "numpy",
        placed: bool = False,
        source: Source | None = None,
        details: Any = None,
        files: Sequence[str] | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self.format = format
        self.metadata = metadata
        self.details = details
        self.files = [path] if files is None else list(files)
        self.info: Mapping[str, TensorInfo] = _Infos(stored, note, aliases or {})
        self._stored = stored
        self._note = note
        self._to = to
        self._placed = placed
        self._source = source
        self._check = check

    def __getitem__(self, name: str) -> Any:
        return self._give(name, self._tensor(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __repr__(self) -> str:
        return f"Bundle({self.path!r}, {self.format}, {len(self)} tensors)"

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file; tensors that were given out stay valid."""
        for opened in (self._source, self.details):
            if opened is not None:
                opened.close()
        self._stored = {}

    def slice(self, name: str, index: Any) -> Any:
        """What `bundle[name][index]` gives; only that is read, where the file allows it.

        Args:
            name: Of a dense tensor.
            index: Integers, slices and an ellipsis: `np.s_[0:2, :]`.
        """
        with _located(self.path, name):
            return self._give(name, self._stored[name].read_part(index))

    @property
    def layout(self) -> Any:
        """How the tensors form the value: see `tensorferry.tensors.layout`."""
        return self._note.layout

    @property
    def origins(self) -> Mapping[str, Any]:
        """What was kept of tensors beside their values."""
        return self._note.origins

    def value(self) -> Any:
        """All of it: the structure that was saved, or a dict of the tensors."""
        tensors = {name: self[name] for name in self}
        with _located(self.path, None):
            return layout.rebuild(self._note.layout, tensors)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Names and tensors, as NumPy's, one by one."""
        return ((name, self._tensor(name)) for name in self)

    def _tensor(self, name: str) -> Tensor:
        with _located(self.path, name):
            if self._check is not None:
                self._check()
                self._check = None
            return self._stored[name].read()

    def _give(self, name: str, tensor: Tensor) -> Any:
        if self._to == "numpy":
            return tensor
        origin = self._note.origins.get(name) if self._placed else None
        return frameworks.give(tensor, self._to, origin=origin)


class _Infos(Mapping[str, TensorInfo]):
    """Looked up when asked for: the shape of a sparse tensor has to be read."""

    def __init__(
        self, stored: Mapping[str, Stored], note: Note, aliases: Mapping[str, str]
    ) -> None:
        self._stored = stored
        self._origins = note.origins
        self._aliases = aliases

    def __getitem__(self, name: str) -> TensorInfo:
        stored = self._stored[name]
        origin = dict(self._origins[name]) if name in self._origins else {}
        if (alias := self._aliases.get(name, name)) != name:
            origin["aliases"] = (alias,)
        return TensorInfo(
            name,
            stored.dtype.name,
            stored.shape,
            stored.nbytes,
            stored.kind,
            getattr(stored, "quantized", None),
            origin,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __repr__(self) -> str:
        return repr(dict(self))


class _located:  # noqa: N801  # used as a statement
    """Adds file and tensor to the errors of its block."""

    def __init__(self, path: str, tensor: str | None) -> None:
        self._place = {"path": path, "tensor": tensor}

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, FerryError):
            error.located(**self._place)


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor that had to be read together with others."""

    tensor: Tensor | list[Array]

    @property
    def kind(self) -> Kind:
        """How it is made."""
        if isinstance(self.tensor, list):
            return "list"
        if isinstance(self.tensor, SparseTensor):
            return "sparse"
        if isinstance(self.tensor, RaggedTensor):
            return "ragged"
        return "string" if self.tensor.dtype == object else "dense"

    @property
    def dtype(self) -> DType:
        """Of its values."""
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
        """Of its parts in memory."""
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
        """What indexing it gives."""
        if isinstance(self.tensor, list):
            return self.tensor[index]
        if isinstance(self.tensor, SparseTensor):
            raise TypeError("a sparse tensor has no slices: select among its entries")
        return np.asarray(self.tensor[index])


@dataclass(frozen=True, slots=True)
class Quantized:
    """A tensor of which other values are stored, by a recipe of `tensorferry.codecs`."""

    stored: Stored
    recipe: quantization.Recipe

    @property
    def kind(self) -> Kind:
        """How it is made."""
        return self.stored.kind

    @property
    def dtype(self) -> DType:
        """Of the values that the stored ones stand for."""
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
        """How many bytes of the file it takes."""
        return self.stored.nbytes

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
