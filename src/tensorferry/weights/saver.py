"""Saver: variables under names of the user's choice, saved and restored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, BinaryIO

from tensorferry.files.save import Saved
from tensorferry.frameworks.variables import list_variables
from tensorferry.weights.loading import Names, load_weights
from tensorferry.weights.name_map import NameMap
from tensorferry.weights.report import WeightsReport
from tensorferry.weights.saving import Layout, Quantize, save_weights


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

    def save(
        self,
        path: str | os.PathLike[str] | BinaryIO,
        *,
        optimizer: bool = True,
        format: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        compression: str | None = None,
        quantize: Quantize | None = None,
        shard_size: int | str | None = None,
        durable: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        layout: Layout | None = None,
        shards: int | None = None,
        state: bool | None = None,
        keep: int | None = None,
        level: int | None = None,
    ) -> Saved:
        """Writes the variables to a file; the arguments are those of `save_weights`."""
        return save_weights(
            self._variables,
            path,
            optimizer=optimizer,
            format=format,
            metadata=metadata,
            compression=compression,
            quantize=quantize,
            shard_size=shard_size,
            durable=durable,
            storage_options=storage_options,
            layout=layout,
            shards=shards,
            state=state,
            keep=keep,
            level=level,
        )

    def restore(
        self,
        path: str | os.PathLike[str] | BinaryIO | Mapping[str, Any],
        *,
        strict: bool = True,
        map: NameMap | None = None,  # the public name
        optimizer: bool = True,
        cast: bool = True,
        structure: bool = False,
        format: str | None = None,
        verify: bool = True,
        dequantize: bool = True,
        names: Names | None = None,
        storage_options: Mapping[str, Any] | None = None,
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
            format=format,
            verify=verify,
            dequantize=dequantize,
            names=names,
            storage_options=storage_options,
        )
