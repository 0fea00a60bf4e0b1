"""Datasets prepared by TensorFlow Datasets, read without it: splits by name, and parts of them.

    feeds.tfds.sizes("mnist/3.0.1")                             # {"train": 60000, "test": 10000}
    rows = feeds.tfds.rows("mnist/3.0.1", "train[:10%]")
    feed = feeds.Feed(rows, batch=256, shuffle=True)

`dataset_info.json` in the folder names the splits, their files and how many rows each file has;
`features.json` says what the columns are. Nested features have names with slashes: the steps of an
RLDS episode are ragged columns such as "steps/reward".
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Unpack

from tensorferry.classes import NamedTuple
from tensorferry.codecs import json_text
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.files import keywords
from tensorferry.files.open import open as open_rows
from tensorferry.rows import schema as schemas
from tensorferry.rows.rows import Rows
from tensorferry.storage.place import Place

INFO, FEATURES = "dataset_info.json", "features.json"
TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"

_PART = re.compile(r"\s*([\w.-]+)\s*(?:\[\s*(-?\d+%?)?\s*:\s*(-?\d+%?)?\s*\])?\s*")


class Shard(NamedTuple):
    """A file of a split.

    Attributes:
        path: The file.
        rows: Number of rows in it.
    """

    path: str
    rows: int


def sizes(
    folder: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> dict[str, int]:
    """Returns the number of rows of each split.

    Args:
        folder: The folder of one version of a dataset, with its dataset_info.json; local or a URL.
        storage_options: Options for the store of a URL.
    """
    found = _splits(folder, storage_options)
    return {name: sum(shard.rows for shard in shards) for name, shards in found.items()}


def rows(
    folder: str | os.PathLike[str],
    split: str = "train",
    *,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Reading],
) -> Rows:
    """Returns the rows of a split, or of a part of it.

    Args:
        folder: The folder of one version of a dataset, with its dataset_info.json.
        split: As in TensorFlow Datasets: "train", "train[:10%]", "train[100:200]", "train[-5%:]".
            Parts of a file need random access.
        storage_options: Options for the store of a URL.
        **options: Options of `tensorferry.open`.

    Raises:
        UnsupportedError: There is no such split.
        FormatError: The folder is not a dataset.
    """
    found = _splits(folder, storage_options)
    name, start, stop = _parse(split, found)
    wanted: list[Shard] = []
    first = before = 0  # the rows before the files that are wanted, and before the next file
    for shard in found[name]:
        if before < stop and before + shard.rows > start:
            first = first if wanted else before
            wanted.append(shard)
        before += shard.rows
    if options.get("schema") is None:
        options = {**options, "schema": _features(Place(folder, options=storage_options))}
    paths = [shard.path for shard in wanted or found[name][:1]]
    opened = open_rows(paths, format="tfrecord", storage_options=storage_options, **options)
    assert isinstance(opened, Rows)
    if not wanted:
        return opened.between(0, 0)
    if (start, stop) == (first, first + sum(shard.rows for shard in wanted)):
        return opened
    try:
        return opened.between(start - first, stop - first)
    except IndexError as error:
        opened.close()
        raise FormatError(
            f"the files of split {name!r} have fewer rows than {INFO} says: {error}",
            path=os.path.join(os.fspath(folder), INFO),
        ) from None


def _features(folder: Place) -> Any:
    """What features.json says the columns are; None if there is no such file."""
    place = folder.at(os.path.join(folder.path, FEATURES))
    if not place.exists():
        return None
    with place.reader() as source:
        try:
            return schemas.as_schema(json_text.parse(bytes(source.everything())))
        except FormatError as error:
            raise error.located(path=place.path) from None


def _splits(folder: str | os.PathLike[str], options: Any) -> dict[str, list[Shard]]:
    place = Place(folder, options=options)
    path = os.path.join(place.path, INFO)
    try:
        with place.at(path).reader() as source:
            info = json_text.parse(bytes(source.everything()))
        name, kind = info["name"], info.get("fileFormat", "tfrecord")
        found = {entry["name"]: _shards(place, name, kind, entry) for entry in info["splits"]}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise error.located(path=path) from None
        raise FormatError(f"no description of a dataset: {error}", path=path) from None
    if not found:
        raise FormatError("the dataset has no splits", path=path)
    return found


def _shards(place: Place, name: str, kind: str, entry: dict[str, Any]) -> list[Shard]:
    lengths = [int(length) for length in entry["shardLengths"]]
    if not lengths or min(lengths) < 0:
        raise FormatError(f"split {str(entry['name'])[:60]!r} has shardLengths {str(lengths)[:60]}")
    if kind != "tfrecord":
        raise UnsupportedError(
            f"the files of the dataset are {kind}, expected tfrecord", path=place.path
        )
    template = entry.get("filepathTemplate") or TEMPLATE
    shards = []
    for number, length in enumerate(lengths):
        file = template
        for key, text in {
            "DATASET": name,
            "SPLIT": entry["name"],
            "FILEFORMAT": kind,
            "SHARD_INDEX": f"{number:05}",
            "NUM_SHARDS": f"{len(lengths):05}",
            "SHARD_X_OF_Y": f"{number:05}-of-{len(lengths):05}",
        }.items():
            file = file.replace(f"{{{key}}}", text)
        shards.append(Shard(place.at(os.path.join(place.path, INFO)).beside(file).path, length))
    return shards


def _parse(split: str, found: dict[str, list[Shard]]) -> tuple[str, int, int]:
    """The name of a split, and which of its rows are meant."""
    match = _PART.fullmatch(split)
    if match is None:
        raise UnsupportedError(
            f"{split!r} is no split", hint='as in "train", "train[:10%]" or "train[100:200]"'
        )
    name, first, last = match.groups()
    if name not in found:
        raise UnsupportedError(f"there is no split {name!r}", hint=f"there are {', '.join(found)}")
    total = sum(shard.rows for shard in found[name])
    start, stop = _place(first, 0, total), _place(last, total, total)
    return name, start, max(start, stop)


def _place(text: str | None, usual: int, total: int) -> int:
    if text is None:
        return usual
    number = round(int(text[:-1]) * total / 100) if text.endswith("%") else int(text)
    number = max(total + number, 0) if number < 0 else number
    return min(number, total)
