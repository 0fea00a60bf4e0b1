"""Shares: one file of tensors, or one set of files, written by several workers.

    ferry.save(mine, "model.ckpt-900", shard=(rank, size))      # every worker
    ferry.finish("model.ckpt-900")                              # one of them, when all are done

A worker writes its share under a name that readers ignore, or that no index names. `finish` finds
the shares, checks that they are all there and of one save, and writes the index, which is what
makes a checkpoint or a model visible. Until then the old one counts.

A share says in its metadata what it is:

    {"number": 3, "count": 8, "save": "step 900", "token": "1f3a90c2"}

The token is a digest of the index that existed when the share was written, of `save` and of the
number of workers. A share that is left over from before the last `finish` has another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from tensorferry.classes import dataclass
from tensorferry.codecs import json_text as json
from tensorferry.errors import FormatError, OptionError, UnsupportedError
from tensorferry.storage.place import Place
from tensorferry.tensors.content import Content
from tensorferry.tensors.note import Note

N = TypeVar("N", str, bytes)
T = TypeVar("T")
W = TypeVar("W", bound="Found[Any, Any]")

KEY = "tensorferry.share"
"""The key in the metadata of a share under which it says what it is."""

MOST = 99_998
NAMED = 8
"""The number of shares that an error names."""

Given = tuple[int, int] | tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one of several workers.

    Attributes:
        number: The number of the worker, from 0.
        count: Number of workers.
        save: Distinguishes this save from others to the same path, if the user passed it.
        token: A digest of all that the shares of one save have in common.
    """

    number: int
    count: int
    save: str = ""
    token: str = ""

    @classmethod
    def of(cls, given: Given, index: bytes | None) -> Share:
        """The share that a user names by `shard=`.

        Args:
            given: The number of the worker, the number of workers, and a text that distinguishes
                this save from others, such as the step.
            index: The existing index.

        Raises:
            OptionError: It is something else.
        """
        number, count, *rest = given if isinstance(given, tuple | list) else (None, None)
        is_sound = (
            type(number) is int
            and type(count) is int
            and 0 < count <= MOST
            and 0 <= number < count
            and (not rest or (len(rest) == 1 and isinstance(rest[0], str | int)))
        )
        if not is_sound or number is None or count is None:
            raise OptionError(
                f"shard is {given!r}, expected the number of this worker, from 0, and how many "
                "there are",
                hint='shard=(0, 8), or shard=(0, 8, "step 900") to tell saves from each other',
            )
        save = str(rest[0]) if rest else ""
        return cls(number, count, save, token_of(count, save, index))

    def to_text(self) -> str:
        """The description of a share, stored in its file."""
        return json.to_text(asdict(self)).decode()

    @classmethod
    def parse(cls, text: str) -> Share | None:
        """The share that a text describes; None if it describes none."""
        try:
            tree = json.parse(json.to_utf8(text))
            number, count = tree["number"], tree["count"]
            save, token = tree["save"], tree["token"]
        except (FormatError, KeyError, TypeError):
            return None
        if type(number) is not int or type(count) is not int or not 0 <= number < count <= MOST:
            return None
        if not isinstance(save, str) or not isinstance(token, str):
            return None
        return cls(number, count, save, token)


@dataclass(frozen=True)
class Found(Generic[N, T]):
    """A share that was found.

    Attributes:
        share: Its description.
        path: The path of its file, or of the index of its file.
        tensors: The format's facts about each of its tensors, by name.
        note: The note of its tensors.
    """

    share: Share
    path: str
    tensors: Mapping[N, T]
    note: Note


def index_at(place: Place) -> bytes | None:
    """The bytes of the existing index; None if there is none."""
    try:
        return bytes(place.open().everything())
    except (FileNotFoundError, NotADirectoryError):
        return None
    finally:
        place.close()


def token_of(count: int, save: str, index: bytes | None) -> str:
    """Eight digits that are the same for all shares of a save."""
    digest = hashlib.sha256(f"{count} {len(save)} {save} ".encode())
    digest.update(b"" if index is None else index)
    return digest.hexdigest()[:8]


def check_content(content: Content) -> None:
    """Refuses a value that cannot be combined with those of other workers.

    Raises:
        UnsupportedError: The value nests, or has metadata.
    """
    if content.note.layout is not None:
        raise UnsupportedError(
            "the share of a worker is a dict of tensors by name, and this value has other parts",
            hint='name tensors "layer/kernel", in a dict that does not nest',
        )
    if content.metadata:
        raise UnsupportedError(
            "metadata is of the whole, and this is the share of a worker",
            hint="pass it to tensorferry.finish",
        )


def choose(found: Sequence[W], *, save: str | None, index: bytes | None, path: str) -> list[W]:
    """The shares that make up a whole, in order.

    Args:
        found: All shares.
        save: Which save is to be finished; by default there must be one.
        index: The existing index.
        path: The path of the whole.

    Raises:
        FormatError: Shares are missing, of several saves, or have a tensor in common.
    """
    chosen = set(_of_one_save([one.share for one in found], save, index, path))
    parts = sorted((one for one in found if one.share in chosen), key=lambda one: one.share.number)
    owner: dict[str | bytes, int] = {}
    for one in parts:
        for name in one.tensors:
            if name in owner:
                raise _twice(name, owner[name], one.share.number, path)
            owner[name] = one.share.number
    return parts


def _of_one_save(
    found: Sequence[Share], save: str | None, index: bytes | None, path: str
) -> list[Share]:
    """The shares of the save that is to be finished."""
    chosen = [share for share in found if save is None or share.save == save]
    old = [share for share in chosen if share.token != token_of(share.count, share.save, index)]
    chosen = [share for share in chosen if share not in old]
    if not chosen:
        left = f": {_listed(old)} were written before it was saved last" if old else ""
        raise FormatError(
            f"there is no share to finish{left}",
            path=path,
            hint="every worker calls tensorferry.save(..., shard=(number, count)) first",
        )
    saves = {(share.save, share.count) for share in chosen}
    if len(saves) > 1:
        kinds = " and ".join(
            f"{_listed([one for one in chosen if (one.save, one.count) == kind])} of {kind[1]}"
            + (f" of the save {kind[0]!r}" if kind[0] else "")
            for kind in sorted(saves)
        )
        raise FormatError(
            f"the shares are of different saves: {kinds}",
            path=path,
            hint='name the save: tensorferry.finish(path, save="step 900")',
        )
    count = chosen[0].count
    numbers = {share.number for share in chosen}
    missing = [number for number in range(count) if number not in numbers]
    if missing:
        more = " and more" if len(missing) > NAMED else ""
        named = ", ".join(map(str, missing[:NAMED])) + more
        stale = [share.number for share in old if share.number in missing]
        late = f"; that of {', '.join(map(str, stale[:NAMED]))} is of an earlier save"
        raise FormatError(
            f"found {len(numbers)} of {count} shares, missing {named}{late if stale else ''}",
            path=path,
            hint="finish when every worker has saved its share",
        )
    return chosen


def _listed(found: Iterable[Share]) -> str:
    numbers = sorted(share.number for share in found)
    more = " and more" if len(numbers) > NAMED else ""
    return f"share {', '.join(map(str, numbers[:NAMED]))}{more}"


def _twice(name: str | bytes, one: int, other: int, path: str) -> FormatError:
    """The error for a tensor that two workers wrote."""
    shown = name if isinstance(name, str) else name.decode(errors="replace")
    return FormatError(
        f"it is in the shares of the workers {one} and {other}, expected one of them",
        path=path,
        tensor=shown[:60],
        hint="each tensor is saved by one worker",
    )


def merged(notes: Iterable[Note], metadata: Mapping[str, Any] | None) -> dict[str, str]:
    """The notes of all shares as one, with the metadata of the user, as texts."""
    whole = Note()
    for note in notes:
        whole.tensors.update(note.tensors)
        whole.dtypes.update(note.dtypes)
        whole.quantized.update(note.quantized)
        whole.origins.update(note.origins)
    return whole.to_metadata(dict(metadata or {}))
