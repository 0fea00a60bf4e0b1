"""Training loops in PyTorch, JAX, Keras and tf.data from any file of rows.

    from tensorferry import feeds

    feed = feeds.Feed("train-*.tfrecord", batch=256, shuffle=True, seed=7)
    for batch in feed: ...

`feeds.torch`, `feeds.grain`, `feeds.jax`, `feeds.keras` and `feeds.tensorflow` connect a feed to a
framework. `feeds.tfds` opens datasets prepared by TensorFlow Datasets.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensorferry.feeds import tfds as tfds
from tensorferry.feeds.feed import Feed as Feed

__all__ = ["Feed", "tfds"]

_FRAMEWORKS = ("grain", "jax", "keras", "tensorflow", "torch")

if TYPE_CHECKING:
    from . import (
        grain as grain,
        jax as jax,
        keras as keras,
        tensorflow as tensorflow,
        torch as torch,
    )
else:

    def __getattr__(name: str) -> Any:
        """The module of a framework, imported with it on first use."""
        if name not in _FRAMEWORKS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")
