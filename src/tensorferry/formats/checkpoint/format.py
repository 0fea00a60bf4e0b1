"""Checkpoints as a format: several files, found by their path, read and written.

    ferry.open("model.ckpt-900", names="variables")     names: see `names` in this folder
    ferry.save(tensors, "model.ckpt-901", shards=4, keep=3)

A folder, the `checkpoint` file in it and each file of a checkpoint lead to its prefix. This module
says which options there are and makes bundles; opening is `tensorferry.formats.checkpoint.reader`,
writing `tensorferry.formats.checkpoint.writer`. It imports neither, nor NumPy: who only asks what a
path is need not wait for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.formats.checkpoint import state as states
from tensorferry.formats.checkpoint.names import Layout, Names
from tensorferry.formats.contract import Format, TensorOptions, WriteOptions, Written
from tensorferry.storage.place import Place, Target

if TYPE_CHECKING:
    from tensorferry.formats.shares import Given
    from tensorferry.tensors.bundle import Bundle
    from tensorferry.tensors.content import Content


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointOptions(TensorOptions):
    """How a checkpoint is read.

    Attributes:
        names: What its tensors are called: see `tensorferry.formats.checkpoint.names`.
    """

    names: Names = "paths"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointWriting(WriteOptions):
    """How a checkpoint is written: see `tensorferry.formats.checkpoint.writer.save_tensors`.

    Attributes:
        layout: "names" or "objects"; by default structures that nest are objects.
        shards: Number of data files.
        state: Make it the latest in the `checkpoint` file of its folder.
        keep: How many checkpoints that file lists; the files of older ones are removed.
        shard: Write the share of one of several workers: see `tensorferry.formats.shares`.
    """

    layout: Layout | None = None
    shards: int = 1
    state: bool = True
    keep: int | None = None
    shard: Given | None = None


class Reader:
    """Opens checkpoints."""

    options = CheckpointOptions

    def find(self, place: Place) -> Place | None:
        """The prefix that a path leads to."""
        return states.find(place)

    def open(self, place: Place, how: CheckpointOptions) -> Bundle:
        """A bundle of the tensors; the keys of the index are other names of theirs."""
        opened: Bundle = _opening().open_bundle(
            place,
            verify=how.verify,
            names=how.names,
            parts=how.parts,
            dequantize=how.dequantize,
        )
        return opened

    def open_usual(self, path: str, *, lends: bool) -> Bundle | None:
        """A bundle of the tensors of a prefix, if the checkpoint has one data file."""
        opened: Bundle | None = _opening().open_usual(path, lends=lends)
        return opened


@cache
def _opening() -> ModuleType:
    """An import statement takes longer than to open an index."""
    return import_module("tensorferry.formats.checkpoint.opening")


class Writer:
    """Writes checkpoints."""

    options = CheckpointWriting

    def write(self, content: Content, target: Target, how: CheckpointWriting) -> Written:
        """Writes a value.

        Raises:
            UnsupportedError: The target is no path, beside which there can be other files.
        """
        from tensorferry.formats.checkpoint.writer import save_content

        if not target.is_path:
            raise UnsupportedError(
                "a checkpoint is several files, and must be saved to a path",
                path=target.path,
                hint="npz and safetensors are one file",
            )
        if how.shard is not None:
            from tensorferry.formats.checkpoint.sharing import save_share

            return save_share(content, target, how.shard, layout=how.layout)
        written = save_content(
            content,
            target.path,
            layout=how.layout,
            shards=how.shards,
            durable=target.durable,
            state=how.state,
            keep=how.keep,
            storage_options=target.options,
        )
        return Written(written.nbytes, tuple(written.paths))

    def finish(
        self, target: Target, *, save: str | None, metadata: Mapping[str, Any] | None
    ) -> Written:
        """Makes a checkpoint of the shares that several workers wrote."""
        from tensorferry.formats.checkpoint.sharing import finish

        return finish(target, save=save, metadata=metadata)


FORMAT = Format(reads=Reader(), writes=Writer(), reads_usual=Reader(), finishes=Writer())
