"""Calls: a model called with one batch after another, and its outputs by name.

    calls = Calls(model, lengths={"ids": "lengths"}, keep=("id",))
    for outputs in calls.run(rows.batches(64), None): ...

Outputs without names are numbered. Padded outputs become ragged tensors if another output has their
lengths.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tensorferry import frameworks
from tensorferry.errors import MismatchError, UnsupportedError
from tensorferry.models.dangers import Allow
from tensorferry.models.inputs import Inputs, inputs_of
from tensorferry.progress import Progress
from tensorferry.rows import columns as slices
from tensorferry.rows.columns import Batch, Column
from tensorferry.tensors.values import (
    RaggedTensor,
    SparseTensor,
    Tensor,
    as_tensor,
    concatenate,
    is_namedtuple,
)

# The name of an output that has none.
OUTPUT = "output"

Columns = Batch
"""The outputs of a model by name."""


class Calls:
    """Calls a model with one batch after another.

    Attributes:
        tell: Is told how many rows are done.
    """

    tell: Progress | None = None

    def __init__(
        self,
        model: Any,
        signature: str | None = None,
        lengths: Mapping[str, str] | None = None,
        keep: tuple[str, ...] = (),
        allow: Allow = (),
    ) -> None:
        if isinstance(model, str | os.PathLike):
            from tensorferry.models.loading import load_model

            model = load_model(model, allow=allow)
        self._inputs = _inputs_of(model, signature)
        self._framework = frameworks.framework_of(self._inputs.function)
        self._lengths = lengths or {}
        self._keep = keep

    def run(self, inputs: Any, batch_size: int | None) -> Iterator[Columns]:
        """The outputs of each batch."""
        done = 0
        for batch in _batches(inputs, batch_size, self._inputs):
            outputs = _named(self._call(batch))
            for name, beside in self._lengths.items():
                outputs[name] = _as_ragged(outputs, name, beside)
            for beside in set(self._lengths.values()):
                del outputs[beside]
            for name in self._keep:
                if not isinstance(batch, Mapping) or name not in batch:
                    raise MismatchError(f"no input is called {name!r}, which is to be kept")
                self._add_kept(outputs, name, batch[name])
            yield outputs
            done += max(map(slices.length_of, outputs.values()), default=0)
            if self.tell is not None:
                self.tell(done, None)

    def _add_kept(self, outputs: Columns, name: str, value: Any) -> None:
        """Adds an input to the outputs; a model may give it back itself, but nothing else."""
        if name in outputs:
            if not _are_same(outputs[name], frameworks.accept(value)):
                raise MismatchError(
                    f"the model has an output that is called {name!r}, as the input to be kept",
                    hint="rename the input, or the output: one of them would be lost",
                )
        else:
            outputs[name] = value

    def _call(self, batch: Any) -> Any:
        framework = self._framework
        given = batch if framework is None else frameworks.give(batch, framework)
        return frameworks.accept(self._inputs.call(given, self._keep))

    def run_all(self, inputs: Any, batch_size: int | None) -> Columns:
        """The outputs of all batches, concatenated."""
        return joined(self.run(inputs, batch_size))

    def columns(self, available: Collection[str]) -> list[str]:
        """Those of some columns that the model takes, and those to keep, in their order.

        Raises:
            MismatchError: It is not clear which columns the model takes.
        """
        taken = set(self._inputs.pick({name: name for name in available}, self._keep).values())
        return [name for name in available if name in taken or name in self._keep]


def joined(batches: Iterable[Columns]) -> Columns:
    """The outputs of batches, concatenated.

    Raises:
        MismatchError: The batches have different outputs.
    """
    parts: dict[str, list[Any]] = {}
    for outputs in batches:
        if parts and parts.keys() != outputs.keys():
            raise MismatchError(f"a batch gives {sorted(outputs)}, those before {sorted(parts)}")
        for name, output in outputs.items():
            parts.setdefault(name, []).append(output)
    return {name: _joined(name, outputs) for name, outputs in parts.items()}


def _inputs_of(model: Any, signature: str | None) -> Inputs:
    """What the model, or one of its signatures, takes."""
    signatures = getattr(model, "signatures", None)
    if signature is not None:
        if not isinstance(signatures, Mapping) or signature not in signatures:
            known = ", ".join(signatures or ()) or "none"
            raise UnsupportedError(f"no signature is called {signature!r}", hint=f"it has {known}")
        model = signatures[signature]
    elif isinstance(signatures, Mapping) and len(signatures) == 1:
        model = next(iter(signatures.values()))
    if not callable(model):
        raise UnsupportedError(f"a model of type {type(model).__name__} cannot be called")
    return inputs_of(model)


def _batches(inputs: Any, size: int | None, takes: Inputs) -> Iterator[Any]:
    if isinstance(inputs, Iterator):
        for batch in inputs:
            if isinstance(batch, tuple):
                raise MismatchError(
                    f"a batch is a tuple of {len(batch)} parts, which does not say what they are",
                    hint="give the tensor alone, or a dict of tensors by the names of the inputs",
                )
            yield frameworks.accept(batch)
        return
    given = frameworks.accept(inputs)
    several = takes.names is not None and len(takes.names) > 1
    if several and isinstance(given, list | tuple):
        given = takes.named(given)
    columns = given if isinstance(given, Mapping) else {OUTPUT: _column(given)}
    columns = {name: _column(column) for name, column in columns.items()}
    whole = max([slices.length_of(column) for column in columns.values()], default=0)
    if any(slices.length_of(column) != whole for column in columns.values()) and size is not None:
        raise MismatchError(
            "inputs of different lengths have no batches: "
            + ", ".join(f"{name} {slices.length_of(value)}" for name, value in columns.items())
        )
    if size is None or size >= whole:
        yield columns if isinstance(given, Mapping) else columns[OUTPUT]
        return
    for batch in slices.batches_of(columns, size):
        yield batch if isinstance(given, Mapping) else batch[OUTPUT]


def _column(value: Any) -> Tensor:
    return value if isinstance(value, RaggedTensor | SparseTensor) else as_tensor(value)


def _named(given: Any) -> Columns:
    """The outputs by name; those of a tuple are numbered, as in signatures."""
    if isinstance(given, Mapping):
        return {str(name): _column(output) for name, output in given.items()}
    if is_namedtuple(given):
        return {name: _column(getattr(given, name)) for name in given._fields}
    if isinstance(given, tuple | list):
        return {f"{OUTPUT}_{number}": _column(output) for number, output in enumerate(given)}
    return {OUTPUT: _column(given)}


def _as_ragged(outputs: Columns, name: str, beside: str) -> RaggedTensor:
    """A padded output as a ragged tensor, given the lengths of its rows."""
    for wanted in (name, beside):
        if wanted not in outputs:
            raise MismatchError(f"no output is called {wanted!r}, the model has {sorted(outputs)}")
    padded, lengths = outputs[name], outputs[beside]
    if not isinstance(padded, np.ndarray) or not isinstance(lengths, np.ndarray):
        kinds = f"{type(padded).__name__} and {type(lengths).__name__}"
        raise MismatchError(f"{name!r} and {beside!r} are {kinds}, expected two arrays")
    if padded.ndim < 2 or lengths.shape != padded.shape[:1] or lengths.dtype.kind not in "iu":
        raise MismatchError(
            f"{name!r} has the shape {list(padded.shape)}, and {beside!r} is {lengths.dtype} of "
            f"{list(lengths.shape)}: expected one integer for each row"
        )
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= padded.shape[1]:
        raise MismatchError(
            f"{beside!r} goes from {lengths.min()} to {lengths.max()}, expected lengths of rows of "
            f"{padded.shape[1]}"
        )
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    valid = np.arange(padded.shape[1]) < lengths[:, None]
    return RaggedTensor(padded[valid], (splits,))


def _joined(name: str, outputs: list[Any]) -> Any:
    """One output of all batches, concatenated."""
    if len(outputs) == 1:
        return outputs[0]
    shapes = {tuple(output.shape[1:]) for output in outputs}
    if len(shapes) > 1 or any(not output.shape for output in outputs):
        raise MismatchError(
            f"the output {name!r} has the shapes {sorted(shapes, key=str)[:3]} behind its rows",
            hint="lengths={...} makes padded outputs ragged; without batch_size there is one batch",
        )
    return concatenate(outputs)


def _are_same(one: Column, other: Any) -> bool:
    if isinstance(one, RaggedTensor):
        return isinstance(other, RaggedTensor) and one.equals(other)
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return False
    return np.array_equal(one, other)
