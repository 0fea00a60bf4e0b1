"""The fingerprint of a SavedModel: hashes of its parts, as TensorFlow writes them beside it."""

from __future__ import annotations

from tensorferry.classes import dataclass
from tensorferry.codecs.protobuf import Span
from tensorferry.errors import FerryError
from tensorferry.formats.savedmodel.messages import Reader
from tensorferry.storage.place import Place

FINGERPRINT = "fingerprint.pb"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What fingerprint.pb says of a model: hashes by TensorFlow, which are not checked."""

    uuid: str
    saved_model_checksum: int
    graph_def_program_hash: int
    signature_def_hash: int
    saved_object_graph_hash: int
    checkpoint_hash: int


def read_fingerprint(place: Place) -> Fingerprint | None:
    """The fingerprint in a file; None if there is no such file.

    Raises:
        FormatError: It is damaged.
    """
    try:
        reader = Reader(place.open().everything(), place.path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    finally:
        place.close()
    try:
        ((*hashes, uuid),) = reader.rows("FingerprintDef", [Span(0, len(reader.data))])
    except FerryError as error:
        raise reader.located(error) from None
    return Fingerprint(uuid, *hashes)
