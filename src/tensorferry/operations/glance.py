"""Glances: what is known of files without opening them, and without NumPy.

Looking into a SavedModel, a small checkpoint or a header takes less time than importing NumPy, so
`inspect` and `list` ask here first. Everything else is opened: `tensorferry.operations.subject`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensorferry.errors import FerryError, FormatError
from tensorferry.files.find import Found, find, resolve
from tensorferry.formats import signatures
from tensorferry.formats.contract import HEAD, Glimpse
from tensorferry.storage import STANDARD_STREAM, listing
from tensorferry.storage.place import Place

if TYPE_CHECKING:
    from tensorferry.files.find import Options
    from tensorferry.formats.checkpoint.outline import Outline
    from tensorferry.formats.headers import Header
    from tensorferry.tensors.infos import TensorInfo

MODEL = "savedmodel"
CHECKPOINT = "checkpoint"
NPY = "npy"
NPZ = "npz"
SAFETENSORS = "safetensors"
KERAS = "keras"
TFRECORD = "tfrecord"


def find_one(path: Any, *, format: str | None = None, options: Options = None) -> Found:
    """The one thing that a path names, though a folder may hold other files beside it.

    Args:
        path: What `tensorferry.open` takes, or what was found already.
        format: As the user named it.
        options: For the store of a URL.

    Raises:
        FormatError: The path names several things.
        FileNotFoundError: There is nothing by that name.
    """
    if not isinstance(path, str | os.PathLike) or path == STANDARD_STREAM or format is not None:
        return resolve(path, format=format, options=options)
    found = find([path], options=options)
    if len(found) > 1:
        raise FormatError(
            f"{len(found)} files that are not one thing, such as {found[0].name}",
            path=os.fspath(path),
            hint="inspect them one by one",
        )
    return found[0]


def is_model(found: Found) -> bool:
    """Whether it is a SavedModel, as its path or the user says."""
    return found.format == MODEL and len(found.places) == 1


def outline_of(found: Found) -> Outline | None:
    """The content of a small local checkpoint, without opening it; None for anything else."""
    if found.format != CHECKPOINT or len(found.places) > 1 or found.place.is_url:
        return None
    from tensorferry.formats.checkpoint import outline

    return outline.read(found.place.path)


def header_of(found: Found) -> Header | None:
    """The content of a plain local npy, npz, safetensors or HDF5 file, by its header; else None."""
    if found.format not in (None, NPY, NPZ, SAFETENSORS, KERAS) or len(found.places) > 1:
        return None
    place = found.place
    if place.is_url or not place.is_named:
        return None
    from tensorferry.formats import headers

    try:
        return headers.read(place.path)
    except OSError:  # whoever opens the file says what is wrong with it
        return None


def variables_of(found: Found) -> Sequence[TensorInfo] | None:
    """The variables of a sound local SavedModel, without opening it; None for anything else."""
    if not is_model(found):
        return None
    from tensorferry.formats.savedmodel import model as savedmodel

    try:
        listed = savedmodel.list_variables(savedmodel.read(found.place))
    except (FerryError, OSError):  # whoever opens it says what is wrong with it
        return None
    return None if listed is None else listed.tensors


def starts_with_record(found: Found) -> bool:
    """Whether a local file starts with a whole header of a record: it can be opened."""
    place = found.place
    if found.format not in (None, TFRECORD) or place.is_url or not place.is_named:
        return False
    try:
        with open(place.path, "rb") as file:
            return signatures.tfrecord(Glimpse(place.path, file.read(HEAD))) == "surely"
    except OSError:  # whoever opens the file says what is wrong with it
        return False


def total_size(places: Iterable[Place]) -> int | None:
    """Number of bytes of some files together; None if one of them is a stream."""
    total = 0
    places = list(places)
    listing.learn(places)
    for place in places:
        try:
            size = place.size()
        except FileNotFoundError:  # whoever reads the file says that it is missing
            continue
        if size is None:
            return None
        total += size
    return total
