"""Feeds for JAX: batches as arrays that are divided over devices and processes.

feed = feeds.Feed("train-*.tfrecord", batch=256, shard=(jax.process_index(), jax.process_count()))
for batch in feed:
    batch = feeds.jax.put(batch, sharding)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from tensorferry.errors import UnsupportedError


def put(batch: Mapping[str, Any], sharding: Any) -> dict[str, Any]:
    """Puts a batch onto devices; the rows of all processes form one global array.

    Args:
        batch: The rows of this process: a batch of a feed with `shard=(process, processes)`.
        sharding: A `jax.sharding.Sharding` that divides the first axis.

    Raises:
        UnsupportedError: A column is not an array of numbers.
    """
    return {name: _put(column, name, sharding) for name, column in batch.items()}


def _put(column: Any, name: str, sharding: Any) -> Any:
    if not isinstance(column, np.ndarray) or column.dtype == object:
        raise UnsupportedError(
            f"the column {name!r} is no array of numbers, and JAX has no others",
            hint="choose columns=[...], or pad ragged ones with pad={...}",
        )
    return jax.make_array_from_process_local_data(sharding, column)
