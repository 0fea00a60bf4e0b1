"""Saving weights: the variables of any model into a file of any format that holds named tensors.

    ferry.save_weights(model, "model.safetensors")

The names in the file are those that the format's own readers expect: Keras' paths in .weights.h5,
object paths in checkpoints, and the framework's own names elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Literal, Unpack

from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords, save as saving
from tensorferry.formats.table import named
from tensorferry.frameworks import table
from tensorferry.frameworks.contract import Variable
from tensorferry.frameworks.variables import list_variables
from tensorferry.progress import Progress
from tensorferry.tensors.values import Array

# Whose names a file gets: see `names_for`.
Target = Literal["keras", "checkpoint", "natural"]


@keywords.shown(keywords.WritingWeights)
def save_weights(
    model: Any,
    path: str | os.PathLike[str] | BinaryIO,
    *,
    optimizer: bool = False,
    format: str | None = None,
    durable: bool = True,
    progress: Progress | bool | None = None,
    **options: Unpack[keywords.WritingWeights],
) -> saving.Saved:
    """Writes the variables of a model to a file.

    Args:
        model: As in `load_weights`.
        path: A local path, a URL or a binary file; its suffix says the format.
        optimizer: Write the state of the model's optimizer, too.
        format: The format, if the suffix does not say it.
        durable: Wait until the bytes are on disk.
        progress: True shows a bar; a function receives the number of bytes written.
        **options: See `tensorferry.files.keywords.WritingWeights`.

    Returns:
        The path, the format and the number of bytes.

    Raises:
        UnsupportedError: The model has no variables, or the format cannot hold them.

    Examples:
        >>> model = {"dense": {"kernel": np.ones((4, 2), np.float32)}}
        >>> ferry.save_weights(model, "model.safetensors", metadata={"step": 900}).format
        'safetensors'
    """
    variables = list_variables(model)
    chosen = [variable for variable in variables if optimizer or not variable.optimizer]
    target = target_of(path, format)
    if target == "checkpoint" and table.in_use("tensorflow") and table.objects().is_tracked(model):
        # Which tf.train.Checkpoint(model) restores.
        options["layout"] = options.get("layout") or "objects"
    if target == "keras" and not options.get("paths"):
        _check_places(chosen)
    values = _values(names_for(chosen, target))
    return saving.save(values, path, format=format, durable=durable, progress=progress, **options)


def _check_places(variables: Sequence[Variable]) -> None:
    """Refuses variables of Keras that its files have no place for, beside others that have one.

    Raises:
        UnsupportedError: A layer saves something else in their place.
    """
    placed = [one for one in variables if "keras" in one.spellings]
    if placed and len(placed) < len(variables):
        other = next(one for one in variables if "keras" not in one.spellings)
        raise UnsupportedError(
            "files of Keras have no place for this variable: it is no layer's, or its layer writes "
            "something else, as one with LoRA writes the sum",
            tensor=other.name,
            hint=".safetensors and .npz keep every variable; model.save_weights writes what the "
            "layers do",
        )


def _values(named: list[tuple[str, Variable]]) -> Iterator[tuple[str, Array]]:
    for name, variable in named:
        yield name, variable.read()


def names_for(variables: Sequence[Variable], target: Target) -> list[tuple[str, Variable]]:
    """The names that variables get in a file.

    Args:
        variables: The variables of one model.
        target: "keras" for the paths of Keras' own files, "checkpoint" for the paths of objects,
            "natural" for the framework's own names; tied variables are under each name that they
            have in such files.
    """
    if target == "natural":
        return [(name, one) for one in variables for name in (one.name, *one.tied)]
    named = [
        (name, one)
        for one in variables
        for name in (one.spellings.get(target, one.name), *one.repeated.get(target, ()))
    ]
    counts: dict[str, int] = {}
    for name, _ in named:
        counts[name] = counts.get(name, 0) + 1
    return [(name if counts[name] == 1 else one.name, one) for name, one in named]


def target_of(path: Any, format: str | None) -> Target:
    """Whose names a file gets: see `names_for`."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    found = format or named(name)
    if found == "keras" or name.endswith((".h5", ".hdf5", ".keras")):
        return "keras"
    return "checkpoint" if found == "checkpoint" else "natural"
