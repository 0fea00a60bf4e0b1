r"""Display: text from files, made safe to show.

Names and strings in a file may contain characters that control a terminal (escape sequences, C1
controls), that reverse the reading order (bidirectional controls), or that end a line. All text
from files passes through one of these functions:

    clean           a terminal, a log or an error: such characters become escapes, as in "\x1b"
    clean_lines     the same for a text of several lines
    escape_json     a JSON document: the same text for a parser, and safe for a terminal
    escape_html     a page: cleaned, and without markup
    shown, scrub    a URL, and a text with URLs: without passwords and signatures

Sizes, numbers and shapes are formatted here as well, so that terminals and notebooks show the same.

Python's own `str.isprintable` decides: it is false for control, format, private and unassigned
characters, for halves of characters, and for all spaces but " ".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from unicodedata import combining, east_asian_width

from tensorferry.expressions import expression

_URL = expression(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# A scheme has an end: a text of letters would else be gone through from each of them.
_INSIDE = expression(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://[^\s'\"<>]+")


def clean(text: Any) -> str:
    r"""The text on one line, with escapes for the characters that cannot be seen.

    >>> clean("a\x1b[2Jb\u202ec\n")
    'a\\x1b[2Jb\\u202ec\\n'
    """
    found = str(text)
    if found.isprintable():
        return found
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in found
    )


def clean_lines(text: Any) -> str:
    """The text with its line breaks; lines after the first are indented."""
    first, *others = (clean(line) for line in str(text).split("\n"))
    indented = (line if line.startswith("  ") or not line else f"  {line}" for line in others)
    return "\n".join((first, *indented))


def escape_json(text: str) -> str:
    r"""A JSON document in which characters that cannot be seen are `\u` escapes, as JSON has them.

    Args:
        text: The output of `json.dumps`, with or without `ensure_ascii=False`.
    """
    return "\n".join(map(_escape_json_line, text.split("\n")))


def _escape_json_line(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else _json_escape(character) for character in line
    )


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))


def escape_html(text: Any) -> str:
    r"""The text for a page, between tags or inside a quoted attribute.

    >>> escape_html("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    import html

    return html.escape(clean(text))


def shown(url: str) -> str:
    """A path or URL as errors show it: without passwords, and without the query of a signed URL.

    >>> shown("https://me:secret@host/x.npy?signature=secret")
    'https://me:***@host/x.npy?...'
    """
    match = _URL.match(url) if "://" in url else None
    if match is None:
        return url
    rest = url[match.end() :]
    is_web = match[1].lower() in ("http", "https")
    if is_web:
        name = re.split("[?#]", rest, maxsplit=1)[0]
        rest = name if name == rest else f"{name}?..."
    # A password may hold "/" and "@", though it should not.
    outside, at, inside = rest.rpartition("@")
    if at and ("/" not in outside or ":" in outside.partition("/")[0]):
        user, colon, _ = outside.partition(":")
        name = f"{user}:***" if colon else "***" if is_web else user
        rest = f"{name}@{inside}"
    return url[: match.end()] + rest


def scrub(text: str) -> str:
    """A text from elsewhere, such as a library's error, with URLs as our errors show them."""
    return _INSIDE.sub(lambda found: shown(found[0]), text)


# Numbers for people


def size(count: int | None) -> str:
    """A number of bytes: "340 B", "1.25 MB"."""
    if count is None:
        return ""
    if count < 1000:
        return f"{count} B"
    amount, units = count / 1000, ["kB", "MB", "GB", "TB", "PB"]
    while amount >= 999.5 and len(units) > 1:
        amount /= 1000
        del units[0]
    return f"{amount:.3g} {units[0]}"


def number(count: float | None) -> str:
    """A number: thousands apart, floats with six digits."""
    if count is None:
        return ""
    return f"{count:,}" if isinstance(count, int) else f"{count:.6g}"


def plural(count: int, noun: str) -> str:
    """A count with its noun: "1 tensor", "2 tensors"."""
    several = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count:,} {noun if count == 1 else several}"


def shape(sizes: Sequence[int | None]) -> str:
    """A shape: "[3, ?, 4]"."""
    return f"[{', '.join('?' if size is None else str(size) for size in sizes)}]"


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1
        for character in text
    )


def cut(text: str, most: int, *, end: bool = False) -> str:
    """The text with its middle, or its end, left out if it takes more columns."""
    if columns_of(text) <= most:
        return text
    room = max(most - 1, 1)
    kept = room if end else room // 2
    head, tail = text[:kept], text[len(text) - (room - kept) :]
    while columns_of(head) + columns_of(tail) > room and (head or tail):
        head, tail = (head[:-1], tail) if len(head) >= len(tail) else (head, tail[1:])
    return f"{head}…{tail}"
