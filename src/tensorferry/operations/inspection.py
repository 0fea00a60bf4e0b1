"""Inspection: what is in a file, as far as that is known without reading its values.

    ferry.inspect("model.safetensors").dtypes       # {"float32": 290, "int64": 2}

Whether all of it is sound is `tensorferry.operations.verification`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorferry.errors import FerryError, FormatError
from tensorferry.operations import inputs
from tensorferry.operations.files import compression_of, sizes_of
from tensorferry.operations.inputs import Input
from tensorferry.operations.opened import Holds, Opened, OpenedRecords, elements_in, open_input
from tensorferry.operations.traits import inner_compression, version_of
from tensorferry.storage import STANDARD_STREAM
from tensorferry.tensors import TensorInfo


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
        notes: What there is to say about how it is read.
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
    options = {"on_error": "skip", "verify": False, **options}
    with open_input(given, format=format, **options) as opened:
        return describe(opened)


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


def describe(opened: Opened) -> FileInfo:
    """What is in something that was opened."""
    # Of a stream, all is read: what is wrong shows up now.
    infos, problems = _infos(opened)
    count = opened.count()
    if isinstance(opened, OpenedRecords):
        problems += [
            Problem(damage.problem, damage.path, damage.record, damage.offset)
            for damage in opened.records.damages
        ]
    files = opened.files
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
        notes=tuple(opened.notes),
    )


def _infos(opened: Opened) -> tuple[dict[str, TensorInfo], list[Problem]]:
    try:
        return opened.infos(), []
    except FormatError as error:
        if isinstance(opened, OpenedRecords):
            return {}, [Problem.of(error, opened.name)]
        raise
