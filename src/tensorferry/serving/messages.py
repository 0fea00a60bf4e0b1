"""Serving's protobuf messages: the table of their fields, a reader, and what writes them.

The messages are those of `tensorflow_serving/apis`, as far as they are used; fields that are not in
the table are passed over. A map is written in the order of its keys, as protobuf's deterministic
writers do, so that the same values give the same bytes.

Tensors are `tensorferry.formats.tensorproto.message`: neither copied on writing nor, where the
bytes allow it, on reading. A message that is being written is a list of buffers, the caller's
arrays among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from tensorferry import frameworks
from tensorferry.codecs.protobuf import (
    Message,
    Span,
    Tables,
    Writer,
    join,
    parse_schema,
    utf8,
    varint,
)
from tensorferry.dtypes import BY_NUMPY, STRING
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.formats.savedmodel.messages import TABLES, Reader as SavedModelReader
from tensorferry.formats.tensorproto import message as tensorproto
from tensorferry.storage import Buffers, byte_view
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, as_tensor

SCHEMA = """
ModelSpec: 1 name text, 2 version Int64Value, 3 signature_name text, 4 version_label ?text
Int64Value: 1 value int
TensorEntry: 1 key ?text, 2 value TensorProto

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
Class: 1 label text, 2 score fixed32
RegressionRequest: 1 model_spec ModelSpec, 2 input Input
RegressionResponse: 1 result RegressionResult, 2 model_spec ModelSpec
RegressionResult: 1 regressions *Regression
Regression: 1 value fixed32
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
MetadataEntry: 1 key ?text, 2 value Any
Any: 1 type_url text, 2 value bytes
SignatureDefMap: 1 signature_def *SignatureEntry
"""


class Reader(SavedModelReader):
    """Reads Serving's messages, and those of a SavedModel that stand in them."""

    tables: ClassVar[Tables] = {**TABLES, **parse_schema(SCHEMA)}

    def tensors(self, spans: Iterable[Span], to: str) -> dict[str, Any]:
        """A map of tensors."""
        found: dict[str, Any] = {}
        for span in spans:
            name, place = self.entry("TensorEntry", span)
            start, end = place or (span.end, span.end)
            if name in found:
                raise self.twice(f"the tensor {name[:60]!r}", span.start)
            try:
                tensor = tensorproto.read(self.data, start=start, end=end, budget=self.budget)
                if tensor.__class__ is not np.ndarray:
                    raise FormatError(
                        f"a {type(tensor).__name__} as a variant, expected a dense tensor",
                        offset=start,
                    )
                found[name] = tensor if to == "numpy" else frameworks.give(tensor, to)
            except FerryError as error:
                raise error.located(tensor=name[:60]) from None
        return found


WRITER = Writer(Reader.tables)


def write_tensors(message: str, name: str, tensors: Mapping[str, Any]) -> Message:
    """A map of tensors as a field of a message, without copying them."""
    field = WRITER.tag(message, name)
    # Not through `frame` for each: a request is often a few small tensors.
    buffers: list[Any] = []
    total = 0
    for key in sorted(check_names(tensors)):
        array = as_dense(tensors[key], key)
        content = Buffers()
        try:
            tensorproto.write(array, content)
        except FerryError as error:
            raise error.located(tensor=key) from None
        size = 0
        for buffer in content:
            size += len(buffer) if buffer.__class__ is bytes else buffer.nbytes
        text = utf8(key)
        head = _KEY + varint(len(text)) + text + _VALUE + varint(size)
        head = field + varint(len(head) + size) + head
        buffers.append(head)
        buffers += content
        total += len(head) + size
    return Message(buffers, total)


def finish(*parts: Message) -> list[Any]:
    """The buffers of a whole message.

    Raises:
        UnsupportedError: Protobuf has no messages of that size.
    """
    message = join(parts)
    if message.size > tensorproto.MAX_SIZE:
        raise UnsupportedError(
            f"a message holds less than 2 GiB, this one takes {message.size} bytes",
            hint="send the rows in several requests",
        )
    return message.buffers


_KEY, _VALUE = WRITER.tag("TensorEntry", "key"), WRITER.tag("TensorEntry", "value")


def views_of(buffers: list[Any]) -> list[memoryview]:
    """The buffers of a message as plain bytes."""
    return [byte_view(buffer) for buffer in buffers]


def check_texts(texts: Iterable[str], what: str) -> list[str]:
    """A list of texts, if that is what it is.

    Raises:
        UnsupportedError: It is one text, or holds something else.
    """
    given = [texts] if isinstance(texts, str) else list(texts)
    if given == [texts] or not all(isinstance(text, str) for text in given):
        raise UnsupportedError(f"{what} is {texts!r}, expected a list of texts")
    return given


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
