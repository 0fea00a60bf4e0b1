"""CheckpointManager: the last few and the best files of weights in a folder.

    manager = ferry.CheckpointManager(model, "run", max_to_keep=3, best=1)
    manager.restore_latest()                       # goes on where the last run ended
    manager.save(step, score=validation_loss)

A file is called `name-<step>` plus a suffix. The step is read from the name and the score from the
metadata of the file, so a new process can continue with both.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, Literal

from tensorferry.errors import FerryError
from tensorferry.files.open import open as open_file
from tensorferry.files.save import Saved
from tensorferry.progress import Progress
from tensorferry.storage.url import is_url
from tensorferry.tensors.bundle import Bundle
from tensorferry.weights.report import WeightsReport
from tensorferry.weights.saver import Saver, step_number
from tensorferry.weights.steps import Series

# Keys of the metadata of a file.
STEP, SCORE = "step", "score"


class CheckpointManager:
    """Keeps the last and the best weight files of a model, like `tf.train.CheckpointManager`.

        manager = ferry.CheckpointManager(model, "run", max_to_keep=3, best=1, mode="min")
        for step in range(100):
            ...
            manager.save(step, score=loss)
        manager.restore_best()

    Args:
        variables: A model, or variables as in `Saver`.
        directory: The folder, local or a URL; it is created if it does not exist.
        max_to_keep: Number of most recent files to keep; None keeps all.
        best: Number of files with the best scores to keep in addition.
        mode: Whether the lowest ("min") or the highest ("max") score is the best.
        name: The name of the files, before the step. Its suffix decides the format; without a
            suffix, files are TensorFlow checkpoints.
        storage_options: Options for the store of a URL.

    Examples:
        >>> model = {"w": np.zeros(3)}
        >>> manager = ferry.CheckpointManager(model, "run", max_to_keep=2, name="w.npz")
        >>> for _ in range(3):
        ...     path = manager.save()
        >>> manager.checkpoints
        ['run/w-2.npz', 'run/w-3.npz']
    """

    def __init__(
        self,
        variables: Any,
        directory: str | os.PathLike[str],
        *,
        max_to_keep: int | None = 5,
        best: int = 0,
        mode: Literal["min", "max"] = "min",
        name: str = "ckpt",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode is {mode!r}, expected 'min' or 'max'")
        if max_to_keep is not None and max_to_keep < 1:
            raise ValueError(f"max_to_keep is {max_to_keep}, expected 1 or more, or None for all")
        self._saver = Saver(variables)
        self._directory = os.fspath(directory)
        joined = f"{self._directory.rstrip('/')}/{name}"
        self._path = joined if is_url(self._directory) else os.path.join(self._directory, name)
        self._series = Series(self._path, storage_options)
        self._options = storage_options
        self._max_to_keep, self._best, self._mode = max_to_keep, best, mode
        self._files: dict[str, tuple[str, ...]] = {}
        self._scores: dict[int, float | None] = {}

    def __repr__(self) -> str:
        return f"CheckpointManager({self._path!r}, {len(self.checkpoints)} checkpoints)"

    @property
    def directory(self) -> str:
        """The folder."""
        return self._directory

    @property
    def checkpoints(self) -> list[str]:
        """The existing paths, in the order of their steps."""
        return list(self._series.steps().values())

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the highest step; None if there is none."""
        return next(reversed(self.checkpoints), None)

    @property
    def best_checkpoint(self) -> str | None:
        """The path with the best score; None if no file has a score."""
        steps = self._series.steps()
        ranked = self._ranked(steps)
        return steps[ranked[0]] if ranked else None

    def save(
        self,
        step: Any = None,
        *,
        score: Any = None,
        optimizer: bool = True,
        progress: Progress | bool | None = None,
    ) -> Saved:
        """Writes the variables, and removes the files that are neither among the last nor the best.

        The file that was just written stays, also if the folder has higher steps of another run.

        Args:
            step: The number of the step, or a variable that holds it; by default the last one + 1.
            score: The score of this step, such as a loss; it is stored in the metadata of the file.
            optimizer: Write the state of the model's optimizer, too.
            progress: True shows a bar; a function receives the number of bytes written.
        """
        there = self._series.steps()
        number = step_number(step) if step is not None else max(there, default=0) + 1
        found = None if score is None else float(score)
        about: dict[str, float] = {STEP: number}
        if found is not None and math.isfinite(found):  # a loss of NaN is never the best
            about[SCORE] = found
        saved = self._saver.save(
            self._path,
            global_step=number,
            optimizer=optimizer,
            metadata=about if SCORE in about else None,
            storage_options=self._options,
            progress=progress,
        )
        self._files[saved.path] = saved.files
        self._scores[number] = about.get(SCORE)
        self._remove_old(number)
        return saved

    def restore_latest(
        self, *, strict: bool = True, progress: Progress | bool | None = None
    ) -> WeightsReport | None:
        """Sets the variables to those of the highest step; None if there is no file yet.

        Args:
            strict: Fail if a variable has no tensor in the file, as `load_weights` does.
            progress: True shows a bar; a function receives the number of tensors read.
        """
        return self._restore(self.latest_checkpoint, strict, progress)

    def restore_best(
        self, *, strict: bool = True, progress: Progress | bool | None = None
    ) -> WeightsReport | None:
        """Sets the variables to those with the best score; None if no file has a score.

        Args:
            strict: Fail if a variable has no tensor in the file, as `load_weights` does.
            progress: True shows a bar; a function receives the number of tensors read.
        """
        return self._restore(self.best_checkpoint, strict, progress)

    def _restore(
        self, path: str | None, strict: bool, progress: Progress | bool | None
    ) -> WeightsReport | None:
        if path is None:
            return None
        return self._saver.restore(
            path, strict=strict, storage_options=self._options, progress=progress
        )

    def _remove_old(self, saved: int) -> None:
        """Removes the files that are neither the last, nor the best, nor of the step just saved."""
        if self._max_to_keep is None:
            return
        steps = self._series.steps()
        kept = {saved, *list(steps)[-self._max_to_keep :], *self._ranked(steps)[: self._best]}
        old = [path for step, path in steps.items() if step not in kept]
        self._series.remove(old, self._files)

    def _ranked(self, steps: Mapping[int, str]) -> list[int]:
        """The steps with a score, the best first; of equal scores, the later step."""
        scores = {step: self._score(step, path) for step, path in steps.items()}
        known = [(score, step) for step, score in scores.items() if score is not None]
        sign = 1 if self._mode == "min" else -1
        return [step for score, step in sorted(known, key=lambda pair: (sign * pair[0], -pair[1]))]

    def _score(self, step: int, path: str) -> float | None:
        if step not in self._scores:
            self._scores[step] = self._read_score(path)
        return self._scores[step]

    def _read_score(self, path: str) -> float | None:
        try:
            with open_file(path, storage_options=self._options) as opened:
                found = opened.metadata.get(SCORE) if isinstance(opened, Bundle) else None
        except (FerryError, OSError):
            return None  # a damaged file is none of the best
        return float(found) if isinstance(found, int | float) else None
