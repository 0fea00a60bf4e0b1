"""JSON text: bytes to trees of plain values, strictly, and back.

The text is UTF-8 and standard JSON: no byte order mark, no repeated keys, no NaN or Infinity
(`SERVING` allows those two, as TensorFlow Serving does). Every JSON that tensorferry reads, in
headers, notes, indexes and configs, goes through `parse`.
"""

from __future__ import annotations

import binascii
import json
from collections import Counter
from itertools import accumulate, count
from operator import sub
from typing import Any

from tensorferry import limits
from tensorferry.errors import FormatError, LimitError, TruncatedError, UnsupportedError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

NODE = 72
"""Number of bytes that a node of a tree takes: an empty list of three characters, and its place."""

LEVELS = 8
"""Number of lists and objects that may stand for one level of a structure."""
_ALIKE = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes({*range(256)} - {*b'[]{}"'})
# A bracket that opens is 2 and one that closes 0: the sum less the number of brackets is the depth.
_STEPS = bytes.maketrans(b"[]", b"\2\0")
# Number of levels that are removed one by one.
_AT_ONCE = 16

# Made once: json.dumps makes an encoder for each call.
_ENCODE, _ENCODE_ALL = (
    json.JSONEncoder(ensure_ascii=False, allow_nan=allow_nan, separators=(",", ":")).encode
    for allow_nan in (False, True)
)

JSON_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def to_text(tree: Any, *, allow_nan: bool = False) -> bytes:
    """A tree as UTF-8 on one line.

    Raises:
        UnsupportedError: A string holds half a character, or an integer has too many digits.
    """
    try:
        text = (_ENCODE_ALL if allow_nan else _ENCODE)(tree)
    except ValueError as error:  # Python's limit on the digits of an integer
        raise UnsupportedError(f"an integer is too long for JSON: {error}") from None
    return to_bytes(text)


def to_bytes(text: str) -> bytes:
    """Text as UTF-8.

    Raises:
        UnsupportedError: It holds half a character.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UnsupportedError(
            f"a string holds half a character, U+{ord(error.object[error.start]):04X}, "
            "which UTF-8 cannot",
            hint="pass its bytes: text.encode(errors='surrogatepass')",
        ) from None


def quote(text: str) -> str:
    """A string as JSON, with quotes."""
    return json.encoder.encode_basestring(text)


def size_of_tree(source: bytes | memoryview) -> int:
    """Number of bytes that a text and its tree take in memory, about."""
    text = bytes(source)
    return len(text) + NODE * sum(map(text.count, (b",", b"[", b"{")))


def parse(source: bytes | memoryview, decoder: json.JSONDecoder | None = None) -> Any:
    """The tree of a JSON text: standard JSON without repeated keys.

    Raises:
        FormatError: The text is not strict JSON; the error has the offset, if known.
        LimitError: Its lists and objects nest too deep: see `check_depth`.
    """
    decoder = decoder or STRICT
    if source[:3] == _BYTE_ORDER_MARK:
        raise FormatError(
            "a byte order mark, which JSON has not", offset=0, hint="leave out the first 3 bytes"
        )
    try:
        text = str(source, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"no UTF-8: {error.reason}", offset=error.start) from None
    check_depth(text)
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        ended = error.pos >= len(text) or error.msg.startswith("Unterminated")
        raise (TruncatedError if ended else FormatError)(
            f"no JSON: {error.msg[:1].lower()}{error.msg[1:]}",
            offset=len(text[: error.pos].encode()),
        ) from None
    except FormatError:
        raise
    except RecursionError:  # also where the caller left little of the stack
        raise too_deep() from None
    except ValueError as error:  # Python's limit on the digits of an integer
        raise FormatError(f"a number is too long: {error}") from None


def check_depth(text: str) -> None:
    """Refuses a text whose lists and objects nest too deep, before a parser follows it.

    A level of a structure is several of JSON, so `LEVELS` times `limits.depth` are fine. How deep
    Python's own parser goes differs from version to version.

    Raises:
        LimitError: It nests deeper.
    """
    deepest = LEVELS * limits.depth
    if len(text) <= deepest or text.count("[") + text.count("{") <= deepest:
        return
    # What remains: the quotes of strings, and the brackets as [ and ], inside of strings as well.
    data = text.encode(errors="replace")
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    data = data.translate(_ALIKE, _OTHERS).replace(b'""', b"")
    data = b"".join(data.split(b'"')[::2])
    # The innermost level goes at once. Most texts have few levels, and then nothing is left.
    depth = 0
    while data and depth < min(deepest, _AT_ONCE):
        depth += 1
        data = data.replace(b"[]", b"")
    # Each bracket is one level up or down from the one before; what was removed lies in between.
    steps = accumulate(data.translate(_STEPS))
    if depth + max(map(sub, steps, count(1)), default=0) > deepest:
        raise too_deep(deepest)


def too_deep(deepest: int | None = None) -> LimitError:
    """The error for text that nests deeper than `limits.depth`, or than another number."""
    return LimitError(
        f"lists and objects nest deeper than {limits.depth if deepest is None else deepest}",
        hint="raise tensorferry.limits.depth if the text is to be trusted",
    )


def unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """The dict of some pairs.

    Raises:
        FormatError: Two of them have the same key.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise FormatError(f"an object has the key {str(twice)[:60]!r} more than once")
    return found


def _refuse(literal: str) -> None:
    raise FormatError(
        f"{literal} is no number of standard JSON",
        hint="serving=True reads the bodies of TensorFlow Serving, which have it",
    )


STRICT = json.JSONDecoder(object_pairs_hook=unique, parse_constant=_refuse)
SERVING = json.JSONDecoder(object_pairs_hook=unique)


def to_utf8(text: str) -> bytes:
    r"""The bytes of a text from JSON, in which an escape such as \ud800 is half a character."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise FormatError(
            f"a string holds half a character, \\u{ord(text[error.start]):04x}, without the rest"
        ) from None


def to_base64(data: Any) -> str:
    """Any contiguous buffer as text."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def from_base64(text: str) -> bytes:
    """The bytes of a base64 text, which has its padding and no other characters."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        reason = str(error)
        raise FormatError(f"no base64: {reason[:1].lower()}{reason[1:]}") from None


def describe(node: Any) -> str:
    """The kind of a node of JSON, as an error names it."""
    return JSON_NAMES.get(type(node), f"a {type(node).__name__}")
