"""The model that a message is about: a ModelSpec in gRPC, a path in the REST API.

    /v1/models/NAME[/versions/NUMBER | /labels/LABEL][:predict | :classify | :regress | /metadata]

A message has a version or a label or neither; without either, the server uses its latest version.
The signature is in the message, or in the body of a REST request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote, unquote

from tensorferry.classes import dataclass, field
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.serving.messages import WRITER, Reader

PREDICTION_SERVICE = "/tensorflow.serving.PredictionService/"
MODEL_SERVICE = "/tensorflow.serving.ModelService/"

_PATH = re.compile(
    r"/v1/models/([^/:]+)(?:/versions/([0-9]+)|/labels/([^/:]+))?(:[a-z]+|/metadata)?"
)


@dataclass(frozen=True, slots=True, eq=False)
class ModelMessage:
    """The fields that all messages about a model share.

    Attributes:
        model: The name of the model on the server.
        signature_name: The name of the signature; empty for the default one.
        version: The number of the version.
        version_label: The server's label for a version, such as "stable".
    """

    model: str = field(default="", kw_only=True)
    signature_name: str = field(default="", kw_only=True)
    version: int | None = field(default=None, kw_only=True)
    version_label: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.version is None:
            return
        if self.version_label is not None:
            raise UnsupportedError(
                f"the version {self.version} and the label {self.version_label!r}, "
                "expected one of them or neither"
            )
        if not -(2**63) <= self.version < 2**63:
            raise UnsupportedError(f"the version {self.version} does not fit 64 bits")


@dataclass(frozen=True, slots=True, eq=False)
class Request(ModelMessage):
    """A message that a server answers.

    Attributes:
        model: The name of the model on the server.
        method: The full name of the gRPC method.
        suffix: The part of the REST path after the model.
    """

    model: str

    method: ClassVar[str]
    suffix: ClassVar[str]

    @property
    def path(self) -> str:
        """The path in the URL of the REST API.

        Raises:
            UnsupportedError: A path cannot contain the name or the label.
        """
        path = f"/v1/models/{_segment(self.model, 'model')}"
        if self.version is not None:
            if self.version < 0:
                raise UnsupportedError(f"a path has no place for the version {self.version}")
            path += f"/versions/{self.version}"
        elif self.version_label is not None:
            path += f"/labels/{_segment(self.version_label, 'label')}"
        return path + self.suffix


def _segment(text: str, what: str) -> str:
    if not text or "/" in text or ":" in text:
        raise UnsupportedError(f"a path has no place for the {what} {text!r}")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise UnsupportedError(f"a path has no place for the {what} {text!r}") from None


def read_path(path: str, suffix: str) -> dict[str, Any]:
    """The model, and its version or label, that a path of the REST API names.

    Args:
        path: The path without the host; an empty path names no model.
        suffix: The part that has to follow the model.

    Raises:
        FormatError: The path is none of the REST API.
    """
    if not path:
        return {"model": ""}
    found = _PATH.fullmatch(path)
    if found is None or (found[4] or "") != suffix:
        raise FormatError(
            f"the path {path[:200]!r}, "
            f"expected /v1/models/NAME[/versions/NUMBER|/labels/LABEL]{suffix}"
        )
    try:
        name, label = (part and unquote(part, errors="strict") for part in found.group(1, 3))
    except UnicodeDecodeError:
        raise FormatError(f"the path {path[:200]!r} is no UTF-8") from None
    version = None if found[2] is None else _version(found[2])
    return {"model": name, "version": version, "version_label": label}


def _version(digits: str) -> int:
    if len(digits) > 19 or int(digits) >= 2**63:
        raise FormatError(f"the version {digits[:40]} does not fit 64 bits")
    return int(digits)


def write_spec(message: ModelMessage) -> bytes | None:
    """The ModelSpec of a message; None where there is nothing to say."""
    version = message.version
    body = WRITER.encode(
        "ModelSpec",
        name=message.model,
        version=None if version is None else {"value": version},
        signature_name=message.signature_name,
        version_label=message.version_label,
    )
    return body or None


def read_spec(reader: Reader, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The model that a message with these fields is about."""
    found = reader.part(fields, "model_spec", "ModelSpec")
    version = found.get("version")
    label = found.get("version_label")
    if version is not None and label is not None:
        raise FormatError("a version and a label, expected one of them", offset=version.start)
    return {
        "model": found.get("name", ""),
        "signature_name": found.get("signature_name", ""),
        "version": None if version is None else reader.read("Int64Value", version).get("value", 0),
        "version_label": label,
    }
