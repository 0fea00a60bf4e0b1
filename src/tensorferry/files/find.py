"""Finding: from what a person names to places and a format.

    resolve("train-*.tfrecord")                 # one thing of several files
    resolve("model/")                           # the SavedModel or checkpoint in a folder
    find(["train-*.tfrecord", "model.npz"])     # what a command line names: two things

A name is a file, a URL, a glob, a folder, "name@10" for a set of shards, "-" for the standard
input, a binary file object, bytes, or a list of files. Several files are one thing if their format
is one of rows. Nothing is opened here, and no format is imported except one that has to examine a
folder.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from tensorferry import storage
from tensorferry.classes import dataclass, replace
from tensorferry.codecs.compression import split_suffix
from tensorferry.errors import FormatError, UnknownFormatError
from tensorferry.expressions import expression
from tensorferry.formats import table
from tensorferry.formats.contract import SeveralError
from tensorferry.formats.table import TABLE
from tensorferry.storage import STANDARD_STREAM, shards
from tensorferry.storage.place import Place
from tensorferry.storage.url import has_magic, shown, split

Options = Mapping[str, Any] | None


@dataclass(frozen=True)
class Found:
    """One thing that can be opened.

    Attributes:
        name: As the user named it; of a URL, without what is secret.
        places: Its file, or its files in order.
        format: The name of its format, where the name or the user says it; else the bytes will.
    """

    name: str
    places: tuple[Place, ...]
    format: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", shown(self.name))

    @property
    def place(self) -> Place:
        """The file, or the first of them."""
        return self.places[0]

    @property
    def paths(self) -> list[str]:
        """The paths of the files."""
        return [place.path for place in self.places]

    def apart(self) -> list[Found]:
        """Each of its files alone."""
        if len(self.places) == 1:
            return [self]
        return [Found(place.path, (place,), self.format) for place in self.places]


def resolve(given: Any, *, format: str | None = None, options: Options = None) -> Found:
    """The only file or set of files that a name refers to.

    Args:
        given: See the top of this module; a `Found` is given back.
        format: As the user named it.
        options: For the store of a URL.

    Raises:
        FileNotFoundError: There is nothing by that name.
        FormatError: Shards are missing from a set, or a folder holds rows of several formats.
        UnknownFormatError: The format does not exist.
    """
    if format is not None:
        table.facts_of(format)
    if isinstance(given, Found):
        return given if format is None else replace(given, format=format)
    if isinstance(given, Place):
        return Found(given.path, (given,), format)
    if isinstance(given, list | tuple):
        paths = [path for one in given for path in _files_of(os.fspath(one), options)]
        name = f"{given[0]} and {len(given) - 1} more" if len(given) > 1 else str(given[0])
        return _many(name, paths, format, options)
    if not isinstance(given, str | os.PathLike):
        place = Place(given)
        return Found(place.path, (place,), format)
    name = storage.localize(given)
    place = Place(name, options=options)
    if name == STANDARD_STREAM:
        return Found(name, (place,), format)
    mode = 0 if place.is_url else place.mode()
    several = _of_several_files(place, format, mode)
    if several is not None:
        return several
    is_told = format is not None and TABLE[format].files == "several" and stat.S_ISDIR(mode)
    if is_told or not _is_many(place, mode):  # the format itself says what is missing
        return Found(name, (place,), format)
    redirected = _redirected(place, format)
    if redirected is not None:
        return Found(name, (redirected,), format)
    return _many(name, _files_of(name, options), format, options)


def _many(name: str, paths: Sequence[str], format: str | None, options: Options) -> Found:
    places = tuple(Place(path, options=options) for path in paths)
    known = format or next((row for path in paths if (row := rows_format(path))), None)
    return Found(name, places, known if len(places) > 1 else format)


def of_several_files(place: Place, format: str | None = None) -> Found | None:
    """The thing of several files that a path leads to: a SavedModel, a checkpoint; else None.

    Args:
        place: A folder, a prefix, or one of the files.
        format: As the user named it.
    """
    return _of_several_files(place, format, 0 if place.is_url else place.mode())


def _of_several_files(place: Place, format: str | None, mode: int) -> Found | None:
    name = place.path
    is_file = _names_one_file(name) if place.is_url else stat.S_ISREG(mode)
    inside = _in_its_folder(place, format) if stat.S_ISDIR(mode) else None
    if inside is not None:
        return inside
    for facts, members in _ORDERS.get(table.named(name) or "", _SEVERAL):
        if format not in (None, facts.name):
            continue
        if format is None and is_file and not members.search(name):
            continue
        found = table.to_read(facts.name).reads.find(place)
        if found is not None:
            return Found(name, (found,), facts.name)
    return None


_SEVERAL = tuple(
    (facts, expression(facts.members)) for facts in TABLE.values() if facts.files == "several"
)


# The format that a suffix stands for is asked first.
_ORDERS = {
    facts.name: sorted(_SEVERAL, key=lambda one: one[0] is not facts) for facts, _ in _SEVERAL
}


_FOLDERS = tuple(facts for facts in TABLE.values() if facts.folder)


def _in_its_folder(place: Place, format: str | None) -> Found | None:
    """The one file to open in a local folder that a format has made, as Keras does; else None."""
    for facts in _FOLDERS:
        names = [os.path.join(place.path, name) for name in facts.folder]
        if format in (None, facts.name) and all(map(os.path.isfile, names)):
            return Found(place.path, (place.at(names[0]),), facts.name)
    return None


def _redirected(place: Place, format: str | None) -> Place | None:
    """Where a path that is not there leads to: a model of several files, by its index."""
    if place.is_url or os.path.lexists(place.path):
        return None
    known = format or table.named(place.path)
    return None if known is None else table.to_read(known).reads.find(place)


def elsewhere(found: Found) -> Found | None:
    """The sharded model that a missing object refers to, by its index."""
    place = found.place
    known = found.format or table.named(place.path)
    if not place.is_url or len(found.places) > 1 or known is None:
        return None
    other = table.to_read(known).reads.find(place.at(place.path))
    return None if other is None or other == place else replace(found, places=(other,))


def _names_one_file(url: str) -> bool:
    """Whether the name of an object says its format, or that there are several objects."""
    if split(url).scheme in ("http", "https"):  # which has no folders, and a query for an ending
        return True
    known = table.named(split_suffix(url)[0])
    is_known = known is not None and TABLE[known].files == "one"
    return "*" in url or shards.is_set(url) or is_known


def _is_many(place: Place, mode: int) -> bool:
    """Whether a path names several files, or no existing one."""
    name = place.path
    if place.is_url:
        return "*" in name or name.endswith("/") or shards.is_set(name)
    return stat.S_ISDIR(mode) or (not mode and not os.path.lexists(name))


def _files_of(name: str, options: Options) -> list[str]:
    """The files that a glob, a shard set or a folder means, in order."""
    is_folder = name.endswith("/") if storage.is_url(name) else os.path.isdir(name)
    return _in_folder(name, options) if is_folder else shards.expand(name, options=options)


def _in_folder(path: str, options: Options) -> list[str]:
    """The files of rows in a folder, which must be of one format."""
    names: dict[str, list[str]] = {}
    for name in storage.list_directory(path, options=options):
        found = rows_format(name) if shards.is_data(name) else None
        if found is not None:
            names.setdefault(found, []).append(name)
    if len(names) > 1:
        first = min(names)
        raise FormatError(
            f"the folder holds rows of {' and '.join(sorted(names))}, expected one format",
            path=path,
            hint=f"name the files of one: {os.path.join(path, '*' + TABLE[first].suffixes[0])}",
        )
    if not names:
        raise FileNotFoundError(
            errno.ENOENT, "the folder holds no model, no checkpoint and no files of rows", path
        )
    return shards.check_sets(next(iter(names.values())), path)


def rows_format(path: str) -> str | None:
    """The format of rows for the name of a file; None if there is none."""
    name = os.path.basename(path)
    if _is_beside(name):
        return None
    stem = split_suffix(name)[0]
    parsed = shards.parse_shard(stem)
    for known in (table.named(stem), None if parsed is None else table.named(parsed[0])):
        if known is not None:
            return known if TABLE[known].opens == "rows" else None
    for facts in TABLE.values():
        if facts.names_shards and (
            any(suffix in name for suffix in facts.suffixes)
            # The data files of a checkpoint are named like shards: model.data-00000-of-00001.
            or (parsed is not None and not parsed[0].endswith(".data"))
        ):
            return facts.name
    return None


def format_named(path: str) -> str | None:
    """The format for the name of a file, ignoring compression and shard numbers."""
    stem = split_suffix(path)[0]
    name = stem.rpartition("@")[0] if "@" in os.path.basename(stem) else stem
    return table.named(stem) or table.named(name) or rows_format(path)


# What a command line names


def find(
    paths: Iterable[str | os.PathLike[str]], *, options: Options = None, every: bool = False
) -> list[Found]:
    """The things that some paths name, in their order.

    Args:
        paths: Files, globs, sets of shards, URLs, and folders, which name everything in them.
        options: For the stores of URLs.
        every: A folder of checkpoints names all of them, and not only the latest.

    Raises:
        FileNotFoundError: There is nothing by a name.
        UnknownFormatError: A folder holds no file of a known format.
    """
    found: list[Found] = []
    for path in paths:
        found += _find(os.fspath(path), options, every)
    return found if len(found) == 1 else list(_gathered(found))


def _find(path: str, options: Options, every: bool) -> list[Found]:
    if path == STANDARD_STREAM:
        return [_single(path, options)]
    if storage.is_url(path):
        return _matches(path, options) if "*" in path else [_lazily(path, options)]
    if os.path.isdir(path):
        return _contents_of(path, options, every)
    if os.path.lexists(path) or not has_magic(path):
        return [_lazily(path, options)]
    return _matches(path, options)


def _lazily(path: str, options: Options) -> Found:
    """Resolves a path; a missing file is reported when it is opened."""
    try:
        return resolve(path, options=options)
    except OSError:
        return _single(path, options)


def _single(path: str, options: Options) -> Found:
    return Found(path, (Place(path, options=options),))


def _matches(pattern: str, options: Options) -> list[Found]:
    names = storage.match(pattern, options=options)
    kinds = {rows_format(name) for name in names}
    if not names or (len(kinds) == 1 and None not in kinds):
        return [resolve(pattern, options=options)]
    return [_single(name, options) for name in names if not _is_beside(name)]


def _contents_of(path: str, options: Options, every: bool) -> list[Found]:
    """A folder that is something as a whole, such as a model or rows, and the other files in it."""
    try:
        whole = of_several_files(Place(path, options=options))
    except SeveralError:
        if not every:
            raise
        whole = None
    if whole is not None:
        assert whole.format is not None
        facts = TABLE[whole.format]
        if facts.is_folder or facts.folder:  # a model is everything in its folder
            return [whole]
    names = storage.list_directory(path, options=options)
    files = [name for name in names if _known(name) and not _is_beside(name)]
    rows = [name for name in files if rows_format(name) is not None]
    others = [_single(name, options) for name in files if rows_format(name) is None]
    checkpoints = _checkpoints_in(names, whole, options) if every else []
    if whole is not None:
        return [whole, *checkpoints, *(_single(name, options) for name in rows), *others]
    found = [*checkpoints, *others]
    if rows:
        # JSON beside rows is about them.
        about = {name for name in files if name.endswith(".json")}
        found = [
            *_rows_of(path, rows, options, alone=not checkpoints),
            *(one for one in found if one.name not in about),
        ]
    if not found:
        raise UnknownFormatError(
            f"none of the {len(names)} files in the folder has the name of a known format"
            if names
            else "the folder is empty",
            path=path,
            hint="`ferry formats` lists their endings; name the files themselves",
        )
    return found


def _checkpoints_in(names: Iterable[str], whole: Found | None, options: Options) -> list[Found]:
    """The things of several files in a folder, but for the one that the folder itself names."""
    found: dict[str, Found] = {}
    for name in names:
        one = of_several_files(Place(name, options=options))
        if one is not None:
            found[one.place.path] = replace(one, name=one.place.path)
    if whole is not None:
        found.pop(whole.place.path, None)
    return list(found.values())


def _rows_of(path: str, names: Sequence[str], options: Options, *, alone: bool) -> list[Found]:
    """The rows in a folder: one thing if they are of one format, else one of each format.

    Args:
        path: The folder.
        names: The files of rows in it.
        options: For the store of a URL.
        alone: Whether nothing else claims the name of the folder.
    """
    if alone and len({rows_format(name) for name in names}) == 1:
        return [resolve(path, options=options)]
    return [_single(name, options) for name in names]


def _gathered(found: list[Found]) -> Iterator[Found]:
    """Shards of one set that were listed one by one are treated as the set."""
    sets: dict[tuple[str, int], list[Found]] = {}
    for one in found:
        key = _set_of(one)
        if key is not None:
            sets.setdefault(key, []).append(one)
    for one in found:
        key = _set_of(one)
        members = [] if key is None else sets[key]
        if len(members) < 2:
            yield one
        elif members[0] is one:
            places = tuple(member.place for member in members)
            yield Found(f"{one.name} and {len(members) - 1} more", places, rows_format(one.name))


def _set_of(found: Found) -> tuple[str, int] | None:
    if len(found.places) > 1 or rows_format(found.name) is None:
        return None
    parsed = shards.parse_shard(found.name)
    return None if parsed is None else (parsed[0], parsed[2])


def counted_in(path: str) -> Literal["rows", "records", "tensors"]:
    """The unit that is counted while a file of that name is read."""
    found = rows_format(path)
    if found is None:
        return "tensors"
    return "records" if TABLE[found].records else "rows"


def _is_beside(name: str) -> bool:
    """Whether a file is an index, a schema, a list or a note beside data, or not finished."""
    if name.endswith((".idx", ".index", ".schema.json", ".tmp", ".part")):
        return True
    if os.path.basename(name).startswith(".ferry-"):  # what a conversion has finished
        return True
    return name.endswith(".json") and _known(name[: -len(".json")]) is not None


def _known(name: str) -> str | None:
    return table.named(split_suffix(name)[0]) or rows_format_of_shard(name)


def rows_format_of_shard(name: str) -> str | None:
    """The format of rows of a shard without a suffix; None for other names."""
    return rows_format(name) if shards.parse_shard(name) else None
