"""Keras weights: `.weights.h5`, `.keras` archives, `.h5` files of Keras 2, and their shards.

    model.weights.h5     an HDF5 file of variables
    model.keras          a zip archive: metadata.json, config.json, model.weights.h5, assets/
    model.h5             an HDF5 file with the config among its attributes, or without
    model.weights.json   the index of several .weights.h5 files

They are opened without Keras, TensorFlow or h5py, and without reading a value: arrays are views of
the file. A config is text here: what would run if Keras loaded it is listed in `findings`. The
checksum that an archive has for its weights is compared before the first of them is read.

HDF5 is `tensorferry.codecs.hdf5.file`, what the variables are called
`tensorferry.formats.keras.layouts`, configs are `tensorferry.formats.keras.config`, and writing is
`tensorferry.formats.keras.writer`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Self

from tensorferry.codecs.hdf5.file import SIGNATURE, File
from tensorferry.codecs.zip.archive import Archive, open_archive
from tensorferry.codecs.zip.directory import STORED
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.formats.keras import (
    config as keras_config,
    layouts as keras_layouts,
    values as hdf5_values,
)
from tensorferry.formats.keras.config import Finding
from tensorferry.formats.keras.layouts import Found, Layout
from tensorferry.storage import Source, exists, is_url, open_sink, open_source, shards
from tensorferry.tensors.note import Note
from tensorferry.tensors.stored import Stored

NAME = "keras"

CONFIG, METADATA, WEIGHTS, ASSETS = "config.json", "metadata.json", "model.weights.h5", "assets/"
PICKLED_WEIGHTS = "model.weights.npz"
INDEX = ".weights.json"
SHARD_SIZE = "5GB"

_ZIP = b"PK\x03\x04"
_NAME_OFFSET = 30


@dataclass(slots=True)
class Weights:
    """The variables of a file, and what it says of their model.

    Attributes:
        stored: By name, in the model's order, and then the optimizer's.
        paths: Where each is in its HDF5 file, by name.
        layers: The name of the layer that each group of an HDF5 file belongs to.
        optimizer: The names that are of the optimizer's variables, or of metrics.
        layout: How they are kept: see `tensorferry.formats.keras.layouts`.
        metadata: What the file says of itself: "keras_version", "backend", "date_saved".
        config: Of the model, as parsed JSON; None if there is none.
        training: How it was compiled, in a legacy file.
        findings: What Keras would run or read beside layers if it loaded the config.
        assets: The names of an archive's other files.
        sources: What is open.
    """

    stored: dict[str, Stored] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)
    optimizer: tuple[str, ...] = ()
    layout: Layout = "keras3"
    metadata: dict[str, str] = field(default_factory=dict)
    config: Any = None
    training: Any = None
    findings: tuple[Finding, ...] = ()
    assets: tuple[str, ...] = ()
    sources: list[Source] = field(default_factory=list, repr=False)

    @property
    def files(self) -> list[str]:
        """The files that it is in."""
        return list(dict.fromkeys(source.path for source in self.sources))

    @property
    def aliases(self) -> Mapping[str, str]:
        """What else each variable is called: where it is in its HDF5 file."""
        return self.paths

    def close(self) -> None:
        """Lets go of the files; arrays that were given out stay valid."""
        for source in self.sources:
            source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def sniff(head: bytes) -> bool:
    """An HDF5 file, or an archive whose first member is one of Keras'."""
    if head.startswith(SIGNATURE):
        return True
    return head.startswith(_ZIP) and head.startswith(
        (METADATA.encode(), CONFIG.encode(), WEIGHTS.encode()), _NAME_OFFSET
    )


def open_stored(
    path: str | os.PathLike[str] | Source | BinaryIO,
    *,
    verify: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> Weights:
    """Opens a file of weights, of whichever kind its bytes are.

    Args:
        path: A local path, a URL, a file object or a source.
        verify: Compare the checksum of an archive's weights, before the first of them is read.
        storage_options: For the store of a URL.

    Raises:
        FormatError: It is damaged, or no such file.
        UnsupportedError: Values are outside of it, or of a kind that tensors do not have.
    """
    given = isinstance(path, Source)
    source = path if isinstance(path, Source) else open_source(path, options=storage_options)
    try:
        head = source.head(len(SIGNATURE))
        if head.startswith(SIGNATURE):
            weights = read_file(File(source))
        elif head.startswith(_ZIP):
            weights = _read_archive(source, verify)
        elif source.path.endswith(INDEX) or head.lstrip().startswith(b"{"):
            from tensorferry.formats.keras import shards as keras_shards

            weights = keras_shards.read(source, storage_options)
        else:
            raise FormatError(f"no weights of Keras: starts with {head.hex(' ')!r}", offset=0)
    except BaseException as error:
        if not given:
            source.close()
        if isinstance(error, FerryError):
            error.located(path=source.path)
        raise
    weights.sources.append(source)
    return weights


def read_file(
    file: File, *, config: Any = None, check: Callable[[], None] | None = None
) -> Weights:
    """The weights of an HDF5 file.

    Args:
        file: Of any of the layouts.
        config: Of the model, where that is known from elsewhere.
        check: Is called before values are read as a whole.
    """
    weights = Weights(config=config)
    attributes = file.root.attributes
    group = keras_layouts.weights_group(file.root)
    for holder in () if group is None else (group.attributes, attributes):
        for key in ("keras_version", "backend"):
            if isinstance(holder.get(key), str):
                weights.metadata[key] = holder[key]
    for key in ("model_config", "training_config"):
        if isinstance(attributes.get(key), str):
            tree = keras_config.parse(attributes[key].encode(), what=key)
            if key == "model_config":
                weights.config = tree
            else:
                weights.training = tree
    weights.findings = (
        *keras_config.find(weights.config),
        *keras_config.find({"training_config": weights.training}),
    )
    fill(weights, keras_layouts.find(file.root, weights.config), check)
    return weights


def fill(weights: Weights, found: Found, check: Callable[[], None] | None = None) -> None:
    """Adds the datasets of an HDF5 file to weights."""
    for name, node in found.datasets.items():
        tag = node.attributes.get("dtype")
        # h5py has no bfloat16: it becomes two opaque bytes, in legacy files without a tag.
        dtype = tag if isinstance(tag, str) else "bfloat16"
        weights.stored[name] = hdf5_values.stored(node, dtype=dtype, check=check)
        weights.paths[name] = node.path
    weights.layers.update(found.layers)
    weights.optimizer += found.optimizer
    weights.layout = found.layout


def _read_archive(source: Source, verify: bool) -> Weights:
    archive = open_archive(source, lazy=is_url(source.path))
    if WEIGHTS not in archive:
        if PICKLED_WEIGHTS in archive:
            raise UnsupportedError(
                f"the weights are in {PICKLED_WEIGHTS}, which are pickled objects",
                hint="load the model with the Keras that saved it, and save it again",
            )
        raise FormatError(
            f"no {WEIGHTS} among the {len(archive)} members, which a .keras archive has"
        )
    config = None
    if CONFIG in archive:
        config = keras_config.parse(archive.read(CONFIG), what=CONFIG)
    file, check = _weights_file(archive, source, verify)
    weights = read_file(file, config=config, check=check)
    if METADATA in archive:
        tree = keras_config.parse(archive.read(METADATA), what=METADATA)
        weights.metadata |= {key: str(value) for key, value in tree.items()}
    weights.assets = tuple(name for name in archive if name.startswith(ASSETS))
    return weights


def _weights_file(
    archive: Archive, source: Source, verify: bool
) -> tuple[File, Callable[[], None] | None]:
    """The HDF5 file in an archive, where it lies there if it is stored, and how to verify it."""
    member = archive.members[WEIGHTS]
    if member.method != STORED:
        data = archive.read(WEIGHTS, verify=verify)
        return File(Source(f"{source.path}/{WEIGHTS}", buffer=data)), None
    is_checked = not verify

    def check() -> None:
        nonlocal is_checked
        if not is_checked:
            for _ in archive.blocks(WEIGHTS):
                pass
            is_checked = True

    return File(source, archive.offset(WEIGHTS), member.size), check


def save_stored(
    tensors: Iterable[tuple[str, Any]],
    path: str,
    *,
    note: Note,
    metadata: Mapping[str, Any],
    shard_size: int | str | None = None,
    paths: Mapping[str, str] | None = None,
    layers: Mapping[str, str] | None = None,
    durable: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> int:
    """Writes tensors to a `.weights.h5` file, and gives its size.

    Args:
        tensors: By the paths that Keras has for them: "layers/dense/vars/0".
        path: A `.weights.h5` file; of a `.keras` archive, which must be there, the weights are
            replaced.
        note: Has to be empty: there is no place for one.
        metadata: Likewise.
        shard_size: Makes several files, and the index that `path` is then.
        paths: Where each is written, by name; by default its name is its path.
        layers: The name of the layer that each group belongs to.
        durable: Waits until the disk has it.
        storage_options: For the store of a URL.

    Raises:
        UnsupportedError: A tensor is of a kind that Keras does not keep so, or its name no path.
        MissingExtraError: h5py is not installed.
    """
    from tensorferry.formats.keras import writer as keras_writer

    held = dict(tensors)
    if metadata or note.layout or note.dtypes or note.quantized or note.tensors:
        raise UnsupportedError(
            "Keras' files have no place for metadata, nesting and quantized values",
            hint="npz, safetensors and checkpoints have",
        )
    if path.endswith(INDEX) or shard_size is not None:
        keras_writer.save_shards(
            held,
            path,
            shard_size=shards.parse_size(SHARD_SIZE if shard_size is None else shard_size),
            paths=paths,
            layers=layers,
            durable=durable,
            storage_options=storage_options,
        )
        return sum(tensor.nbytes for tensor in held.values())
    if path.endswith(".keras") and not exists(path, options=storage_options):
        raise UnsupportedError(
            "a .keras archive has the config of a model, too: its weights can only be replaced",
            path=path,
            hint="name it .weights.h5",
        )
    with open_sink(path, durable=durable, options=storage_options) as sink:
        if path.endswith(".keras"):
            keras_writer.replace_weights(path, held, sink, storage_options=storage_options)
        elif path.endswith(".weights.h5"):
            keras_writer.write(held, sink, paths=paths, layers=layers)
        else:
            raise UnsupportedError(
                "the layout of Keras 2 is read, not written",
                path=path,
                hint="name it .weights.h5",
            )
    return sink.position
