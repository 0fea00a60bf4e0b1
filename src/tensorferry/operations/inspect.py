"""Inspection: what is in a file, as far as that is known without reading its values.

    ferry.inspect("model.safetensors").dtypes       # {"float32": 290, "int64": 2}
    ferry.inspect("saved_model_dir").model          # signatures, ops, assets ...

Whether all of it is sound is `tensorferry.operations.verify`. What models are is
`tensorferry.models.outline`. A SavedModel is looked into without what opens files, and
without NumPy: their imports would take longer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tensorferry import storage
from tensorferry.errors import FerryError, FormatError
from tensorferry.files import find as inputs
from tensorferry.files.find import Input
from tensorferry.files.sizes import sizes_of
from tensorferry.models import outline as model_outline
from tensorferry.models.outline import ModelInfo
from tensorferry.storage import STANDARD_STREAM
from tensorferry.tensors.infos import TensorInfo, elements_in

if TYPE_CHECKING:
    from tensorferry.formats.savedmodel.model import SavedModel
    from tensorferry.operations.opened import Opened

Holds = Literal["tensors", "records", "rows"]


@dataclass(frozen=True)
class Problem:
    """Something that is wrong in a file.

    Attributes:
        problem: What.
        path: The file.
        record: How many whole records stand before it.
        offset: The byte where it lies, in the decompressed stream.
        tensor: The tensor or column it is in.
        hint: One thing to do next.
    """

    problem: str
    path: str | None = None
    record: int | None = None
    offset: int | None = None
    tensor: str | None = None
    hint: str | None = None

    @classmethod
    def of(cls, error: FerryError, path: str | None = None) -> Problem:
        """The problem that an error tells of."""
        return cls(
            error.message,
            path=error.path or path,
            offset=error.offset,
            tensor=error.tensor,
            hint=error.hint,
        )


@dataclass(frozen=True)
class FileInfo:
    """What is in a file, or in a set of files.

    Attributes:
        path: As it was named.
        format: The name of its format.
        holds: "tensors", "records" or "rows".
        count: How many of them; None where only reading all of it would tell.
        files: Its files.
        nbytes: Their size together; None for a stream.
        version: Of the format, where the file says one.
        compression: Of whole files, or inside of them.
        tensors: The tensors, or the features or columns of which records are made.
        metadata: What the user kept with it.
        problems: What is wrong at a glance.
        notes: What there is to say about how it is read, and what a model would do when loaded.
        model: Of SavedModels, frozen graphs and files of Keras: what model it is.
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

    @property
    def dtypes(self) -> dict[str, int]:
        """How many tensors are of each dtype, the most frequent first."""
        counts: dict[str, int] = {}
        for info in self.tensors:
            counts[info.dtype] = counts.get(info.dtype, 0) + 1
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    @property
    def elements(self) -> int | None:
        """How many values all tensors have together; None where that varies."""
        found = [elements_in(info) for info in self.tensors]
        known = [count for count in found if count is not None]
        return sum(known) if len(known) == len(found) else None


def inspect(path: Any, *, format: str | None = None, **options: Any) -> FileInfo:
    """What is in a file: its format, tensors or features, their number, and its metadata.

    Args:
        path: A file, a glob, a directory, "name@10", a URL, "-", or a list of TFRecord files; all
            must be one thing together.
        format: By default recognised.
        **options: Of `tensorferry.open`.

    Raises:
        FormatError: It cannot be opened.
    """
    given = path if isinstance(path, Input) else _one(path)
    model = inputs.model_of(given, format, options.get("storage_options"))
    if model is not None:
        return _inspect_model(given, model, **options)
    outline = inputs.outline_of(given, format, options)
    if outline is not None:
        return FileInfo(
            path=given.name if isinstance(given, Input) else os.fspath(given),
            format="checkpoint",
            holds="tensors",
            count=len(outline.entries),
            files=tuple(outline.files),
            nbytes=sizes_of(outline.files),
            version="2",
            tensors=tuple(outline.describe()),
        )
    from tensorferry.operations.opened import open_input

    reading = {"on_error": "skip", "verify": False, **options}
    with open_input(given, format=format, **reading) as opened:
        if opened.format != "savedmodel":
            return describe(opened)
    return _inspect_model(given, opened.name, **options)  # a frozen graph, known by its bytes


def _one(path: Any) -> Any:
    if not isinstance(path, str | os.PathLike) or path == STANDARD_STREAM:
        return path
    path = os.fspath(path)
    found = inputs.find([path])
    if len(found) > 1:
        raise FormatError(
            f"{len(found)} files that are not one thing, such as {found[0].name}",
            path=path,
            hint="inspect them one by one",
        )
    return found[0]


def _inspect_model(
    given: Any,
    path: str,
    *,
    verify: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> FileInfo:
    """What is in a SavedModel or a frozen graph, though its variables may be damaged."""
    from tensorferry.formats.savedmodel import model as savedmodel

    try:
        model = savedmodel.read(path, verify=verify, storage_options=storage_options)
    except FormatError as error:
        error.hint = error.hint or _way_out(path)
        raise
    reading = {"verify": verify, "storage_options": storage_options, **options}
    tensors, files, problems = _list_variables(model, reading)
    keras, damage = _read_keras(model, storage_options)
    problems += damage
    problems += (
        Problem(f"the asset {asset.name[:60]!r}: {asset.problem}", model.path)
        for asset in model.assets
        if asset.problem is not None
    )
    outline = model_outline.outline(model, keras)
    every = (*model.files, *files)
    return FileInfo(
        path=given.name if isinstance(given, Input) else os.fspath(given),
        format=savedmodel.NAME,
        holds="tensors",
        count=len(tensors),
        files=every,
        nbytes=sizes_of(every, storage_options),
        tensors=tuple(tensors),
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
    model: SavedModel, options: Mapping[str, Any]
) -> tuple[list[TensorInfo], list[str], list[Problem]]:
    """The variables, their files, and what is wrong with them."""
    from tensorferry.formats.savedmodel import model as savedmodel

    try:
        if options.keys() <= {"verify", "storage_options", "names"}:
            known = {"names": options["names"]} if "names" in options else {}
            found = savedmodel.list_variables(model, **known)
            if found is not None:
                return *found, []
        from tensorferry.files import open as opening

        with opening.open(model.file, format=savedmodel.NAME, **options) as bundle:
            return [bundle.info[name] for name in bundle], bundle.files, []
    except FerryError as error:
        return [], [], [Problem.of(error, model.path)]
    except FileNotFoundError as error:
        what = error.strerror or str(error)
        return [], [], [Problem(what, error.filename if error.strerror else None)]


def _read_keras(
    model: SavedModel, storage_options: Mapping[str, Any] | None
) -> tuple[Any, list[Problem]]:
    """What Keras 2 kept beside a SavedModel."""
    if not model.keras_metadata:
        return None, []
    from tensorferry.formats.keras import outline as keras_outline
    from tensorferry.formats.savedmodel import model as savedmodel

    path = f"{model.path}/{savedmodel.KERAS}"
    try:
        with storage.open_source(path, options=storage_options) as source:
            return keras_outline.read_metadata(source.everything()), []
    except FerryError as error:
        return None, [Problem.of(error, path)]


def describe(opened: Opened) -> FileInfo:
    """What is in something that was opened."""
    from tensorferry.files.sizes import compression_of
    from tensorferry.operations.opened import OpenedRecords
    from tensorferry.operations.traits import inner_compression, version_of

    # Of a stream, all is read: what is wrong shows up now.
    infos, problems = _infos(opened)
    count = opened.count()
    if isinstance(opened, OpenedRecords):
        problems += [
            Problem(damage.problem, damage.path, damage.record, damage.offset)
            for damage in opened.records.damages
        ]
    files = opened.files
    model = _keras_model(opened)
    return FileInfo(
        path=opened.name,
        format=opened.format,
        holds=opened.holds,
        count=count,
        files=files,
        nbytes=sizes_of(files),
        version=version_of(opened),
        compression=(compression_of(files[0]) if files else None) or inner_compression(opened),
        tensors=tuple(infos.values()),
        metadata=opened.metadata,
        problems=tuple(problems),
        notes=(*opened.notes, *(() if model is None else model_outline.notes_of(model))),
        model=model,
    )


def _keras_model(opened: Opened) -> ModelInfo | None:
    """The model of a file of Keras; None for all others."""
    details = getattr(getattr(opened, "bundle", None), "details", None)
    if opened.format != "keras" or details is None:
        return None
    from tensorferry.formats.keras import outline as keras_outline

    keras = keras_outline.outline(details.config, details.metadata, details.findings)
    return None if keras is None else ModelInfo("keras", keras=keras)


def _infos(opened: Opened) -> tuple[dict[str, TensorInfo], list[Problem]]:
    from tensorferry.operations.opened import OpenedRecords

    try:
        return opened.infos(), []
    except FormatError as error:
        if isinstance(opened, OpenedRecords):
            return {}, [Problem.of(error, opened.name)]
        raise
