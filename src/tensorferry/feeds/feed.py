"""Feeds: batches of rows for training loops, shuffled, sharded and resumable.

    feed = feeds.Feed("train-*.tfrecord", batch=256, shuffle=True, seed=7, pad={"tokens": 0})
    for batch in feed:                          # one epoch; the next loop is the next epoch
        ...
        state = feed.state_dict()               # small: kept with a checkpoint of the model
    feed.load_state_dict(state)                 # the next batch is the one that would have come

The order depends only on the seed and the epoch (`tensorferry.feeds.order`), so it is the same for
any number of threads, workers and machines.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Unpack

from tensorferry import frameworks
from tensorferry.errors import UnsupportedError
from tensorferry.feeds import ahead, counts, images
from tensorferry.feeds.batching import (
    Batching,
    Bucketed,
    Packed,
    Padding,
    Plain,
    cut,
    rows_of,
)
from tensorferry.feeds.chunks import Chunks, Group, Mark, Seeking, Streaming, span_of
from tensorferry.feeds.data import rows_with_columns
from tensorferry.feeds.order import InTurn, Order, Shuffled
from tensorferry.files import keywords
from tensorferry.files.open import open as open_rows
from tensorferry.formats.contract import refuse
from tensorferry.rows.columns import Batch
from tensorferry.rows.rows import Rows
from tensorferry.rows.splits import Split

Framework = Literal["numpy", "tensorflow", "torch", "jax"]

WINDOW = 1 << 14
"""Number of rows that are shuffled together where rows cannot be read one by one."""

PREFETCH = 64 << 20
"""Number of bytes of batches that are made ahead."""

# The options of `tensorferry.open` that no format has.
_OPENING = frozenset(open_rows.__kwdefaults__ or ())
VERSION = 1
PIECES = 1 << 14


TOGETHER = 16
"""Number of batches that are handed over at a time, where nothing but padding is left to do."""


class Feed:
    """Batches of rows for a training loop: shuffled, sharded and resumable.

    Each loop over a feed is one epoch. A feed can be pickled, including its position.

    Args:
        data: Anything that `tensorferry.open` takes, or rows that are open.
        batch: Number of rows of a batch.
        shuffle: Use a new random order in each epoch: of all rows, if the files have random access
            (local uncompressed TFRecords); otherwise of files or row groups, and of the rows inside
            a window.
        seed: The seed of the orders.
        shard: `(rank, world)`: the share of this process. The ranks together see each row once, and
            their shares differ by at most one row.
        pad: Ragged columns to turn into arrays, each with the value to fill short rows with, or
            with that value and a length, as in `{"tokens": (0, 512)}`.
        bucket: `{"tokens": (32, 64, 128)}`: puts rows of similar length into one batch.
        pack: `{"tokens": 512}`: packs several short rows into one row of this length.
        images: Columns of encoded images to decode with Pillow.
        transform: Called on each batch, in a thread.
        to: The framework whose tensors the columns are.
        window: Number of rows to shuffle together if the files have no random access.
        drop_remainder: Leave out a shorter last batch.
        pad_remainder: Fill a shorter last batch with rows from the start of the epoch, so that all
            ranks have the same number of batches.
        prefetch: Number of bytes of batches to prepare ahead; 0 prepares each batch on demand.
        transform_threads: Number of threads that decode `images` and call `transform`.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Reading`. `columns` names
            the columns to read; the others are not decoded.

    Raises:
        UnsupportedError: The data has no rows, or the arguments contradict each other.
        UnknownFeatureError: A column does not exist.

    Examples:
        >>> with ferry.writer("train.tfrecord") as out:
        ...     out.write_batch({"id": np.arange(10)})
        >>> feed = ferry.feeds.Feed("train.tfrecord", batch=4, shuffle=True, seed=7)
        >>> [len(batch["id"]) for batch in feed]
        [4, 4, 2]
    """

    def __init__(
        self,
        data: Any,
        *,
        batch: int = 256,
        shuffle: bool = False,
        seed: int = 0,
        shard: tuple[int, int] = (0, 1),
        pad: Mapping[str, Padding] | None = None,
        bucket: Mapping[str, Sequence[int]] | None = None,
        pack: Mapping[str, int] | None = None,
        images: Sequence[str] = (),
        transform: Callable[[Batch], Any] | None = None,
        to: Framework = "numpy",
        window: int = WINDOW,
        drop_remainder: bool = False,
        pad_remainder: bool = False,
        prefetch: int = PREFETCH,
        transform_threads: int = 2,
        storage_options: Mapping[str, Any] | None = None,
        **options: Unpack[keywords.Reading],
    ) -> None:
        for name in options:
            if name not in keywords.Reading.__annotations__ and name not in _OPENING:
                raise refuse(name, list(Feed.__init__.__kwdefaults__ or ()), who="a feed")
        rank, world = shard
        are_whole = int(batch) == batch and int(window) == window
        if not are_whole or batch < 1 or window < 1 or not 0 <= rank < world:
            raise UnsupportedError(
                f"batch={batch}, window={window}, shard={shard}: expected whole numbers from 1 and "
                "shard=(rank, world) with rank from 0 to world - 1"
            )
        batch, window = int(batch), int(window)
        if drop_remainder and pad_remainder:
            raise UnsupportedError("a remainder is dropped or padded, not both")
        self.rows = rows_with_columns(data, storage_options, options)
        _check_columns(self.rows, pad or {}, [*images, *(bucket or {}), *(pack or {})])
        self.batch, self.shuffle, self.seed, self.shard = batch, shuffle, seed, (rank, world)
        self._batching = _batching(batch, bucket, pack)
        self._pad, self._images = dict(pad or {}), tuple(images)
        self._transform, self._to, self._window = transform, to, window
        self._drop, self._fill = drop_remainder, batch if pad_remainder else 0
        self._prefetch, self._threads = prefetch, transform_threads
        self.epoch = 0
        self._mark: Mark | None = None
        self._given = 0
        if pad_remainder and not (self.rows.is_seekable and self._batching.is_plain):
            raise UnsupportedError(
                "a remainder is padded only where any row can be read alone, in plain batches",
                hint="drop_remainder=True also makes all batches equal",
            )

    # The place of the feed

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the feed as a JSON-compatible dict, for `load_state_dict`."""
        mark = self._mark or Mark()
        return {
            "version": VERSION,
            "epoch": self.epoch,
            "begun": self._mark is not None,
            "mark": list(mark),
            "batches": self._given,
            **self._facts(),
        }

    def _facts(self) -> dict[str, Any]:
        """The settings that must be the same for a state to be valid."""
        return {
            "seed": self.seed,
            "shuffle": self.shuffle,
            "shard": list(self.shard),
            "files": len(self.rows.files),
            "chunk": self._chunk if self._chunk != self.batch else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where another feed over the same data stopped.

        Raises:
            UnsupportedError: The state belongs to a feed over other data or in another order.
        """
        facts = self._facts()
        for name, wanted in facts.items():
            if state.get(name) != wanted:
                raise UnsupportedError(
                    f"the state has {name}={state.get(name)!r}, this feed {wanted!r}",
                    hint="a state goes on with the data, seed, shuffle and shard it was made with",
                )
        if state.get("version") != VERSION:
            raise UnsupportedError(f"the state is of version {state.get('version')!r}")
        try:
            epoch, given = int(state["epoch"]), int(state["batches"])
            mark = Mark(*map(int, state["mark"])) if state["begun"] else None
        except (LookupError, TypeError, ValueError) as error:
            raise UnsupportedError(f"this is no state of a feed: {error!r}") from None
        self.epoch, self._mark, self._given = epoch, mark, given

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch at its first batch."""
        self.epoch, self._mark, self._given = epoch, None, 0

    def goto(self, mark: Mark, given: int) -> None:
        """Continues after a batch of `marked`; after the last batch, with the next epoch.

        Loops that count batches by `len` stop after the last one, without asking for more.
        """
        size = self._size if self._batching.is_plain else None
        done = mark.position + given * self.batch
        if size is not None and done + (self.batch - 1 if self._drop else 0) >= size:
            self.set_epoch(self.epoch + 1)
        else:
            self._mark, self._given = mark, given

    # Batches

    def __iter__(self) -> Iterator[Any]:
        """The batches of the epoch that are left, from the place where the feed is."""
        epoch = self.epoch
        for mark, given, batch in self.marked():
            self.goto(mark, given)
            yield batch
        self.set_epoch(epoch + 1)

    def marked(
        self, every: tuple[int, int] = (0, 1), skip: int = 0
    ) -> Iterator[tuple[Mark, int, Any]]:
        """Yields the remaining batches, each with the argument of `goto` that continues after it.

        Args:
            every: `(1, 3)` yields the second of every three batches: the share of a worker.
            skip: Number of batches of the share to skip.
        """
        first, step = every
        made = self._made((first + skip * step, step))
        is_left = self._has_calls or self._to != "numpy"
        # Padded batches that others make ahead need no threads here, which would share the GIL.
        is_quick = not self._has_calls and self._to in ("numpy", "torch")
        if self._prefetch and not (is_quick and self._is_plain and self.rows.reads_ahead):
            together = 1 if self._has_calls else TOGETHER
            return ahead.finished(
                made, self._finished, self._prefetch, self._threads, together=together
            )
        if not is_left:
            return made
        return ((mark, given, self._finished(batch)) for mark, given, batch in made)

    @property
    def _has_calls(self) -> bool:
        """Whether images are decoded, or a user's function is called, for each batch."""
        return self._transform is not None or bool(self._images)

    def _made(self, every: tuple[int, int]) -> Iterator[tuple[Mark, int, Batch]]:
        chunks = self._chunks(self._prefetch)
        begin = chunks.begin() if isinstance(chunks, Streaming) else Mark()
        mark, skip = self._mark or begin, self._given
        first, step = every
        if self._is_plain:
            if skip:  # all of the chunk was given
                mark, skip = mark._replace(position=mark.position + self._chunk), 0
            for marks, columns, ends in chunks.read(mark, self._chunk, every):
                for at, batch in zip(marks, cut(columns, ends, self._pad), strict=True):
                    if self._is_wanted(batch):
                        yield at, 1, batch
            return
        number = 0
        for at, chunk in self._whole(chunks.read(mark, self._chunk, (0, 1))):
            for given, batch in enumerate(self._batching.batches(chunk, self._pad), 1):
                if given <= skip or not self._is_wanted(batch):
                    continue
                if number >= first and (number - first) % step == 0:
                    yield at, given, batch
                number += 1
            skip = 0

    @staticmethod
    def _whole(groups: Iterator[Group]) -> Iterator[tuple[Mark, Batch]]:
        """Each chunk alone."""
        for marks, columns, ends in groups:
            yield from zip(marks, cut(columns, ends, {}), strict=True)

    def _is_wanted(self, batch: Batch) -> bool:
        return not self._drop or rows_of(batch) == self.batch

    @property
    def _is_plain(self) -> bool:
        """Whether a chunk is one batch, wherever it begins."""
        return self._batching.is_plain and self.rows.is_seekable

    @property
    def _chunk(self) -> int:
        """Number of rows of a chunk."""
        if self.shuffle and not self.rows.is_seekable:
            return -(-max(self._window, self._batching.chunk) // self.batch) * self.batch
        return self._batching.chunk

    @cached_property
    def _size(self) -> int | None:
        """Number of rows of this shard, which all epochs have; None if only reading them tells."""
        return self._chunks(0).size

    @cached_property
    def _pieces(self) -> list[Split]:
        """The parts that files are read in; finding them looks at each file once."""
        return self.rows.splits(PIECES)

    def _chunks(self, prefetch: int) -> Chunks:
        if self.rows.is_seekable:
            total = len(self.rows)
            order: Order = Shuffled(total, self.seed, self.epoch) if self.shuffle else InTurn()
            span = span_of(total, self.shard)
            if self._fill and total:
                most = -(-total // self.shard[1])
                span = range(span.start, span.start + -(-most // self._fill) * self._fill)
            return Seeking(self.rows, order, span, total, prefetch)
        pieces = self._pieces
        seed = self.seed if self.shuffle else None
        if self.shard == (0, 1):
            return Streaming(pieces, seed, self.epoch)
        sizes = counts.of(pieces)
        return Streaming(pieces, seed, self.epoch, span_of(sum(sizes), self.shard), sizes)

    def _finished(self, batch: Batch) -> Any:
        for name in self._images:
            batch = {**batch, name: images.decoded(batch, name)}
        made: Any = batch if self._transform is None else self._transform(batch)
        return made if self._to == "numpy" else frameworks.give(made, self._to)

    # For frameworks

    @property
    def is_seekable(self) -> bool:
        """Whether any batch can be read without reading those before it."""
        return self._is_plain

    @property
    def padded_openly(self) -> frozenset[str]:
        """The columns that are padded to the longest row of each batch, and not to one length."""
        return frozenset(name for name, how in self._pad.items() if not isinstance(how, tuple))

    @property
    def has_transform(self) -> bool:
        """Whether batches pass through a `transform`."""
        return self._transform is not None

    @property
    def has_begun(self) -> bool:
        """Whether the feed is inside an epoch, and not at its start."""
        return self._mark is not None

    @property
    def drops_remainder(self) -> bool:
        """Whether all batches have the same size."""
        return self._drop

    def batch_at(self, number: int) -> Any:
        """Returns a batch of this epoch by its number.

        Raises:
            IndexError: The epoch has fewer batches.
            UnsupportedError: Batches can only be read in order.
        """
        if not self._is_plain:
            raise UnsupportedError("the batches can only be read in order", path=self.rows.files[0])
        if not 0 <= number < len(self):
            raise IndexError(f"batch {number} of {len(self)}")
        # The step is the whole epoch, so that this batch is the only one.
        groups = self._chunks(0).read(Mark(number * self.batch), self.batch, (0, len(self)))
        ((_, columns, ends),) = groups
        (batch,) = cut(columns, ends, self._pad)
        return self._finished(batch)

    def first(self) -> Any:
        """Returns the first batch of the epoch, without moving the feed.

        Raises:
            UnsupportedError: There are no rows.
        """
        if self._is_plain and len(self):
            return self.batch_at(0)
        other = copy.copy(self)
        other.set_epoch(self.epoch)
        for batch in other:
            return batch
        raise UnsupportedError("there are no rows to see the columns of", path=self.rows.files[0])

    def in_batches_of(self, rows: int) -> Feed:
        """Returns a feed over the same rows in batches of another size, at the same position.

        Raises:
            UnsupportedError: Batches can only be read in order.
        """
        if not self._is_plain:
            raise UnsupportedError("the batches can only be read in order", path=self.rows.files[0])
        other = copy.copy(self)
        other.batch, other._batching, other._drop = rows, Plain(rows), False
        return other.at(self.epoch, self.rows_done)

    def at(self, epoch: int, row: int) -> Feed:
        """Returns the same feed at another position: after this many rows of an epoch."""
        other = copy.copy(self)
        other.set_epoch(epoch)
        if row:
            other.goto(Mark(row), 0)
        return other

    @property
    def rows_done(self) -> int:
        """Number of rows of this epoch that were read, for files with random access."""
        mark = self._mark or Mark()
        return mark.position + self.batch * bool(self._given)

    @property
    def batches_left(self) -> int:
        """Number of remaining batches of this epoch, for files with random access."""
        left = max(0, (self._size or 0) - self.rows_done)
        return left // self.batch if self._drop else -(-left // self.batch)

    def __len__(self) -> int:
        """Number of batches of an epoch.

        Raises:
            TypeError: Only reading the rows tells.
        """
        if not self._batching.is_plain:
            raise TypeError("how many batches buckets and packed rows give is known at the end")
        size = self._size
        if size is None:
            raise TypeError("the number of rows is not known before their end")
        return size // self.batch if self._drop else -(-size // self.batch)

    def close(self) -> None:
        """Closes the files."""
        self.rows.close()

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        order = f"shuffled by {self.seed}" if self.shuffle else "in order"
        rank, world = self.shard
        part = f", {rank} of {world}" if world > 1 else ""
        return f"<Feed of {self.rows!r}: batches of {self.batch}, {order}{part}>"


def _check_columns(rows: Rows, pad: Mapping[str, Padding], others: Sequence[str]) -> None:
    """Refuses options for columns that are not there, and impossible lengths."""
    if pad or others:
        rows.check_names([*pad, *others])
    for name, how in pad.items():
        if isinstance(how, tuple) and (len(how) != 2 or operator.index(how[1]) < 0):
            raise UnsupportedError(
                f"pad has {how} for {name!r}, expected what to fill with and a length from 0 on"
            )


def _batching(
    batch: int, bucket: Mapping[str, Sequence[int]] | None, pack: Mapping[str, int] | None
) -> Batching:
    if bucket is not None and pack is not None:
        raise UnsupportedError("rows go into buckets or are packed, not both")
    for given, name in ((bucket, "bucket"), (pack, "pack")):
        if given is not None and len(given) != 1:
            raise UnsupportedError(f"{name} names {len(given)} columns, expected one")
    if bucket is not None:
        ((column, bounds),) = bucket.items()
        return Bucketed(batch, column, tuple(sorted(bounds)))
    if pack is not None:
        ((column, length),) = pack.items()
        return Packed(batch, column, int(length))
    return Plain(batch)
