"""A Keras callback that saves weights in any format.

model.fit(x, y, callbacks=[ferry.weights_callback("run/w-{epoch:02d}.safetensors")])
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, Unpack

from tensorferry.errors import OptionError
from tensorferry.files import keywords
from tensorferry.frameworks import table
from tensorferry.frameworks.contract import Foreign
from tensorferry.weights.saver import Saver


@keywords.shown(keywords.WritingWeights)
def weights_callback(
    path: str | os.PathLike[str],
    *,
    monitor: str = "val_loss",
    save_best_only: bool = False,
    mode: Literal["auto", "min", "max"] = "auto",
    save_freq: int | Literal["epoch"] = "epoch",
    max_to_keep: int | None = None,
    optimizer: bool = False,
    **options: Unpack[keywords.WritingWeights],
) -> Foreign:
    """A callback for `model.fit` that saves the weights, like `keras.callbacks.ModelCheckpoint`.

    Args:
        path: The file; its suffix decides the format. "{epoch}", "{batch}" and the names of
            metrics, as in "w-{epoch:02d}-{val_loss:.2f}.safetensors", are replaced by their values.
        monitor: The metric that says which weights are the best.
        save_best_only: Save only if the metric is better than ever before.
        mode: Whether lower or higher is better; "auto" decides by the metric's name.
        save_freq: "epoch", or the number of batches between two files.
        max_to_keep: Number of files to keep; by default all.
        optimizer: Save the state of the optimizer, too.
        **options: See `tensorferry.files.keywords.WritingWeights`.

    Raises:
        MissingExtraError: Keras is not installed.
        OptionError: The model does not report the monitored metric.

    Examples:
        >>> import keras
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> keep = ferry.weights_callback("best.npz", monitor="loss", save_best_only=True)
        >>> history = model.fit(np.ones((4, 3)), np.ones((4, 1)), callbacks=[keep], verbose=0)
        >>> len(ferry.load("best.npz"))
        2
    """
    writing = _Writing(
        os.fspath(path), monitor, save_best_only, mode, max_to_keep, optimizer, options
    )
    every = None if save_freq == "epoch" else save_freq
    return table.keras_models().callback(writing.save, every)


class _Writing:
    """Saves the weights when Keras says that it is time."""

    def __init__(
        self,
        path: str,
        monitor: str,
        best_only: bool,
        mode: str,
        max_to_keep: int | None,
        optimizer: bool,
        options: keywords.WritingWeights,
    ) -> None:
        self._path, self._monitor, self._best_only = path, monitor, best_only
        self._more = mode == "max" or (mode == "auto" and _is_gain(monitor))
        self._saver = Saver(max_to_keep=max_to_keep)
        self._optimizer, self._options = optimizer, options
        self._best: float | None = None

    def save(self, model: Foreign, epoch: int, batch: int | None, logs: Mapping[str, Any]) -> None:
        """Called after an epoch, or a batch, both counted from 1."""
        if self._best_only and not self._is_better(logs):
            return
        named = {"epoch": epoch, "batch": batch, **logs}
        try:
            path = self._path.format(**named)
        except KeyError as error:
            raise OptionError(
                f"{self._path!r} names {error.args[0]!r}, which the model does not report",
                hint=f"it reports {', '.join(named)}",
            ) from None
        self._saver.save(path, variables=model, optimizer=self._optimizer, **self._options)

    def _is_better(self, logs: Mapping[str, Any]) -> bool:
        if self._monitor not in logs:
            raise OptionError(
                f"the model does not report {self._monitor!r}, which says what is best",
                hint=f"monitor= can be {', '.join(logs) or 'nothing: the model has no metrics'}",
            )
        value = float(logs[self._monitor])
        best = self._best
        better = best is None or (value > best if self._more else value < best)
        if better and value == value:  # NaN is never the best
            self._best = value
            return True
        return False


def _is_gain(monitor: str) -> bool:
    """Whether more of a metric is better, by its name, as Keras guesses."""
    name = monitor.lower()
    return any(
        word in name for word in ("acc", "auc", "precision", "recall", "f1", "fmeasure", "iou")
    )
