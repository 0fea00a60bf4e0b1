"""Contents: values into a format's bytes and back, whatever the format carries.

A format carries whole values (TensorProto, JSON), named tensors of every kind (Arrow), or named
arrays of numbers (npz, safetensors). A value is flattened to named tensors
(`tensorferry.tensors.layout`), quantized if asked, and taken apart to arrays where the format has
no more (`tensorferry.tensors.stored`). What is missing then is noted (`tensorferry.tensors.note`)
in the format's metadata. Reading goes the same way back and gives a `Bundle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tensorferry import dtypes, formats, frameworks
from tensorferry.codecs import quantization
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.storage import Sink, Source
from tensorferry.tensors import layout
from tensorferry.tensors.bundle import Bundle, Framework, Held, Quantized, values_of, with_values
from tensorferry.tensors.note import Note
from tensorferry.tensors.stored import Stored, put_together, take_apart
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, Tensor, as_tensor


class Packing:
    """A value on its way into a format.

    Args:
        value: Any value, a bundle, or an iterator of names and tensors.
        format: The name of the format.
        metadata: Of the user.
        quantize: What `tensorferry.codecs.quantization.parse` takes.
        columns: Whether the value is a dict of columns, which may be lists of arrays of different
            shapes.

    Attributes:
        reports: What quantizing did to each tensor, once they are written.
        reading_options: What has to be passed to read it again, once it is written.
    """

    def __init__(
        self,
        value: Any,
        format: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        quantize: Any = None,
        columns: bool = False,
    ) -> None:
        self.reports: dict[str, quantization.Report] = {}
        self.reading_options: dict[str, Any] = {}
        self._format = format
        self._row = formats.TABLE[format]
        self._note = Note()
        self._quantize = None if quantize is None else quantization.parse(quantize)
        self._streams = isinstance(value, Iterator)
        self._tensors: Iterable[tuple[str, Any]]
        if isinstance(value, Bundle):
            metadata = {**value.metadata, **(metadata or {})}
            self._note.layout, self._note.origins = value.layout, dict(value.origins)
            self._streams = True
            self._tensors = value.tensors()
        elif self._streams:
            self._tensors = self._accepted(value)
        elif columns:
            self._tensors = list(_columns(value).items())
        else:
            origins: list[dict[str, Any]] = []
            tensors, self._note.layout = layout.flatten(frameworks.accept(value, origins=origins))
            self._tensors = list(tensors.items())
            named = zip(tensors, origins, strict=True)
            self._note.origins = {name: origin for name, origin in named if origin}
        self._metadata = dict(metadata or {})
        module: Any = formats.get(format)
        if hasattr(module, "LAYOUT"):
            if self._note.layout != module.LAYOUT:
                raise module.refused()
            self._note.layout = None

    def _accepted(self, pairs: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Tensor]]:
        """The tensors of a user's generator."""
        for pair in pairs:
            if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
                raise TypeError("a generator of tensors gives pairs of a name and a tensor")
            name, value = pair
            origins: list[dict[str, Any]] = []
            tensor = frameworks.accept(value, origins=origins)
            if not isinstance(tensor, np.ndarray | SparseTensor | RaggedTensor):
                raise UnsupportedError(
                    f"{type(value).__name__} in a generator, expected a tensor", tensor=name
                )
            if origins[0]:
                self._note.origins[name] = origins[0]
            yield name, tensor

    def save(self, path: str, **options: Any) -> int:
        """Writes the value by a format that has several files; gives how many bytes they take.

        Args:
            path: Names them.
            **options: Of the format.
        """
        module: Any = formats.get(self._format)
        size = module.save_stored(
            self._quantized(), path, note=self._note, metadata=self._metadata, **options
        )
        return int(size)

    def write(self, sink: Sink, **options: Any) -> None:
        """Writes the value. Its metadata goes along, where the format has a place for it.

        Args:
            sink: Takes the bytes.
            **options: Of the format.
        """
        module: Any = formats.get(self._format)
        if self._row.carries == "arrays":
            parts = self.parts() if self._streams else list(self.parts())
            module.write_parts(parts, sink, self.metadata, **options)
        elif self._row.carries == "tensors":
            tensors = dict(self._quantized())
            module.write(tensors, sink, metadata=self.metadata(), **options)
        else:
            value = layout.rebuild(self._note.layout, dict(self._quantized()))
            self._note.layout = None
            if hasattr(module, "reading_options"):
                self.reading_options = module.reading_options(value, **options)
            module.write(value, sink, **options)

    def parts(self) -> Iterator[tuple[str, Array]]:
        """The arrays of a format that carries those, by name."""
        module: Any = formats.get(self._format)
        for name, tensor in self._quantized():
            yield from take_apart(name, tensor, module.storage, self._note)

    def metadata(self) -> dict[str, str]:
        """The metadata with the note: complete when all is written."""
        return self._note.to_metadata(self._metadata)

    def needs_metadata(self) -> bool:
        """Whether something would be lost without it: more than where tensors came from."""
        return bool(self._metadata or self._note.dtypes or self._note.quantized)

    def _quantized(self) -> Iterator[tuple[str, Any]]:
        if self._quantize is None:
            yield from self._tensors
            return
        for name, tensor in self._tensors:
            if isinstance(tensor, list):  # arrays of different shapes stay as they are
                yield name, tensor
                continue
            values = values_of(tensor)
            if dtypes.from_numpy(values.dtype).name not in quantization.ORIGINALS:
                yield name, tensor
                continue
            spec = self._quantize
            if spec.axis is not None and not -values.ndim <= spec.axis < values.ndim:
                spec = replace(spec, axis=None)  # a scalar has no channels
            try:
                quantized = quantization.quantize(values, spec)
            except FerryError as error:
                raise error.located(tensor=name) from None
            self._note.quantized[name] = quantized.recipe.to_json()
            self.reports[name] = quantized.report
            yield name, with_values(tensor, quantized.values)


def _columns(value: Any) -> dict[str, Any]:
    """A user's dict of columns; a list is one array if it can be, and else a list of arrays."""
    accepted = frameworks.accept(value)
    if not isinstance(accepted, dict):
        raise UnsupportedError("rows of a table are made of a dict of columns")
    columns: dict[str, Any] = {}
    for name, column in accepted.items():
        if isinstance(column, list) and any(isinstance(part, np.ndarray) for part in column):
            columns[name] = [as_tensor(part) for part in column]
        elif isinstance(column, list):
            columns[name] = as_tensor(column)
        else:
            columns[name] = column
    return columns


def read(
    source: Source,
    format: str,
    *,
    metadata: dict[str, str] | None = None,
    check: Callable[[], None] | None = None,
    to: Framework = "numpy",
    placed: bool = False,
    dequantize: bool = True,
    parts: bool = False,
    verify: bool = True,
    options: Mapping[str, Any] | None = None,
) -> Bundle:
    """The tensors of a file.

    Args:
        source: The file, which the bundle keeps.
        format: Its format.
        metadata: What was kept beside it, for a format without a place for metadata.
        check: Raises unless the file is what was kept beside it.
        to: Whose tensors the bundle gives.
        placed: Put TensorFlow's tensors where they were when they were saved.
        dequantize: Give the floats that quantized values stand for.
        parts: Give the arrays as they are stored, whatever the note says.
        verify: Check checksums, where the format has them.
        options: Of the format.
    """
    module: Any = formats.get(format)
    carries = formats.TABLE[format].carries
    stored: dict[str, Stored]
    files = [source.path]
    given = dict(options or {})
    if carries == "arrays":
        contents = module.read_parts(source, verify=verify, **given)
        note, user = Note.from_metadata(contents.metadata | (metadata or {}))
        note = Note() if parts else note
        if note.layout is None and not parts:
            note.layout = contents.layout
        stored = put_together(contents.entries, note)
        files += [entry.source.path for entry in contents.entries.values()]
    elif carries == "tensors":
        tensors, found = module.read(source.everything(), verify=verify, **given)
        note, user = Note.from_metadata(found)
        stored = {name: Held(tensor) for name, tensor in tensors.items()}
    else:
        value = module.read(source.everything(), **given)
        note, user = Note.from_metadata(metadata or {})
        tensors, note.layout = layout.flatten(value)
        stored = {name: Held(tensor) for name, tensor in tensors.items()}
    return Bundle(
        dequantized(stored, note) if dequantize else stored,
        path=source.path,
        format=format,
        note=note,
        metadata=user,
        check=check,
        to=to,
        placed=placed,
        source=source,
        files=list(dict.fromkeys(files)),
    )


def dequantized(stored: Mapping[str, Stored], note: Note) -> Mapping[str, Stored]:
    """The tensors of a file, with floats in place of the values that stand for them."""
    if not note.quantized:
        return stored
    found = dict(stored)
    for name, described in note.quantized.items():
        if name not in found:
            raise FormatError("the note quantizes a tensor that is not there", tensor=name[:60])
        found[name] = Quantized(found[name], quantization.Recipe.from_json(described))
    return found
