"""Training loops in PyTorch, JAX, Keras and tf.data from any file of rows.

from tensorferry import feeds

feed = feeds.Feed("train-*.tfrecord", batch=256, shuffle=True, seed=7)
for batch in feed: ...
"""

from __future__ import annotations

from tensorferry.feeds.feed import Feed

__all__ = ["Feed"]
