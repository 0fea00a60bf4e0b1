"""Classify, Regress and MultiInference: Examples in, classes or numbers out.

    ClassificationRequest, RegressionRequest   1 model_spec  2 input
    ClassificationResponse                     1 result: classes of each example  2 model_spec
    RegressionResponse                         1 result: a number for each example  2 model_spec
    MultiInferenceRequest                      1 tasks: models and methods  2 input
    MultiInferenceResponse                     1 results, one for each task

    {"signature_name": ..., "context": {...}, "examples": [{...}, ...]}
    {"results": [[["label", score], ...], ...]}     {"results": [number, ...]}

A response has labels and scores as two tensors, as models do: [examples, classes], or ragged if the
examples have different numbers of classes. `tensorferry.serving.examples` reads and writes the
Examples, `tensorferry.serving.results` the classes and numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tensorferry.classes import dataclass, field
from tensorferry.codecs.protobuf import Span
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.serving import bodies, examples as inputs, results
from tensorferry.serving.messages import WRITER, Reader
from tensorferry.serving.model import (
    PREDICTION_SERVICE,
    ModelMessage,
    Request,
    read_path,
    read_spec,
    write_spec,
)
from tensorferry.storage import as_source

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorferry.serving.examples import Features, Row

CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"


@dataclass(frozen=True, slots=True, eq=False)
class ExamplesRequest(Request):
    """Examples to run a model on.

    Attributes:
        examples: Rows, each a dict of features or the bytes of a serialized Example. A request
            that was read has bytes. A feature is a value or a list of integers, floats or strings.
        context: Features that all rows share, as a row.
    """

    examples: Sequence[Row | bytes]
    context: Row | bytes | None = field(default=None, kw_only=True)

    message: ClassVar[str]

    def serialized(self) -> list[bytes]:
        """The Examples as the model receives them, each with the features of the context.

        `tfio.parse_example` and `tf.io.parse_example` parse them.
        """
        records = inputs.serialize(self.examples)
        if self.context is None:
            return records
        # Concatenated messages are one message; if both have a feature, the last one counts.
        shared = inputs.serialize([self.context])[0]
        return [shared + record for record in records]

    def features(self) -> list[Features]:
        """The Examples as dicts of arrays: int64, float32, or object arrays of bytes."""
        context = None if self.context is None else inputs.parse([self.context])[0]
        return inputs.merge(inputs.parse(self.examples), context)

    def to_bytes(self) -> bytes:
        """The message.

        Raises:
            UnsupportedError: An Example cannot carry a value.
            FormatError: A feature is of different kinds in different rows.
        """
        given = inputs.write_input(self.examples, self.context)
        return WRITER.encode(self.message, model_spec=write_spec(self), input=given)

    @classmethod
    def from_bytes(cls, data: Buffer) -> Self:
        """Reads a request from a message; its examples stay serialized.

        Raises:
            FormatError: The bytes are damaged.
        """
        reader = Reader(as_source(data))
        fields = reader.whole(cls.message)
        return cls(**read_spec(reader, fields), **inputs.read_input(reader, fields))

    def to_json(self) -> bytes:
        """The body of the REST request, to be sent to `path`.

        Raises:
            UnsupportedError: JSON cannot hold a value.
        """
        head = {"signature_name": self.signature_name} if self.signature_name else {}
        return bodies.write({**head, **inputs.to_body(self.examples, self.context)})

    @classmethod
    def from_json(cls, data: Buffer | str, *, path: str = "") -> Self:
        """Reads a request from a REST body; its examples are dicts of arrays.

        Args:
            data: The body.
            path: The path of the URL, which names the model.

        Raises:
            FormatError: The body is not one of these requests.
        """
        body = bodies.read(data)
        given = read_path(path, cls.suffix)
        given["signature_name"] = bodies.text_of(body, "signature_name")
        return cls(**given, **inputs.from_body(body, bodies.list_of(body, "examples")))


@dataclass(frozen=True, slots=True, eq=False)
class ClassifyRequest(ExamplesRequest):
    """Examples to classify."""

    method: ClassVar[str] = PREDICTION_SERVICE + "Classify"
    suffix: ClassVar[str] = ":classify"
    message: ClassVar[str] = "ClassificationRequest"


@dataclass(frozen=True, slots=True, eq=False)
class RegressRequest(ExamplesRequest):
    """Examples to predict a number for."""

    method: ClassVar[str] = PREDICTION_SERVICE + "Regress"
    suffix: ClassVar[str] = ":regress"
    message: ClassVar[str] = "RegressionRequest"


@dataclass(frozen=True, slots=True, eq=False)
class ClassifyResponse(ModelMessage):
    """The classes of each example.

    Attributes:
        labels: Strings [examples, classes]; None to write scores alone, which are read back with
            empty labels.
        scores: float32 of the same shape; None to write labels alone, which are read back with
            scores of 0.
    """

    labels: Any = None
    scores: Any = None

    def to_bytes(self) -> bytes:
        """The message.

        Raises:
            UnsupportedError: Labels and scores do not fit each other.
        """
        result = results.write_classes(self.labels, self.scores)
        return WRITER.encode("ClassificationResponse", result=result, model_spec=write_spec(self))

    @classmethod
    def from_bytes(cls, data: Buffer) -> ClassifyResponse:
        """Reads a response from a message.

        Raises:
            FormatError: The bytes are damaged.
        """
        reader = Reader(as_source(data))
        fields = reader.whole("ClassificationResponse")
        return cls._read(reader, fields.get("result"), read_spec(reader, fields))

    @classmethod
    def _read(cls, reader: Reader, span: Span | None, given: dict[str, Any]) -> ClassifyResponse:
        labels, scores = results.read_classes(reader, span or Span(0, 0))
        return cls(labels, scores, **given)

    def to_json(self) -> bytes:
        """The body of the REST response."""
        return bodies.write({"results": results.classes_to_lists(self.labels, self.scores)})

    @classmethod
    def from_json(cls, data: Buffer | str) -> ClassifyResponse:
        """Reads a response from a REST body.

        Raises:
            FormatError: The body is no such response, or reports an error of the server.
        """
        # Serving's documentation says "result", the server says "results".
        rows = bodies.list_of(bodies.read(data), "results", "result")
        return cls(*results.classes_from_lists(rows))


@dataclass(frozen=True, slots=True, eq=False)
class RegressResponse(ModelMessage):
    """A number for each example.

    Attributes:
        values: The numbers, float32 [examples].
    """

    values: Any

    def to_bytes(self) -> bytes:
        """The message.

        Raises:
            UnsupportedError: The values are not one dimension of numbers.
        """
        result = results.write_values(self.values)
        return WRITER.encode("RegressionResponse", result=result, model_spec=write_spec(self))

    @classmethod
    def from_bytes(cls, data: Buffer) -> RegressResponse:
        """Reads a response from a message.

        Raises:
            FormatError: The bytes are damaged.
        """
        reader = Reader(as_source(data))
        fields = reader.whole("RegressionResponse")
        return cls._read(reader, fields.get("result"), read_spec(reader, fields))

    @classmethod
    def _read(cls, reader: Reader, span: Span | None, given: dict[str, Any]) -> RegressResponse:
        return cls(results.read_values(reader, span or Span(0, 0)), **given)

    def to_json(self) -> bytes:
        """The body of the REST response."""
        return bodies.write({"results": results.values_to_list(self.values)})

    @classmethod
    def from_json(cls, data: Buffer | str) -> RegressResponse:
        """Reads a response from a REST body.

        Raises:
            FormatError: The body is no such response, or reports an error of the server.
        """
        values = bodies.list_of(bodies.read(data), "results", "result")
        return cls(results.values_from_list(values))


@dataclass(frozen=True, slots=True)
class InferenceTask(ModelMessage):
    """One of several models, or signatures of a model, to run on the same examples.

    Attributes:
        model: The name of the model on the server.
        method_name: `CLASSIFY` or `REGRESS`.
    """

    model: str
    method_name: str


@dataclass(frozen=True, slots=True, eq=False)
class MultiInferenceRequest:
    """Examples to run several models on; REST has no such request.

    Attributes:
        tasks: The models.
        examples: As in `ClassifyRequest`.
        context: As in `ClassifyRequest`.
    """

    tasks: Sequence[InferenceTask]
    examples: Sequence[Row | bytes]
    context: Row | bytes | None = field(default=None, kw_only=True)

    method: ClassVar[str] = PREDICTION_SERVICE + "MultiInference"

    def to_bytes(self) -> bytes:
        """The message: see `ClassifyRequest.to_bytes`."""
        tasks = [
            {"model_spec": write_spec(task), "method_name": task.method_name} for task in self.tasks
        ]
        given = inputs.write_input(self.examples, self.context)
        return WRITER.encode("MultiInferenceRequest", tasks=tasks, input=given)

    @classmethod
    def from_bytes(cls, data: Buffer) -> MultiInferenceRequest:
        """Reads a request from a message; its examples stay serialized.

        Raises:
            FormatError: The bytes are damaged.
        """
        reader = Reader(as_source(data))
        fields = reader.whole("MultiInferenceRequest")
        tasks = []
        for span in fields.get("tasks", ()):
            task = reader.read("InferenceTask", span)
            given = read_spec(reader, task)
            tasks.append(InferenceTask(method_name=task.get("method_name", ""), **given))
        return cls(tasks, **inputs.read_input(reader, fields))


@dataclass(frozen=True, slots=True, eq=False)
class MultiInferenceResponse:
    """The results of several models.

    Attributes:
        results: One result for each task.
    """

    results: Sequence[ClassifyResponse | RegressResponse]

    def to_bytes(self) -> bytes:
        """The message.

        Raises:
            UnsupportedError: A result is of another type.
        """
        written = [self._write(result) for result in self.results]
        return WRITER.encode("MultiInferenceResponse", results=written)

    @staticmethod
    def _write(result: Any) -> bytes:
        classes = values = None
        if isinstance(result, ClassifyResponse):
            classes = results.write_classes(result.labels, result.scores)
        elif isinstance(result, RegressResponse):
            values = results.write_values(result.values)
        else:
            raise UnsupportedError(
                f"a result is a {type(result).__name__}, "
                "expected a ClassifyResponse or a RegressResponse"
            )
        return WRITER.encode(
            "InferenceResult",
            model_spec=write_spec(result),
            classification_result=classes,
            regression_result=values,
        )

    @classmethod
    def from_bytes(cls, data: Buffer) -> MultiInferenceResponse:
        """Reads a response from a message.

        Raises:
            FormatError: The bytes are damaged.
        """
        reader = Reader(as_source(data))
        found = reader.whole("MultiInferenceResponse").get("results", ())
        return cls([_read_result(reader, reader.read("InferenceResult", s), s) for s in found])


def _read_result(
    reader: Reader, fields: Mapping[str, Any], span: Span
) -> ClassifyResponse | RegressResponse:
    classes, values = fields.get("classification_result"), fields.get("regression_result")
    if (classes is None) == (values is None):
        found = "no result" if classes is None else "two results"
        raise FormatError(f"{found}, expected classes or values", offset=span.start)
    given = read_spec(reader, fields)
    if classes is not None:
        return ClassifyResponse._read(reader, classes, given)
    return RegressResponse._read(reader, values, given)
