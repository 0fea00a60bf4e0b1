"""The assets of a SavedModel: files beside it that its graph reads, such as vocabularies.

The graph names each file in an AssetFileDef, as a path below `assets/`, and has a tensor that is
fed with the full path. A name may lead anywhere: "../", an absolute path, a link that somebody put
there. Such files are not opened; they are reported with what is wrong with them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from tensorferry import storage
from tensorferry.classes import dataclass
from tensorferry.codecs.protobuf import Span
from tensorferry.errors import UnsupportedError
from tensorferry.formats.savedmodel.messages import Reader
from tensorferry.storage import names
from tensorferry.storage.place import Place

DIRECTORY = "assets"
MAX_LISTED = 100_000


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that a model has beside it.

    Attributes:
        name: Its path below the directory of assets.
        tensor: The tensor that is fed with its path; "" for a file that no graph names.
        size: In bytes; None if it is not there, or not looked at.
        problem: Why it is not opened; None if nothing is wrong.
    """

    name: str
    tensor: str
    size: int | None
    problem: str | None


def read_definition(reader: Reader, span: Span) -> tuple[str, str]:
    """The name of an asset, and its tensor."""
    fields = reader.read("AssetFileDef", span)
    info = reader.read("TensorInfo", fields["tensor_info"]) if "tensor_info" in fields else {}
    return fields.get("filename", ""), info.get("name", "")


def find_assets(definitions: Iterable[tuple[str, str]], folder: Place) -> tuple[Asset, ...]:
    """The assets that graphs name, and the other files among them.

    Args:
        definitions: Names and tensors.
        folder: Of the model.
    """
    named = dict.fromkeys(definitions)
    assets = [_look(name, tensor, folder) for name, tensor in named]
    known = {asset.name for asset in assets}
    others = (name for name in _list(folder) if name not in known)
    return (*assets, *(_look(name, "", folder) for name in others))


def asset_path(name: str, directory: str) -> str:
    """Where the file of an asset lies, if its name is sound."""
    return storage_join(directory, f"{DIRECTORY}/{name}")


def storage_join(directory: str, name: str) -> str:
    """The path of a file in a directory, local or a URL."""
    return f"{directory.rstrip('/')}/{name}" if directory.rstrip("/") else f"/{name}"


def _look(name: str, tensor: str, folder: Place) -> Asset:
    problem = check_name(name)
    if problem is None and not folder.is_url:
        problem = _check_links(asset_path(name, folder.path), folder.path)
    if problem is not None:
        return Asset(name, tensor, None, problem)
    place = folder.companion(asset_path(name, folder.path))
    try:
        return Asset(name, tensor, place.size(), None)
    except (FileNotFoundError, NotADirectoryError):
        return Asset(name, tensor, None, "there is no such file")
    finally:
        place.close()


def check_name(name: str) -> str | None:
    """What is wrong with the name of an asset; None if nothing is."""
    return names.problem_with(name, deep=True)


def _check_links(path: str, directory: str) -> str | None:
    # Stricter than for tensors: a program would read it.
    if not names.is_below(path, directory):
        return "it is a link that leads out of the model"
    return "it is no regular file" if names.is_special(path) else None


def _list(folder: Place) -> list[str]:
    """The files below the folder of assets, by their path in it."""
    top = asset_path("", folder.path)
    if folder.is_url:
        try:
            found = storage.list_directory(top.rstrip("/"), options=folder.options)
        except (UnsupportedError, FileNotFoundError):  # a web server lists nothing
            return []
        return [path.rpartition("/")[2] for path in found]
    names: list[str] = []
    try:
        if not os.listdir(top):  # nearly always
            return []
    except OSError:
        return []
    for place, directories, files in os.walk(top):
        directories.sort()
        for file in sorted(files):
            names.append(os.path.relpath(os.path.join(place, file), top))
            if len(names) >= MAX_LISTED:
                return names
    return names
