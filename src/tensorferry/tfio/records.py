"""TFRecord files under the names of `tf.io` and `tf.compat.v1.io`.

    with tfio.TFRecordWriter("data.tfrecord") as writer:
        writer.write(b"a record")

`tensorferry.open` and `tensorferry.writer` do the same and more. Unlike TensorFlow's writer, this
one writes to a temporary name and renames the file when it is closed, so readers never see a
half-written file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from tensorferry.errors import UnsupportedError
from tensorferry.formats.tfrecord.records import Records
from tensorferry.formats.tfrecord.writer import RecordWriter

__all__ = ["TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]

_COMPRESSION = {"": None, "GZIP": "gzip", "ZLIB": "zlib"}


class TFRecordOptions:
    """The options for writing a TFRecord file.

    Args:
        compression_type: "GZIP", "ZLIB" or "" for none.
        flush_mode: Ignored, as are all others but the level: they tune zlib in `tf.io`.
        input_buffer_size: Ignored.
        output_buffer_size: Ignored.
        window_bits: Ignored.
        compression_level: 0 to 9.
        compression_method: Ignored.
        mem_level: Ignored.
        compression_strategy: Ignored.
    """

    def __init__(
        self,
        compression_type: str | TFRecordOptions | None = None,
        flush_mode: Any = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: Any = None,
        mem_level: int | None = None,
        compression_strategy: Any = None,
    ) -> None:
        self.compression_type: str = self.get_compression_type_string(compression_type)
        self.compression_level = compression_level

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """The name of the compression that options, or None, stand for."""
        if isinstance(options, TFRecordOptions):
            return options.compression_type
        return _check_compression(options)


def _check_compression(given: Any) -> str:
    name = "" if given is None else given
    if name not in _COMPRESSION:
        raise UnsupportedError(
            f"compression_type is {name!r}, expected GZIP, ZLIB or an empty string",
            hint="tensorferry.writer has zstd, which TensorFlow cannot read",
        )
    return str(name)


def _as_options(given: Any) -> TFRecordOptions:
    return given if isinstance(given, TFRecordOptions) else TFRecordOptions(given)


class TFRecordWriter:
    """Writes records, any bytes, into a TFRecord file.

    Args:
        path: The file.
        options: `TFRecordOptions`, or the name of a compression.

    Attributes:
        write: Writes one record.
    """

    def __init__(self, path: str | os.PathLike[str], options: Any = None) -> None:
        options = _as_options(options)
        self._writer = RecordWriter(
            path,
            # An empty string keeps the suffix from choosing a compression, as in TensorFlow.
            compression=_COMPRESSION[options.compression_type] or "",
            level=options.compression_level,
        )
        # The native method itself: a Python call around it would double the time.
        self.write = self._writer.add

    def flush(self) -> None:
        """Passes pending bytes to the system; the file still appears only when it is closed."""
        self._writer.flush()

    def close(self) -> None:
        """Completes the file and gives it its name."""
        self._writer.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.__exit__(kind, error, traceback)


def tf_record_iterator(path: str | os.PathLike[str], options: Any = None) -> Iterator[bytes]:
    """The records of a TFRecord file, as bytes.

    Args:
        path: The file.
        options: Checked and otherwise ignored, because the bytes tell their compression.
    """
    _as_options(options)
    return iter(Records(path, raw=True))
