"""Digests: a hash of content that does not depend on the format it is kept in.

The same tensors under the same names have the same digest, whether in npz, safetensors, Arrow or
TFRecords, in any order, compressed or not. By SHA-256, all integers little-endian:

    tensor   hash of: JSON of kind, dtype, shape and parts | hash of each of its parts
    content  hash of: for each tensor by name, length of the name in 8 bytes | name | its hash

The parts of a dense tensor are its values, of strings also their lengths, of a ragged tensor the
row lengths of each level, of a sparse one the indices in order. For a column with missing lists,
the numbers of the missing ones are also a part: a missing list differs from an empty one. Metadata
does not count. Values are hashed as bits: -0.0 is not 0.0.

A part of more than 16 MiB is a tree (`tensorferry.operations.leaves`), so that all processors work
on one large tensor; tensors, and columns of rows, are hashed at the same time as well. The JSON
then also lists the parts that are trees, and the digest is "sha256-tree:...". `tree=False` hashes
every part in one piece, as 0.1.0 did: "sha256:...". Digests of small tensors are the same by both.

A file may keep its digest in its metadata, under `KEY`: `tensorferry.convert(..., digest=True)`
puts it there, and `tensorferry.verify` compares. So formats without checksums have one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from tensorferry import display, dtypes, engines
from tensorferry.cards import Card, Grid, Shown
from tensorferry.classes import dataclass
from tensorferry.engines import Job
from tensorferry.files import keywords
from tensorferry.operations import workers
from tensorferry.operations.differences import ordered
from tensorferry.operations.leaves import LEAF, Leaves, Spread
from tensorferry.operations.measures import chunks_of
from tensorferry.operations.nulls import Missing, missing_lists
from tensorferry.operations.shares import Opening, all_processors, groups_of
from tensorferry.operations.subject import Subject
from tensorferry.progress import Progress, Unit, following
from tensorferry.rows.columns import length_of
from tensorferry.rows.rows import Rows
from tensorferry.storage import byte_view
from tensorferry.storage.pages import release
from tensorferry.tensors.bundle import Bundle
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor

KEY = "content_digest"
"""Of the metadata that holds the digest of a file's own content."""

PLAIN, TREE = "sha256", "sha256-tree"
"""What a digest begins with."""


@dataclass(frozen=True)
class TensorDigest:
    """The digest of one tensor or column."""

    name: str
    digest: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, repr=False)
class HashReport(Shown):
    """The digest of a file's content.

    Attributes:
        path: The path as it was given.
        digest: "sha256:" and 64 digits; "sha256-tree:" if a large tensor was hashed as a tree.
        tensors: The digests of the parts.
    """

    path: str
    digest: str
    tensors: tuple[TensorDigest, ...]

    def _card(self) -> Card:
        cells = [
            (one.name, one.dtype, display.shape(one.shape), one.digest) for one in self.tensors
        ]
        headers = ("name", "dtype", "shape", "digest")
        return Card(
            "HashReport", self.path, self.digest, grids=[Grid(headers, cells, noun="tensor")]
        )


@keywords.shown(keywords.Opening)
def hash(  # noqa: A001
    path: Any,
    *,
    select: Sequence[str] = (),
    progress: Progress | bool | None = None,
    format: str | None = None,
    tree: bool = True,
    engine: engines.Choice | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Opening],
) -> HashReport:
    """Computes the digest of a file's content, which is the same in every format.

        ferry.hash("model.npz").digest == ferry.hash("model.safetensors").digest

    Args:
        path: Anything that `tensorferry.open` takes.
        select: Patterns of names; other tensors or columns are ignored.
        progress: True shows a bar; a function receives the number of tensors or rows done and the
            total, if known.
        format: By default detected from the bytes.
        tree: Hash tensors beyond 16 MiB on all processors, which gives them another digest than
            0.1.0 did; False gives that one.
        engine: The engine that hashes the parts: "local", "ray" or an engine; by default the
            calling thread. A column is hashed as a whole, by one task.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Opening`.

    Raises:
        UnsupportedError: A tensor cannot be read, and `select` does not exclude it.

    Examples:
        >>> for name in ("a.npz", "b.safetensors"):
        ...     saved = ferry.save({"w": np.zeros(3)}, name)
        >>> ferry.hash("a.npz").digest == ferry.hash("b.safetensors").digest
        True
    """
    opening = Opening.of(
        path, format=format, storage_options=storage_options, options=options, thorough=True
    )
    with opening.open() as subject:
        in_rows = subject.holds != "tensors"
        unit: Unit = "tasks" if engine is not None else "rows" if in_rows else "tensors"
        with following(progress, subject.name, unit) as tell:
            if engine is None:
                opening.surveyed(subject, all_processors(opening, subject))
                return digest_of(subject, select, tell, tree=tree)
            chosen = engines.choose(engine)
            job = HashJob(opening.surveyed(subject, chosen), subject, tuple(select), tree)
            return engines.run(job, chosen, tell)


@dataclass(frozen=True)
class HashJob(Job["tuple[str, ...]", "tuple[TensorDigest, ...]", HashReport]):
    """Hashes some tensors or columns at a time.

    Attributes:
        opening: How all of it is opened.
        subject: The opened file.
        select: Patterns of names; others do not count.
        tree: See `hash`.
    """

    on_driver = ("subject",)
    opening: Opening
    subject: Subject
    select: tuple[str, ...] = ()
    tree: bool = True

    def plan(self, size: int) -> list[tuple[str, ...]]:
        """Names of tensors or columns."""
        names = list(self.subject.matching(self.select))
        self.subject.check_readable(names)
        return groups_of(self.subject, names, size)

    def run(self, task: tuple[str, ...], held: Any) -> tuple[TensorDigest, ...]:
        """The digests of some of them."""
        with self.opening.again() as subject:
            return _digests(subject, task, tree=self.tree)

    def merge(self, partials: Iterable[tuple[TensorDigest, ...]]) -> HashReport:
        """The digest of all."""
        found = sorted((one for some in partials for one in some), key=lambda one: one.name)
        return _report(self.subject, found)


def digest_of(
    subject: Subject,
    select: Sequence[str] = (),
    progress: Progress | None = None,
    *,
    tree: bool = True,
) -> HashReport:
    """The digest of what is in something that was opened; the arguments are those of `hash`.

    Raises:
        UnsupportedError: A tensor cannot be read, and `select` does not exclude it.
    """
    names = list(subject.matching(select))
    subject.check_readable(names)
    return _report(subject, _digests(subject, names, progress, tree=tree))


def _report(subject: Subject, found: Sequence[TensorDigest]) -> HashReport:
    return HashReport(subject.name, combine({one.name: one.digest for one in found}), tuple(found))


def _digests(
    subject: Subject, names: Sequence[str], progress: Progress | None = None, *, tree: bool
) -> tuple[TensorDigest, ...]:
    if isinstance(subject.opened, Rows):
        hashers = _hash_columns(subject, names, progress, tree=tree)
    else:
        hashers = _hash_tensors(subject.opened, names, progress, tree=tree)
    for name, missing in missing_lists(subject, names).items():
        hashers[name].add_missing(missing)
    return tuple(
        TensorDigest(name, hashers[name].hexdigest(), hashers[name].dtype, hashers[name].shape)
        for name in sorted(hashers)
    )


def _hash_columns(
    subject: Subject, names: Sequence[str], progress: Progress | None, *, tree: bool
) -> dict[str, TensorHasher]:
    total = subject.count() if progress is not None else None
    hashers: dict[str, TensorHasher] = {}
    done = 0
    with workers.Workers() as team:
        for batch in subject.batches(names):
            for name in batch:
                hashers.setdefault(name, TensorHasher(tree=tree))
            parts = [(hashers[name].add, column) for name, column in batch.items()]
            team.run_all(parts)
            if progress is not None:
                done += length_of(next(iter(batch.values()))) if batch else 1
                progress(done, total)
    return hashers


def _hash_tensors(
    bundle: Bundle, names: Sequence[str], progress: Progress | None, *, tree: bool
) -> dict[str, TensorHasher]:
    hashers: dict[str, TensorHasher] = {}

    def is_shared(tensor: Any) -> bool:
        return tree and _is_large(tensor)

    def work(item: tuple[str, Any]) -> tuple[str, TensorHasher]:
        name, tensor = item
        hasher = TensorHasher(tree=tree)
        hasher.add(tensor, team.map if is_shared(tensor) else None)
        release(tensor)
        return name, hasher

    with workers.Workers() as team:
        found = team.in_order(bundle.read_many(names), work, lambda item: item[1], is_shared)
        for name, hasher in found:
            hashers[name] = hasher
            if progress is not None:
                progress(len(hashers), len(names))
    return hashers


def _is_large(tensor: Any) -> bool:
    """Whether a tensor has several leaves that are at hand."""
    is_plain = isinstance(tensor, np.ndarray) and tensor.dtype != object and tensor.dtype.isnative
    return is_plain and tensor.nbytes > 2 * LEAF and tensor.flags.c_contiguous


def combine(digests: dict[str, str]) -> str:
    """The digest of tensors, by name, of which each has one."""
    total, scheme = hashlib.sha256(), PLAIN
    for name in sorted(digests):
        encoded = name.encode(errors="surrogatepass")
        total.update(len(encoded).to_bytes(8, "little") + encoded)
        kind, _, digits = digests[name].partition(":")
        total.update(bytes.fromhex(digits))
        scheme = TREE if kind == TREE else scheme
    return f"{scheme}:{total.hexdigest()}"


class TensorHasher:
    """Takes a tensor in one piece, or a column batch by batch.

    Args:
        tree: See `hash`.
    """

    def __init__(self, *, tree: bool = True) -> None:
        self._tree = tree
        self._kind = "dense"
        self._dtype = "float32"
        self._inner: tuple[int, ...] | None = None
        self._rows: int | None = None  # None until there is something, and for a scalar
        self._levels = 0
        self._parts: dict[str, Leaves] = {}
        self._spread: Spread | None = None

    @property
    def dtype(self) -> str:
        """Of the values."""
        return self._dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """None for each dimension that varies."""
        rows = () if self._rows is None else (self._rows,)
        varying = (None,) * (1 if self._kind == "list" else self._levels)
        return (*rows, *varying, *(self._inner or ()))

    def hexdigest(self) -> str:
        """The digest of all that was added."""
        names = sorted(self._parts)
        trees = [name for name in names if self._parts[name].are_several]
        head = [self._kind, self._dtype, self.shape, names, *([trees] if trees else [])]
        total = hashlib.sha256(json.dumps(head).encode())
        for name in names:
            total.update(self._parts[name].digest())
        return f"{TREE if trees else PLAIN}:{total.hexdigest()}"

    def add(self, column: Any, spread: Spread | None = None) -> None:
        """Adds a tensor, or the next rows of a column.

        Args:
            column: The tensor, or the rows.
            spread: Hashes leaves of a large tensor at the same time.
        """
        self._spread = spread
        if isinstance(column, list):
            self._add_list(column)
        elif isinstance(column, SparseTensor):
            self._add_sparse(column)
        elif isinstance(column, RaggedTensor):
            self._kind, self._levels = "ragged", column.ragged_rank
            self._rows = (self._rows or 0) + len(column)
            for level, splits in enumerate(column.nested_row_splits):
                self._update(f"level {level}", np.diff(splits).astype("<i8"))
            self._add_values(column.flat_values)
        else:
            array = np.asarray(column)
            if array.ndim:
                self._rows = (self._rows or 0) + len(array)
            self._add_values(array)

    def add_missing(self, missing: Missing) -> None:
        """Adds which lists of the column are missing: see `tensorferry.operations.nulls`."""
        for level, numbers in missing.items():
            self._update(f"missing {level}", numbers.astype("<i8"))

    def _add_list(self, column: list[Any]) -> None:
        self._kind, self._rows = "list", (self._rows or 0) + len(column)
        for array in column:
            shape = (-1,) if array is None else (array.ndim, *array.shape)
            self._update("shapes", np.array(shape, "<i8"))
            if array is not None:
                self._add_values(array)
        self._inner = ()

    def _add_sparse(self, column: SparseTensor) -> None:
        column = ordered(column)
        shift: Array = np.zeros(len(column.shape), np.int64)
        if column.shape:
            shift[0] = self._rows or 0
            self._rows = (self._rows or 0) + column.shape[0]
        self._kind = "sparse"
        self._update("indices", (column.indices + shift).astype("<i8"))
        self._add_values(column.values)
        self._inner = column.shape[1:]

    def _add_values(self, array: Array) -> None:
        self._dtype = dtypes.from_numpy(array.dtype).name
        self._inner = array.shape[1:]
        pieces = chunks_of(array) if self._spread is None else (array,)
        for chunk in pieces:
            if chunk.dtype == object:
                strings = chunk.tolist()
                self._update("lengths", np.fromiter(map(len, strings), "<i8", len(strings)))
                self._part("values").update(memoryview(b"".join(strings)))
            else:
                self._update("values", chunk)
        self._part("values")

    def _update(self, part: str, array: Array) -> None:
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        self._part(part).update(byte_view(np.ascontiguousarray(array)), self._spread)

    def _part(self, name: str) -> Leaves:
        if name not in self._parts:
            self._parts[name] = Leaves(tree=self._tree)
        return self._parts[name]
