"""Opening: files of every format and from every place, whole or lazily.

    ferry.load("pred.safetensors")
    ferry.open("pred.safetensors")["scores"]
    for batch in ferry.open("train-*.tfrecord").batches(1024): ...

`tensorferry.files.find` resolves names. `tensorferry.formats.detect` recognises a file by its
bytes, after decompressing a file that is compressed as a whole, and by its suffix if the bytes are
ambiguous. The format then opens the file with its own options.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Unpack

from tensorferry import frameworks
from tensorferry.classes import dataclass, field
from tensorferry.codecs import compression as codecs
from tensorferry.errors import FerryError, FormatError
from tensorferry.files import keywords, plain, sidecars
from tensorferry.files.find import Found, elsewhere, resolve
from tensorferry.formats import table
from tensorferry.formats.contract import Facts, Format, Kept, choose, option_names
from tensorferry.formats.detect import detect, packing, unknown
from tensorferry.progress import METER, Progress, Unit, following
from tensorferry.rows.rows import Rows
from tensorferry.storage import sets
from tensorferry.storage.patience import attempts
from tensorferry.storage.place import Place, ReplacedError
from tensorferry.storage.source import Source
from tensorferry.tensors.bundle import Bundle, Framework

if TYPE_CHECKING:
    from tensorferry.tensors.values import Tensor


@keywords.shown(keywords.Reading)
def load(
    path: Any,
    *,
    format: str | None = None,
    to: Framework = "numpy",
    verify: bool = True,
    dequantize: bool = True,
    placed: bool = False,
    progress: Progress | bool | None = None,
    mmap: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Reading],
) -> Any:
    """Reads a whole file: the structure that was saved, or a dict of tensors or columns.

    Where possible, arrays are views of the mapped file, so nothing is read before it is used. The
    arrays are writable; writing to them does not change the file.

        ferry.load("pred.npz")                        # a dict of arrays
        ferry.load("pred.safetensors", to="torch")    # of PyTorch's tensors

    Args:
        path: Anything that `open` takes.
        format: By default detected from the bytes, or else from the suffix of the path.
        to: The framework whose tensors to return: "numpy", "tensorflow", "torch" or "jax".
        verify: Verify checksums, if the format has them.
        dequantize: Return floats for quantized values.
        placed: Put TensorFlow's tensors on the device they were saved from, and return variables as
            variables, with their names.
        progress: True shows a bar; a function receives the number of tensors or rows read and the
            total, if known. Rows are reported once, at the end.
        mmap: Map local files, so that arrays cost nothing until they are used. If another program
            truncates a mapped file, using the missing bytes kills this process (SIGBUS); with
            False, values are read into memory, and a truncated file is an error.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Reading`. Raw bytes need
            `dtype=` and `shape=`, unless a sidecar has them. Options that the format does not have
            are refused.

    Raises:
        FormatError: The file is damaged, or its format is unknown.
        OptionError: The format has no such option.

    Examples:
        >>> saved = ferry.save({"scores": np.float32([0.5])}, "pred.npz")
        >>> ferry.load("pred.npz")
        {'scores': array([0.5], dtype=float32)}
    """
    how = _reading(format, to, placed, verify, dequantize, False, options)
    places = _with_mapping(storage_options, mmap)
    found = how.look(path, places)
    if found.__class__ is plain.Found and to == "numpy" and not progress:
        return found.value()
    with how.open_found(found) if found is not None else how.open_any(path, places) as opened:
        if progress is not None and progress is not False:
            return _loaded(opened, to, progress)
        if isinstance(opened, Bundle):
            return opened.value()
        return list(opened) if opened.raw else opened.value(to=to)


def _loaded(opened: Bundle | Rows, to: Framework, progress: Progress | bool) -> Any:
    """All of something that was opened, with progress."""
    unit: Unit = "rows" if isinstance(opened, Rows) else "tensors"
    with following(progress, opened.place.shown, unit) as tell:
        if not isinstance(opened, Rows):
            return opened.value(tell)
        value: Any = list(opened) if opened.raw else opened.value(to=to)
        count = opened.count()
        if tell is not None and count is not None:
            tell(count, count)
        return value


@keywords.shown(keywords.Reading)
def open(  # noqa: A001  # the public name
    path: Any,
    *,
    format: str | None = None,
    to: Framework = "numpy",
    verify: bool = True,
    dequantize: bool = True,
    placed: bool = False,
    parts: bool = False,
    mmap: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.Reading],
) -> Bundle | Rows:
    """Opens a file lazily: named tensors as a `Bundle`, records and tables as `Rows`.

        bundle = ferry.open("model.safetensors")
        bundle["encoder/kernel"]
        rows = ferry.open("train-*.tfrecord", columns=["image", "label"])
        for batch in rows.batches(256): ...

    Args:
        path: A file or URL; a folder with a model, a checkpoint or rows; for rows also a glob,
            "name@10" for a set of shards, or a list of those; "-" for the standard input, a binary
            file object, or bytes.
        format: By default detected from the bytes, or else from the suffix of the path.
        to: The framework whose tensors a bundle returns.
        verify: Verify checksums, if the format has them.
        dequantize: Return floats for quantized values.
        placed: See `load`.
        parts: Return the arrays of a bundle as they are stored, without joining the parts of
            string, sparse and ragged tensors.
        mmap: Map local files, so that arrays cost nothing until they are used. If another program
            truncates a mapped file, using the missing bytes kills this process (SIGBUS); with
            False, values are read into memory, and a truncated file is an error.
        storage_options: Options for the store of a URL.
        **options: Options of the format: see `tensorferry.files.keywords.Reading`. Rows have
            `columns` and `on_error`, TFRecords also `schema`, `infer`, `raw` and `threads`. Options
            that the format does not have are refused.

    Returns:
        A `Bundle`, or `Rows`: `Records` for TFRecords, `Table` for Arrow and Parquet.

    Raises:
        FormatError: The file is damaged, or its format is unknown.
        OptionError: The format has no such option.

    Examples:
        >>> saved = ferry.save({"scores": np.zeros((2, 3))}, "pred.npz", metadata={"step": 9})
        >>> with ferry.open("pred.npz") as bundle:
        ...     print(bundle.info["scores"].shape, bundle.metadata)
        (2, 3) {'step': 9}
    """
    how = _reading(format, to, placed, verify, dequantize, parts, options)
    return how.open(path, _with_mapping(storage_options, mmap))


def _with_mapping(options: Mapping[str, Any] | None, mmap: bool) -> Mapping[str, Any] | None:
    """Storage options that say whether local files are mapped."""
    return options if mmap else {**(options or {}), "mmap": False}


@dataclass(frozen=True)
class Reading:
    """How something is to be opened.

    Attributes:
        format: As the user named it.
        to: The framework whose tensors a bundle returns.
        placed: Put TensorFlow's tensors where they were when they were saved.
        verify: Check the checksums.
        dequantize: Return floats for quantized values.
        parts: Return the arrays of a bundle as they are stored.
        given: Options of the user's, which the format must have.
        preferred: Options that are used where the format has them.
        unpack: Whether a file of a format that was named may be compressed as a whole.
        lends: Whether the arrays of a bundle are handed out writable.
    """

    format: str | None = None
    to: Framework = "numpy"
    placed: bool = False
    verify: bool = True
    dequantize: bool = True
    parts: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)
    preferred: Mapping[str, Any] = field(default_factory=dict)
    unpack: bool = True
    lends: bool = False

    @property
    def _is_lending(self) -> bool:
        """Whether arrays are to be writable: those of TensorFlow and JAX never change."""
        return self.lends and self.to in ("numpy", "torch")

    def open(self, path: Any, storage_options: Mapping[str, Any] | None = None) -> Bundle | Rows:
        """Opens the file or files that a name refers to."""
        found = self.look(path, storage_options)
        return self.open_any(path, storage_options) if found is None else self.open_found(found)

    def look(
        self, path: Any, storage_options: Mapping[str, Any] | None = None
    ) -> plain.Found | Bundle | None:
        """A file of plain arrays, or a usual checkpoint; None for what only `open_any` opens."""
        if path.__class__ is Found and path.format is None and len(path.places) == 1:
            path = path.name if path.place.is_nothing_but(path.name) else None
        elif isinstance(path, os.PathLike):
            path = os.fspath(path)
        # What is preferred is asked of other formats: plain files are read without options.
        if path.__class__ is not str or self.format is not None or self.given or storage_options:
            return None
        if self.parts:
            return None
        found = plain.look(path)
        if found is None and self.verify and self.dequantize and not self.preferred:
            return plain.look_for_set(path, lends=self._is_lending)
        return found

    def open_found(self, found: plain.Found | Bundle) -> Bundle:
        """Opens what `look` has found."""
        lends = self._is_lending
        given: Place | str = found.path
        if isinstance(found, plain.Found):
            found = found.bundle(lends=lends)
            given = found.place
        return found.handing(self._giver(), partial(_reopen, self, given), lends=lends)

    def open_any(
        self, path: Any, storage_options: Mapping[str, Any] | None = None
    ) -> Bundle | Rows:
        """Opens the file or files that a name refers to, whatever they are."""
        for attempt in attempts():
            found = resolve(path, format=self.format, options=storage_options)
            try:
                return self._open(found)
            except FileNotFoundError:
                other = elsewhere(found)
                if other is None:
                    raise
                return self._open(other)
            except (ReplacedError, sidecars.OtherFileError) as error:
                # The file was replaced between opening it and its sidecar.
                if not isinstance(error, ReplacedError) and (attempt or not found.place.is_named):
                    raise
        raise ReplacedError("it is replaced again and again", path=str(path))

    def _open(self, found: Found) -> Bundle | Rows:
        place = found.place
        try:
            return self._recognise(found)
        except BaseException as error:
            place.close()
            if isinstance(error, FerryError):
                error.located(path=place.shown)
            raise

    def _recognise(self, found: Found) -> Bundle | Rows:
        place, name, packed = found.place, found.format, None
        facts = None if name is None else table.facts_of(name)
        if facts is None:
            looked = detect(place)
            packed = looked.compression
            if looked.format is None:
                raise unknown(looked.head, path=place.shown)
            facts = table.facts_of(looked.format)
        elif facts.files == "one" and (self.unpack or facts.decompresses):
            packed = packing(place, zlib=facts.decompresses)
        known = table.to_read(facts.name)
        if len(found.places) > 1:
            rows = self._open_many(found, known, facts)
            rows.packed = packed
            return rows
        if facts.files == "several" and found.format is None:
            place = known.reads.find(place) or place  # recognised by its last bytes
        options = self._options(known, facts, place, packed)
        if packed is not None and not facts.decompresses:
            place = _unpacked(place, packed)
        if self._is_lending and facts.opens == "tensors":
            place.lend()
        opened = known.reads.open(place, options)
        if isinstance(opened, Bundle):
            opened = self._hand(opened, found)
        assert isinstance(opened, Bundle | Rows)
        opened.packed = packed
        return opened

    def _open_many(self, found: Found, known: Format[Any, Any], facts: Facts) -> Rows:
        if known.reads_rows is None:
            raise FormatError(
                f"{len(found.places)} files of {facts.name}, which are not one thing together",
                path=found.name,
                hint="open them one by one",
            )
        options = choose(known.reads.options, self._given(known), format=facts.name)
        sets.settle(found.places)
        return known.reads_rows.open_all(found.places, options)

    def _options(
        self, known: Format[Any, Any], facts: Facts, place: Place, packed: codecs.Kind | None
    ) -> Any:
        about = sidecars.find(place) if facts.metadata == "beside" else None
        if about is None and not self.given and not self.preferred:
            return _usual(facts.name, self.verify, self.dequantize, self.parts)
        given = self._given(known)
        if about is not None:
            given = {**about.options, **given}
            check = partial(about.check, place.open())
            if packed is not None:  # all of it is read to unpack it, and closed then
                check()
            given["kept"] = Kept(about.metadata, None if packed is not None else check)
        return choose(known.reads.options, given, format=facts.name)

    def _given(self, format: Format[Any, Any]) -> dict[str, Any]:
        known = option_names(format.reads.options)
        common = {"verify": self.verify, "dequantize": self.dequantize, "parts": self.parts}
        chosen = {**common, **self.preferred}
        return {**{name: chosen[name] for name in chosen if name in known}, **self.given}

    def _hand(self, opened: Bundle, found: Found) -> Bundle:
        """The bundle, which can return a framework's tensors and be pickled."""
        is_named = found.place.is_named
        reopen = partial(_reopen, self, found) if is_named else None
        # Memory that the caller gave is not ours to lend.
        lends = self._is_lending and (is_named or found.place.is_url)
        return opened.handing(self._giver(), reopen, lends=lends)

    def _giver(self) -> _Giver | None:
        return None if self.to == "numpy" else _Giver(self.to, self.placed)


@cache
def _usual(format: str, verify: bool, dequantize: bool, parts: bool) -> Any:
    """The options that a format is read with if nobody gives others, of those that it has."""
    options = table.to_read(format).reads.options
    common = {"verify": verify, "dequantize": dequantize, "parts": parts}
    return options(**{name: common[name] for name in common if name in option_names(options)})


def _reopen(reading: Reading, given: Found | Place | str) -> Any:
    return reading._open(resolve(given))


def _reading(
    format: str | None,
    to: Framework,
    placed: bool,
    verify: bool,
    dequantize: bool,
    parts: bool,
    options: Mapping[str, Any],
) -> Reading:
    """How a user wants something opened; most want nothing of their own."""
    given = keywords.given(options) if options else {}
    wanted = (format, to, placed, verify, dequantize, parts, given)
    return _PLAINLY if wanted == _NOTHING else Reading(*wanted, lends=True)


_NOTHING: tuple[None, Framework, bool, bool, bool, bool, dict[str, Any]]
_NOTHING = (None, "numpy", False, True, True, False, {})
_PLAINLY = Reading(*_NOTHING, lends=True)


@dataclass(frozen=True)
class _Giver:
    """Hands out tensors as a framework's, where they were if that is wanted."""

    to: str
    placed: bool

    def __call__(self, tensor: Tensor, origin: Mapping[str, Any] | None) -> Any:
        kept = dict(origin) if origin and self.placed else None
        return frameworks.give(tensor, self.to, origin=kept)


def _unpacked(place: Place, kind: codecs.Kind) -> Place:
    """A place in memory with the bytes of a compressed file."""
    source = place.reader()
    budget = source.budget
    data = bytearray()

    def read(size: int) -> bytes:
        block = source.read(size)
        if source.size is None:  # of a stream, as much is stored as came
            budget.stored += len(block)
        return block

    for block in codecs.decompressed(read, kind, path=source.path):
        data += block
        METER.add(len(block))
        budget.take(len(data), what="the decompressed file", key="file", path=source.path)
    place.close()
    source = Source(place.path, buffer=memoryview(data).toreadonly(), budget=budget)
    return Place(source, options=place.options)
