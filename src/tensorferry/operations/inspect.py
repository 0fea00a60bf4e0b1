"""Inspection: what is in a file.

    ferry.inspect("model.safetensors").dtypes       # {"float32": 290, "int64": 2}
    ferry.inspect("saved_model_dir").model          # signatures, ops, assets ...

What there is to know is in `tensorferry.operations.fileinfo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from tensorferry.files import keywords
from tensorferry.operations import glance
from tensorferry.operations.fileinfo import FileInfo, look
from tensorferry.progress import Progress


@keywords.shown(keywords.Opening)
def inspect(
    path: Any,
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | bool | None = None,
    **options: Unpack[keywords.Opening],
) -> FileInfo:
    """Inspects a file: its format, tensors or columns, their number, and its metadata.

        ferry.inspect("train-*.tfrecord").count

    Args:
        path: Anything that `tensorferry.open` takes, but only one file or set of files.
        format: By default detected from the bytes.
        storage_options: Options for the store of a URL.
        progress: True shows a bar; a function receives the number of rows counted. All frames of
            TFRecords are scanned, unless there is an index.
        **options: Options of the format: see `tensorferry.files.keywords.Opening`. Checksums are
            verified only with `verify=True`.

    Raises:
        FormatError: The file cannot be opened.
        OptionError: The format has no such option.

    Examples:
        >>> saved = ferry.save({"w": np.zeros((2, 3))}, "model.ckpt")
        >>> info = ferry.inspect("model.ckpt")
        >>> (info.format, [tensor.shape for tensor in info.tensors])
        ('checkpoint', [(2, 3)])
    """
    found = glance.find_one(path, format=format, options=storage_options)
    return look(found, options, progress=progress)
