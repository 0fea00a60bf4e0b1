"""GetModelStatus: the versions of a model on a server, and whether they can be used.

    GetModelStatusRequest   1 model_spec
    GetModelStatusResponse  1 model_version_status { 1 version  2 state  3 status }

REST uses GET at `path`, without a body. The response is protobuf's JSON of the message, in which
64-bit numbers are strings and enumerations are names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from tensorferry.classes import dataclass
from tensorferry.codecs.json_text import describe
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.serving import bodies
from tensorferry.serving.messages import WRITER, Reader
from tensorferry.serving.model import MODEL_SERVICE, Request, read_spec, write_spec
from tensorferry.storage import as_source

if TYPE_CHECKING:
    from typing_extensions import Buffer

State = Literal["UNKNOWN", "START", "LOADING", "AVAILABLE", "UNLOADING", "END"]

_STATES: tuple[State, ...] = get_args(State)

# The codes of gRPC by number.
CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


@dataclass(frozen=True, slots=True)
class GetModelStatusRequest(Request):
    """Asks for the state of all versions of a model, or of one."""

    method: ClassVar[str] = MODEL_SERVICE + "GetModelStatus"
    suffix: ClassVar[str] = ""

    def to_bytes(self) -> bytes:
        """The message."""
        return WRITER.encode("GetModelStatusRequest", model_spec=write_spec(self))

    @classmethod
    def from_bytes(cls, data: Buffer) -> GetModelStatusRequest:
        """Reads a request from a message.

        Raises:
            FormatError: The bytes are damaged.
        """
        reader = Reader(as_source(data))
        return cls(**read_spec(reader, reader.whole("GetModelStatusRequest")))


@dataclass(frozen=True, slots=True)
class ModelVersionStatus:
    """The state of one version.

    Attributes:
        version: The number of the version.
        state: The state; a version can be used when it is "AVAILABLE".
        error_code: "OK", or the name of the gRPC code that says why it cannot be used.
        error_message: The same in words.
    """

    version: int
    state: State
    error_code: str = "OK"
    error_message: str = ""


@dataclass(frozen=True, slots=True)
class GetModelStatusResponse:
    """The states of a model's versions.

    Attributes:
        versions: The state of each version.
    """

    versions: Sequence[ModelVersionStatus]

    def to_bytes(self) -> bytes:
        """The message.

        Raises:
            UnsupportedError: A state or code has a name that Serving does not know.
        """
        versions = [_to_fields(version) for version in self.versions]
        return WRITER.encode("GetModelStatusResponse", model_version_status=versions)

    @classmethod
    def from_bytes(cls, data: Buffer) -> GetModelStatusResponse:
        """Reads a response from a message.

        Raises:
            FormatError: The bytes are damaged.
        """
        reader = Reader(as_source(data))
        versions = []
        for span in reader.whole("GetModelStatusResponse").get("model_version_status", ()):
            fields = reader.read("ModelVersionStatus", span)
            status = reader.part(fields, "status", "StatusProto")
            state, code = fields.get("state", 0), status.get("error_code", 0)
            if state % 10 or not 0 <= state // 10 < len(_STATES) or not 0 <= code < len(CODES):
                raise FormatError(
                    f"state {state} with code {code}, expected 0 to 50 and 0 to 16",
                    offset=span.start,
                )
            versions.append(
                ModelVersionStatus(
                    fields.get("version", 0),
                    _STATES[state // 10],
                    CODES[code],
                    status.get("error_message", ""),
                )
            )
        return cls(tuple(versions))

    def to_json(self) -> bytes:
        """The body of the REST response."""
        versions = [
            {
                "version": str(version.version),
                "state": version.state,
                "status": {
                    "error_code": version.error_code,
                    "error_message": version.error_message,
                },
            }
            for version in self.versions
        ]
        return bodies.write({"model_version_status": versions})

    @classmethod
    def from_json(cls, data: Buffer | str) -> GetModelStatusResponse:
        """Reads a response from a REST body.

        Raises:
            FormatError: The body is no such response, or reports an error of the server.
        """
        found = bodies.list_of(bodies.read(data), "model_version_status")
        return cls(tuple(_from_object(version) for version in found))


def _to_fields(version: ModelVersionStatus) -> dict[str, Any]:
    if version.state not in _STATES or version.error_code not in CODES:
        raise UnsupportedError(
            f"state {version.state!r} with code {version.error_code!r}",
            hint=f"expected {', '.join(_STATES)}; {', '.join(CODES)}",
        )
    code = CODES.index(version.error_code)
    return {
        "version": version.version,
        "state": 10 * _STATES.index(version.state),
        "status": {"error_code": code, "error_message": version.error_message},
    }


def _from_object(found: Any) -> ModelVersionStatus:
    if type(found) is not dict or type(found.get("status", {})) is not dict:
        raise FormatError(f"a version is {describe(found)}, expected an object with its status")
    number, status = found.get("version", "0"), found.get("status", {})
    digits = str(number) if type(number) in (int, str) else ""
    state = bodies.text_of(found, "state") or "UNKNOWN"
    code = bodies.text_of(status, "error_code") or "OK"
    if not digits.removeprefix("-").isdecimal() or len(digits) > 20:
        raise FormatError(f"a version is {digits[:40]!r}, expected a number")
    if state not in _STATES or code not in CODES:
        raise FormatError(f"state {state[:40]!r} with code {code[:40]!r}, expected one of gRPC's")
    message = bodies.text_of(status, "error_message")
    return ModelVersionStatus(int(digits), state, code, message)
