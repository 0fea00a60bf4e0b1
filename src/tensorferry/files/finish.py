"""Finishing: what several workers wrote becomes visible as one.

    ferry.save(mine, "s3://bucket/model.ckpt-900", shard=(rank, size))      # every worker
    ferry.finish("s3://bucket/model.ckpt-900")                              # one, after a barrier

`tensorferry.formats.shares` defines what a share is and when it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tensorferry.errors import UnsupportedError
from tensorferry.files.find import format_named
from tensorferry.files.save import Saved
from tensorferry.formats import table
from tensorferry.storage.place import Target


def finish(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    save: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    durable: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> Saved:
    """Combines what several workers have saved into one checkpoint or sharded safetensors model.

        ferry.save(mine, "model.ckpt-900", shard=(rank, size))
        barrier()
        if rank == 0:
            ferry.finish("model.ckpt-900")

    Until then, readers see the previous checkpoint, or none.

    Args:
        path: The path to which every worker has saved its share.
        format: As in `tensorferry.save`.
        save: The third item of `shard=`, if there are shares of several saves.
        metadata: Strings, or anything that JSON can hold, to store with the tensors.
        durable: Wait until the bytes are on disk.
        storage_options: Options for the store of a URL.

    Raises:
        FormatError: Shares are missing or belong to different saves, or two shares contain the same
            tensor.
        UnsupportedError: Several workers cannot write the format.

    Examples:
        >>> one = ferry.save({"a": np.zeros(2)}, "model.ckpt-9", shard=(0, 2))
        >>> other = ferry.save({"b": np.ones(2)}, "model.ckpt-9", shard=(1, 2))
        >>> saved = ferry.finish("model.ckpt-9")
        >>> sorted(ferry.load("model.ckpt-9"))
        ['a', 'b']
    """
    name = os.fspath(path)
    found = format or format_named(name)
    finishes = None if found is None else table.to_write(found).finishes
    if found is None or finishes is None:
        raise UnsupportedError(
            f"{found or 'a file of an unknown format'} is written by one worker only",
            path=name,
            hint="checkpoints (model.ckpt-900) and safetensors are written by several",
        )
    target = Target(name, options=storage_options, durable=durable)
    written = finishes.finish(target, save=None if save is None else str(save), metadata=metadata)
    return Saved(name, found, written.nbytes or 0, files=written.files)
