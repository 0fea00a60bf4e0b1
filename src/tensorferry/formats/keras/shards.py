"""Keras weights in several files with an index, for models that are too large for one file.

`model.weights.json` names the files beside it that have the variables of each layer:

    {"metadata": {"total_size": 10},
     "weight_map": {"/layers/dense/vars": ["model_00000.weights.h5"], ...}}

The variables of one layer may be in several files, of which only the first has the name of the
layer. Keras looks for the first file by its name, so all files are named as Keras names them.
"""

from __future__ import annotations

import os

from tensorferry.codecs.hdf5.file import File, Node
from tensorferry.errors import FormatError
from tensorferry.formats.keras import config as keras_config, layouts as keras_layouts
from tensorferry.formats.keras.weights import Weights, fill
from tensorferry.storage import Source
from tensorferry.storage.place import Place


def read(place: Place) -> Weights:
    """The weights of all files of an index.

    Args:
        place: The index.

    Raises:
        FormatError: It is no index, or its files have other variables than it says.
        UnsupportedError: The index is a stream or bytes, and has no files beside it.
    """
    source = place.open()
    groups = _parse(source)
    weights = Weights()
    roots: dict[str, Node] = {}
    try:
        for name in dict.fromkeys(name for names in groups.values() for name in names):
            shard = place.beside(name)
            weights.places.append(shard)
            roots[name] = File(shard.open()).root
        found = keras_layouts.find_by_path(list(roots.values()))
        fill(weights, found)
        _check(groups, roots, weights, source.path)
    except BaseException:
        weights.close()
        raise
    return weights


def _check(
    groups: dict[str, list[str]], roots: dict[str, Node], weights: Weights, path: str
) -> None:
    held = {f"/{variable.rpartition('/')[0]}" for variable in weights.paths.values()}
    for group in sorted(held ^ groups.keys()):
        what = "lack" if group in groups else "have, unlike the index,"
        raise FormatError(f"the files {what} the variables of {group[:100]!r}", path=path)
    for group, names in groups.items():
        for name in names:
            keras_layouts.descend(roots[name], group.strip("/"))


def _parse(source: Source) -> dict[str, list[str]]:
    """The files that have each group of variables."""
    tree = keras_config.parse(source.everything(), what="the index")
    mapping = tree.get("weight_map")
    if not isinstance(mapping, dict):
        raise FormatError("no index of Keras weights: it has no weight_map", path=source.path)
    groups: dict[str, list[str]] = {}
    for group, files in mapping.items():
        names = files if isinstance(files, list) else [files]
        for name in names:
            is_name = isinstance(name, str) and name not in ("", ".", "..")
            if not is_name or name != os.path.basename(name) or "\\" in name:
                raise FormatError(
                    f"the file of {group[:60]!r} is {str(name)[:60]!r}, "
                    "expected a name beside the index",
                    path=source.path,
                )
        groups[group] = names
    return groups
