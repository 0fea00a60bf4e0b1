"""Shards: the names of files that form one dataset.

    train.tfrecord-00000-of-00010        as TensorFlow and TFDS write them, numbered from 0
    train-00000-of-00010.tfrecord        the same with the suffix at the end
    train.tfrecord@10, train.tfrecord@*  shorthand for all 10 shards, or for all there are

Only names and directory listings are looked at, never the files. URLs work in the same way, except
those of web servers, which list nothing; the URL of a directory ends in a slash.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tensorferry import storage
from tensorferry.classes import dataclass
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.expressions import expression
from tensorferry.storage.url import has_magic

# The suffixes of files beside records: indexes, schemas, notes and checksums.
SIDECARS = (".index", ".idx", ".json", ".pbtxt", ".txt", ".md", ".md5", ".sha256", ".crc")
UNFINISHED = (".tmp", ".part")
WEB = ("http:", "https:")

NAMED_MISSING = 5
"""The number of missing shards that an error names."""

SEARCHED_MISSING = 1_000_000
"""The most names that are looked for: a file name can claim any number of shards."""

_SHARD = expression(
    r"(?P<prefix>.*)-(?P<index>[0-9]{1,9})-of-(?P<count>[0-9]{1,9})(?P<suffix>\.[^/]*)?", re.DOTALL
)
_SIZE = expression(r"(\d+(?:\.\d+)?) ?([KMGT]?)(i?)B?", re.IGNORECASE)
_SHORTHAND = expression(r"(?P<prefix>.*)@(?P<count>[0-9]{1,9}|\*)(?P<suffix>\.[^@/]*)?", re.DOTALL)

Path = str | os.PathLike[str]
Options = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class _Set:
    """A set of shards: all that their names have in common."""

    prefix: str
    count: int
    suffix: str
    digits: tuple[int, int]  # of the number and of the count

    def name(self, index: int) -> str:
        number, count = self.digits
        return f"{self.prefix}-{index:0{number}}-of-{self.count:0{count}}{self.suffix}"


def parse_shard(name: str) -> tuple[str, int, int] | None:
    """The prefix, number and count in the name of a shard; None for any other name.

    `train-00003-of-00010.tfrecord` gives `("train", 3, 10)`. Some sets are numbered from 1, so the
    number can be as large as the count.
    """
    parsed = _parse(name)
    return None if parsed is None else (parsed[0].prefix, parsed[1], parsed[0].count)


def first_of(name: str) -> str | None:
    """The name of the first shard of a set, of which any is given; None for any other name."""
    parsed = _parse(name)
    return None if parsed is None else parsed[0].name(0)


def _parse(name: str) -> tuple[_Set, int] | None:
    match = _SHARD.fullmatch(name)
    if match is None:
        return None
    index, count = int(match["index"]), int(match["count"])
    if count == 0 or index > count:
        return None
    digits = (len(match["index"]), len(match["count"]))
    return _Set(match["prefix"], count, match["suffix"] or "", digits), index


def shard_names(path: Path, count: int | None = None) -> list[str]:
    """The names of the shards of a set that is going to be written.

    Args:
        path: "train.tfrecord", or with the count: "train.tfrecord@10", "train@10.tfrecord".
        count: The number of shards, unless the path says it.

    Raises:
        UnsupportedError: No count is given, the count is less than 1, or two counts differ.
    """
    prefix, suffix = os.fspath(path), ""
    match = _SHORTHAND.fullmatch(prefix)
    if match is not None:
        prefix, suffix = match["prefix"], match["suffix"] or ""
        said = None if match["count"] == "*" else int(match["count"])
        if None not in (said, count) and said != count:
            raise UnsupportedError(
                f"the path says {said} shards, asked for {count}", path=os.fspath(path)
            )
        count = said if count is None else count
    if count is None or count < 1:
        raise UnsupportedError(
            f"the number of shards is {count}, expected 1 or more", path=os.fspath(path)
        )
    whole = _Set(prefix, count, suffix, (5, 5))
    return [whole.name(index) for index in range(count)]


def count_of(path: Path) -> int | None:
    """The number of shards that a path says, as "name@10" does; None where it says none."""
    match = _SHORTHAND.fullmatch(os.fspath(path))
    return None if match is None or match["count"] == "*" else int(match["count"])


def other_sets(name: str, *, options: Options = None) -> list[str]:
    """The shards that lie beside a shard and differ from its set in nothing but their number.

    Args:
        name: The path or URL of a shard of the set that is kept.
        options: The storage options of a URL.
    """
    parsed = _parse(name)
    if parsed is None:
        return []
    kept = parsed[0]
    shorthand = _SHORTHAND.fullmatch(f"{kept.prefix}@*{kept.suffix}")
    assert shorthand is not None
    found = _shards_of(shorthand, options)
    return [path for path in found if (other := _parse(path)) and other[0].count != kept.count]


def parse_size(size: int | str) -> int:
    """A number of bytes, given as such or as "5GB" (10^9 bytes each), "512MiB" (2^20 each)."""
    if isinstance(size, str):
        found = _SIZE.fullmatch(size.strip())
        if found is None:
            raise ValueError(f'shard_size is {size!r}, expected a number of bytes or "5GB"')
        number, unit, binary = found.groups()
        size = int(float(number) * (1024 if binary else 1000) ** " KMGT".index(unit.upper() or " "))
    if size < 1:
        raise ValueError(f"shard_size is {size}, expected at least 1")
    return size


def is_set(path: str) -> bool:
    """Whether a path is the shorthand of a set of shards, such as "name@10"."""
    return _SHORTHAND.fullmatch(path) is not None


def expand(paths: Path | Sequence[Path], *, options: Options = None) -> list[str]:
    """The files that a user names, each once; shards in the order of their numbers.

    Args:
        paths: A file, a glob ("train-*"), a shard set ("name@10", "name@*"), "-", or several of
            these. A file of exactly that name is preferred.
        options: The storage options of a URL.

    Raises:
        FormatError: Shards are missing from a set that was not named file by file, or there are
            several sets of one name.
        FileNotFoundError: Nothing has that name.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    found: dict[str, str] = {}
    for path in several:
        for name in _expand(os.fspath(path), options):
            unique = name if name == "-" or storage.is_url(name) else os.path.abspath(name)
            found.setdefault(unique, name)
    return list(found.values())


def _expand(path: str, options: Options) -> list[str]:
    if storage.is_url(path):
        return _expand_url(path, options)
    if path == "-" or os.path.lexists(path):
        return [path]
    if shorthand := _SHORTHAND.fullmatch(path):
        return check_sets(_shards_of(shorthand, options), path)
    if has_magic(path):
        return _matches(path, options)
    raise _nothing(path)


def _expand_url(path: str, options: Options) -> list[str]:
    """The same for URLs; a URL that names one file is not looked up."""
    if path.startswith("file:"):
        return _expand(storage.localize(path), options)
    if path.startswith(WEB):  # "?" begins a query there, and nothing can be listed
        return [path]
    shorthand = _SHORTHAND.fullmatch(path)
    if not shorthand and not has_magic(path):
        return [path]
    try:
        if shorthand:
            return check_sets(_shards_of(shorthand, options), path)
        return _matches(path, options)
    except FileNotFoundError:
        if storage.exists(path, options=options):
            return [path]
        raise


def _matches(pattern: str, options: Options) -> list[str]:
    import fnmatch  # imported late: most names are no patterns

    wanted = pattern.endswith(SIDECARS)
    found = storage.match(pattern, options=options)
    names = [name for name in found if wanted or is_data(name)]
    # `**/` also matches no directory, and fnmatch's `*` matches across directories.
    matches = re.compile(fnmatch.translate(pattern.replace("**/", "*"))).match
    return check_sets(names, pattern, matches)


def _last(url: str) -> str:
    return url.rpartition("/")[2]


def is_data(path: str) -> bool:
    """Whether a file is neither hidden nor unfinished, nor an index or a note beside data."""
    return not os.path.basename(path).startswith(".") and not path.endswith(SIDECARS + UNFINISHED)


def _shards_of(shorthand: re.Match[str], options: Options) -> Iterator[str]:
    prefix, count, suffix = shorthand["prefix"], shorthand["count"], shorthand["suffix"]
    directory, prefix = os.path.split(prefix)
    if storage.is_url(f"{directory}/"):
        names = [*map(_last, storage.list_directory(directory, options=options))]
    elif os.path.isdir(directory or "."):
        names = os.listdir(directory or ".")
    else:
        return
    for name in names:
        parsed = _parse(name)
        if (
            parsed is not None
            and parsed[0].prefix == prefix
            and (count == "*" or parsed[0].count == int(count))
            and (suffix is None or parsed[0].suffix == suffix)
            and is_data(name)
        ):
            yield os.path.join(directory, name)


def check_sets(
    names: Iterable[str], given: str, wanted: Callable[[str], object] = lambda name: True
) -> list[str]:
    """The names in natural order, if their shard sets are whole.

    Args:
        names: The files that were found.
        given: The path as the user wrote it.
        wanted: Whether the user asked for a name.

    Raises:
        FileNotFoundError: There are no names.
        FormatError: Shards are missing from a set, or there are two sets of one name.
    """
    ordered = sorted(names, key=_natural)
    if not ordered:
        raise _nothing(given)
    sets: dict[_Set, set[int]] = {}
    for name in ordered:
        if parsed := _parse(name):
            sets.setdefault(parsed[0], set()).add(parsed[1])
    counts: dict[tuple[str, str], _Set] = {}
    for whole, found in sets.items():
        appeared = [] if len(found) >= whole.count else _appeared(whole, found, wanted)
        if appeared:
            ordered = sorted([*ordered, *appeared], key=_natural)
        _check_whole(whole, found, given, wanted)
        other = counts.setdefault((whole.prefix, whole.suffix), whole)
        if other != whole:
            raise FormatError(
                f"two shard sets of one name: one of {other.count} shards, one of {whole.count}",
                path=given,
                hint=f'name one of them: "{whole.prefix}@{whole.count}{whole.suffix}"',
            )
    return ordered


def _appeared(whole: _Set, found: set[int], wanted: Callable[[str], object]) -> list[str]:
    """Shards that appeared since the folder was listed, or that are about to; they are added."""
    first = whole.name(0)
    if storage.is_url(first):
        return []
    from tensorferry.storage import journal  # imported late: few sets lack a shard

    decided = journal.read(first)
    names = []
    for index in range(min(whole.count, SEARCHED_MISSING)):
        name = whole.name(index)
        is_decided = decided is not None and decided.member(os.path.basename(name)) is not None
        if index not in found and wanted(name) and (is_decided or os.path.isfile(name)):
            found.add(index)
            names.append(name)
    return names


def _check_whole(whole: _Set, found: set[int], given: str, wanted: Callable[[str], object]) -> None:
    first = 1 if whole.count in found else 0
    names = (
        whole.name(index)
        for index in range(first, min(whole.count, SEARCHED_MISSING) + first)
        if index not in found
    )
    missing = list(itertools.islice(filter(wanted, names), NAMED_MISSING + 1))
    if missing:
        more = " and more" if len(missing) > NAMED_MISSING else ""
        raise FormatError(
            f"found {len(found)} of {whole.count} shards, missing "
            + ", ".join(os.path.basename(name) for name in missing[:NAMED_MISSING])
            + more,
            path=given,
            hint="name the files one by one to read the others without them",
        )


def _natural(path: str) -> tuple[list[tuple[str, int]], str]:
    """A key that sorts `x-2` before `x-10`."""
    parts = re.split(r"([0-9]+)", path)
    texts, numbers = parts[::2], [*map(int, parts[1::2]), 0]
    return list(zip(texts, numbers, strict=True)), path


def _nothing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file, shard set or match", path)
