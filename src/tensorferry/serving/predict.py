"""Predict: named tensors in, named tensors out.

    PredictRequest   1 model_spec  2 inputs: a map of TensorProtos  3 output_filter
    PredictResponse  1 outputs: a map of TensorProtos  2 model_spec

    {"signature_name": ..., "instances": rows}      {"predictions": rows}
    {"signature_name": ..., "inputs": columns}      {"outputs": columns}

REST leaves out the name of a single tensor, which is "" here. REST has no dtypes either: the reader
passes them, or they are inferred from the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tensorferry import _native, frameworks
from tensorferry.classes import dataclass, field
from tensorferry.codecs.protobuf import Message
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.json.bodies import ANSWERS, REQUESTS, ROW_FORMS, from_form, to_text
from tensorferry.serving import bodies
from tensorferry.serving.messages import (
    WRITER,
    Reader,
    as_dense,
    check_texts,
    finish,
    views_of,
    write_tensors,
)
from tensorferry.serving.model import (
    PREDICTION_SERVICE,
    ModelMessage,
    Request,
    read_path,
    read_spec,
    write_spec,
)
from tensorferry.storage import as_source
from tensorferry.tensors.values import RaggedTensor

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorferry.files.bytes import Framework

UNNAMED = ""


@dataclass(frozen=True, slots=True, eq=False)
class PredictRequest(Request):
    """Tensors to run a model on.

    Attributes:
        inputs: Dense tensors of any framework, arrays, lists or numbers, by their names in the
            signature. They are checked when the request is written.
        output_filter: The names of the outputs to return; empty for all. REST does not have it.
        rows: Whether the REST request and its response are written by rows ("instances"); otherwise
            they are written by columns.
    """

    inputs: Mapping[str, Any]
    output_filter: Sequence[str] = field(default=(), kw_only=True)
    rows: bool = field(default=False, kw_only=True)

    method: ClassVar[str] = PREDICTION_SERVICE + "Predict"
    suffix: ClassVar[str] = ":predict"

    def to_bytes(self) -> bytes:
        """The message.

        Raises:
            UnsupportedError: An input is no dense tensor, or has no name.
        """
        return _native.join(self._write())

    def to_buffers(self) -> list[memoryview]:
        """The message in pieces; the large pieces are the memory of the tensors themselves."""
        return views_of(self._write())

    def _write(self) -> list[Any]:
        wanted = check_texts(self.output_filter, "output_filter")
        parts = [
            Message.of(WRITER.encode("PredictRequest", model_spec=write_spec(self))),
            write_tensors("PredictRequest", "inputs", self.inputs),
        ]
        if wanted:
            parts.append(Message.of(WRITER.encode("PredictRequest", output_filter=wanted)))
        return finish(*parts)

    @classmethod
    def from_bytes(cls, data: Buffer, *, to: Framework = "numpy") -> PredictRequest:
        """Reads a request from a message.

        Args:
            data: The message; where possible, arrays are read-only views of it.
            to: The framework whose tensors to return.

        Raises:
            FormatError: The bytes are damaged.
        """
        reader = Reader(as_source(data))
        fields = reader.whole("PredictRequest")
        inputs = reader.tensors(fields.get("inputs", ()), to)
        given = read_spec(reader, fields)
        return cls(inputs=inputs, output_filter=tuple(fields.get("output_filter", ())), **given)

    def to_json(self) -> bytes:
        """The body of the REST request, to be sent to `path`.

        Raises:
            UnsupportedError: JSON cannot hold an input, or there is a filter.
        """
        if self.output_filter:
            raise UnsupportedError("REST has no output_filter", hint="it answers with all outputs")
        form = "instances" if self.rows else "inputs"
        return _to_text(self.inputs, form, self.signature_name)

    @classmethod
    def from_json(
        cls,
        data: Buffer | str,
        *,
        path: str = "",
        dtypes: Any = None,
        to: Framework = "numpy",
    ) -> PredictRequest:
        """Reads a request from a REST body.

        Args:
            data: The body.
            path: The path of the URL, which names the model.
            dtypes: One dtype for all inputs, or a dict of dtypes by name; by default float32,
                int64, bool or string, guessed from the values. A dict with a single name also
                names an input without a name.
            to: The framework whose tensors to return.

        Raises:
            FormatError: The body is no such request.
        """
        body, form = bodies.read_tensors(data, REQUESTS)
        inputs = _tensors(body, form, dtypes, to)
        signature_name = bodies.text_of(body, "signature_name")
        given = read_path(path, cls.suffix)
        rows = form in ROW_FORMS
        return cls(inputs=inputs, rows=rows, signature_name=signature_name, **given)


@dataclass(frozen=True, slots=True, eq=False)
class PredictResponse(ModelMessage):
    """The output tensors of a model.

    Attributes:
        outputs: The tensors by their names in the signature; "" for a single output in REST.
        rows: Whether the REST response is written by rows ("predictions"); otherwise by columns.
    """

    outputs: Mapping[str, Any]
    rows: bool = field(default=False, kw_only=True)

    @property
    def output(self) -> Any:
        """The only output.

        Raises:
            UnsupportedError: There are several, or none.
        """
        if len(self.outputs) != 1:
            raise UnsupportedError(
                f"the outputs are {', '.join(map(repr, self.outputs)) or 'none'}, expected one",
                hint="`outputs` has them by name",
            )
        return next(iter(self.outputs.values()))

    def to_bytes(self) -> bytes:
        """The message.

        Raises:
            UnsupportedError: An output is no dense tensor, or has no name.
        """
        return _native.join(self._write())

    def to_buffers(self) -> list[memoryview]:
        """The message in pieces; the large pieces are the memory of the tensors themselves."""
        return views_of(self._write())

    def _write(self) -> list[Any]:
        return finish(
            write_tensors("PredictResponse", "outputs", self.outputs),
            Message.of(WRITER.encode("PredictResponse", model_spec=write_spec(self))),
        )

    @classmethod
    def from_bytes(cls, data: Buffer, *, to: Framework = "numpy") -> PredictResponse:
        """Reads a response from a message: see `PredictRequest.from_bytes`."""
        reader = Reader(as_source(data))
        fields = reader.whole("PredictResponse")
        outputs = reader.tensors(fields.get("outputs", ()), to)
        return cls(outputs, **read_spec(reader, fields))

    def to_json(self) -> bytes:
        """The body of the REST response; a single output has no name in it.

        Raises:
            UnsupportedError: JSON cannot hold an output.
        """
        outputs, binary = self.outputs, False
        if len(outputs) == 1:
            ((name, tensor),) = outputs.items()
            outputs, binary = {UNNAMED: tensor}, name.endswith("_bytes")
        return _to_text(outputs, "predictions" if self.rows else "outputs", binary=binary)

    @classmethod
    def from_json(
        cls, data: Buffer | str, *, dtypes: Any = None, to: Framework = "numpy"
    ) -> PredictResponse:
        """Reads a response from a REST body.

        Args:
            data: The body.
            dtypes: The dtypes of the outputs, as in `PredictRequest.from_json`.
            to: The framework whose tensors to return.

        Raises:
            FormatError: The body is no such response, or reports an error of the server.
        """
        body, form = bodies.read_tensors(data, ANSWERS)
        return cls(_tensors(body, form, dtypes, to), rows=form in ROW_FORMS)


def _to_text(tensors: Any, form: str, signature_name: str = "", *, binary: bool = False) -> bytes:
    if not isinstance(tensors, Mapping):
        raise UnsupportedError(
            f"the tensors are a {type(tensors).__name__}, expected a dict of them by name",
            hint='{"": tensor} for the only one of a model, which REST need not name',
        )
    dense: Any = {name: as_dense(tensor, name) for name, tensor in tensors.items()}
    if list(dense) == [UNNAMED]:
        dense = dense[UNNAMED]
    elif UNNAMED in dense:
        raise UnsupportedError("a tensor without a name beside others, expected a name for each")
    return to_text(dense, form, signature_name or None, binary=binary)


def _tensors(body: dict[str, Any], form: str, dtypes: Any, to: str) -> dict[str, Any]:
    """The tensors of a body by name."""
    tensors = from_form(body, form, dtypes)
    if not isinstance(tensors, dict):
        alone = isinstance(dtypes, Mapping) and len(dtypes) == 1
        tensors = {next(iter(dtypes)) if alone else UNNAMED: tensors}
    for name, tensor in tensors.items():
        if isinstance(tensor, RaggedTensor):
            raise FormatError(
                f"lists of different lengths in a tensor of shape {list(tensor.shape)}, "
                "expected one shape for all rows",
                tensor=name or None,
            )
    if to != "numpy":
        tensors = {name: frameworks.give(tensor, to) for name, tensor in tensors.items()}
    return tensors
