"""Ray Data: files of rows as datasets of a cluster, and datasets as files.

    from tensorferry import ray

    ds = ray.read("s3://bucket/train-*.tfrecord", columns=["image", "label"])
    ds.write_datasink(ray.Sink("s3://bucket/train.parquet"))

`read` plans on the driver, where the schema is inferred once, and decodes in Ray's tasks, split by
split (`tensorferry.rows.splits`). `Sink` writes a file in each task; the files get their names
together when all are there. Only Ray's public classes are used, `ray.data.Datasource` and
`ray.data.Datasink`: scheduling, retries and back-pressure are Ray's own.

    reading     the Datasource: splits as read tasks
    sampling    how many bytes rows take in memory, from a decoded sample
    blocks      columns in the types that Ray's batches show as arrays, and back
    writing     the Datasink: one file a task
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorferry.ray.reading import Source as Source, read as read
    from tensorferry.ray.writing import Sink as Sink

_HOMES = {"Sink": "writing", "Source": "reading", "read": "reading"}

__all__ = ["Sink", "Source", "read"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A public name, imported with Ray on first use."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            import_module("ray.data")
        except ImportError as error:
            from tensorferry.errors import MissingExtraError

            raise MissingExtraError(
                f"Ray's datasets need Ray, which cannot be imported: {error}",
                hint="pip install 'tensorferry[ray]'",
            ) from error
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value
