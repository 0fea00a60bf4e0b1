"""Writing the weights of Keras: files that Keras 3 loads by `model.load_weights`.

A tensor is written to its path, "layers/dense/vars/0": the groups that lead to a layer, and the
number of a variable. Keras finds variables by these paths, and by nothing else; the names of layers
are written beside them, where they are known. What was read can be written again, because its paths
were read too: `write_like` takes them from a file, `replace_weights` from an archive, whose other
members are kept byte for byte.

HDF5 is encoded by `tensorferry.codecs.hdf5.writer`; large arrays are handed on as they are. The
same tensors give the same bytes. Reading is `tensorferry.formats.keras.reader`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorferry import dtypes
from tensorferry.codecs import json_text as json
from tensorferry.codecs.hdf5 import writer as hdf5
from tensorferry.codecs.protobuf import utf8
from tensorferry.codecs.zip.archive import open_archive
from tensorferry.codecs.zip.directory import DEFLATED
from tensorferry.codecs.zip.writer import Writer
from tensorferry.errors import MismatchError, UnsupportedError
from tensorferry.formats.contract import Written
from tensorferry.formats.keras.layouts import VARIABLES
from tensorferry.formats.keras.reader import INDEX, WEIGHTS, open_weights
from tensorferry.formats.keras.weights import Weights
from tensorferry.storage import FileSink, Sink
from tensorferry.storage.place import Place, Target
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor

# Small arrays are gathered up to about so many bytes.
BLOCK = 1 << 20

_PATH = re.compile(rf"(?:(?P<group>[^\0]+)/)?{VARIABLES}/(?P<key>[^/\0]+)")
# What no member of a group may be called.
_NOT_NAMES = {"", ".", ".."}

_OTHER_KINDS = (SparseTensor, RaggedTensor, list)

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
    """
    tensors = dict(tensors)
    _check_kinds(tensors)
    groups = [(f"{path}/{VARIABLES}", (("name", name),)) for path, name in (layers or {}).items()]
    places = list(tensors) if paths is None else [paths.get(name, name) for name in tensors]
    shapes = [tuple(tensor.shape) for tensor in tensors.values()]
    try:
        types = _datatypes(tensors)
    except UnsupportedError:
        for name, path in zip(tensors, places, strict=True):  # which is what to mend first
            _group(name, path)
        raise
    encoded = hdf5.encode(groups, places, types, shapes, within=VARIABLES)
    if isinstance(encoded, hdf5.Refused):
        named = [*(layers or {}).items(), *zip(places, tensors, strict=True)]
        raise _refusal(encoded.reason, *named[encoded.number])
    _write_values(tensors, encoded, sink)


def _write_values(tensors: Tensors, encoded: hdf5.Encoded, sink: Sink) -> None:
    """Writes what stands before the values, and the values; what is small is gathered."""
    gathered: list[Any] = [encoded.front]
    held = position = len(encoded.front)
    for name, start, size in zip(tensors, encoded.starts, encoded.sizes, strict=True):
        if not size:
            continue
        if held >= BLOCK:
            sink.write(b"".join(gathered))
            gathered, held = [], 0
        if start != position:
            gathered.append(bytes(start - position))
        position = start + size
        values = _values(name, tensors[name], size)
        if size < hdf5.LARGE:
            gathered.append(values)
            held += size
        else:
            sink.write(b"".join(gathered))
            sink.write(values.reshape(-1).view(np.uint8))
            gathered, held = [], 0
    if gathered:
        sink.write(b"".join(gathered))


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
        group = _group(name, (paths or {}).get(name, name))
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
            used = {_group(name, (paths or {}).get(name, name)) for name in members}
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


def _group(name: str, path: str) -> str:
    """The group of a layer, from the path of one of its variables."""
    _check_text(path, name)
    found = _PATH.fullmatch(path.removeprefix("/"))
    group = "" if found is None else found["group"] or ""
    parts = group.split("/") if group else []
    if found is None or not _NOT_NAMES.isdisjoint((*parts, found["key"])):
        raise _no_path(name, path)
    return group


def _no_path(name: str, path: str) -> UnsupportedError:
    return UnsupportedError(
        f"{path[:200]!r} is no path of a variable",
        tensor=name[:200],
        hint='name it as in "layers/dense/vars/0", or pass paths=; '
        "npz and safetensors take every name",
    )


def _refusal(reason: str, path: str, name: str) -> UnsupportedError:
    """The error for a group or dataset that an HDF5 file cannot have."""
    _check_text(path, name)
    _check_text(name, name)
    if reason == "twice":
        return UnsupportedError(f"two tensors are written to {path[:200]}", tensor=name[:200])
    if reason == "mixed":
        return UnsupportedError(
            f"a tensor and a group have the same name on the path {path[:200]!r}",
            tensor=name[:200],
        )
    if reason == "rank":
        return UnsupportedError(f"HDF5 has at most {hdf5.MAX_RANK} dimensions", tensor=name[:200])
    return _no_path(name, path)


def _check_kinds(tensors: Tensors) -> None:
    if not any(issubclass(kind, _OTHER_KINDS) for kind in set(map(type, tensors.values()))):
        return
    for name, tensor in tensors.items():
        if isinstance(tensor, _OTHER_KINDS):
            what = "sparse" if isinstance(tensor, SparseTensor) else "ragged"
            raise UnsupportedError(
                f"a {what} tensor: Keras keeps dense arrays among weights",
                tensor=name[:200],
                hint="safetensors and npz carry every kind of tensor",
            )


def _check_text(text: str, name: str) -> None:
    try:
        utf8(text)
    except UnsupportedError as error:
        raise error.located(tensor=name[:200]) from None


def _size(tensor: Any) -> int:
    count: int = math.prod(tensor.shape)
    return count * (dtypes.as_dtype(tensor.dtype).bits // 8 or 1)


def _datatypes(tensors: Tensors) -> list[hdf5.Datatype]:
    """What the type of each tensor is in a file."""
    found = [tensor.dtype for tensor in tensors.values()]
    types: dict[Any, hdf5.Datatype] = {}
    for given in dict.fromkeys(found):
        dtype = dtypes.as_dtype(given).name
        if dtype == "bfloat16":
            types[given] = hdf5.DATATYPES["opaque16"], (("dtype", dtype),)
        elif dtype in hdf5.DATATYPES:
            types[given] = hdf5.DATATYPES[dtype], ()
        else:
            raise UnsupportedError(
                f"Keras keeps no {dtype} among weights",
                tensor=list(tensors)[found.index(given)][:200],
                hint="safetensors and npz carry every dtype",
            )
    return [types[dtype] for dtype in found]


def _values(name: str, tensor: Any, size: int) -> Array:
    """The bytes of a tensor."""
    array = np.asarray(tensor if isinstance(tensor, np.ndarray) else tensor.read())
    if not (array.flags.c_contiguous and array.dtype.isnative):
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    if array.nbytes != size:
        raise MismatchError(
            f"{array.nbytes} bytes, {size} were announced: it changed meanwhile", tensor=name[:200]
        )
    # NumPy exports no buffers of ml_dtypes' dtypes.
    return array if array.dtype.kind in "biuf" else array.reshape(-1).view(np.uint8)
