"""Content: a value on its way into a file.

A value is flattened to named tensors (`tensorferry.tensors.layout`), which are quantized if asked.
A writer takes from a content what its format can hold:

    content.tensors()        names and tensors of every kind, one by one
    content.parts(storage)   names and arrays of numbers, for formats that have no more
    content.value()          the value as a whole, for formats that carry structures
    content.texts()          the user's metadata and tensorferry's note, as texts

Facts that the format has no field for end up in the note (`tensorferry.tensors.note`), which is
complete when all tensors were taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tensorferry import dtypes
from tensorferry.classes import replace
from tensorferry.codecs import quantization
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.progress import Progress
from tensorferry.tensors import layout
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.held import values_of, with_values
from tensorferry.tensors.layout import WHOLE
from tensorferry.tensors.note import Note
from tensorferry.tensors.stored import Storage, stored_as_is, take_apart
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, Tensor

Leaf = Tensor | list[Array]
"""A tensor, or a column of arrays of different shapes."""


class Content:
    """A value on its way into a file.

    Args:
        tensors: Names and tensors. Those of an iterator are taken and written one by one.
        note: The layout of the value, and what is to be kept of tensors beside their values.
        metadata: The user's metadata.
        quantize: What `tensorferry.codecs.quantization.parse` takes.

    Attributes:
        metadata: The user's metadata.
        is_stream: Whether the tensors come one by one and must not all be held in memory.
        reports: The quantization report of each tensor that was taken.
    """

    def __init__(
        self,
        tensors: Iterable[tuple[str, Leaf]],
        *,
        note: Note | None = None,
        metadata: Mapping[str, Any] | None = None,
        quantize: Any = None,
    ) -> None:
        self.metadata = dict(metadata or {})
        self.is_stream = isinstance(tensors, Iterator)
        self.reports: dict[str, quantization.Report] = {}
        self._note = note or Note()
        self._tensors = tensors
        self._quantize = None if quantize is None else quantization.parse(quantize)
        # A value that was not flattened yet: formats of whole values take it as it is.
        self._whole: list[Any] = []
        self._origins: list[dict[str, Any]] = []

    @classmethod
    def of_value(cls, value: Any, *, origins: list[dict[str, Any]] | None = None) -> Content:
        """The content of a value of ours.

        Args:
            value: A tensor or a structure.
            origins: Other facts to store with each tensor, in order.
        """
        content = cls(())
        content._whole, content._origins = [value], origins or []
        return content

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> Content:
        """The content of a file: its tensors one by one, their layout, and its metadata."""
        note = Note(layout=bundle.layout, origins=dict(bundle.origins))
        return cls(iter(bundle.tensors()), note=note, metadata=bundle.metadata)

    @property
    def note(self) -> Note:
        """Facts that the format has no field for; complete when all tensors were taken."""
        self._flatten()
        return self._note

    def _flatten(self) -> None:
        if not self._whole:
            return
        value = self._whole.pop()
        if isinstance(value, np.ndarray):
            self._tensors, self._note.layout = [(layout.ROOT, value)], WHOLE
            if any(self._origins):
                self._note.origins = {layout.ROOT: self._origins[0]}
            return
        made: list[Array] = []
        value = _with_arrays(value, made)
        tensors, structure = layout.flatten(value, lists=made)
        self._tensors, self._note.layout = list(tensors.items()), structure
        numbers = {id(array) for array in made}
        given = [name for name, tensor in tensors.items() if id(tensor) not in numbers]
        named = zip(given, self._origins, strict=False)
        self._note.origins = {name: origin for name, origin in named if origin}

    def adding(self, metadata: Mapping[str, Any] | None, quantize: Any) -> Content:
        """The same content with more metadata, and to be quantized."""
        self.metadata.update(metadata or {})
        self._quantize = None if quantize is None else quantization.parse(quantize)
        return self

    def telling(self, progress: Progress | None) -> Content:
        """The same content, which reports how many bytes of tensors were taken, and the total."""
        if progress is not None:
            self._flatten()
            known = None if self.is_stream else sum(map(_size_of, dict(self._tensors).values()))
            self._tensors = _Told(self._tensors, progress, known)
            self.is_stream = True  # so that they are taken one by one
        return self

    def tensors(self) -> Iterator[tuple[str, Any]]:
        """Names and tensors of every kind, quantized if requested."""
        self._flatten()
        if self._quantize is None:
            yield from self._tensors
            return
        for name, tensor in self._tensors:
            if isinstance(tensor, list):  # arrays of different shapes stay as they are
                yield name, tensor
            else:
                yield name, self._quantized(name, tensor)

    def parts(self, storage: Storage) -> Iterable[tuple[str, Array]]:
        """Names and arrays of numbers that the tensors are made of.

        They are a list, unless the tensors come one by one.

        Args:
            storage: The dtype in which the format stores each dtype.
        """
        parts = self._parts(storage)
        return parts if self.is_stream else list(parts)

    def _parts(self, storage: Storage) -> Iterator[tuple[str, Array]]:
        note, whole = self.note, stored_as_is(storage)
        for name, tensor in self.tensors():
            if tensor.__class__ is np.ndarray and tensor.dtype in whole:
                yield name, tensor
            else:
                yield from take_apart(name, tensor, storage, note)

    def tensor(self) -> Tensor | None:
        """The one tensor, number or list of numbers that the value is; None if it is more.

        Its layout need not be noted then.
        """
        if self.note.layout != WHOLE:
            return None
        tensor: Tensor
        ((_, tensor),) = self.tensors()
        self.note.layout = None
        return tensor

    def value(self) -> Any:
        """The value as a whole; its layout need not be noted then."""
        if self._whole and self._quantize is None and not any(self._origins):
            return self._whole.pop()
        structure, self.note.layout = self.note.layout, None
        return layout.rebuild(structure, dict(self.tensors()))

    @property
    def is_tensor(self) -> bool:
        """Whether the value is one tensor without a name."""
        if self._whole:
            return isinstance(self._whole[0], np.ndarray | SparseTensor | RaggedTensor)
        return self._note.layout == WHOLE

    def texts(self) -> dict[str, str]:
        """The metadata with the note among it: complete when all tensors were taken."""
        return self.note.to_metadata(self.metadata)

    @property
    def needs_texts(self) -> bool:
        """Whether more than the origin of tensors would be lost without the texts."""
        return bool(self.metadata or self.note.dtypes or self.note.quantized)

    def refuse_texts(self, format: str) -> None:
        """Refuses what a format without a place for metadata, nesting and notes cannot hold.

        Raises:
            UnsupportedError: Something would be lost.
        """
        note = self.note
        lost = {
            "metadata": self.metadata,
            "a tensor without a name": note.layout == WHOLE,
            "the nesting of a structure": note.layout and note.layout != WHOLE,
            "quantized values": note.quantized,
            "tensors that are no arrays of numbers": note.dtypes or note.tensors,
        }
        found = [what for what, there in lost.items() if there]
        if found:
            named = (
                'save a dict of tensors, as in {"name": value}; ' if note.layout == WHOLE else ""
            )
            raise UnsupportedError(
                f"{format} has no place for {' and '.join(found)}",
                hint=f"{named}npz, safetensors and checkpoints have one",
            )

    def _quantized(self, name: str, tensor: Tensor) -> Tensor:
        values, spec = values_of(tensor), self._quantize
        assert spec is not None
        if dtypes.from_numpy(values.dtype).name not in quantization.ORIGINALS:
            return tensor
        if spec.axis is not None and not -values.ndim <= spec.axis < values.ndim:
            spec = replace(spec, axis=None)  # a scalar has no channels
        try:
            quantized = quantization.quantize(values, spec)
        except FerryError as error:
            raise error.located(tensor=name) from None
        self.note.quantized[name] = quantized.recipe.to_json()
        self.reports[name] = quantized.report
        return with_values(tensor, quantized.values)


def _with_arrays(value: Any, made: list[Array]) -> Any:
    """A number, a list of numbers, or a dict of those and of tensors, as NumPy sees it: as arrays.

    The arrays are appended to `made`. Every other structure stays as it is.
    """
    if not isinstance(value, dict):
        return _as_array(value, made)
    entries = {name: _as_array(entry, made) for name, entry in value.items()}
    if all(
        isinstance(entry, np.ndarray | SparseTensor | RaggedTensor) for entry in entries.values()
    ):
        return entries
    made.clear()
    return value


def _as_array(value: Any, made: list[Array]) -> Any:
    array = layout.array_of_numbers(value)
    if array is None:
        return value
    made.append(array)
    return array


class _Told:
    """Names and tensors; a tensor is done when the next one is requested."""

    def __init__(
        self, tensors: Iterable[tuple[str, Leaf]], progress: Progress, total: int | None
    ) -> None:
        self._tensors, self._progress, self._total = tensors, progress, total

    def __iter__(self) -> Iterator[tuple[str, Leaf]]:
        done = 0
        for name, tensor in self._tensors:
            yield name, tensor
            done += _size_of(tensor)
            self._progress(done, self._total)


def _size_of(leaf: Leaf) -> int:
    """About how many bytes a tensor takes in memory."""
    if isinstance(leaf, list):
        return sum(array.nbytes for array in leaf)
    if isinstance(leaf, SparseTensor):
        return leaf.indices.nbytes + leaf.values.nbytes
    return leaf.flat_values.nbytes if isinstance(leaf, RaggedTensor) else leaf.nbytes
