"""Predictions: a model's outputs for many inputs, as NumPy arrays or in a file of any format.

    outputs = ferry.predict("translator", sentences, lengths={"ids": "lengths"})
    ferry.save_predictions("translator", sentences, "predictions.parquet", batch_size=64)

The model is a path, a loaded model, or anything that can be called. Outputs without names are
numbered. Padded outputs become ragged tensors if another output has their lengths. Files of rows
(TFRecord, Arrow, Parquet) are written batch by batch; all others hold whole columns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensorferry import frameworks
from tensorferry.codecs import compression as codecs
from tensorferry.errors import MismatchError, UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.find import format_named
from tensorferry.files.save import Saved, save
from tensorferry.files.writer import open_writer
from tensorferry.formats import table
from tensorferry.models.dangers import Allow
from tensorferry.models.inputs import Inputs, inputs_of
from tensorferry.progress import Progress, following
from tensorferry.rows import columns as slices
from tensorferry.storage.place import Target
from tensorferry.tensors.values import (
    RaggedTensor,
    SparseTensor,
    as_tensor,
    concatenate,
    is_namedtuple,
)

# The name of an output that has none.
OUTPUT = "output"

Columns = dict[str, Any]


def predict(
    model: Any,
    inputs: Any,
    *,
    signature: str | None = None,
    batch_size: int | None = None,
    lengths: Mapping[str, str] | None = None,
    keep: tuple[str, ...] = (),
    allow: Allow = (),
    progress: Progress | bool | None = None,
) -> Columns:
    """Calls a model, and returns its outputs by name.

    Args:
        model: The path of a SavedModel or Keras file, a loaded model, or a function.
        inputs: One tensor, a dict of tensors by the names of the model's arguments, or an iterator
            of such batches, as `records.batches(64)` is. The model gets the columns that it takes.
        signature: The signature to call; by default the one that calling the model means.
        batch_size: The number of rows in a call; by default all rows.
        lengths: Makes padded outputs ragged. Maps the name of each to the output that has the
            number of valid values in each row; that output is left out.
        keep: The names of inputs to return beside the outputs.
        allow: What a model from a path may do besides computing: see `tensorferry.load_model`.
        progress: True shows a bar; a function is told how many rows are done.

    Returns:
        NumPy arrays, ragged and sparse tensors by name.

    Raises:
        MismatchError: The batches have different outputs, or it is not clear which of the inputs
            the model takes.

    Example:
        >>> ferry.predict("encoder", np.ones((4, 3), "f4"), batch_size=2)["output_0"].shape
        (4, 8)
    """
    work = _Work(model, signature, lengths or {}, keep, allow)
    with following(progress, "predict", "rows") as work.tell:
        return work.run_all(inputs, batch_size)


def save_predictions(
    model: Any,
    inputs: Any,
    path: str | os.PathLike[str],
    *,
    signature: str | None = None,
    batch_size: int | None = None,
    lengths: Mapping[str, str] | None = None,
    keep: tuple[str, ...] = (),
    allow: Allow = (),
    progress: Progress | bool | None = None,
    format: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    compression: str | None = None,
    quantize: Any = None,
    shard_size: int | str | None = None,
    durable: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    shards: int | None = None,
    level: int | None = None,
) -> Saved:
    """Calls a model, and writes its outputs to a file.

    TFRecord, Arrow and Parquet files get one row for each input.

    Args:
        model: See `predict`.
        inputs: See `predict`.
        path: The suffix says the format.
        signature: See `predict`.
        batch_size: The number of rows in a call; files of rows never have more in memory.
        lengths: See `predict`.
        keep: See `predict`.
        allow: See `predict`.
        progress: See `predict`.
        format: The format, if the suffix does not say it.
        metadata: What to keep with the outputs; TFRecords have no place for it.
        compression: As in `tensorferry.save`.
        quantize: As in `tensorferry.save`; files of rows are not quantized.
        shard_size: As in `tensorferry.save`; files of rows have none.
        durable: Wait until the bytes are on disk.
        storage_options: Options for the store of a URL.
        shards: The number of files of rows to write.
        level: The level of the compression of TFRecords and npz files.

    Raises:
        OptionError: The format has no such option; also a TypeError.

    Example:
        >>> ferry.save_predictions("encoder", inputs, "outputs.parquet", batch_size=64).format
        'parquet'
    """
    work = _Work(model, signature, lengths or {}, keep, allow)
    name = os.fspath(path)
    found = format or format_named(name)
    facts = None if found is None else table.facts_of(found)
    packed = codecs.split_suffix(name)[1] is not None
    if facts is None or not facts.streams_rows or (packed and not facts.decompresses):
        with following(progress, name, "rows") as work.tell:
            outputs = work.run_all(inputs, batch_size)
        return save(
            outputs,
            path,
            format=format,
            metadata=metadata,
            compression=compression,
            quantize=quantize,
            shard_size=shard_size,
            durable=durable,
            storage_options=storage_options,
            shards=shards,
            level=level,
        )
    given = {"compression": compression, "level": level, "quantize": quantize}
    chosen = keywords.given({**given, "shard_size": shard_size})
    target = Target(name, options=storage_options, durable=durable)
    with (
        following(progress, name, "rows") as work.tell,
        open_writer(facts.name, target, chosen, shards=shards, metadata=metadata or {}) as out,
    ):
        for outputs in work.run(inputs, batch_size):
            out.write_batch(outputs)
    sizes = [target.place().at(written).size() or 0 for written in out.paths]
    return Saved(name, facts.name, sum(sizes), files=tuple(out.paths))


class _Work:
    """Calls a model with one batch after another.

    Attributes:
        tell: Is told how many rows are done.
    """

    tell: Progress | None = None

    def __init__(
        self,
        model: Any,
        signature: str | None,
        lengths: Mapping[str, str],
        keep: tuple[str, ...],
        allow: Allow,
    ) -> None:
        if isinstance(model, str | os.PathLike):
            from tensorferry.models.loading import load_model

            model = load_model(model, allow=allow)
        self._inputs = _inputs_of(model, signature)
        self._framework = frameworks.framework_of(self._inputs.function)
        self._lengths = lengths
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
                outputs.setdefault(name, batch[name])
            yield outputs
            done += max(map(slices.length_of, outputs.values()), default=0)
            if self.tell is not None:
                self.tell(done, None)

    def _call(self, batch: Any) -> Any:
        framework = self._framework
        given = batch if framework is None else frameworks.give(batch, framework)
        return frameworks.accept(self._inputs.call(given, self._keep))

    def run_all(self, inputs: Any, batch_size: int | None) -> Columns:
        """The outputs of all batches, concatenated."""
        parts: dict[str, list[Any]] = {}
        for outputs in self.run(inputs, batch_size):
            if parts and parts.keys() != outputs.keys():
                raise MismatchError(
                    f"a batch gives {sorted(outputs)}, those before {sorted(parts)}"
                )
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


def _column(value: Any) -> Any:
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
    is_padded = isinstance(padded, np.ndarray) and padded.ndim >= 2
    if not is_padded or lengths.shape != padded.shape[:1] or lengths.dtype.kind not in "iu":
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
