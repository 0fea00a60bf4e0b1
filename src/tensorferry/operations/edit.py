"""Editing: surgery on weights, in place or into another file.

    edit("model.safetensors", drop=["optimizer/*"], rename={"encoder/*": "model.encoder.*"})
    edit("model.npz", "small.npz", casts={"*": "float16"}, metadata={"stage": "final"})

The new file is written beside the old one and renamed, so readers see either the old or the new
file. The format stays the same, unless the suffix of the target says otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry.classes import replace
from tensorferry.errors import UnsupportedError
from tensorferry.formats.checkpoint import graph as checkpoint_graph
from tensorferry.formats.savedmodel.model import FILES, VARIABLES
from tensorferry.operations.convert import ConvertReport, Reading, convert, opening_of
from tensorferry.operations.glance import CHECKPOINT
from tensorferry.operations.names import is_match
from tensorferry.operations.subject import Subject, open_one, some
from tensorferry.progress import Progress
from tensorferry.storage import STANDARD_STREAM
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.infos import ROOT

if TYPE_CHECKING:
    from tensorferry.formats.checkpoint.reader import Checkpoint


def edit(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | Sequence[str] | None = None,
    set: Mapping[str, Any] | None = None,
    casts: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    force: bool = False,
    dry_run: bool = False,
    durable: bool = True,
    progress: Progress | bool | None = None,
    options: Reading | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ConvertReport:
    """Changes some tensors of a file, or its metadata, and keeps everything else.

        ferry.edit("model.safetensors", drop=["optimizer/*"], rename={"enc/*": "encoder/*"})

    Without a target, the changed file atomically replaces the old one.

    Args:
        path: A file of tensors, in a format that can be written.
        target: Another path or URL; the original file is not changed.
        drop: Names, or patterns of names, to leave out.
        rename: New names: {"old": "new"} or ["a/*=b.*"].
        set: Tensors by name, which replace existing ones or are added at the end.
        casts: New dtypes of floats or integers by their old names: {"encoder/*": "float16"}.
        metadata: Metadata to add to the existing metadata; None removes a key.
        force: Replace an existing target.
        dry_run: Only report what would be done.
        durable: Wait until the bytes are on disk.
        progress: True shows a bar; a function receives the number of bytes of tensors done.
        options: The format of the file, and options to open it with.
        storage_options: Options for the stores of URLs.

    Raises:
        FileExistsError: The target exists, and `force` is not set.
        UnsupportedError: A name or pattern matches no tensor, there is nothing to change, or the
            format cannot hold the result.

    Examples:
        >>> saved = ferry.save({"w": np.zeros(3), "step": np.array(7)}, "model.npz")
        >>> report = ferry.edit("model.npz", drop=["step"], rename={"w": "kernel"})
        >>> list(ferry.load("model.npz"))
        ['kernel']
    """
    if not (drop or rename or set or casts or metadata):
        raise UnsupportedError(
            "nothing is to be changed",
            path=str(path),
            hint="drop, rename, set, cast or metadata says what",
        )
    source = os.fspath(path)
    with opening_of(source, options, storage_options).open() as subject:
        _check(subject, drop, rename, casts)
        written = _own_path(subject, source) if target is None else os.fspath(target)
        if target is None:
            _check_in_place(subject)
        form = subject.format if target is None else _named(written, subject.format)
        graph = _graph_of(subject) if form == CHECKPOINT else None
        are_there = all(name in subject.infos for name in set or {})
        is_same = are_there and not drop and not rename
        keeps = graph is not None and is_same
        if target is None and not is_same:
            _check_alone(subject)
        changes: dict[str, Any] = {"set": set, "casts": casts, "options": options}
        if graph is not None and keeps:
            changes = _by_keys(subject, graph, changes)
        elif graph is not None:
            _check_slots(subject, graph, drop)
            changes["layout"] = "objects"
        elif form == subject.format == CHECKPOINT:
            changes["layout"] = "names"
    report = convert(
        source,
        written,
        format=form,
        drop=drop,
        rename=rename,
        metadata=metadata,
        force=force or target is None,
        dry_run=dry_run,
        durable=durable,
        progress=progress,
        storage_options=storage_options,
        **changes,
    )
    # The graph is one more, and no tensor of the user's.
    return replace(report, count=len(subject.infos)) if keeps else report


def _own_path(subject: Subject, source: str) -> str:
    """The path that is replaced: of a model the folder, also if one of its files was named."""
    if not subject.facts.is_folder:
        return source
    return os.path.dirname(subject.opened.place.path) or os.curdir


def _named(path: str, format: str) -> str:
    from tensorferry.files.find import format_named

    return format_named(path) or format


def _check(
    subject: Subject,
    drop: Sequence[str],
    rename: Mapping[str, str] | Sequence[str] | None,
    casts: Mapping[str, str] | None,
) -> None:
    """Refuses options that would change nothing, because they are probably typing errors.

    Raises:
        UnsupportedError: A pattern fits no tensor, or there are rows.
    """
    if not isinstance(subject.opened, Bundle):
        raise UnsupportedError(
            f"expected tensors, found rows ({subject.format})",
            path=subject.name,
            hint="`ferry convert` drops and renames columns, into another file",
        )
    subject.renaming(rename)
    subject.matching([*drop, *(casts or {})])


def _check_in_place(subject: Subject) -> None:
    """Refuses to replace what cannot be written as it is.

    Raises:
        UnsupportedError: It is a stream, compressed as a whole, a set of files, or quantized.
    """
    bundle = subject.opened
    assert isinstance(bundle, Bundle)
    reason = None
    if subject.name == STANDARD_STREAM:
        reason = "a stream"
    elif bundle.packed is not None:
        reason = f"compressed as a whole ({bundle.packed})"
    elif len(subject.files) > 1 and subject.facts.files == "one":
        reason = f"a set of {len(subject.files)} files"
    elif any(info.quantized for info in subject.infos.values()):
        reason = "quantized: its tensors would be written as floats again"
    if reason is not None:
        raise UnsupportedError(
            f"it is not edited in place: it is {reason}",
            path=subject.name,
            hint="write the result into another file: -o OUT (target=)",
        )


def _check_alone(subject: Subject) -> None:
    """Refuses other names in the checkpoint of a SavedModel, whose program looks for its own.

    Raises:
        UnsupportedError: It is one.
    """
    folder, name = os.path.split(subject.opened.place.path)
    above, inside = os.path.split(folder)
    if subject.format != CHECKPOINT or (inside, name) != tuple(VARIABLES.split("/")):
        return
    if any(os.path.exists(os.path.join(above, file)) for file in FILES):
        raise UnsupportedError(
            "it is not edited in place: the model beside it looks for these names",
            path=subject.name,
            hint="write the result into another file: -o OUT (target=)",
        )


def _graph_of(subject: Subject) -> Checkpoint | None:
    """A checkpoint that has a graph of objects, which says what its keys belong to."""
    from tensorferry.formats.checkpoint.reader import Checkpoint

    details = subject.opened.details if isinstance(subject.opened, Bundle) else None
    return details if isinstance(details, Checkpoint) and details.graph is not None else None


def _by_keys(subject: Subject, graph: Checkpoint, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The same changes by the keys of a checkpoint, all of which stay, and the graph with them."""
    keys = {name: graph.keys.get(name, name) for name in subject.infos}
    tensors = {keys[name]: tensor for name, tensor in (changes["set"] or {}).items()}
    tensors[checkpoint_graph.KEY] = np.array(graph.graph_bytes, object)
    return {
        "set": tensors,
        "casts": {keys[name]: dtype for name, dtype in _each(subject, changes["casts"])},
        "options": {**(changes["options"] or {}), "names": "keys"},
        "layout": "names",
    }


def _each(subject: Subject, casts: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """The tensors that are cast, each with its new dtype: that of the first pattern that fits."""
    given = list((casts or {}).items())
    for name in subject.infos:
        for pattern, dtype in given:
            if is_match(name, [pattern]):
                yield name, dtype
                break


def _check_slots(subject: Subject, graph: Checkpoint, drop: Sequence[str]) -> None:
    """Refuses names that would take the slots of an optimizer from their variables.

    Raises:
        UnsupportedError: A slot would be left, which TensorFlow would no longer find.
    """
    left = [name for name in graph.slots if not (drop and is_match(name, drop))]
    if left:
        raise UnsupportedError(
            f"{left[0]!r} is a slot of an optimizer, which belongs to a variable: with new names, "
            "or without some, TensorFlow would not find it",
            path=subject.name,
            hint=f"leave out the optimizer, too: {graph.slots[left[0]].optimizer}/*",
        )


def tensors_in(pairs: Sequence[str]) -> dict[str, Any]:
    """Tensors out of files, by their new names, of texts like "NAME=FILE".

    A file has one tensor, or one of that name.

    Raises:
        UnsupportedError: A text is none of these, or the file has no such tensor.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals or not name or not path:
            raise UnsupportedError(f"{pair!r} says no file", hint="as in: head/kernel=kernel.npy")
        with open_one(path) as subject:
            names = list(subject.infos)
            chosen = name if name in names else names[0] if len(names) == 1 else None
            if chosen is None:
                raise UnsupportedError(
                    f"expected one tensor, or one called {name!r}, found {some(names)}", path=path
                )
            if not isinstance(subject.opened, Bundle) and chosen != ROOT:
                raise UnsupportedError("expected a tensor, found rows", path=path)
            found[name] = subject.tensor(chosen)
    return found
