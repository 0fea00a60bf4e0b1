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
from tensorferry.storage import Source, names, sets
from tensorferry.storage.place import Place


def read(place: Place) -> Weights:
    """The weights of all files of an index.

    Args:
        place: The index.

    Raises:
        FormatError: It is no index, or its files have other variables than it says.
        UnsupportedError: The index is a stream or bytes, and has no files beside it.
    """
    groups, shards = _open(place)
    weights = Weights()
    weights.places += shards
    roots: dict[str, Node] = {}
    try:
        for shard in shards:
            roots[os.path.basename(shard.path)] = File(shard.open()).root
        found = keras_layouts.find_by_path(list(roots.values()))
        fill(weights, found)
        _check(groups, roots, weights, place.path)
    except BaseException:
        weights.close()
        raise
    return weights


def _open(place: Place) -> tuple[dict[str, list[str]], list[Place]]:
    """What the index says, and its files, all of one generation."""

    def members() -> list[Place]:
        return [place, *_shards_of(place, _parse(place.open()))]

    if place.is_url or not place.is_named:
        return _parse(place.open()), members()[1:]
    while True:
        _, *shards = sets.as_one(place.path, members)
        groups = _parse(place.open())
        # The index may have been replaced after it said which files to open.
        if [shard.path for shard in shards] == [one.path for one in _shards_of(place, groups)]:
            return groups, shards


def _shards_of(place: Place, groups: dict[str, list[str]]) -> list[Place]:
    return [place.beside(name) for name in dict.fromkeys(n for ns in groups.values() for n in ns)]


def _check(
    groups: dict[str, list[str]], roots: dict[str, Node], weights: Weights, path: str
) -> None:
    held = {f"/{variable.rpartition('/')[0]}" for variable in weights.paths.values()}
    for group in sorted(held ^ groups.keys()):
        what = "lack" if group in groups else "have, unlike the index,"
        raise FormatError(f"the files {what} the variables of {group[:100]!r}", path=path)
    for group, listed in groups.items():
        for name in listed:
            keras_layouts.descend(roots[name], group.strip("/"))


def _parse(source: Source) -> dict[str, list[str]]:
    """The files that have each group of variables."""
    tree = keras_config.parse(source.everything(), what="the index")
    mapping = tree.get("weight_map")
    if not isinstance(mapping, dict):
        raise FormatError("no index of Keras weights: it has no weight_map", path=source.path)
    groups: dict[str, list[str]] = {}
    for group, files in mapping.items():
        listed = files if isinstance(files, list) else [files]
        for name in listed:
            problem = names.problem_with(name)
            if problem is not None:
                raise FormatError(
                    f"the file of {group[:60]!r} is {str(name)[:60]!r}, "
                    f"expected a name beside the index: {problem}",
                    path=source.path,
                )
        groups[group] = listed
    return groups
