"""TensorFlow's object graph: the parts of an object, and their paths in checkpoints.

Keeps `contract.Objects`. TensorFlow tracks the variables, tables and modules in the attributes of
a `tf.Module`, of layers, and of lists and dicts in them. A checkpoint names each by the path of
attributes that leads to it.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import tensorflow as tf

from tensorferry.errors import UnsupportedError
from tensorferry.frameworks.contract import Foreign

# Lists in which layers and optimizers of Keras 3 repeat variables that have a name elsewhere.
REFERENCES = ("_trainable_variables", "_non_trainable_variables")


def is_tracked(value: Foreign) -> bool:
    """Whether TensorFlow knows the parts of an object, as it does for a `tf.Module`."""
    # By its type: `__class__` may be whatever the object says.
    return issubclass(type(value), tf.__internal__.tracking.Trackable)


def tracked_children(value: Foreign) -> dict[str, Any]:
    """The parts of a tracked object by their names in checkpoints.

    Raises:
        UnsupportedError: TensorFlow cannot tell the parts.
    """
    try:
        return dict(tf.train.TrackableView.children(value))
    except ValueError as error:
        raise UnsupportedError(
            f"TensorFlow cannot tell the parts of {type(value).__name__}: {error}"
        ) from error


def object_paths(model: Foreign) -> dict[int, list[str]]:
    """The paths to each part of a tracked model by the part's id, the preferred one first.

    Preferred is the shortest path that leads through none of `REFERENCES`, if there is one. The
    key in TensorFlow's checkpoints is the shortest of all paths, which is in the list as well.
    """
    paths: dict[int, list[str]] = {id(model): [""]}
    queue = deque([model])
    references: deque[tuple[str, Foreign]] = deque()
    while queue or references:
        if not queue:
            path, child = references.popleft()
            _add_path(paths, path, child, queue)
            continue
        parent = queue.popleft()
        start = paths[id(parent)][0]
        for name, child in tracked_children(parent).items():
            path = f"{start}/{name}" if start else name
            if name in REFERENCES:
                references.append((path, child))
            else:
                _add_path(paths, path, child, queue)
    return paths


def _add_path(paths: dict[int, list[str]], path: str, child: Foreign, queue: deque[Any]) -> None:
    if id(child) in paths:
        paths[id(child)].append(path)
    else:
        paths[id(child)] = [path]
        queue.append(child)
