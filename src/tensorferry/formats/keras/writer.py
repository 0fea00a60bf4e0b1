"""Writing the weights of Keras: files that Keras 3 loads by `model.load_weights`.

A tensor is written to its path, "layers/dense/vars/0": the groups that lead to a layer, and the
number of a variable. Keras finds variables by these paths, and by nothing else; the names of layers
are written beside them, where they are known. What was read can be written again, because its paths
were read too: `write_like` takes them from a file, `replace_weights` from an archive, whose other
members are kept byte for byte.

HDF5 is written by h5py, into memory or, beyond `HELD` bytes, into a temporary file. Nothing in it
depends on the time: the same tensors give the same bytes. Reading is
`tensorferry.formats.keras.reader`.
"""

from __future__ import annotations

import io
import math
import os
import re
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorferry import dtypes
from tensorferry.codecs import json_text as json
from tensorferry.codecs.zip.archive import open_archive
from tensorferry.codecs.zip.directory import DEFLATED
from tensorferry.codecs.zip.writer import Writer
from tensorferry.errors import MismatchError, MissingExtraError, UnsupportedError
from tensorferry.formats.contract import Written
from tensorferry.formats.keras.layouts import VARIABLES
from tensorferry.formats.keras.reader import INDEX, WEIGHTS, open_weights
from tensorferry.formats.keras.weights import Weights
from tensorferry.storage import FileSink, Sink
from tensorferry.storage.place import Place, Target
from tensorferry.tensors.values import RaggedTensor, SparseTensor

HELD = 64 << 20
"""A file up to this size is put together in memory."""

BLOCK = 8 << 20

# What h5py stores as itself, and Keras reads as such.
NATIVE = {
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
}

_PATH = re.compile(rf"(?:(?P<group>[^\0]+)/)?{VARIABLES}/(?P<key>[^/\0]+)")

Tensors = Mapping[str, Any]


def write(
    tensors: Tensors,
    sink: Sink,
    *,
    paths: Mapping[str, str] | None = None,
    layers: Mapping[str, str] | None = None,
) -> None:
    """Writes a `.weights.h5` file.

    Args:
        tensors: Arrays, or stored tensors, which are read one by one.
        sink: Takes the bytes.
        paths: Where each tensor is written, by name; by default its name is its path.
        layers: The name of the layer that each group belongs to.

    Raises:
        UnsupportedError: A name is no path, or a tensor of a kind that Keras does not keep so.
        MissingExtraError: h5py is not installed.
    """
    h5py = _h5py()
    _check_kinds(tensors)
    places = {name: _place(name, (paths or {}).get(name, name)) for name in tensors}
    size = sum(_size(tensor) for tensor in tensors.values())
    with io.BytesIO() if size <= HELD else tempfile.TemporaryFile() as buffer:
        with h5py.File(buffer, "w") as file:
            for group, name in (layers or {}).items():
                _group(file, group).attrs["name"] = name
            for name, tensor in tensors.items():
                group, key = places[name]
                inside = _group(file, group)
                if key in inside:
                    raise UnsupportedError(
                        f"two tensors are written to {group}/{VARIABLES}/{key}", tensor=name
                    )
                _write_dataset(inside, key, name, tensor)
        buffer.seek(0)
        while block := buffer.read(BLOCK):
            sink.write(block)


def write_like(like: Weights, tensors: Tensors, sink: Sink) -> None:
    """Writes a `.weights.h5` file for the model that a file is of.

    Args:
        like: The file; tensors that are not given are written as the file has them.
        tensors: By the names or the paths that the file has for them.
        sink: Takes the bytes.

    Raises:
        MismatchError: A tensor has another name or shape than those of the file.
        UnsupportedError: The file is a legacy one, which has no paths.
    """
    write(replaced(like, tensors), sink, paths=like.paths, layers=like.layers)


def replaced(like: Weights, tensors: Tensors) -> dict[str, Any]:
    """The tensors of a file, some of them replaced; see `write_like`."""
    if like.layout != "keras3":
        raise UnsupportedError(
            f"the weights are kept as {like.layout}, expected keras3, whose paths Keras 3 knows",
            hint="load them into a model, and save that",
        )
    names = {path: name for name, path in like.paths.items()}
    found: dict[str, Any] = dict(like.stored)
    for given, tensor in tensors.items():
        name = given if given in found else names.get(given)
        if name is None:
            raise MismatchError("the file has no such variable", tensor=given)
        expected = like.stored[name].shape
        if tuple(tensor.shape) != expected:
            raise MismatchError(
                f"shape {list(tensor.shape)}, the file has {list(expected)}", tensor=given
            )
        found[name] = tensor
    return found


def replace_weights(place: Place, tensors: Tensors, sink: Sink) -> None:
    """Writes a `.keras` archive again with other weights, and with all else as it is.

    Args:
        place: The archive; closed at the end.
        tensors: As in `write_like`.
        sink: Takes the bytes of the new archive.

    Raises:
        MismatchError: A tensor has another name or shape than those of the archive.
    """
    with open_weights(place) as weights:
        archive = open_archive(place.open())
        with Writer(sink, align=8) as target:
            for name, member in archive.members.items():
                if name == WEIGHTS:
                    blocks = _Blocks()
                    write_like(weights, tensors, blocks)
                    target.write(name, *blocks)
                else:
                    deflate = member.method == DEFLATED
                    target.write_blocks(name, archive.blocks(name), deflate=deflate)


class _Blocks(list[Any]):
    write = list.append


def save_shards(
    tensors: Tensors,
    target: Target,
    *,
    shard_size: int,
    paths: Mapping[str, str] | None = None,
    layers: Mapping[str, str] | None = None,
) -> Written:
    """Writes files of about a size, and the index by which Keras loads them.

    Args:
        tensors: As in `write`.
        target: The index: "model.weights.json".
        shard_size: The most bytes of values in a file, unless one layer has more.
        paths: As in `write`.
        layers: As in `write`.
    """
    path = target.path
    if not path.endswith(INDEX):
        raise UnsupportedError(
            f"the index is called {path!r}, expected a name that ends in {INDEX}", path=path
        )
    _check_kinds(tensors)
    shards: list[dict[str, Any]] = [{}]
    groups: dict[str, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        group, _ = _place(name, (paths or {}).get(name, name))
        groups.setdefault(group, {})[name] = tensor
    held, mapping, stem = 0, {}, path.removesuffix(INDEX)
    for group, members in groups.items():
        size = sum(_size(tensor) for tensor in members.values())
        if shards[-1] and held + size > shard_size:
            shards.append({})
            held = 0
        shards[-1].update(members)
        held += size
        name = f"{os.path.basename(stem)}_{len(shards) - 1:05}.weights.h5"
        mapping[f"/{group}/{VARIABLES}" if group else f"/{VARIABLES}"] = [name]
    total = sum(_size(tensor) for tensor in tensors.values())
    written: dict[str, FileSink] = {}
    names = [f"{stem}_{number:05}.weights.h5" for number in range(len(shards))]
    # Keras looks for files of these names: there are no others for the new ones to have.
    with target.files(together=[*names, path], main=path) as files:
        for number, members in enumerate(shards):
            used = {_place(name, (paths or {}).get(name, name))[0] for name in members}
            # Layers without variables are in the first file, as Keras has most of them.
            own = {
                group: name
                for group, name in (layers or {}).items()
                if group in used or (not number and group not in groups)
            }
            written[names[number]] = files.open(names[number])
            write(members, written[names[number]], paths=paths, layers=own)
        index = {"metadata": {"total_size": total}, "weight_map": mapping}
        written[path] = files.open(path)
        written[path].write(json.to_text(index))
    return Written(sum(sink.position for sink in written.values()), tuple(written))


def _h5py() -> Any:
    try:
        import h5py
    except ModuleNotFoundError:
        raise MissingExtraError(
            "writing weights of Keras needs h5py, which is not installed",
            hint="pip install 'tensorferry[keras]'",
        ) from None
    return h5py


def _place(name: str, path: str) -> tuple[str, str]:
    """The group of a layer, and the key of a variable in it."""
    found = _PATH.fullmatch(path.removeprefix("/"))
    group = "" if found is None else found["group"] or ""
    if found is None or any(part in ("", ".", "..") for part in group.split("/") if group):
        raise UnsupportedError(
            f"{path[:200]!r} is no path of a variable",
            tensor=name[:200],
            hint='name it as in "layers/dense/vars/0", or pass paths=; '
            "npz and safetensors take every name",
        )
    return group, found["key"]


def _check_kinds(tensors: Tensors) -> None:
    for name, tensor in tensors.items():
        if isinstance(tensor, SparseTensor | RaggedTensor | list):
            what = "sparse" if isinstance(tensor, SparseTensor) else "ragged"
            raise UnsupportedError(
                f"a {what} tensor: Keras keeps dense arrays among weights",
                tensor=name[:200],
                hint="safetensors and npz carry every kind of tensor",
            )


def _group(file: Any, group: str) -> Any:
    return file.require_group(f"{group}/{VARIABLES}")


def _size(tensor: Any) -> int:
    count: int = math.prod(tensor.shape)
    return count * (dtypes.as_dtype(tensor.dtype).bits // 8 or 1)


def _write_dataset(group: Any, key: str, name: str, tensor: Any) -> None:
    array = np.asarray(tensor.read() if not isinstance(tensor, np.ndarray) else tensor)
    dtype = dtypes.from_numpy(array.dtype).name
    if dtype == "bfloat16":
        dataset = group.create_dataset(key, data=array.view("V2"), track_times=False)
        dataset.attrs["dtype"] = dtype
    elif dtype in NATIVE:
        group.create_dataset(key, data=array, track_times=False)
    else:
        raise UnsupportedError(
            f"Keras keeps no {dtype} among weights",
            tensor=name[:200],
            hint="safetensors and npz carry every dtype",
        )
