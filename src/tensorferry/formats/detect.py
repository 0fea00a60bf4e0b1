"""Detection: which format a file is of, and how it is compressed as a whole.

The bytes decide. Where they leave a doubt, the ending of the name does, and then the first format
that may be it. Nothing is imported for it but the compression that a file is packed with.
"""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO

from tensorferry.classes import NamedTuple
from tensorferry.codecs import compression as codecs
from tensorferry.codecs.compression import Kind
from tensorferry.errors import FormatError, UnknownFormatError
from tensorferry.formats import signatures, strangers
from tensorferry.formats.contract import HEAD, Glimpse
from tensorferry.formats.table import TABLE, named
from tensorferry.storage import url as urls
from tensorferry.storage.place import Place
from tensorferry.storage.source import Source

# How much of a compressed file is decompressed to recognise the format inside.
COMPRESSED_HEAD = 1 << 16


class Detected(NamedTuple):
    """What a file is.

    Attributes:
        format: The name of its format; None if no format recognises it.
        compression: How the file is compressed as a whole.
        head: Its first bytes, decompressed.
    """

    format: str | None
    compression: Kind | None
    head: bytes


def detect(place: Place) -> Detected:
    """Looks at the bytes and the name of a file."""
    source = place.open()
    compression, head = unpacked_head(source)
    stem, _ = codecs.split_suffix(source.path)

    def tail(size: int) -> bytes:
        if compression is not None or not source.size:
            return b""
        return bytes(source.range(max(0, source.size - size), source.size))

    return Detected(recognise(Glimpse(stem, head, tail)), compression, head)


def packing(place: Place, *, zlib: bool) -> Kind | None:
    """How a file of a known format is compressed as a whole, by its first bytes.

    Args:
        place: The file.
        zlib: Whether files of the format are compressed by zlib, whose two bytes are often
            something else.
    """
    head = place.open().head(HEAD)
    kind = codecs.detect(head)
    if kind is None or signatures.tfrecord(Glimpse("", head)) == "surely":
        return None
    return None if kind == "zlib" and not zlib else kind


def is_open(head: bytes) -> bool:
    """Whether a file is neither compressed nor a TFRecord file, by its first bytes.

    Other formats have a word of their own there; a checksum or a compression may come by chance.
    """
    return codecs.detect(head) is None and signatures.tfrecord(Glimpse("", head)) == "no"


def recognise(glimpse: Glimpse) -> str | None:
    """The format of a file, by a glimpse of it; None if no format is called for."""
    if strangers.find(glimpse) is not None:
        return None
    doubtful = []
    for name, answers in _RECOGNISED:
        answer = answers(glimpse)
        if answer == "surely":
            return name
        if answer == "perhaps":
            doubtful.append(name)
    ending = named(glimpse.name) if glimpse.name else None
    return ending or next(iter(doubtful), None)


_RECOGNISED = [
    (name, facts.recognise)
    for name, facts in TABLE.items()
    if facts.recognise is not signatures.nothing
]


def detect_bytes(data: bytes | memoryview) -> str:
    """The format of bytes that have no name.

    Raises:
        UnknownFormatError: No format recognises them.
    """
    head = bytes(data[:HEAD])
    name = recognise(Glimpse("", head, lambda size: bytes(data[-size:])))
    if name is None:
        raise unknown(head, len(data))
    return name


def unknown(head: bytes, size: int | None = None, path: str | None = None) -> UnknownFormatError:
    """The error for bytes that no format recognises."""
    stranger = strangers.find(Glimpse(path or "", head))
    if stranger is not None:
        return UnknownFormatError(f"this is {stranger.what}", path=path, hint=stranger.hint)
    count = "" if size is None else f"{size} "
    what = (
        f"{count}bytes that start with {head[:16].hex(' ')!r}" if head else "a file without bytes"
    )
    return UnknownFormatError(
        f"no format recognises {what}", path=path, offset=0, hint="name the format: format=..."
    )


def unnamed(path: str, say: str) -> UnknownFormatError:
    """The error for a name that does not say which format to write.

    Args:
        path: The name.
        say: How else the format is said.
    """
    other = strangers.named(urls.bare(path))
    if other is not None:
        return UnknownFormatError(
            f"{other} is not written here",
            path=path,
            hint="end the name in .safetensors, which holds the tensors",
        )
    return UnknownFormatError(
        "the name does not say which format to write",
        path=path,
        hint=f"{say} one of {', '.join(TABLE)}",
    )


def unpacked_head(source: Source) -> tuple[Kind | None, bytes]:
    """How a file is compressed as a whole, and its first bytes without that."""
    head = source.head(HEAD)
    kind = codecs.detect(head)
    if kind is None or signatures.tfrecord(Glimpse("", head)) == "surely":
        return None, head
    inner = b""
    with suppress(FormatError):  # it is cut where we stopped
        for block in codecs.decompressed(BytesIO(source.head(COMPRESSED_HEAD)).read, kind):
            inner += block
            if len(inner) >= HEAD:
                break
    # Two bytes can look like zlib by chance, and only TFRecords are compressed by it.
    if kind == "zlib" and signatures.tfrecord(Glimpse("", inner)) == "no":
        return None, head
    return kind, inner[:HEAD]
