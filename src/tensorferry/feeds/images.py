"""Images in columns: bytes of PNG, JPEG and others to arrays, by Pillow."""

from __future__ import annotations

import io

import numpy as np

from tensorferry.errors import FormatError, MissingExtraError, UnsupportedError
from tensorferry.rows.columns import Batch
from tensorferry.tensors.values import Array


def decoded(batch: Batch, name: str) -> Array | list[Array]:
    """The images of a column: uint8 [height, width] or [height, width, channels].

    Returns:
        One array if all images have one shape, else a list of arrays.

    Raises:
        FormatError: An image is damaged.
        MissingExtraError: Pillow is not installed.
    """
    column = batch.get(name)
    if not isinstance(column, np.ndarray) or column.dtype != object:
        raise UnsupportedError(f"{name!r} is no column of one string a row, expected images")
    images = [_decoded(data, name) for data in column.ravel().tolist()]
    shapes = {image.shape for image in images}
    return np.stack(images) if len(shapes) == 1 else images


def _decoded(data: bytes, name: str) -> Array:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError(
            "decoding images needs Pillow, which is not installed", hint="pip install pillow"
        ) from None
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.mode not in ("L", "RGB", "RGBA", "I;16"):
                return np.asarray(image.convert("RGB"))
            return np.asarray(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise FormatError(f"an image cannot be decoded: {error}", tensor=name) from None
