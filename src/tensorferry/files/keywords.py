"""The options of formats, as keywords of the public functions.

`open`, `load` and `loads` take those of `Reading`, `save` and `dumps` those of `Writing`, and
`writer` those of `WritingRows`. Each is listed once, here, with its type: `help()` shows them,
mypy knows them, and a format that does not have one refuses it (`formats.contract.choose`). An
option that is None was not given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Reading(TypedDict, total=False):
    """Options with which formats are read.

    Attributes:
        columns: Of rows: the columns wanted; others are not decoded.
        on_error: Of rows: "raise" on damage, "skip" it, or "keep" TFRecords whose data checksum is
            wrong. What was skipped or kept is in `rows.damages`.
        optional: Of Arrow and Parquet: the columns that may be null, which batches have as none or
            one value a row. By default they are found in the metadata of all files.
        schema: Of rows: what the columns are; by default that of a file beside the data, or else
            inferred. See `tensorferry.rows.schema.as_schema`.
        infer: Of TFRecords: whether the "first" records tell the schema, or "all" are looked at.
        raw: Of TFRecords: give the records' bytes, whatever they hold.
        threads: Of TFRecords: number of threads that decode; by default one for each processor.
        names: Of checkpoints and SavedModels: whether tensors are named by their "paths" in the
            object graph, by the "variables"' own names, or by the "keys" of the file.
        dtype: Of raw bytes: what they hold.
        shape: Of raw bytes; one dimension may be -1.
        byteorder: Of raw bytes: of each number.
        order: Of raw bytes: "C" if the last index runs fastest, "F" if the first does.
        serving: Of JSON: whether it is a body of TensorFlow Serving's REST API.
        dtypes: Of such bodies: the dtype of all tensors, or a dict of dtypes by name.
        hdf5: Of HDF5: "h5py" reads what our own reader refuses with the HDF5 library, which is not
            safe for files of strangers.
    """

    columns: Sequence[str] | None
    on_error: Literal["raise", "skip", "keep"] | None
    optional: Sequence[str] | None
    schema: Any
    infer: Literal["first", "all"] | None
    raw: bool | None
    threads: int | None
    names: Literal["paths", "keys", "variables"] | None
    dtype: Any
    shape: Any
    byteorder: Literal["little", "big", "native"] | None
    order: Literal["C", "F"] | None
    serving: bool | None
    dtypes: Any
    hdf5: Literal["own", "h5py"] | None


class Writing(TypedDict, total=False):
    """Options with which formats are written.

    Attributes:
        level: Of npz and TFRecords: of the compression.
        rows: Of Arrow and Parquet: whether each step of the first dimension is a row. By default
            the tensors are rows if they all have the same first dimension.
        batch_rows: Of Arrow and Parquet: number of rows of a record batch or row group.
        byte_stream_split: Of Parquet: encode floats by byte-stream-split, which compresses better.
        stream: Of Arrow: write the stream format.
        dtype: Of raw bytes: what to cast the values to.
        byteorder: Of raw bytes: of each number.
        order: Of raw bytes: "C" if the last index runs fastest, "F" if the first does.
        inline: Of JSON: up to how many elements a tensor is written as readable numbers.
        serving: Of JSON: write a body of TensorFlow Serving's REST API, of this form.
        signature_name: Of such a body: the signature to call.
        string_content: Of a TensorProto: put strings into `tensor_content`.
        layout: Of checkpoints: keys are "names", or paths of "objects".
        shards: Of checkpoints and rows: number of files.
        state: Of checkpoints: make it the latest of its folder.
        keep: Of checkpoints: how many the folder keeps.
        shard: Of checkpoints and safetensors: write the share of one of several workers, as in
            `(rank, size)`, or `(rank, size, "step 900")`; see `tensorferry.finish`.
        paths: Of Keras' weights: the path of each in its HDF5 file.
        layers: Of Keras' weights: the name of the layer of each group.
        schema: Of TFRecords: how features are to be written.
        append: Of TFRecords: go on behind the records of an existing file.
    """

    level: int | None
    rows: bool | None
    batch_rows: int | None
    byte_stream_split: bool | None
    stream: bool | None
    dtype: Any
    byteorder: Literal["little", "big", "native"] | None
    order: Literal["C", "F"] | None
    inline: int | None
    serving: Literal["instances", "inputs", "predictions", "outputs"] | None
    signature_name: str | None
    string_content: bool | None
    layout: Literal["names", "objects"] | None
    shards: int | None
    state: bool | None
    keep: int | None
    shard: tuple[int, int] | tuple[int, int, str] | None
    paths: Mapping[str, str] | None
    layers: Mapping[str, str] | None
    schema: Any
    append: bool | None


class WritingRows(TypedDict, total=False):
    """Options with which rows are written.

    Attributes:
        level: Of the compression of TFRecords.
        schema: How columns are to be written, where their types do not say it.
        append: Of TFRecords: go on behind the records of an existing, uncompressed file, whose
            frames are checked first.
        batch_rows: Of Arrow and Parquet: number of rows of a record batch or row group.
        byte_stream_split: Of Parquet: encode floats by byte-stream-split, which compresses better.
        stream: Of Arrow: write the stream format.
        quantize: Of TFRecords: the columns of floats that are made smaller, as in
            `{"embedding": "int8"}`, "float16" or "bfloat16". They are read as floats again.
    """

    level: int | None
    schema: Any
    append: bool | None
    batch_rows: int | None
    byte_stream_split: bool | None
    stream: bool | None
    quantize: Any


class WritingBytes(Writing, total=False):
    """Options of `dumps`: those of formats, and what `save` names itself.

    Attributes:
        metadata: What to keep with the value, where the format has a place for it.
        quantize: Makes floats smaller: see `tensorferry.save`.
        compression: The format's own.
    """

    metadata: Mapping[str, Any] | None
    quantize: Any
    compression: str | None


class Opening(Reading, total=False):
    """Options of `loads` and of operations: those of formats, and what `load` names itself.

    Attributes:
        verify: Check the checksums, where the format has them.
        dequantize: Give the floats that quantized values stand for.
        parts: Give the arrays as they are stored, whatever was noted about them.
    """

    verify: bool
    dequantize: bool
    parts: bool


class WritingWeights(TypedDict, total=False):
    """Options with which weights are saved: those of `tensorferry.save`.

    Attributes:
        metadata: What to keep with the weights: strings, or anything that JSON takes.
        compression: As in `tensorferry.save`.
        quantize: Makes floats smaller: "int8", ("int8", max_error).
        shard_size: Of safetensors and Keras' weights: the most bytes in a file, as in "5GB".
        storage_options: For the store of a URL.
        layout: Of checkpoints: keys are "names", or paths of "objects". By default objects, if
            TensorFlow tracks the model.
        shards: Of checkpoints: number of data files.
        state: Of checkpoints: make it the latest of its folder.
        keep: Of checkpoints: how many the folder keeps.
        level: Of npz: of the compression.
    """

    metadata: Mapping[str, Any] | None
    compression: str | None
    quantize: Any
    shard_size: int | str | None
    storage_options: Mapping[str, Any] | None
    layout: Literal["names", "objects"] | None
    shards: int | None
    state: bool | None
    keep: int | None
    level: int | None


class ReadingWeights(TypedDict, total=False):
    """Options with which weights are loaded: those of `tensorferry.open`.

    Attributes:
        format: Of the file; by default recognised.
        verify: Check the checksums, where the format has them.
        dequantize: Load the floats that quantized values stand for.
        names: How a checkpoint or SavedModel names its tensors: by "paths", "variables" or "keys".
        storage_options: For the store of a URL.
    """

    format: str | None
    verify: bool
    dequantize: bool
    names: Literal["paths", "keys", "variables"] | None
    storage_options: Mapping[str, Any] | None


def shown(keywords: type) -> Callable[[F], F]:
    """Makes `help()` list the keywords of a function that takes them as `**options`.

    Args:
        keywords: One of the classes above.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        every = signature.parameters.values()
        named = [known for known in every if known.kind is not inspect.Parameter.VAR_KEYWORD]
        listed = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )
            for kind in reversed(keywords.__mro__[:-1])
            for name, annotation in vars(kind).get("__annotations__", {}).items()
        ]
        function.__signature__ = signature.replace(parameters=[*named, *listed])  # type: ignore[attr-defined]
        return function

    return decorate


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}
