"""Serving's protobuf messages: the table of their fields, a reader, and what writes them.

The messages are those of `tensorflow_serving/apis`, as far as they are used; fields that are not in
the table are passed over. A map is written in the order of its keys, as protobuf's deterministic
writers do, so that the same values give the same bytes.

Tensors are `tensorferry.formats.tensorproto`: neither copied on writing nor, where the bytes allow
it, on reading. A message that is being written is a list of buffers, the caller's arrays among
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from tensorferry import _native, frameworks
from tensorferry.codecs.wire import tag, varint
from tensorferry.dtypes import BY_NUMPY, STRING
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.formats import tensorproto
from tensorferry.formats.savedmodel.messages import (
    TABLES,
    Reader as TableReader,
    Span,
    Tables,
    parse_schema,
)
from tensorferry.formats.structure import BYTES, VARINT, utf8
from tensorferry.storage import Buffers, byte_view
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, as_tensor

SCHEMA = """
ModelSpec: 1 name text, 2 version Int64Value, 3 signature_name text, 4 version_label text
Int64Value: 1 value int
TensorEntry: 1 key text, 2 value TensorProto

PredictRequest: 1 model_spec ModelSpec, 2 inputs *TensorEntry, 3 output_filter *text
PredictResponse: 1 outputs *TensorEntry, 2 model_spec ModelSpec

Input: 1 example_list ExampleList, 2 example_list_with_context ExampleListWithContext
ExampleList: 1 examples *Example
ExampleListWithContext: 1 examples *Example, 2 context Example
Example:

ClassificationRequest: 1 model_spec ModelSpec, 2 input Input
ClassificationResponse: 1 result ClassificationResult, 2 model_spec ModelSpec
ClassificationResult: 1 classifications *Classifications
Classifications: 1 classes *Class
Class: 1 label text, 2 score float
RegressionRequest: 1 model_spec ModelSpec, 2 input Input
RegressionResponse: 1 result RegressionResult, 2 model_spec ModelSpec
RegressionResult: 1 regressions *Regression
Regression: 1 value float
MultiInferenceRequest: 1 tasks *InferenceTask, 2 input Input
InferenceTask: 1 model_spec ModelSpec, 2 method_name text
MultiInferenceResponse: 1 results *InferenceResult
InferenceResult: 1 model_spec ModelSpec, 2 classification_result ClassificationResult,
    3 regression_result RegressionResult

GetModelStatusRequest: 1 model_spec ModelSpec
GetModelStatusResponse: 1 model_version_status *ModelVersionStatus
ModelVersionStatus: 1 version int, 2 state int, 3 status StatusProto
StatusProto: 1 error_code int, 2 error_message text
GetModelMetadataRequest: 1 model_spec ModelSpec, 2 metadata_field *text
GetModelMetadataResponse: 1 model_spec ModelSpec, 2 metadata *MetadataEntry
MetadataEntry: 1 key text, 2 value Any
Any: 1 type_url text, 2 value bytes
SignatureDefMap: 1 signature_def *SignatureEntry
"""


class Reader(TableReader):
    """Reads Serving's messages, and those of a SavedModel that stand in them."""

    tables: ClassVar[Tables] = {**TABLES, **parse_schema(SCHEMA)}

    def whole(self, message: str) -> dict[str, Any]:
        """The fields of the message that all of the buffer is."""
        return self.read(message, Span(0, len(self.data)))

    def part(self, fields: Mapping[str, Any], name: str, message: str) -> dict[str, Any]:
        """The fields of a message that stands in another; none of them if it does not."""
        return self.read(message, fields[name]) if name in fields else {}

    def tensors(self, spans: Iterable[Span], to: str) -> dict[str, Any]:
        """A map of tensors."""
        found: dict[str, Any] = {}
        for span in spans:
            name, start, end = self._entry(span)
            if name in found:
                raise self.twice(f"the tensor {name[:60]!r}", span.start)
            try:
                tensor = tensorproto.read(self.data, start=start, end=end)
                if tensor.__class__ is not np.ndarray:
                    raise FormatError(
                        f"a {type(tensor).__name__} as a variant, expected a dense tensor",
                        offset=start,
                    )
                found[name] = tensor if to == "numpy" else frameworks.give(tensor, to)
            except FerryError as error:
                raise error.located(tensor=name[:60]) from None
        return found

    def _entry(self, span: Span) -> tuple[str, int, int]:
        """The key of an entry of a map, and where its value stands."""
        fields = list(_native.MessageFields(self.data, *span))
        if len(fields) == 2:
            (key, wire, first, last), (value, kind, start, end) = fields
            if key == 1 and value == 2 and wire == kind == BYTES:
                return self.text(first, last), start, end
        entry = self.read("TensorEntry", span)
        return entry.get("key", ""), *entry.get("value", (span.end, span.end))


class Writer:
    """Gathers the fields of a message, in the order of their numbers.

    Attributes:
        buffers: The bytes so far.
        size: How many there are.
    """

    def __init__(self) -> None:
        self.buffers = Buffers()
        self.size = 0

    def add(self, data: bytes) -> None:
        """Adds bytes that are whole fields."""
        self.buffers.append(data)
        self.size += len(data)

    def tensors(self, number: int, tensors: Mapping[str, Any]) -> None:
        """Adds a map of tensors."""
        for name in sorted(check_names(tensors)):
            array = as_dense(tensors[name], name)
            content = Buffers()
            try:
                tensorproto.write(array, content)
            except FerryError as error:
                raise error.located(tensor=name) from None
            size = 0
            for buffer in content:
                size += len(buffer) if buffer.__class__ is bytes else buffer.nbytes
            key = utf8(name)
            entry = b"\n" + varint(len(key)) + key + b"\x12" + varint(size)
            self.add(tag(number, BYTES) + varint(len(entry) + size) + entry)
            self.buffers += content
            self.size += size

    def finish(self) -> Buffers:
        """All of the message."""
        if self.size > tensorproto.MAX_SIZE:
            raise UnsupportedError(
                f"a message holds less than 2 GiB, this one takes {self.size} bytes",
                hint="send the rows in several requests",
            )
        return self.buffers


def views_of(buffers: Buffers) -> list[memoryview]:
    """The buffers of a message as plain bytes."""
    return [byte_view(buffer) for buffer in buffers]


def text_field(number: int, text: str) -> bytes:
    """A text as a field; nothing for an empty one, as in protobuf."""
    return bytes_field(number, utf8(text)) if text else b""


def texts_field(number: int, texts: Iterable[str], what: str) -> bytes:
    """Several texts as one repeated field."""
    given = [texts] if isinstance(texts, str) else list(texts)
    if given == [texts] or not all(isinstance(text, str) for text in given):
        raise UnsupportedError(f"{what} is {texts!r}, expected a list of texts")
    return b"".join(bytes_field(number, utf8(text)) for text in given)


def bytes_field(number: int, data: bytes) -> bytes:
    """Bytes or a message as a field."""
    return tag(number, BYTES) + varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    """An integer as a field; nothing for 0, as in protobuf."""
    return tag(number, VARINT) + varint(value & (1 << 64) - 1) if value else b""


def check_names(tensors: Any) -> Mapping[str, Any]:
    """The tensors by name, if that is what they are.

    Raises:
        UnsupportedError: They are not, or one has no name.
    """
    if not isinstance(tensors, Mapping):
        raise UnsupportedError(
            f"the tensors are a {type(tensors).__name__}, expected a dict of them by name",
            hint="`ferry info MODEL` shows the names that a SavedModel has for them",
        )
    for name in tensors:
        if not isinstance(name, str) or not name:
            raise UnsupportedError(
                f"a tensor is called {name!r}, expected the name that the model has for it",
                hint="only REST has tensors without a name, of models with one input or output",
            )
    return tensors


_PLAIN = {bool, int, float, str, bytes}


def is_plain(value: Any) -> bool:
    """Whether it is nested lists of plain Python values, which no framework has to be asked."""
    level = [value]
    while list in (types := set(map(type, level))):
        if types != {list}:
            return False
        level = list(chain.from_iterable(level))
    return types <= _PLAIN


def as_dense(value: Any, name: str) -> Array:
    """A user's tensor as an array.

    Raises:
        UnsupportedError: It is sparse or ragged, or no tensor.
    """
    if value.__class__ is np.ndarray and BY_NUMPY.get(value.dtype, STRING) is not STRING:
        return value
    try:
        accepted = value if is_plain(value) else frameworks.accept(value)
        if isinstance(accepted, SparseTensor):
            raise UnsupportedError(
                "a sparse tensor, Serving takes only dense ones",
                hint="send its to_dense(), or indices, values and dense_shape as three tensors, "
                "as the model has them",
            )
        if isinstance(accepted, RaggedTensor):
            raise UnsupportedError(
                "a ragged tensor, Serving takes only dense ones",
                hint="pad its rows to one length, or send flat_values and row splits as tensors "
                "of their own, as the model has them",
            )
        return as_tensor(accepted)
    except UnsupportedError as error:
        raise error.located(tensor=name or None) from None
