"""Formats: one module each, the table that finds them, and what a module must have.

A format is a module with `NAME`, the name users pass as `format=`, `sniff(head)`, which says
whether bytes that start with `head` look like it, and one of four sets of verbs, by what it
`CARRIES`:

    "value"    read(source, **options)        the value in a buffer
               write(value, sink, **options)  the value's bytes into a sink
    "arrays"   read_parts(source, **options)  the named arrays of a file: `formats.entries`
               write_parts(parts, sink, metadata, **options)
               storage(dtype)                 what a dtype is stored as: `formats.parts`
    "tensors"  read(source, **options)        named tensors of every kind, and metadata
               write(tensors, sink, metadata=..., **options)
    "files"    open_stored(path, **options)   tensors of several files, not read yet: an object
                                              with stored, metadata, files, aliases and close()
               save_stored(tensors, path, note=..., metadata=..., **options)

They know values of `tensorferry.tensors.values` only: other frameworks' tensors are turned into
them before and after. Modules load on first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from tensorferry.errors import MissingExtraError, UnknownFormatError, UnsupportedError

if TYPE_CHECKING:
    from tensorferry.storage import Sink


class Format(Protocol):
    """What a format's module provides."""

    NAME: str

    def sniff(self, head: bytes) -> bool:
        """Whether bytes that start like this look like the format; cheap, and never raising."""

    def read(self, source: bytes | memoryview, **options: Any) -> Any:
        """The value."""

    def write(self, value: Any, sink: Sink, **options: Any) -> None:
        """Writes the value's bytes."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table.

    Attributes:
        suffixes: Endings of file names, with the dot.
        carries: See above.
        metadata: Whether the format has a place for metadata.
        certain: Whether bytes that look like it are nothing else.
        holds: What `tensorferry.open` gives for it.
        needs: The package that it cannot do without, and the extra that installs it.
        compressions: Those that are its own, inside the file.
        written: Whether it is written, too, and not only read.
    """

    suffixes: tuple[str, ...]
    carries: Literal["value", "arrays", "tensors", "files"] = "value"
    metadata: bool = False
    certain: bool = True
    holds: Literal["bundle", "records", "table"] = "bundle"
    needs: tuple[str, str] | None = None
    compressions: tuple[str, ...] = ()
    written: bool = True


# How many bytes are looked at to recognise a format.
HEAD = 64

# In the order in which they are asked whether they recognise some bytes.
TABLE = {
    # A checksum does not fit by chance: whatever comes later, this one is right.
    "tfrecord": Row((".tfrecord", ".tfrecords"), holds="records"),
    "npy": Row((".npy",), "arrays"),
    # Archives of Keras are zip archives too: they are asked first.
    "keras": Row((".keras", ".weights.h5", ".h5", ".weights.json"), "files", metadata=True),
    "npz": Row((".npz",), "arrays", metadata=True, compressions=("deflate",)),
    "safetensors": Row((".safetensors", ".safetensors.index.json"), "arrays", metadata=True),
    "arrow": Row(
        (".arrow", ".feather", ".ipc", ".arrows"),
        "tensors",
        metadata=True,
        holds="table",
        needs=("pyarrow", "arrow"),
        compressions=("lz4", "zstd"),
    ),
    "parquet": Row(
        (".parquet", ".parq", ".pq"),
        "tensors",
        metadata=True,
        holds="table",
        needs=("pyarrow", "arrow"),
        compressions=("snappy", "zstd", "lz4", "gzip", "brotli"),
    ),
    "tensorproto": Row((".pb", ".tensorproto"), certain=False),
    "structure": Row((".structure",), certain=False),
    "json": Row((".json",), certain=False),
    "raw": Row((".raw", ".bin"), certain=False),
    # Found by their paths; last, so that nothing has to be imported to recognise the others.
    "checkpoint": Row((".ckpt",), "files", metadata=True, certain=False),
    "savedmodel": Row((), "files", metadata=True, certain=False, written=False),
}

# The module of a format that is a folder.
HOMES = {
    "tfrecord": "tfrecord.frames",
    "keras": "keras.reader",
    "safetensors": "safetensors.file",
    "arrow": "arrow.file",
    "parquet": "parquet.file",
    "json": "json.typed",
    "checkpoint": "checkpoint.reader",
    "savedmodel": "savedmodel.model",
}

_loaded: dict[str, Format] = {}


def get(name: str) -> Format:
    """The module of a format.

    Raises:
        UnknownFormatError: There is no format of that name.
        MissingExtraError: What it needs is not installed.
    """
    module = _loaded.get(name)
    if module is None:
        if name not in TABLE:
            raise UnknownFormatError(
                f"no format is called {name!r}", hint=f"expected one of {', '.join(TABLE)}"
            )
        try:
            module = cast(Format, import_module(f"tensorferry.formats.{HOMES.get(name, name)}"))
        except ModuleNotFoundError as error:
            package, extra = TABLE[name].needs or (None, None)
            if error.name is None or error.name.partition(".")[0] != package:
                raise
            raise MissingExtraError(
                f"{name} needs {package}, which is not installed",
                hint=f"pip install 'tensorferry[{extra}]'",
            ) from None
        _loaded[name] = module
    return module


def to_write(name: str) -> Format:
    """The module of a format that is to be written.

    Raises:
        UnknownFormatError: There is no format of that name.
        UnsupportedError: It is only read.
        MissingExtraError: What it needs is not installed.
    """
    module = get(name)
    if not TABLE[name].written:
        raise UnsupportedError(
            f"{name} is read, not written", hint=f"choose one of {', '.join(writable())}"
        )
    return module


def writable() -> list[str]:
    """The names of the formats that are written, too."""
    return [name for name, row in TABLE.items() if row.written]


def named(path: str) -> str | None:
    """The format that the end of a file name stands for."""
    ends = ((suffix, name) for name, row in TABLE.items() for suffix in row.suffixes)
    return max(((len(s), name) for s, name in ends if path.endswith(s)), default=(0, None))[1]


def recognised(head: bytes, *, path: str = "") -> str | None:
    """The format of bytes that start like this.

    Args:
        head: The first bytes, decompressed.
        path: Where they are from: its end decides where the bytes leave a doubt.
    """
    certain = [name for name, row in TABLE.items() if row.certain]
    for name in certain:
        if _sniffs(name, head):
            return name
    suffix = named(path)
    # Frozen graphs are called .pb too, and start as no TensorProto does.
    if suffix == "tensorproto" and head[:1] == b"\n" and _sniffs("savedmodel", head):
        return "savedmodel"
    if suffix is not None:
        return suffix
    return next((name for name in TABLE if name not in certain and _sniffs(name, head)), None)


def _sniffs(name: str, head: bytes) -> bool:
    try:
        return get(name).sniff(head)
    except MissingExtraError:
        return False


def detect(source: bytes | memoryview) -> str:
    """The name of the format whose signature the bytes start with.

    Raises:
        UnknownFormatError: No format recognises them.
    """
    head = bytes(source[:HEAD])
    name = recognised(head)
    if name is None:
        raise UnknownFormatError(
            f"no format recognises {len(source)} bytes that start with {head[:16].hex(' ')!r}",
            offset=0,
            hint="name the format: format=...",
        )
    return name
