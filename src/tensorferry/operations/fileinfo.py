"""What is in a file, as far as that is known without reading its values: for `inspect`.

`tensorferry.operations.verify` checks whether the file is sound, and `tensorferry.models.outline`
describes models. SavedModels, and plain npy and safetensors files, are described without importing
NumPy or the code that opens files, because the imports would take longer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from tensorferry import display
from tensorferry.cards import Card, Grid, Shown, Tone, pairs
from tensorferry.classes import dataclass, field
from tensorferry.errors import FerryError, FormatError, Problem as Problem
from tensorferry.files import keywords
from tensorferry.files.find import Found
from tensorferry.models import outline as model_outline
from tensorferry.models.outline import ModelInfo
from tensorferry.operations import glance
from tensorferry.operations.glance import total_size
from tensorferry.progress import Progress, following
from tensorferry.storage.place import Place
from tensorferry.tensors.infos import TensorInfo, elements_in

if TYPE_CHECKING:
    from tensorferry.formats.keras.outline import KerasModel
    from tensorferry.formats.savedmodel.model import Listed, Loaded, SavedModel
    from tensorferry.operations.subject import Subject

Holds = Literal["tensors", "records", "rows"]


@dataclass(frozen=True, repr=False)
class FileInfo(Shown):
    """The content of a file, or of a set of files.

    Attributes:
        path: The path as it was given.
        format: The name of its format.
        holds: "tensors", "records" or "rows".
        count: Number of tensors, records or rows; None if counting would require reading
            everything.
        files: The files.
        nbytes: Number of bytes of all files; None for a stream.
        version: The version of the format, if the file has one.
        compression: The compression of the whole file, or the format's own.
        tensors: The tensors or columns; `unreadable` says why one cannot be read.
        metadata: The user's metadata.
        problems: Problems that show without reading the values.
        notes: Remarks on how the file is read, and what a model would do when loaded.
        model: For SavedModels, frozen graphs and Keras files: the model.
    """

    path: str
    format: str
    holds: Holds
    count: int | None
    files: tuple[str, ...]
    nbytes: int | None
    version: str | None = None
    compression: str | None = None
    tensors: tuple[TensorInfo, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    model: ModelInfo | None = None

    def _card(self) -> Card:
        noun = {"tensors": "tensor", "records": "record", "rows": "row"}[self.holds]
        parts = [self.format]
        if self.count is not None:
            parts.append(display.plural(self.count, noun))
        if self.nbytes is not None:
            parts.append(display.size(self.nbytes))
        files = display.plural(len(self.files), "file") if len(self.files) > 1 else None
        fields = [
            ("version", self.version),
            ("compression", self.compression),
            ("files", files),
            ("values", display.number(self.elements) if self.holds == "tensors" else None),
            ("dtypes", ", ".join(f"{name} ({count})" for name, count in self.dtypes.items())),
            ("metadata", pairs(self.metadata)),
            *(() if self.model is None else model_outline.facts_of(self.model)),
        ]
        lines: list[tuple[Tone, str]] = [("bad", str(problem)) for problem in self.problems]
        lines += [("note", note) for note in self.notes]
        tone: Tone = "bad" if self.problems else "plain"
        return Card(
            "FileInfo", self.path, ", ".join(parts), tone, fields, grids=[self._grid()], lines=lines
        )

    def _grid(self) -> Grid:
        """The tensors or columns, repeated layers on one line."""
        from tensorferry.operations.list import collapse

        columns = self.holds != "tensors"
        cells = [
            (
                entry.name,
                f"{entry.dtype} as {entry.quantized}" if entry.quantized else entry.dtype,
                _sizes(entry.shape, columns),
                "" if entry.kind in ("dense", "string") else entry.kind,
                f"{entry.count} x" if entry.count > 1 else "",
                display.size(entry.nbytes),
                entry.unreadable,
            )
            for entry in sorted(collapse(self.tensors), key=lambda entry: entry.optimizer)
        ]
        noun = "column" if columns else "tensor"
        headers = (noun, "dtype", "shape", "kind", "count", "size", "cannot be read")
        return Grid(headers, cells, right=(4, 5), noun="line")

    @property
    def dtypes(self) -> dict[str, int]:
        """Number of tensors of each dtype, the most frequent first."""
        counts: dict[str, int] = {}
        for info in self.tensors:
            counts[info.dtype] = counts.get(info.dtype, 0) + 1
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    @property
    def elements(self) -> int | None:
        """Number of values of all tensors; None where that varies."""
        found = [elements_in(info) for info in self.tensors]
        known = [count for count in found if count is not None]
        return sum(known) if len(known) == len(found) else None


def _sizes(shape: tuple[int | None, ...], columns: bool) -> str:
    """A shape; of a column that of one row, and nothing for a single value."""
    if not columns:
        return display.shape(shape)
    return display.shape(shape[1:]) if shape[1:] else ""


def look(
    found: Found,
    options: keywords.Opening,
    *,
    counted: bool = True,
    progress: Progress | bool | None = None,
) -> FileInfo:
    """Describes something that was found.

    Args:
        found: The file to inspect.
        options: Options of the format.
        counted: Count rows though that takes time.
        progress: As that of `tensorferry.inspect`.
    """
    glanced = glance_at(found, options)
    if glanced is not None:
        return glanced
    from tensorferry.operations.subject import open_one

    with open_one(found, options=options, verify=False, lenient=True) as subject:
        if subject.format != glance.MODEL:
            with following(progress, subject.name, "rows") as tell:
                return describe(subject, tell, counted=counted)
    return _inspect_model(found, options)  # a frozen graph, known by its bytes


def glance_at(found: Found, options: keywords.Opening | None = None) -> FileInfo | None:
    """The same for a SavedModel, a small checkpoint or a plain header; None for all else."""
    options = {} if options is None else options
    if glance.is_model(found):
        return _inspect_model(found, options)
    outline = None if keywords.given(options) else glance.outline_of(found)
    if outline is not None:
        return FileInfo(
            path=found.name,
            format=glance.CHECKPOINT,
            holds="tensors",
            count=len(outline.tensors),
            files=tuple(outline.files),
            nbytes=total_size(map(found.place.at, outline.files)),
            version="2",
            tensors=tuple(outline.describe()),
            metadata=dict(outline.metadata),
        )
    header = None if keywords.given(options) else glance.header_of(found)
    if header is not None:
        return FileInfo(
            path=found.name,
            format=header.format,
            holds="tensors",
            count=len(header.tensors),
            files=(found.place.path,),
            nbytes=header.nbytes,
            version=header.version,
            tensors=header.tensors,
            metadata=header.metadata,
        )
    return None


def model_problems(place: Place, held: SavedModel | Loaded | None = None) -> list[Problem]:
    """The problems of a SavedModel besides its variables: assets and Keras metadata.

    Args:
        place: The model, whose graph can be read.
        held: What was read of it already.
    """
    from tensorferry.formats.savedmodel import model as savedmodel

    if isinstance(held, savedmodel.SavedModel):
        model = held
    elif isinstance(held, savedmodel.Loaded):
        model = savedmodel.look(held, place)
    else:
        model = savedmodel.read(place, verify=False)
    return [*_read_keras(place, model)[1], *_asset_problems(model)]


def _asset_problems(model: SavedModel) -> Iterator[Problem]:
    for asset in model.assets:
        if asset.problem is not None:
            yield Problem(f"the asset {asset.name[:60]!r}: {asset.problem}", model.path)


def _inspect_model(found: Found, options: keywords.Opening) -> FileInfo:
    """The content of a SavedModel or a frozen graph, even if its variables are damaged."""
    from tensorferry.formats.savedmodel import model as savedmodel

    place = found.place
    try:
        model = savedmodel.read(place, verify=options.get("verify", False))
    except FormatError as error:
        error.hint = error.hint or _way_out(place.path)
        raise
    variables, problems = _list_variables(place, model, options)
    keras, damage = _read_keras(place, model)
    problems += [*damage, *_asset_problems(model)]
    outline = model_outline.outline(model, keras)
    every = (*model.files, *variables.files)
    return FileInfo(
        path=found.name,
        format=glance.MODEL,
        holds="tensors",
        count=len(variables.tensors),
        files=every,
        nbytes=total_size(map(place.at, every)),
        tensors=tuple(variables.tensors),
        metadata=dict(variables.metadata),
        problems=tuple(problems),
        notes=model_outline.notes_of(outline),
        model=outline,
    )


def _way_out(path: str) -> str | None:
    from tensorferry.formats.savedmodel import model as savedmodel

    name = os.path.dirname(path) if os.path.isfile(path) else path
    if os.path.exists(os.path.join(name, f"{savedmodel.VARIABLES}.index")):
        return "its variables can be read all the same: tensorferry.open(path), or `ferry ls`"
    return None


def _list_variables(
    place: Place, model: SavedModel, options: keywords.Opening
) -> tuple[Listed, list[Problem]]:
    """The variables, and what is wrong with them."""
    from tensorferry.formats.savedmodel import model as savedmodel

    chosen = keywords.given(options)
    try:
        if chosen.keys() <= {"verify", "names"}:
            found = savedmodel.list_variables(model, names=chosen.get("names", "paths"))
            if found is not None:
                return found, []
        from tensorferry.operations.subject import open_one

        with open_one(place, format=glance.MODEL, options=options, verify=False) as subject:
            infos = tuple(subject.infos.values())
            return savedmodel.Listed(infos, subject.files, subject.metadata), []
    except FormatError as error:
        return savedmodel.Listed(), [Problem.of(error, model.path)]
    except FileNotFoundError as error:
        what = error.strerror or str(error)
        return savedmodel.Listed(), [Problem(what, error.filename if error.strerror else None)]


def _read_keras(place: Place, model: SavedModel) -> tuple[KerasModel | None, list[Problem]]:
    """The metadata that Keras 2 stored with a SavedModel."""
    if not model.keras_metadata:
        return None, []
    from tensorferry.formats.keras import outline as keras_outline
    from tensorferry.formats.savedmodel import model as savedmodel

    path = f"{model.path}/{savedmodel.KERAS}"
    try:
        with place.companion(path).open() as source:
            return keras_outline.read_metadata(source.everything()), []
    except FerryError as error:
        return None, [Problem.of(error, path)]


def describe(
    subject: Subject, progress: Progress | None = None, *, counted: bool = True
) -> FileInfo:
    """Describes an opened file.

    Args:
        subject: The opened file.
        progress: Receives the number of rows counted.
        counted: Count rows though that takes time.
    """
    # Of a stream, everything is read: what is wrong shows up now.
    infos, problems = _infos(subject)
    count = subject.count(progress) if counted else subject.known_count()
    opened = subject.opened
    problems += subject.damages()
    model = model_outline.model_of(opened)
    return FileInfo(
        path=subject.name,
        format=subject.format,
        holds=subject.holds,
        count=count,
        files=subject.files,
        nbytes=subject.nbytes(),
        version=opened.version,
        compression=subject.compression,
        tensors=tuple(infos.values()),
        metadata=subject.metadata,
        problems=tuple(problems),
        notes=(*opened.notes, *(() if model is None else model_outline.notes_of(model))),
        model=model,
    )


def _infos(subject: Subject) -> tuple[Mapping[str, TensorInfo], list[Problem]]:
    """What is known of the tensors or columns; damaged records may not show their features."""
    try:
        return subject.stored(), []
    except FormatError as error:
        if not subject.facts.records:
            raise
        return {}, [Problem.of(error, subject.name)]
