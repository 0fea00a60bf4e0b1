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
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from tensorferry import engines, frameworks
from tensorferry.codecs import compression as codecs
from tensorferry.files import keywords
from tensorferry.files.bytes import dumps
from tensorferry.files.find import format_named
from tensorferry.files.open import open as open_file
from tensorferry.files.save import Saved, save
from tensorferry.formats import table
from tensorferry.frameworks import frames
from tensorferry.models import batching
from tensorferry.models.calling import Calls, Columns
from tensorferry.models.dangers import Allow
from tensorferry.progress import Progress, following
from tensorferry.rows.rows import ROWS, Rows
from tensorferry.storage.place import Target
from tensorferry.tensors.bundle import Bundle


def predict(
    model: Any,
    inputs: Any,
    *,
    signature: str | None = None,
    batch_size: int | None = None,
    lengths: Mapping[str, str] | None = None,
    keep: tuple[str, ...] = (),
    allow: Allow = (),
    engine: engines.Choice | None = None,
    progress: Progress | bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Columns:
    """Calls a model, and returns its outputs by name.

    Args:
        model: The path of a SavedModel or Keras file, a loaded model, or a function.
        inputs: One tensor, a dict of tensors by the names of the model's arguments, an iterator of
            such batches, as `records.batches(64)` is, a tf.data.Dataset of batches, a DataFrame,
            rows that were opened, or the path of a file. The model gets the columns that it takes.
        signature: The signature to call; by default the one that calling the model means.
        batch_size: The number of rows in a call; by default all rows.
        lengths: Makes padded outputs ragged. Maps the name of each to the output that has the
            number of valid values in each row; that output is left out.
        keep: The names of inputs to return beside the outputs.
        allow: What a model from a path may do besides computing: see `tensorferry.load_model`.
        engine: What calls the model: "local", "ray" or an engine; by default the calling thread.
            Each worker loads the model once. The inputs are then files: what `tensorferry.open`
            takes, or open rows; and a model may be a factory: a class, or a function without
            arguments, that makes the model on the worker.
        progress: True shows a bar; a function receives the number of rows done; with an engine, the
            number of tasks done and the total.
        storage_options: For the store of the inputs, if they are a URL.

    Returns:
        NumPy arrays, ragged and sparse tensors by name.

    Raises:
        MismatchError: The batches have different outputs, or it is not clear which of the inputs
            the model takes.

    Examples:
        >>> ferry.predict(lambda x: {"y": x * 2}, np.arange(4.0), batch_size=2)["y"].tolist()
        [0.0, 2.0, 4.0, 6.0]
    """
    if engine is not None:
        asked = batching.Model(model, signature, lengths or {}, keep, allow)
        with following(progress, "predict", "tasks") as tell:
            return batching.predict(
                asked, inputs, batch_size, engines.choose(engine), tell, options=storage_options
            )
    work = Calls(model, signature, lengths, keep, allow)
    with (
        following(progress, "predict", "rows") as work.tell,
        _given(inputs, batch_size, work, storage_options) as (given, size),
    ):
        return work.run_all(given, size)


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
    engine: engines.Choice | None = None,
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

    With an engine, the inputs are files, and files of rows are written in shards, one per task,
    which appear together at the end. If the job is interrupted, the same call resumes it: finished
    shards stay in a hidden folder beside the target, as long as model, inputs and options are the
    same.

    Args:
        model: See `predict`.
        inputs: See `predict`.
        path: The suffix says the format.
        signature: See `predict`.
        batch_size: The number of rows in a call; files of rows never have more in memory.
        lengths: See `predict`.
        keep: See `predict`.
        allow: See `predict`.
        engine: See `predict`.
        progress: See `predict`.
        format: The format, if the suffix does not say it.
        metadata: Metadata to store with the outputs; TFRecords have no place for it.
        compression: As in `tensorferry.save`.
        quantize: As in `tensorferry.save`; files of rows are not quantized.
        shard_size: As in `tensorferry.save`; files of rows have none.
        durable: Wait until the bytes are on disk.
        storage_options: Options for the store of a URL.
        shards: The number of files of rows to write; with an engine, by default as many as there
            are tasks.
        level: The level of the compression of TFRecords and npz files.

    Returns:
        What was written; with an engine a `tensorferry.models.batching.Predicted`, which also has
        the number of rows, the rate, and what could not be read.

    Raises:
        OptionError: The format has no such option; also a TypeError.

    Examples:
        >>> rows = {"x": np.arange(4.0), "id": np.arange(4)}
        >>> saved = ferry.save_predictions(lambda x: {"y": x * 2}, rows, "pred.npz", keep=("id",))
        >>> sorted(ferry.load("pred.npz"))
        ['id', 'y']
    """
    name = os.fspath(path)
    streamed = _format_of_rows(name, format)
    if streamed is None:
        outputs = predict(
            model,
            inputs,
            signature=signature,
            batch_size=batch_size,
            lengths=lengths,
            keep=keep,
            allow=allow,
            engine=engine,
            progress=progress,
            storage_options=storage_options,
        )
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
    asked = {"compression": compression, "level": level, "quantize": quantize}
    chosen = keywords.given({**asked, "shard_size": shard_size})
    target = Target(name, options=storage_options, durable=durable)
    output = batching.Output(streamed, target, chosen, shards, dict(metadata or {}))
    if engine is None:
        return _stream(
            Calls(model, signature, lengths, keep, allow), inputs, batch_size, output, progress
        )
    called = batching.Model(model, signature, lengths or {}, keep, allow)
    with following(progress, name, "tasks") as tell:
        return batching.save(called, inputs, batch_size, output, engines.choose(engine), tell)


def _format_of_rows(path: str, format: str | None) -> str | None:
    """The format of a file that is written batch by batch; None if it holds whole columns."""
    found = format or format_named(path)
    facts = None if found is None else table.facts_of(found)
    packed = codecs.split_suffix(path)[1] is not None
    if facts is None or not facts.streams_rows or (packed and not facts.decompresses):
        return None
    return facts.name


def _stream(
    calls: Calls,
    inputs: Any,
    batch_size: int | None,
    output: batching.Output,
    progress: Progress | bool | None,
) -> Saved:
    """Writes the outputs batch by batch, in this thread."""
    target = output.target
    with (
        following(progress, target.path, "rows") as calls.tell,
        _given(inputs, batch_size, calls, target.options) as (given, size),
        output.writer(target, output.shards) as out,
    ):
        for outputs in calls.run(given, size):
            out.write_batch(outputs)
    sizes = [target.place().at(written).size() or 0 for written in out.paths]
    return Saved(target.path, output.format, sum(sizes), files=tuple(out.paths))


@contextmanager
def _given(
    inputs: Any, size: int | None, work: Calls, options: Mapping[str, Any] | None
) -> Iterator[tuple[Any, int | None]]:
    """The inputs, and the number of rows in a call: paths are opened, and rows are streamed."""
    own: Rows | Bundle | None = None
    if isinstance(inputs, str | os.PathLike):
        own = open_file(inputs, storage_options=options)
    elif frames.is_frame(inputs) and not isinstance(inputs, Rows):
        own = open_file(BytesIO(dumps(inputs, format="arrow")))
    try:
        opened = inputs if own is None else own
        if isinstance(opened, Rows):
            columns = work.columns(opened.columns)
            yield iter(opened.batches(size or ROWS, columns=columns)), None
        elif isinstance(own, Bundle):
            yield own.value(), size
        else:
            yield _elements(inputs), size
    finally:
        if own is not None:
            own.close()


def _elements(inputs: Any) -> Any:
    """A dataset of tf.data as an iterator, as Keras has it: its elements are batches."""
    if not frameworks.table.in_use("tensorflow"):
        return inputs
    elements = frameworks.table.datasets().elements(inputs)
    return inputs if elements is None else elements
