"""Saving: values into files of every format, and to every place.

    ferry.save({"ids": ragged, "scores": scores}, "pred.safetensors", metadata={"model": "en-de"})

The suffix of a file decides its format, and whether it is compressed as a whole (".npy.zst").
`tensorferry.files.content` turns values into content, and the format writes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Unpack

from tensorferry import display, storage
from tensorferry.cards import Card, Grid, Shown
from tensorferry.classes import dataclass, field
from tensorferry.codecs import compression as codecs, quantization
from tensorferry.errors import OptionError, UnsupportedError
from tensorferry.files import keywords, sidecars
from tensorferry.files.content import content_of
from tensorferry.files.find import format_named
from tensorferry.files.pouring import Poured, rows_of
from tensorferry.files.writer import name_of, write_rows
from tensorferry.formats import detect, table
from tensorferry.formats.contract import Facts, Written, choose
from tensorferry.frameworks import conversion
from tensorferry.progress import Progress, following
from tensorferry.rows import schema as schemas
from tensorferry.storage import STANDARD_STREAM
from tensorferry.storage.place import Target
from tensorferry.storage.sink import ReplacingSink
from tensorferry.storage.source import check_name
from tensorferry.tensors.content import Content

# The compressions of whole files.
OUTER: tuple[codecs.Kind, ...] = ("gzip", "zstd")


@dataclass(frozen=True, repr=False)
class Saved(Shown):
    """The result of `save`.

    Attributes:
        path: The file.
        format: Its format.
        nbytes: Its size; of several files, the size of all.
        quantized: A report for each quantized tensor.
        files: The written files.
    """

    path: str
    format: str
    nbytes: int
    quantized: Mapping[str, quantization.Report] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def __fspath__(self) -> str:
        """The path, so that what was saved can be passed on as one."""
        return self.path

    def _card(self) -> Card:
        parts = [self.format, display.size(self.nbytes)]
        if len(self.files) > 1:
            parts.append(display.plural(len(self.files), "file"))
        if self.quantized:
            parts.append(f"{display.plural(len(self.quantized), 'tensor')} quantized")
        cells = [
            (name, display.number(one.largest_error), display.size(one.nbytes_after))
            for name, one in sorted(self.quantized.items(), key=lambda pair: -pair[1].largest_error)
        ]
        headers = ("quantized", "largest error", "size")
        grids = [Grid(headers, cells, right=(1, 2), noun="tensor")]
        return Card("Saved", self.path, ", ".join(parts), grids=grids)


@keywords.shown(keywords.Writing)
def save(
    value: Any,
    path: Any,
    *,
    format: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    compression: str | None = None,
    quantize: Any = None,
    shard_size: int | str | None = None,
    durable: bool = True,
    progress: Progress | bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Writing],
) -> Saved:
    """Writes a value to a file, atomically: readers never see a half-written file.

        ferry.save({"x": array, "y": labels}, "data.npz")
        ferry.save(predictions, "s3://bucket/pred.parquet", metadata={"model": "en-de"})

    Args:
        value: A tensor of any framework, a SparseTensor or RaggedTensor, a structure of those and
            of plain Python values, a bundle, or a generator of `(name, tensor)` pairs, of which
            only one is in memory at a time. Numbers and lists of numbers, alone or in a flat dict,
            become tensors with NumPy's dtype; nested structures keep Python's values. Formats of
            rows also take DataFrames of pandas and polars, Arrow tables, open rows, a
            `tf.data.Dataset`, and lists or generators of dicts, which are streamed. Columns keep
            their names and types; Arrow and Parquet also keep an unnamed pandas index.
        path: A local path, a URL, "-" for the standard output, or a binary file object.
        format: By default the suffix of the path decides.
        metadata: Strings, or anything that JSON can hold, to store with the value. The device of
            TensorFlow's tensors and the names of variables are stored as well.
        compression: "gzip" or "zstd" for the whole file, if its name says so (".npy.zst");
            "deflate" for npz, "lz4" or "zstd" for Arrow, and Parquet's own codecs (default "zstd");
            "none" turns compression off.
        quantize: Store floats with fewer bits: "int8", "float16", ... or `("int8", max_error)`; see
            `tensorferry.codecs.quantization`.
        shard_size: For safetensors and Keras weights: the maximum size of a file, such as "5GB";
            writes several files with an index.
        durable: Wait until the bytes are on disk. Otherwise a power cut soon after can lose the new
            file and the one it replaces.
        progress: True shows a bar; a function receives the number of bytes or rows written and the
            total, if known.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Writing`. Options that the
            format does not have are refused.

    Raises:
        UnsupportedError: The format cannot carry the value.
        OptionError: The format has no such option.

    Examples:
        >>> saved = ferry.save({"w": np.float32([0.5])}, "pred.safetensors", metadata={"step": 9})
        >>> saved.format
        'safetensors'
    """
    if conversion.is_model(value):
        raise conversion.a_model(value)
    chosen = keywords.given({"shard_size": shard_size, **options})
    plain = compression == "none"
    goal = _Goal.of(path, format, None if plain else compression)
    target = Target(goal.path or str(path), options=storage_options, durable=durable)
    if goal.facts.opens == "rows":
        rows, value = rows_of(value, goal.facts, quantize=quantize, options=chosen)
        if rows is not None:
            chosen = {**chosen, **keywords.given({"quantize": quantize})}
            if goal.inner is not None or (plain and goal.facts.compressions):
                chosen["compression"] = goal.inner
            elif plain and goal.facts.decompresses:
                chosen["compression"] = ""  # whatever the suffix says
            with following(progress, target.path, "rows") as tell:
                return _save_rows(rows, goal, target, metadata, chosen, tell)
    if goal.inner is not None or (plain and goal.facts.compressions):
        chosen["compression"] = goal.inner
    writes = table.to_write(goal.facts.name).writes
    assert writes is not None
    how = choose(writes.options, chosen, format=goal.facts.name)
    content = content_of(
        value,
        metadata=metadata,
        quantize=quantize,
        columns=goal.facts.opens == "rows" and bool(options.get("rows")),
    )
    is_share = options.get("shard") is not None
    is_several = goal.facts.files == "several" or shard_size is not None or is_share
    if is_several and (goal.is_stream or goal.outer or goal.inner):
        raise UnsupportedError(
            f"{goal.facts.name} is written to a path, and not compressed",
            path=goal.path,
            hint="one file can be: npz and safetensors are",
        )
    if is_several or goal.is_bare:
        with following(progress, target.path, "bytes") as tell:
            written = writes.write(content.telling(tell), target, how)
        return goal.saved(written, content)
    with (
        following(progress, target.path, "bytes") as tell,
        _opened(goal, target) as open_target,
    ):
        written = writes.write(content.telling(tell), open_target.target, how)
        open_target.keep_beside(content, written)
    return goal.saved(written, content, open_target.position)


@dataclass(frozen=True)
class _Goal:
    """The content to write."""

    given: Any
    path: str | None  # None for a file object
    facts: Facts
    outer: codecs.Kind | None  # the compression of the whole file
    inner: str | None  # the compression that is the format's own

    @property
    def is_stream(self) -> bool:
        return self.path in (None, STANDARD_STREAM)

    @property
    def is_bare(self) -> bool:
        """Whether it is one file of a path, not compressed, with nothing beside it."""
        facts = self.facts
        is_alone = facts.metadata != "beside" and not facts.types_beside
        return is_alone and not self.is_stream and self.outer is None

    @classmethod
    def of(cls, given: Any, format: str | None, compression: str | None) -> _Goal:
        path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
        if path is None and not callable(getattr(given, "write", None)):
            raise OptionError(
                f"the path is {type(given).__name__}, expected a path, a URL or a file object",
                hint="the value comes first: save(value, path)",
            )
        if path is not None:
            check_name(path)
        name = path if path is not None else name_of(given)
        stem, outer = codecs.split_suffix(name)
        found = format or format_named(name)
        if found is None:
            raise detect.unnamed(name, "pass format=,")
        table.to_write(found)
        facts = table.facts_of(found)
        own = facts.compressions
        if compression is None or compression == outer:
            return cls(given, path, facts, outer, None)
        if compression in own:
            return cls(given, path, facts, outer, compression)
        if compression in OUTER:
            if path not in (None, STANDARD_STREAM):
                end = next(end for end, kind in codecs.SUFFIXES.items() if kind == compression)
                if facts.files == "several":
                    raise UnsupportedError(
                        f"{found} is written as several files, and not compressed",
                        path=path,
                        hint=f"one file can be: safetensors, as in x.safetensors{end}",
                    )
                raise UnsupportedError(
                    f"a {found} file compressed as a whole by {compression} is named so",
                    path=path,
                    hint=f"save it as {stem}{end}"
                    + (f"; compression can also be {', '.join(own)}" if own else ""),
                )
            return cls(given, path, facts, compression, None)
        expected = ", ".join(repr(kind) for kind in (*own, *OUTER))
        raise UnsupportedError(f"compression is {compression!r}, expected one of {expected}")

    def saved(self, written: Written, content: Content, position: int | None = None) -> Saved:
        nbytes = position if position is not None else written.nbytes
        path = str(self.given)
        return Saved(path, self.facts.name, nbytes or 0, content.reports, written.files)


class _Opened:
    """The sink of one file, including compression and progress."""

    def __init__(self, goal: _Goal, target: Target, sink: Any, announce: Any) -> None:
        self.target = target
        self._goal, self._sink, self._announce = goal, sink, announce

    @property
    def position(self) -> int:
        """Number of bytes that were written to the file."""
        return int(self._sink.position)

    def keep_beside(self, content: Content, written: Written) -> None:
        """Keeps beside the file what its format has no place for, if there is anything."""
        if self._goal.facts.metadata != "beside":
            return
        if self._announce is not None:
            self._announce(content.texts(), dict(written.reading))
        elif content.needs_texts:
            raise UnsupportedError(
                f"{self._goal.facts.name} has no place for metadata, "
                "and a stream has no file beside it",
                hint="npz, safetensors, arrow and parquet have a place for it",
            )


@contextmanager
def _opened(goal: _Goal, target: Target) -> Iterator[_Opened]:
    """Opens the file that is written, compressing and counting where that is needed."""
    with ExitStack() as stack:
        announce = None
        beside = goal.facts.metadata == "beside"
        if beside and goal.path is not None and not goal.is_stream:
            path = storage.localize(goal.path)
            change = sidecars.Replacing(path, target.durable, target.options)
            announce = stack.enter_context(change).announce
        join = None
        if goal.path is None:
            sink: Any = storage.FileSink(goal.given)
        elif goal.is_stream or not goal.facts.types_beside:
            sink = stack.enter_context(target.sink())
        else:
            files = stack.enter_context(target.opened([goal.path]))
            sink, join = files.open(goal.path), partial(files.join, goal.path)
        is_read_back = isinstance(sink, ReplacingSink)
        counted = sink if announce is None or is_read_back else sidecars.Sink(sink)

        def tell(metadata: dict[str, str], options: dict[str, Any]) -> None:
            if compressor is not None:
                counted.write(compressor.finish())
            assert announce is not None
            announce(counted, metadata, options)

        compressor = None if goal.outer is None else codecs.compressor(goal.outer)
        inner = counted if compressor is None else _CompressingSink(counted, compressor)
        open_target = Target(target.path, options=target.options, into=inner, beside=join)
        yield _Opened(goal, open_target, sink, None if announce is None else tell)
        if compressor is not None and not (beside and announce is not None):
            counted.write(compressor.finish())


class _CompressingSink:
    def __init__(self, sink: Any, compressor: codecs.Compressor) -> None:
        self._sink = sink
        self._compressor = compressor

    def write(self, buffer: Any, /) -> None:
        data = self._compressor.compress(storage.byte_view(buffer))
        if data:
            self._sink.write(data)


def _save_rows(
    rows: Poured,
    goal: _Goal,
    target: Target,
    metadata: Mapping[str, Any] | None,
    options: dict[str, Any],
    progress: Progress | None,
) -> Saved:
    """Writes rows into a format of rows."""
    name = goal.facts.name
    if goal.outer is not None and not goal.facts.decompresses:
        return _save_packed(rows, goal, target, metadata, options, progress)
    if goal.outer is not None:
        options["compression"] = goal.outer
    if goal.path is None:
        sink = storage.FileSink(goal.given)
        target = Target(target.path, into=sink)
    paths = write_rows(rows, name, target, options, metadata=metadata, progress=progress)
    if not target.is_path:
        return Saved(str(goal.given), name, 0 if goal.path else sink.position)
    sizes = [target.place().at(path).size() or 0 for path in paths]
    return Saved(str(goal.given), name, sum(sizes), files=tuple(paths))


def _save_packed(
    rows: Poured,
    goal: _Goal,
    target: Target,
    metadata: Mapping[str, Any] | None,
    options: dict[str, Any],
    progress: Progress | None,
) -> Saved:
    """Writes rows into a file that is compressed as a whole."""
    stale: list[str] = []
    with _opened(goal, target) as packed:
        stem = codecs.split_suffix(target.path)[0]
        with packed.target.sink() as sink:
            into = Target(stem, into=sink, beside=packed.target.beside)
            name = goal.facts.name
            write_rows(rows, name, into, options, metadata=metadata, progress=progress)
            if packed.target.beside is not None and not into.has_beside:
                stale = [target.path]
    schemas.remove_own(stale)
    return Saved(str(goal.given), goal.facts.name, packed.position, files=(target.path,))
