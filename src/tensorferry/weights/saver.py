"""Saver: variables under names of the user's choice, saved and restored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, BinaryIO, Unpack

from tensorferry.files import keywords
from tensorferry.files.save import Saved
from tensorferry.frameworks.variables import list_variables
from tensorferry.weights.loading import load_weights
from tensorferry.weights.name_map import NameMap
from tensorferry.weights.report import WeightsReport
from tensorferry.weights.saving import save_weights


class Saver:
    """Variables under the names that they have in files.

        saver = ferry.Saver({"w": weights, "b": bias})
        saver.save("step-900.safetensors")
        saver.restore("step-900.safetensors")

    Args:
        variables: tf.Variable, keras.Variable, torch tensors and parameters, and NumPy arrays
            (which are set in place), by name. Also models and structures of variables, whose names
            then start with the name given here.
    """

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = dict(variables)
        list_variables(self._variables)

    def __repr__(self) -> str:
        return f"Saver({', '.join(self._variables)})"

    @keywords.shown(keywords.WritingWeights)
    def save(
        self,
        path: str | os.PathLike[str] | BinaryIO,
        *,
        optimizer: bool = True,
        format: str | None = None,
        durable: bool = True,
        **options: Unpack[keywords.WritingWeights],
    ) -> Saved:
        """Writes the variables to a file; the arguments are those of `save_weights`."""
        return save_weights(
            self._variables, path, optimizer=optimizer, format=format, durable=durable, **options
        )

    @keywords.shown(keywords.ReadingWeights)
    def restore(
        self,
        path: str | os.PathLike[str] | BinaryIO | Mapping[str, Any],
        *,
        strict: bool = True,
        map: NameMap | None = None,  # the public name
        optimizer: bool = True,
        cast: bool = True,
        structure: bool = False,
        **options: Unpack[keywords.ReadingWeights],
    ) -> WeightsReport:
        """Sets the variables to the tensors with their names, as `load_weights` does."""
        return load_weights(
            self._variables,
            path,
            strict=strict,
            map=map,
            optimizer=optimizer,
            cast=cast,
            structure=structure,
            **options,
        )
