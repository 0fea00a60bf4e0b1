"""Files of one series: the weights of a model after more and more steps.

    numbered("run/model", 7)               "run/model-7"
    numbered("run/model.safetensors", 7)   "run/model-7.safetensors"

The number stands before the ending that says the format, and at the end of a checkpoint's prefix,
as TensorFlow puts it. `Series` lists the files of a folder that have such names; nothing else says
what may be removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from tensorferry import storage
from tensorferry.classes import dataclass
from tensorferry.files.find import format_named
from tensorferry.formats.checkpoint import state as states
from tensorferry.formats.table import TABLE
from tensorferry.storage.backend import Options
from tensorferry.storage.place import Place

CHECKPOINT = "checkpoint"
_STEP = re.compile(r"(?P<stem>.+)-(?P<step>\d{1,18})", re.DOTALL)


def split_ending(path: str) -> tuple[str, str]:
    """A path without the ending that says its format, and the ending; ".ckpt" is no ending here."""
    endings = (
        ending
        for facts in TABLE.values()
        if facts.name != CHECKPOINT
        for ending in facts.suffixes
        if path.lower().endswith(ending)
    )
    longest = max(endings, key=len, default="")
    return path[: len(path) - len(longest)], path[len(path) - len(longest) :]


def numbered(path: str, step: int) -> str:
    """The path of the file of a step."""
    stem, ending = split_ending(path)
    return f"{stem}-{step}{ending}"


def step_of(path: str) -> int | None:
    """The step in the name of a file."""
    found = _STEP.fullmatch(os.path.basename(split_ending(path)[0]))
    return None if found is None else int(found["step"])


def format_of(path: str) -> str:
    """The format of a file of weights; a name that says none is that of a checkpoint."""
    return format_named(path) or CHECKPOINT


@dataclass(frozen=True)
class Series:
    """The files `stem-<step>ending` of a folder.

    Attributes:
        path: The path without a step, as in "run/model.safetensors".
        options: For the store of a URL.
    """

    path: str
    options: Options = None

    def steps(self) -> dict[int, str]:
        """The paths that are there by their steps, in the order of the steps."""
        folder, name = os.path.split(self.path)
        stem, ending = split_ending(name)
        is_checkpoint = format_of(self.path) == CHECKPOINT
        found = {}
        for path in _files(folder, self.options):
            own = path.removesuffix(states.INDEX) if is_checkpoint else path
            if is_checkpoint and own == path:
                continue
            match = _STEP.fullmatch(
                os.path.basename(own)[: len(os.path.basename(own)) - len(ending)]
            )
            fits = match is not None and match["stem"] == stem and own.endswith(ending)
            if fits and match is not None and numbered(self.path, int(match["step"])) == own:
                found[int(match["step"])] = own
        return dict(sorted(found.items()))

    def remove(self, paths: list[str], files: Mapping[str, tuple[str, ...]]) -> None:
        """Removes files of the series.

        Args:
            paths: The paths of some steps.
            files: All files that were written for a path, where that is known.
        """
        from tensorferry.formats.checkpoint import writer

        for path in paths:
            # An index, which decides whether the others count, is the last of the files.
            for file in reversed(files.get(path, ())):
                storage.remove(file, options=self.options)
            if format_of(path) != CHECKPOINT:
                storage.remove(path, options=self.options)
            elif path not in files:
                writer.remove(path, storage_options=self.options)
        states.forget(paths, options=self.options)


def _files(folder: str, options: Options) -> list[str]:
    try:
        listed = storage.list_directory(folder or ".", options=options)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return listed if folder else [os.path.basename(path) for path in listed]


def latest_checkpoint(
    directory: str | os.PathLike[str], *, storage_options: Options = None
) -> str | None:
    """Returns the newest checkpoint in a folder, like `tf.train.latest_checkpoint`.

    The `checkpoint` file in the folder names it, and cannot refer to another folder. Without such a
    file, the file with the highest step counts, such as "model-900.safetensors".

    Args:
        directory: A local folder or a URL.
        storage_options: Options for the store of a URL.

    Returns:
        The prefix of a checkpoint, or the path of a file; None if there is neither. `load_weights`,
        `Saver.restore` and `open` take it.

    Examples:
        >>> saver = ferry.Saver({"w": np.zeros(3)})
        >>> path = saver.save("run/model", global_step=7)
        >>> ferry.latest_checkpoint("run")
        'run/model-7'
    """
    found = states.latest_checkpoint(directory, storage_options=storage_options)
    if found is not None:
        return found
    folder = Place(directory).path
    steps = []
    for path in _files(folder, storage_options):
        own = path.removesuffix(states.INDEX)
        step = step_of(own)
        named = format_named(own)
        holds = named is not None and TABLE[named].opens == "tensors"
        if step is not None and (own != path or holds):
            steps.append((step, own))
    return max(steps)[1] if steps else None
