"""The options of formats, as keywords of the public functions.

`open`, `load` and `loads` take those of `Reading`, `save` and `dumps` those of `Writing`, and
`writer` those of `WritingRows`. Each is listed once, here, with its type: `help()` shows them,
mypy knows them, and a format that does not have one refuses it (`formats.contract.choose`). An
option that is None was not given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    from typing import TypedDict
else:

    class TypedDict(dict):
        """Names and annotations; a real one would compile each of them at the first import."""

        def __init_subclass__(cls, *, total: bool = True) -> None:
            """Takes what a real one takes, and lists the names of its bases, too."""
            listed = [vars(kind).get("__annotations__", {}) for kind in reversed(cls.__mro__)]
            cls.__annotations__ = {name: each[name] for each in listed for name in each}


class Reading(TypedDict, total=False):
    """Options with which formats are read.

    Attributes:
        columns: Rows: the columns to read; others are not decoded.
        on_error: Rows: "raise" on damage, "skip" it, or "keep" TFRecords with a wrong data
            checksum. `rows.damages` lists what was skipped or kept.
        optional: Arrow and Parquet: the columns that may be null, which have zero or one value per
            row in batches. By default they are found in the metadata of all files; "all" are those
            that the schema allows to be null.
        schema: Rows: the schema of the columns; by default from a file beside the data, or else
            inferred. See `tensorferry.rows.schema.as_schema`.
        infer: TFRecords: infer the schema from the "first" records or from "all".
        raw: TFRecords: return the bytes of each record.
        threads: TFRecords: number of decoding threads; by default one per processor.
        names: Checkpoints and SavedModels: name tensors by their "paths" in the object graph, by
            the names of the "variables", or by the "keys" of the file.
        dtype: Raw bytes: the dtype of the values.
        shape: Raw bytes: the shape; one dimension may be -1.
        byteorder: Raw bytes: the byte order.
        order: Raw bytes: "C" if the last index runs fastest, "F" if the first does.
        serving: JSON: whether the text is a body of TensorFlow Serving's REST API.
        dtypes: JSON with `serving`: the dtype of all tensors, or a dict of dtypes by name.
        hdf5: HDF5: "h5py" also reads what our own reader refuses, with the HDF5 library, which is
            not safe for untrusted files.
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
        level: npz and TFRecords: the compression level.
        rows: Arrow and Parquet: whether each step along the first dimension is a row. By default,
            if all tensors have the same first dimension.
        batch_rows: Arrow and Parquet: number of rows in a record batch or row group.
        byte_stream_split: Parquet: encode floats with byte-stream-split, which compresses better.
        stream: Arrow: write the stream format.
        dtype: Raw bytes: the dtype to cast the values to.
        byteorder: Raw bytes: the byte order.
        order: Raw bytes: "C" if the last index runs fastest, "F" if the first does.
        inline: JSON: tensors of up to this many elements are written as readable numbers.
        serving: JSON: write a body of TensorFlow Serving's REST API in this form.
        signature_name: JSON with `serving`: the signature to call.
        string_content: TensorProto: put strings into `tensor_content`.
        layout: Checkpoints: keys are "names", or paths of "objects".
        shards: Checkpoints and rows: number of files.
        state: Checkpoints: make it the latest checkpoint of its folder.
        keep: Checkpoints: how many checkpoints the folder keeps.
        shard: Checkpoints and safetensors: write the share of one of several workers, as in `(rank,
            size)`, or `(rank, size, "step 900")`; see `tensorferry.finish`.
        paths: Keras weights: the path of each tensor in the HDF5 file.
        layers: Keras weights: the layer name of each group.
        schema: TFRecords: how to write the features.
        append: TFRecords: append to an existing file.
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
        level: TFRecords: the compression level.
        schema: How to write columns whose type is ambiguous.
        append: TFRecords: append to an existing, uncompressed file, whose frames are checked first.
        batch_rows: Arrow and Parquet: number of rows in a record batch or row group.
        byte_stream_split: Parquet: encode floats with byte-stream-split, which compresses better.
        stream: Arrow: write the stream format.
        quantize: TFRecords: the float columns to quantize, as in `{"embedding": "int8"}`, "float16"
            or "bfloat16". They are read as floats again.
    """

    level: int | None
    schema: Any
    append: bool | None
    batch_rows: int | None
    byte_stream_split: bool | None
    stream: bool | None
    quantize: Any


class WritingBytes(Writing, total=False):
    """Options of `dumps`: those of formats, and the ones that `save` names itself.

    Attributes:
        metadata: Metadata to store with the value, if the format has a place for it.
        quantize: Store floats with fewer bits: see `tensorferry.save`.
        compression: The format's own compression.
    """

    metadata: Mapping[str, Any] | None
    quantize: Any
    compression: str | None


class Opening(Reading, total=False):
    """Options of `loads` and operations: those of formats, and the ones that `load` names itself.

    Attributes:
        verify: Verify checksums, if the format has them.
        dequantize: Return floats for quantized values.
        parts: Return the arrays as they are stored, without joining them.
    """

    verify: bool
    dequantize: bool
    parts: bool


class WritingWeights(TypedDict, total=False):
    """Options with which weights are saved: those of `tensorferry.save`.

    Attributes:
        metadata: Strings, or anything that JSON can hold, to store with the weights.
        compression: As in `tensorferry.save`.
        quantize: Store floats with fewer bits: "int8", ("int8", max_error).
        shard_size: safetensors and Keras weights: the maximum size of a file, such as "5GB".
        storage_options: Options for the store of a URL.
        layout: Checkpoints: keys are "names", or paths of "objects"; by default objects, if
            TensorFlow tracks the model.
        shards: Checkpoints: number of data files.
        state: Checkpoints: make it the latest checkpoint of its folder.
        keep: Checkpoints: how many checkpoints the folder keeps.
        level: npz: the compression level.
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
        format: The format of the file; by default detected.
        verify: Verify checksums, if the format has them.
        dequantize: Load floats for quantized values.
        names: How a checkpoint or SavedModel names its tensors: by "paths", "variables" or "keys".
        storage_options: Options for the store of a URL.
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
    import inspect  # which takes long: who wants no help imports no function that is shown

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        every = signature.parameters.values()
        named = [known for known in every if known.kind is not inspect.Parameter.VAR_KEYWORD]
        listed = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )
            for name, annotation in keywords.__annotations__.items()
        ]
        function.__signature__ = signature.replace(parameters=[*named, *listed])  # type: ignore[attr-defined]
        return function

    return decorate


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}
