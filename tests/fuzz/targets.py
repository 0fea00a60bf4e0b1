"""Fuzz targets: what each parser written in Python does with bytes of strangers.

A target takes any bytes and returns, or raises an error of ours. Formats that guard their bytes by
checksums have the guarded content as input, because a fuzzer never guesses a checksum.
`tests/fuzz/run.py` runs them under atheris; `tests/hostile/test_fuzz.py` runs each of them over its
corpus and some mutations.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

import numpy as np

import tensorferry as ferry
from tensorferry import limits
from tensorferry.codecs import leveldb, riegeli, textproto
from tensorferry.codecs.hdf5.file import File
from tensorferry.codecs.zip.archive import open_archive
from tensorferry.formats.arrow import messages as arrow_messages
from tensorferry.formats.checkpoint import entries
from tensorferry.formats.keras import values as hdf5_values
from tensorferry.formats.parquet import footer as parquet_footer
from tensorferry.formats.savedmodel import model as savedmodel_model, text as savedmodel_text
from tensorferry.rows import schema as schemas
from tensorferry.storage import Source

Target = Callable[[bytes], None]

EXPECTED = (ferry.FerryError, FileNotFoundError)
"""What a target may raise: a file that names one that is missing is an error of the system's."""

MEMORY = 32 << 20
CORPUS = Path(__file__).parent / "corpus"


def run(target: Target, data: bytes) -> None:
    """Runs a target; whatever it raises on purpose is fine."""
    limits.memory = MEMORY
    with suppress(*EXPECTED):
        target(data)


def _visit(data: bytes, **options: str) -> None:
    """Opens bytes, and reads every tensor that can be read."""
    with ferry.open(data, **options) as opened:
        for name in opened.infos():
            with suppress(*EXPECTED):
                opened[name]


def hdf5(data: bytes) -> None:
    """An HDF5 file: its groups, links, attributes and values."""
    waiting = [File(Source("fuzz.h5", buffer=memoryview(data))).root]
    while waiting:
        node = waiting.pop()
        if node.is_dataset:
            with suppress(*EXPECTED):
                hdf5_values.describe(node)
            with suppress(*EXPECTED):
                hdf5_values.stored(node).read()
        for look in (lambda each: each.attributes, lambda each: each.links):
            with suppress(*EXPECTED):
                look(node)
        with suppress(*EXPECTED):
            waiting += node.members.values()


def keras(data: bytes) -> None:
    """Weights of Keras: an HDF5 file, an archive, or, behind a zero, the config of an archive."""
    _visit(_archive(data[1:]) if data[:1] == b"\0" else data, format="keras")


def _archive(config: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("config.json", config)
        archive.writestr("metadata.json", config)
        archive.writestr("model.weights.h5", _seed("hdf5"))
    return out.getvalue()


def zip(data: bytes) -> None:  # noqa: A001  # the name of the format
    """A zip archive: its directory, and every member without its checksum."""
    archive = open_archive(Source("fuzz.zip", buffer=memoryview(data)))
    for name in archive:
        with suppress(*EXPECTED):
            archive.head(name, 10)
        with suppress(*EXPECTED):
            archive.read(name, verify=False)


def npz(data: bytes) -> None:
    """An npz archive; behind a zero, the npy file and the metadata inside of one."""
    if data[:1] != b"\0":
        return _visit(data, format="npz")
    array, _, metadata = data[1:].rpartition(b"\xff\xfe")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.npy", array)
        if metadata:
            archive.writestr("tensorferry.json", metadata)
    return _visit(out.getvalue(), format="npz")


def riegeli_chunks(data: bytes) -> None:
    """A Riegeli file: chunks with right hashes around the input, or the input itself."""
    if data[:1] == b"\0":
        data = _chunk(data[1:])
    for _ in riegeli.read_records(data, verify=False):
        pass


def _chunk(data: bytes) -> bytes:
    count, decoded = struct.unpack("<BI", data[:5].ljust(5, b"\0"))
    body = data[5:]
    rest = struct.pack(
        "<QQQQ", len(body), riegeli.highway_hash(body), riegeli.SIMPLE | count << 8, decoded
    )
    return riegeli.START + struct.pack("<Q", riegeli.highway_hash(rest)) + rest + body


def proto_text(data: bytes) -> None:
    """Text of protobuf messages: a schema of TFMD, a SavedModel, any message."""
    with suppress(*EXPECTED):
        textproto.parse(data)
    with suppress(*EXPECTED):
        schemas.from_tfmd(data)
    savedmodel_text.encode(data, "SavedModel")


def arrow(data: bytes) -> None:
    """The messages of an Arrow file or stream, before PyArrow sees them."""
    view = memoryview(data)
    for scan in (arrow_messages.scan_stream, arrow_messages.scan_file):
        with suppress(*EXPECTED):
            found = scan(view)
            arrow_messages.check_memory(found.batches, held=len(data))


def parquet(data: bytes) -> None:
    """The footer of a Parquet file."""
    for group in parquet_footer.read_footer(data, offset=1 << 40).groups:
        for chunk in group.chunks:
            chunk.memory(group.rows)


def savedmodel(data: bytes) -> None:
    """A SavedModel as a message, as text behind a zero, and in chunks behind a one."""
    name, body = {0: (".pbtxt", data[1:]), 1: (".cpb", _chunk(data[1:]))}.get(
        data[0] if data else 2, (".pb", data)
    )
    path = _folder() / f"saved_model{name}"
    path.write_bytes(body)
    try:
        model = savedmodel_model.read(str(path), verify=False)
        for graph in model.meta_graphs:
            for stored in graph.constants.values():
                with suppress(*EXPECTED):
                    stored.read()
            for look in (
                lambda each: each.ops,
                lambda each: each.functions,
                lambda each: [(f.arguments, f.results) for f in each.concrete_functions.values()],
            ):
                with suppress(*EXPECTED):
                    look(graph)
    finally:
        path.unlink()


def checkpoint(data: bytes) -> None:
    """An index file; behind a zero, the keys and values of an index whose checksums are right."""
    folder = _folder()
    if data[:1] == b"\0":
        out = io.BytesIO()
        parts = data[1:].split(b"\xff\xfe")
        pairs = dict(builtins.zip(parts[::2], parts[1::2], strict=False))
        pairs.setdefault(b"", entries.encode_header(1))
        leveldb.write(sorted(pairs), [pairs[key] for key in sorted(pairs)], out)
        data = out.getvalue()
    (folder / "model.index").write_bytes(data)
    shard = folder / "model.data-00000-of-00001"
    if not shard.exists():
        shard.write_bytes(bytes(range(256)))
    with ferry.open(str(folder / "model"), format="checkpoint", verify=False) as opened:
        for name in opened.infos():
            with suppress(*EXPECTED):
                opened[name]


def structure(data: bytes) -> None:
    """A structure of tensors and plain values."""
    ferry.loads(data, format="structure")


def notes(data: bytes) -> None:
    """Our note in the metadata of a safetensors file, and the text of JSON, schema and sidecar."""
    with suppress(*EXPECTED):
        ferry.loads(data, format="json")
    for read in (schemas.Schema.from_json, schemas.from_tfds):
        with suppress(*EXPECTED):
            read(data)
    folder = _folder()
    array = folder / "beside.npy"
    np.save(array, np.zeros(3, np.float32))
    Path(f"{array}.json").write_bytes(data)
    with suppress(*EXPECTED), ferry.open(str(array)) as opened:
        opened.value()
    metadata = {"tensorferry": data.decode(errors="surrogateescape"), "user": "[1]"}
    header = json.dumps(
        {
            "__metadata__": metadata,
            "a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]},
            "a.offsets": {"dtype": "I64", "shape": [2], "data_offsets": [4, 20]},
        }
    ).encode()
    body = b"abcd" + struct.pack("<qq", 0, 4)
    with suppress(*EXPECTED):
        opened = ferry.open(struct.pack("<Q", len(header)) + header + body, format="safetensors")
        for name in opened.infos():
            with suppress(*EXPECTED):
                opened[name]
        opened.value()


@cache
def _seed(name: str) -> bytes:
    return sorted((CORPUS / name).iterdir())[0].read_bytes()


_CLEANUP = ExitStack()


@cache
def _folder() -> Path:
    """A folder in memory where there is one, removed at the end."""
    where = "/dev/shm" if os.path.isdir("/dev/shm") else None
    return Path(_CLEANUP.enter_context(tempfile.TemporaryDirectory(prefix="fuzz", dir=where)))


TARGETS: dict[str, Target] = {
    "hdf5": hdf5,
    "zip": zip,
    "riegeli": riegeli_chunks,
    "textproto": proto_text,
    "arrow": arrow,
    "parquet": parquet,
    "npz": npz,
    "keras": keras,
    "savedmodel": savedmodel,
    "checkpoint": checkpoint,
    "structure": structure,
    "notes": notes,
}
