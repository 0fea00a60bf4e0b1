"""Protobuf's text format, without the messages' definitions.

    feature {                    # a field: a name, perhaps a colon, a value
      name: "tok" 'ens'          # strings of bytes; adjacent ones are one
      type: INT                  # names: enums, true, false, inf, nan
      shape < dim: [{size: 3}, {size: 4}] >
    }

A list stands for one field for each of its values. The parser does not know the types of fields:
callers ask for what they expect, as `tensorferry.rows.schema.tfmd` does. Nesting is bounded by
`tensorferry.limits.depth`, and nothing here recurses.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from tensorferry import limits
from tensorferry.classes import dataclass, field
from tensorferry.errors import FormatError, LimitError, TruncatedError

# A name is a str, a string is bytes.
Value: TypeAlias = "Message | bytes | str | int | float"


@dataclass(slots=True)
class Message:
    """The fields between two braces, in order.

    Attributes:
        offset: Where it starts.
        fields: Names and values; the name of a repeated field comes again with each value.
    """

    offset: int
    fields: list[tuple[str, Value]] = field(default_factory=list)

    def all(self, name: str) -> list[Any]:
        """The values of a repeated field."""
        return [value for field, value in self.fields if field == name]

    def last(self, name: str) -> Any:
        """The last value of a field; None if the field is not there."""
        return next((value for field, value in reversed(self.fields) if field == name), None)


_SPACE = re.compile(rb"(?:[ \t\r\n\v\f]|#[^\n]*+)*+")
_TOKEN = re.compile(
    rb"""(?P<name>[A-Za-z_]\w*+)
    |(?P<string>"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')
    |(?P<number>(?:0[xX][0-9a-fA-F]++|(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?[fF]?)(?![\w.]))
    |(?P<mark>[][{}<>:;,/-])""",
    re.VERBOSE,
)
# A field as writers write it, or a closing brace, up to the next name or brace. One match for all
# of it takes a third of the time of its tokens one by one.
_USUAL = re.compile(
    rb"""(?:(?P<closing>[}>])
    |(?P<name>[A-Za-z_]\w*+)[ ]*+
        (?::?[ ]*+(?P<opening>[{<])
        |:[ ]*+(?:"(?P<string>[^"\\\n]*+)"
            |(?P<number>0|[1-9]\d{0,17}+)(?![\w.])
            |(?P<word>[A-Za-z_]\w*+))))
    [ \t\r\n]*+(?=[A-Za-z_}>])""",
    re.VERBOSE,
)
_EXTENSION = re.compile(rb"\[[ \t\r\n]*+([\w./%~-]++)[ \t\r\n]*+\]")
_ESCAPE = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_LETTERS = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))
_CLOSING = {b"{": b"}", b"<": b">"}
_LONGEST_NUMBER = 400  # digits: the longest float64 written out, and within Python's own limit


def parse(text: str | bytes) -> Message:
    """The message that a text describes.

    Raises:
        FormatError: The text is not in this format; the offset is that of the first wrong byte.
    """
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else bytes(text)
    return _Parser(data).parse()


def quote(data: bytes) -> str:
    """Bytes as a quoted string, in ASCII."""
    return '"' + "".join(_QUOTED[code] for code in data) + '"'


# Each byte as it is written between quotes.
_QUOTED = [chr(code) if 32 <= code < 127 else f"\\{code:03o}" for code in range(256)]
_QUOTED[ord('"')], _QUOTED[ord("\\")] = '\\"', "\\\\"


@dataclass(slots=True)
class _Open:
    """A message whose closing brace has not come, and the list that is open inside it."""

    message: Message
    closing: bytes
    listing: str | None = None
    listed: int = 0


class _Parser:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.stack = [_Open(Message(0), b"")]
        self.offset = 0
        self.advance(0)

    def advance(self, end: int) -> None:
        """Moves to the first token from `end` on."""
        space = _SPACE.match(self.data, end)
        self.offset = space.end() if space else end
        token = _TOKEN.match(self.data, self.offset)
        self.kind = token.lastgroup if token else None
        self.token = token.group() if token else b""

    def take(self) -> bytes:
        token = self.token
        self.advance(self.offset + len(token))
        return token

    def accept(self, *tokens: bytes) -> bytes | None:
        return self.take() if self.token and self.token in tokens else None

    def fail(self, expected: str) -> FormatError:
        if self.offset >= len(self.data):
            return TruncatedError(f"the text ends, expected {expected}", offset=self.offset)
        found = self.token or self.data[self.offset : self.offset + 1]
        shown = found[:40].decode(errors="backslashreplace")
        return FormatError(f"found {shown!r}, expected {expected}", offset=self.offset)

    def parse(self) -> Message:
        while self.offset < len(self.data) or len(self.stack) > 1:
            self.parse_usual()
            top = self.stack[-1]
            if top.listing is not None:
                self.parse_element(top)
            elif self.accept(top.closing):
                self.stack.pop()
                self.end_field()
            else:
                self.parse_field(top)
        return self.stack[0].message

    def parse_usual(self) -> None:
        """Takes the fields of the usual form that are next; all others, and errors, are left."""
        stack, start = self.stack, self.offset
        top = stack[-1]
        while top.listing is None and (field := _USUAL.match(self.data, self.offset)):
            kind = field.lastgroup
            if kind == "closing":
                if field["closing"] != top.closing:
                    break
                stack.pop()
                top = stack[-1]
            elif kind == "opening":
                if len(stack) > limits.depth:
                    break
                child = Message(field.start("opening"))
                top.message.fields.append((field["name"].decode(), child))
                top = _Open(child, _CLOSING[field["opening"]])
                stack.append(top)
            elif kind == "word":
                if _is_special(field["word"]):
                    break
                top.message.fields.append((field["name"].decode(), field["word"].decode()))
            else:
                value = field["string"] if kind == "string" else int(field["number"])
                top.message.fields.append((field["name"].decode(), value))
            self.offset = field.end()
        if self.offset != start:
            self.advance(self.offset)

    def parse_field(self, top: _Open) -> None:
        if self.kind == "name":
            name = self.take().decode()
        elif extension := _EXTENSION.match(self.data, self.offset):
            name = f"[{extension[1].decode()}]"
            self.advance(extension.end())
        else:
            raise self.fail(f"a field's name{self.or_closing(top)}")
        colon = self.accept(b":")
        if self.accept(b"["):
            top.listing, top.listed = name, 0
        elif colon or self.token in _CLOSING:
            self.parse_value(top, name)
        else:
            raise self.fail(f"':' or '{{' behind {name[:40]!r}")

    def or_closing(self, top: _Open) -> str:
        return f" or {top.closing.decode()!r}" if top.closing else ""

    def parse_element(self, top: _Open) -> None:
        if self.accept(b"]"):
            top.listing = None
            self.end_field()
            return
        if top.listed and not self.accept(b","):
            raise self.fail("',' or ']' in a list")
        top.listed += 1
        self.parse_value(top, top.listing or "")

    def parse_value(self, top: _Open, name: str) -> None:
        start = self.offset
        opening = self.accept(*_CLOSING)
        if opening is None:
            top.message.fields.append((name, self.parse_scalar()))
            self.end_field()
            return
        if len(self.stack) > limits.depth:
            raise LimitError(f"messages nest deeper than {limits.depth}", offset=start)
        child = Message(start)
        top.message.fields.append((name, child))
        self.stack.append(_Open(child, _CLOSING[opening]))

    def end_field(self) -> None:
        if self.stack[-1].listing is None:
            self.accept(b",", b";")

    def parse_scalar(self) -> bytes | str | int | float:
        if self.kind == "string":
            parts = []
            while self.kind == "string":
                start = self.offset
                parts.append(_unescape(self.take()[1:-1], start + 1))
            return b"".join(parts)
        sign = -1 if self.accept(b"-") else 1
        if self.kind == "number":
            return sign * self.parse_number()
        if self.kind != "name" or (sign < 0 and not _is_special(self.token)):
            raise self.fail("a value")
        if _is_special(self.token):
            return sign * float(self.take())
        return self.take().decode()

    def parse_number(self) -> int | float:
        if len(self.token) > _LONGEST_NUMBER:
            raise self.fail(f"a number of at most {_LONGEST_NUMBER} digits")
        start, text = self.offset, self.take().decode().lower()
        if text.startswith("0x"):
            return int(text, 16)
        if text.isdigit():
            if text[0] != "0":
                return int(text)
            if text.strip("01234567"):
                raise FormatError(f"found {text[:40]!r}, expected octal digits", offset=start)
            return int(text, 8)
        return float(text.removesuffix("f"))


def _is_special(token: bytes) -> bool:
    return token.lower() in (b"inf", b"infinity", b"nan")


def _unescape(text: bytes, start: int) -> bytes:
    def replace(match: re.Match[bytes]) -> bytes:
        octal, byte, short, long, letter = match.groups()
        try:
            if octal or byte:
                return bytes([int(octal, 8) if octal else int(byte, 16)])
            if short or long:
                return chr(int(short or long, 16)).encode()
            return bytes([_LETTERS[letter[0]]])
        except (KeyError, ValueError, OverflowError):
            shown = match.group().decode(errors="backslashreplace")
            raise FormatError(
                f"{shown!r} in a string stands for nothing", offset=start + match.start()
            ) from None

    return _ESCAPE.sub(replace, text) if b"\\" in text else text
