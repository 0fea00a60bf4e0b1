"""Saving weights: the variables of any model into a file of any format that holds named tensors.

    ferry.save_weights(model, "model.safetensors")

The names in the file are those that the format's own readers expect: Keras' paths in .weights.h5,
object paths in checkpoints, and the framework's own names elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, TypedDict

from tensorferry.files import save as saving
from tensorferry.formats.table import named
from tensorferry.frameworks import table
from tensorferry.frameworks.contract import Variable
from tensorferry.frameworks.variables import list_variables
from tensorferry.tensors.values import Array

# Whose names a file gets: see `names_for`.
Target = Literal["keras", "checkpoint", "natural"]
# How a checkpoint names its tensors: see `tensorferry.formats.checkpoint.writer`.
Layout = Literal["names", "objects"]
# "int8", ("int8", max_error), or one of those by the name of each tensor.
Quantize = str | tuple[str, float] | Mapping[str, Any]


class _Own(TypedDict, total=False):
    """Options that only some formats have: they are passed on if they were given."""

    layout: Layout
    shards: int
    state: bool
    keep: int
    level: int


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How a file of weights is written: see `save_weights`."""

    metadata: Mapping[str, Any] | None = None
    compression: str | None = None
    quantize: Quantize | None = None
    shard_size: int | str | None = None
    storage_options: Mapping[str, Any] | None = None
    layout: Layout | None = None
    shards: int | None = None
    state: bool | None = None
    keep: int | None = None
    level: int | None = None

    def given(self) -> list[str]:
        """The names of the options that were given."""
        return [name for name, value in vars(self).items() if value is not None]

    def own(self) -> _Own:
        """The options that only some formats have, if they were given."""
        found: _Own = {}
        if self.layout is not None:
            found["layout"] = self.layout
        if self.shards is not None:
            found["shards"] = self.shards
        if self.state is not None:
            found["state"] = self.state
        if self.keep is not None:
            found["keep"] = self.keep
        if self.level is not None:
            found["level"] = self.level
        return found


def save_weights(
    model: Any,
    path: str | os.PathLike[str] | BinaryIO,
    *,
    optimizer: bool = False,
    format: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    compression: str | None = None,
    quantize: Quantize | None = None,
    shard_size: int | str | None = None,
    durable: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    layout: Layout | None = None,
    shards: int | None = None,
    state: bool | None = None,
    keep: int | None = None,
    level: int | None = None,
) -> saving.Saved:
    """Writes the variables of a model to a file.

    Args:
        model: As in `load_weights`.
        path: A local path, a URL or a binary file; its suffix says the format.
        optimizer: Write the state of the model's optimizer, too.
        format: The format, if the suffix does not say it.
        metadata: What to keep with the weights: strings, or anything that JSON takes.
        compression: As in `tensorferry.save`.
        quantize: Makes floats smaller, as in `tensorferry.save`: "int8", ("int8", max_error).
        shard_size: The most bytes in a file of safetensors or Keras' weights, as in "5GB".
        durable: Wait until the bytes are on disk.
        storage_options: Options for the store of a URL.
        layout: The names in a checkpoint: "names" or "objects". By default objects, if TensorFlow
            tracks the model.
        shards: The number of data files of a checkpoint.
        state: Make a checkpoint the latest one of its directory.
        keep: The number of checkpoints to keep in that directory.
        level: The level of the compression of an npz file.

    Returns:
        The path, the format and the number of bytes.

    Raises:
        UnsupportedError: The model has no variables, or the format cannot hold them.

    Example:
        >>> ferry.save_weights(model, "model.safetensors", metadata={"step": 900}).nbytes
        4368
    """
    options = WriteOptions(
        metadata=metadata,
        compression=compression,
        quantize=quantize,
        shard_size=shard_size,
        storage_options=storage_options,
        layout=layout,
        shards=shards,
        state=state,
        keep=keep,
        level=level,
    )
    return write(model, path, options, optimizer=optimizer, format=format, durable=durable)


def write(
    model: Any,
    path: str | os.PathLike[str] | BinaryIO,
    options: WriteOptions,
    *,
    optimizer: bool,
    format: str | None,
    durable: bool,
) -> saving.Saved:
    """As `save_weights`, with the options in one value."""
    variables = list_variables(model)
    chosen = [variable for variable in variables if optimizer or not variable.optimizer]
    target = target_of(path, format)
    own = options.own()
    if target == "checkpoint" and table.in_use("tensorflow") and table.objects().is_tracked(model):
        own.setdefault("layout", "objects")  # which tf.train.Checkpoint(model) restores
    return saving.save(
        _values(names_for(chosen, target)),
        path,
        format=format,
        metadata=options.metadata,
        compression=options.compression,
        quantize=options.quantize,
        shard_size=options.shard_size,
        durable=durable,
        storage_options=options.storage_options,
        **own,
    )


def _values(named: list[tuple[str, Variable]]) -> Iterator[tuple[str, Array]]:
    for name, variable in named:
        yield name, variable.read()


def names_for(variables: Sequence[Variable], target: Target) -> list[tuple[str, Variable]]:
    """The names that variables get in a file.

    Args:
        variables: The variables of one model.
        target: "keras" for the paths of Keras' own files, "checkpoint" for the paths of objects,
            "natural" for the framework's own names, with tied variables under each of them.
    """
    if target == "natural":
        return [(name, one) for one in variables for name in (one.name, *one.tied)]
    named = [(one.spellings.get(target, one.name), one) for one in variables]
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
