"""Whether a SavedModel may be written to a path: what is there must be one, and nothing else."""

from __future__ import annotations

import os
import stat

from tensorferry import storage
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.expressions import expression
from tensorferry.formats.savedmodel import model as savedmodel, program
from tensorferry.formats.savedmodel.assets import storage_join
from tensorferry.formats.savedmodel.model import FILES, VARIABLES
from tensorferry.storage.backend import Options
from tensorferry.storage.place import Place

# What a SavedModel has, as paths in its folder. Assets may have any names.
_FOLDERS = expression(r"variables|debug|assets(/.*)?")
_FILES = expression(
    r"saved_model\.(pb|cpb|pbtxt)|fingerprint\.pb|keras_metadata\.pb|assets/.*|"
    r"variables/variables\.(index|data-\d{5}-of-\d{5})|debug/saved_model_debug_info\.pb"
)
_SHOWN = 5


def check(path: str) -> None:
    """Refuses to replace anything but a SavedModel of tensors alone.

    Args:
        path: A local path.

    Raises:
        FormatError: Something else is there.
        UnsupportedError: The model that is there has a program, which would be lost.
    """
    folder, name = os.path.split(path)
    if name in FILES:
        raise UnsupportedError(
            "a SavedModel is a folder, and this is the name of a file in it",
            path=path,
            hint=f"save it as {folder or 'a new folder'}",
        )
    path = os.path.realpath(path)
    check_folder(path)
    found = next(filter(os.path.exists, (os.path.join(path, file) for file in FILES)), None)
    if found is not None and has_program(Place(found)):
        raise UnsupportedError(
            "the program of the model would be lost: its tensors alone would be written",
            path=path,
            hint="write them to another path, or remove the model first",
        )


def has_program(place: Place) -> bool:
    """Whether a SavedModel is more than variables, and a function that returns them.

    Args:
        place: Its file.
    """
    folder = os.path.dirname(place.path) or os.curdir
    if place.at(storage_join(folder, "assets")).exists():
        return True
    try:
        graphs = savedmodel.read(place).meta_graphs
    except FerryError:  # nobody can tell
        return True
    return len(graphs) != 1 or not (
        graphs[0].graph.ops.keys() <= program.OPS
        and graphs[0].graph.functions.keys() == {program.FUNCTION}
    )


def check_folder(path: str) -> None:
    """Refuses to replace anything but a SavedModel alone.

    Args:
        path: A local path, in which no link is left to be followed.

    Raises:
        FormatError: A file is there, or a folder with other files, or the working directory.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        raise FormatError("a file is there, which a SavedModel does not replace", path=path)
    if os.path.commonpath([os.path.realpath(os.curdir), path]) == path:
        raise FormatError(
            "it is the working directory, or holds it: replaced, it would be gone", path=path
        )
    found = sorted(_files_in(path))
    others = [name for name in found if not _FILES.fullmatch(name)]
    if found and (others or not any(name in FILES for name in found)):
        raise FormatError(
            f"the directory is no SavedModel alone: it has {', '.join((others or found)[:_SHOWN])}",
            path=path,
            hint="choose a new directory, or move these files away",
        )


def _files_in(path: str) -> list[str]:
    """The files of a folder, as paths in it; what else it has ends with a slash, as folders do."""
    found = []
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(os.path.join(path, inside)) as entries:
            for entry in entries:
                name = f"{inside}{entry.name}"
                is_folder = entry.is_dir(follow_symlinks=False)  # links may lead in circles
                if is_folder and _FOLDERS.fullmatch(name):
                    waiting.append(f"{name}/")
                else:
                    found.append(name if entry.is_file() else f"{name}/")  # not a pipe
    return found


def check_store(url: str, options: Options, *, overwrite: bool = True) -> None:
    """Refuses to replace a SavedModel in a store.

    Raises:
        FileExistsError: It is there, and is not to be replaced.
        UnsupportedError: It is several objects, which cannot be replaced together.
    """
    files = (*FILES, f"{VARIABLES}.index")
    if any(storage.exists(storage_join(url.rstrip("/"), file), options=options) for file in files):
        if not overwrite:
            raise FileExistsError(f"{url}: is there, and overwrite=False")
        raise UnsupportedError(
            "a SavedModel in a store is several objects, which cannot be replaced in one step",
            path=url,
            hint="save it under a new name, such as a version; a .keras file can be replaced",
        )
