"""Cells: values of any kind on one line, short enough for a table.

NumPy is imported by those who have values, so that `--help` does not wait for it.
"""

from __future__ import annotations

from typing import Any

from tensorferry.cli import text

# How many characters of a string, and how many values of an array, are shown.
CHARACTERS = 60
VALUES = 6
# Of the numbers of an array.
DIGITS = 3
# A text without characters, which is not the same as none.
EMPTY = '""'


def cell(value: Any) -> str:
    """A value, on one line."""
    import numpy as np

    from tensorferry.tensors.values import RaggedTensor, SparseTensor

    if value is None:
        return "-"
    if isinstance(value, str):
        return text.cut(value, CHARACTERS) or EMPTY
    if isinstance(value, RaggedTensor):
        return _array(value.to_list(), value.shape, str(value.dtype))
    if isinstance(value, SparseTensor):
        return f"sparse {value.dtype}{text.shape(value.shape)}, {len(value.values)} entries"
    if isinstance(value, np.ndarray) and value.ndim:
        return _array(value, value.shape, str(value.dtype))
    if isinstance(value, list):
        return _array(value, (len(value),), "list")
    return scalar(value)


def is_number(value: Any) -> bool:
    """Whether a value is one number."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype != object
    return isinstance(value, np.generic | int | float)


def scalar(value: Any, digits: int = 6) -> str:
    """A number or a string of an array, or the file that a picture was written to."""
    import numpy as np

    from tensorferry.operations.images import Extracted

    if value is None:
        return "null"
    if isinstance(value, bytes):
        return _string(value) or EMPTY
    if isinstance(value, Extracted):
        return value.path
    item = value.item() if isinstance(value, np.ndarray | np.generic) else value
    return f"{item:.{digits}g}" if isinstance(item, float) else str(item)


def _string(data: bytes) -> str:
    from tensorferry.operations.images import recognise

    image = recognise(data)
    if image is not None:
        return picture(image)
    try:
        found = data.decode()
    except UnicodeDecodeError:
        return f"<{text.size(len(data))}>"
    return text.cut(text.clean(found), CHARACTERS)


def picture(image: Any) -> str:
    """What an image is: "png 28x40, 3.46 kB"."""
    sizes = "" if image.width is None else f" {image.width}x{image.height}"
    return f"{image.type}{sizes}, {text.size(image.nbytes)}"


def _array(value: Any, sizes: tuple[Any, ...], kind: str) -> str:
    if len(sizes) == 1 and len(value) <= VALUES:
        return f"[{', '.join(scalar(part, DIGITS) for part in value)}]"
    if len(sizes) == 1:
        shown = ", ".join(scalar(part, DIGITS) for part in value[:3])
        return f"[{shown}, …] {len(value)} values"
    kind = "string" if kind == "object" else kind
    return f"{kind}{text.shape(sizes)}"
