"""Saver: variables under names of the user's choice, saved and restored."""

from __future__ import annotations

import operator
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any, BinaryIO, Unpack

from tensorferry import frameworks
from tensorferry.errors import UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.save import Saved
from tensorferry.frameworks.variables import list_variables
from tensorferry.progress import Progress
from tensorferry.weights.loading import load_weights
from tensorferry.weights.name_map import NameMap
from tensorferry.weights.report import WeightsReport
from tensorferry.weights.saving import save_weights
from tensorferry.weights.steps import Series, format_of, numbered


class Saver:
    """Variables under the names that they have in files, like `tf.compat.v1.train.Saver`.

        saver = ferry.Saver({"w": weights, "b": bias}, max_to_keep=5)
        saver.save("run/model", global_step=7)                    # the checkpoint run/model-7
        saver.save("run/model.safetensors", global_step=7)        # run/model-7.safetensors
        saver.restore(ferry.latest_checkpoint("run"))

    Args:
        variables: A model; or tf.Variable, keras.Variable, torch tensors and parameters, and NumPy
            arrays (which are set in place) by name, or in a list, in which each is identified by
            its own name or else its position. A dict may also contain models and structures of
            variables, whose names then start with the key. Without it, pass `variables` to `save`
            and `restore`.
        max_to_keep: Number of files to keep; older ones are removed after a new one is written. By
            default all files are kept.

    Examples:
        >>> step = np.array(7)
        >>> saver = ferry.Saver({"step": step})
        >>> path = saver.save("step.npz")
        >>> step[...] = 0
        >>> restored = saver.restore("step.npz")
        >>> int(step)
        7
    """

    def __init__(self, variables: Any = None, *, max_to_keep: int | None = None) -> None:
        if max_to_keep is not None and max_to_keep < 1:
            raise ValueError(f"max_to_keep is {max_to_keep}, expected 1 or more, or None for all")
        self._variables = None if variables is None else _named(variables)
        self._max_to_keep = max_to_keep
        self._saved: dict[str, tuple[str, ...]] = {}
        if variables is not None:
            list_variables(self._variables)

    def __repr__(self) -> str:
        held = self._variables
        names = ", ".join(held) if isinstance(held, dict) else type(held).__name__
        return f"Saver({'' if held is None else names})"

    @property
    def last_checkpoints(self) -> list[str]:
        """The paths that this saver has written and not removed, oldest first."""
        return list(self._saved)

    @keywords.shown(keywords.WritingWeights)
    def save(
        self,
        path: str | os.PathLike[str] | BinaryIO,
        *,
        global_step: Any = None,
        variables: Any = None,
        optimizer: bool = True,
        format: str | None = None,
        durable: bool = True,
        progress: Progress | bool | None = None,
        **options: Unpack[keywords.WritingWeights],
    ) -> Saved:
        """Writes the variables to a file; the other arguments are those of `save_weights`.

        Args:
            path: The path; its suffix decides the format, and without a suffix it is a checkpoint.
            global_step: A number, or a variable that holds it, to append to the name.
            variables: The variables to save, if the saver was created without any.
            optimizer: Write the state of the model's optimizer, too.
            format: The format, if the path does not say it.
            durable: Wait until the bytes are on disk.
            progress: True shows a bar; a function receives the number of bytes written.
            **options: See `tensorferry.files.keywords.WritingWeights`.

        Returns:
            The path, the format and the number of bytes.
        """
        target: str | BinaryIO
        named = format
        if isinstance(path, str | os.PathLike):
            name = os.fspath(path)
            target = name if global_step is None else numbered(name, step_number(global_step))
            named = format or format_of(name)
        else:
            target = path
        saved = save_weights(
            self._held(variables),
            target,
            optimizer=optimizer,
            format=named,
            durable=durable,
            progress=progress,
            **options,
        )
        if not isinstance(target, str):
            return saved
        self._saved.pop(target, None)  # so that it is the newest
        self._saved[target] = saved.files
        self._remove_old(options.get("storage_options"))
        return saved

    @keywords.shown(keywords.ReadingWeights)
    def restore(
        self,
        path: str | os.PathLike[str] | BinaryIO | Mapping[str, Any],
        *,
        variables: Any = None,
        strict: bool = True,
        map: NameMap | None = None,  # the public name
        optimizer: bool = True,
        cast: bool = True,
        structure: bool = False,
        progress: Progress | bool | None = None,
        **options: Unpack[keywords.ReadingWeights],
    ) -> WeightsReport:
        """Sets the variables to the tensors with their names, as `load_weights` does."""
        return load_weights(
            self._held(variables),
            path,
            strict=strict,
            map=map,
            optimizer=optimizer,
            cast=cast,
            structure=structure,
            progress=progress,
            **options,
        )

    def _held(self, variables: Any) -> Any:
        if variables is not None:
            return _named(variables)
        if self._variables is None:
            raise UnsupportedError(
                "which variables are meant? there is no graph that knows all of them",
                hint="Saver(model, max_to_keep=5), or saver.save(path, variables=model)",
            )
        return self._variables

    def _remove_old(self, storage_options: Mapping[str, Any] | None) -> None:
        if self._max_to_keep is None:
            return
        old = list(self._saved)[: -self._max_to_keep]
        for path in old:
            Series(path, storage_options).remove([path], self._saved)
            del self._saved[path]


def step_number(step: Any) -> int:
    """The number of a step: an integer, or a tensor or variable of any framework that holds one."""
    try:
        return operator.index(step)
    except TypeError:
        return operator.index(frameworks.accept(step).item())


def _named(variables: Any) -> Any:
    """A list of variables by their own names, as TensorFlow's savers have them."""
    if isinstance(variables, Mapping):
        return dict(variables)
    if not isinstance(variables, list | tuple):
        return variables
    names = [_own_name(variable) for variable in variables]
    counts = Counter(names)
    return {
        str(place) if name is None or counts[name] > 1 else name: variable
        for place, (name, variable) in enumerate(zip(names, variables, strict=True))
    }


def _own_name(variable: Any) -> str | None:
    """The name of a variable; None for arrays and for tensors without one."""
    name = getattr(variable, "name", None)  # of TensorFlow's and Keras' variables
    return name.removesuffix(":0") if isinstance(name, str) and name else None
