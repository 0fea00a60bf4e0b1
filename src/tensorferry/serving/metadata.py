"""GetModelMetadata: the signatures of a model, with the names, dtypes and shapes of their tensors.

    GetModelMetadataRequest   1 model_spec  2 metadata_field: "signature_def" is the only one
    GetModelMetadataResponse  1 model_spec  2 metadata: a map of Any { type_url, SignatureDefMap }

Responses are read and not written: only a server writes them. REST uses GET at `path`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from tensorferry.classes import dataclass, field
from tensorferry.errors import FormatError
from tensorferry.formats.savedmodel.specs import Signature, read_signatures
from tensorferry.serving.messages import WRITER, Reader, check_texts
from tensorferry.serving.model import (
    PREDICTION_SERVICE,
    ModelMessage,
    Request,
    read_spec,
    write_spec,
)
from tensorferry.storage import as_source

if TYPE_CHECKING:
    from typing_extensions import Buffer

SIGNATURES = "signature_def"
SIGNATURES_TYPE = "tensorflow.serving.SignatureDefMap"


@dataclass(frozen=True, slots=True)
class GetModelMetadataRequest(Request):
    """Asks for the signatures of a model.

    Attributes:
        metadata_field: The kinds of metadata to return.
    """

    metadata_field: Sequence[str] = field(default=(SIGNATURES,), kw_only=True)

    method: ClassVar[str] = PREDICTION_SERVICE + "GetModelMetadata"
    suffix: ClassVar[str] = "/metadata"

    def to_bytes(self) -> bytes:
        """The message."""
        wanted = check_texts(self.metadata_field, "metadata_field")
        return WRITER.encode(
            "GetModelMetadataRequest", model_spec=write_spec(self), metadata_field=wanted
        )

    @classmethod
    def from_bytes(cls, data: Buffer) -> GetModelMetadataRequest:
        """Reads a request from a message.

        Raises:
            FormatError: The bytes are damaged.
        """
        reader = Reader(as_source(data))
        fields = reader.whole("GetModelMetadataRequest")
        wanted = tuple(fields.get("metadata_field", ()))
        return cls(metadata_field=wanted, **read_spec(reader, fields))


@dataclass(frozen=True, slots=True)
class GetModelMetadataResponse(ModelMessage):
    """The signatures of a model.

    Attributes:
        signatures: The signatures by name; their inputs and outputs have names, dtypes and shapes.
    """

    signatures: Mapping[str, Signature]

    @classmethod
    def from_bytes(cls, data: Buffer) -> GetModelMetadataResponse:
        """Reads a response from a message.

        Raises:
            FormatError: The bytes are damaged.
        """
        reader = Reader(as_source(data))
        fields = reader.whole("GetModelMetadataResponse")
        signatures: dict[str, Signature] = {}
        for key, span in reader.entries("MetadataEntry", fields.get("metadata", ())).items():
            if key != SIGNATURES:
                continue
            held = reader.read("Any", span)
            kind = held.get("type_url", "").rpartition("/")[2]
            if kind != SIGNATURES_TYPE:
                raise FormatError(
                    f"{key} is a {kind[:80]!r}, expected {SIGNATURES_TYPE}", offset=span.start
                )
            found = reader.part(held, "value", "SignatureDefMap").get("signature_def", ())
            signatures |= read_signatures(reader, reader.entries("SignatureEntry", found))
        return cls(dict(sorted(signatures.items())), **read_spec(reader, fields))
