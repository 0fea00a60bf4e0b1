"""REST bodies: their text, and the checks that all bodies share.

`tensorferry.formats.json.bodies` converts the tensors in bodies. NaN and infinities are bare words
in the text. A body that reports an error of the server raises one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorferry.codecs import json_text as json
from tensorferry.codecs.json_text import describe
from tensorferry.errors import FormatError
from tensorferry.formats.json.bodies import check_error, form_of, read_body
from tensorferry.storage import as_source

if TYPE_CHECKING:
    from typing_extensions import Buffer


def write(body: dict[str, Any]) -> bytes:
    """A body as UTF-8."""
    return json.to_text(body, allow_nan=True)


def read(data: Buffer | str) -> dict[str, Any]:
    """The JSON object in a body.

    Raises:
        FormatError: The body is no object, or reports an error of the server.
    """
    return _checked(json.parse(_source_of(data), json.SERVING))


def read_tensors(data: Buffer | str, forms: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The JSON object in a body, with tensors of numbers as `read_body` gives them, and its form.

    Raises:
        FormatError: The body has none of the forms, or reports an error of the server.
    """
    body = read_body(_source_of(data))
    return body, form_of(body, forms)


def _source_of(data: Buffer | str) -> Any:
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else as_source(data)


def _checked(body: Any) -> dict[str, Any]:
    if type(body) is not dict:
        raise FormatError(f"the body is {describe(body)}, expected an object")
    check_error(body)
    return body


def text_of(body: dict[str, Any], name: str) -> str:
    """A text in a body; empty if the body does not have it."""
    text = body.get(name, "")
    if type(text) is not str:
        raise FormatError(f'"{name}" is {describe(text)}, expected a string')
    return text


def list_of(body: dict[str, Any], *names: str) -> list[Any]:
    """The only list in a body that has one of these names."""
    present = [name for name in names if name in body]
    if len(present) != 1:
        expected = " or ".join(f'"{name}"' for name in names)
        raise FormatError(f"the body has the keys {sorted(body)[:8]}, expected {expected}")
    content = body[present[0]]
    if type(content) is not list:
        raise FormatError(f'"{present[0]}" is {describe(content)}, expected a list')
    return content
