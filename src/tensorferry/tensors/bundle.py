"""Bundles: files of named tensors, opened without reading them.

    with ferry.open("model.safetensors") as bundle:
        bundle.info["encoder/kernel"]        # TensorInfo(dtype="float32", shape=(512, 512), ...)
        bundle["encoder/kernel"]             # the tensor
        bundle.slice("encoder/kernel", np.s_[:10])

A format lists the tensors of a file as `Stored` objects (`tensorferry.tensors.stored`). A bundle
reads them on access, plans the reads of several tensors together, and adds the place to errors.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from tensorferry import display
from tensorferry.cards import Card, Tone, pairs
from tensorferry.errors import FerryError, Problem, UnsupportedError
from tensorferry.progress import Progress, following
from tensorferry.signposts import signposted
from tensorferry.storage.pages import lend, release
from tensorferry.storage.place import Place
from tensorferry.storage.source import SMALL_FILE
from tensorferry.tensors import layout
from tensorferry.tensors.infos import Infos, TensorInfo, grid, origin_of
from tensorferry.tensors.many import ManyStored
from tensorferry.tensors.note import Note
from tensorferry.tensors.stored import Stored
from tensorferry.tensors.values import Array, RaggedTensor, SparseTensor, Tensor

if TYPE_CHECKING:
    from tensorferry.formats.contract import Facts
    from tensorferry.storage.source import Source

Framework = Literal["numpy", "tensorflow", "torch", "jax"]

# How a tensor is handed out: as another framework's, with what was kept of it beside its values.
Give = Callable[[Tensor, Mapping[str, Any] | None], Any]

# How many bytes of tensors are planned, and fetched, together.
TOGETHER = 64 << 20


@signposted
class Bundle(Mapping[str, Any]):
    """The named tensors of a file: a mapping that reads a tensor on access. See `tensorferry.open`.

    A tensor that cannot be read is listed with the reason in `info[name].unreadable`, and only
    accessing it raises. A bundle that was opened by a path can be pickled; other processes open the
    file again.

    The arrays are writable, and writing to them does not change the file. All accesses share one
    memory: if you change a tensor and access it again, or pass the bundle to `stats`, `diff` or
    `save`, you see the change.

    Attributes:
        facts: The facts of the format.
        place: Where the file is.
        path: Its path.
        format: The name of its format.
        files: Its files, where there may be several.
        metadata: The user's metadata.
        details: What else the format provides, such as the object graph of a checkpoint or the
            config of a Keras model.
        notes: Remarks on how the file is read.
        version: The version of the format, if the file has one.
        compression: The format's own compression, if the file uses one.
        checksums: Whether checksums cover the values.
        packed: How the file is compressed as a whole.

    Examples:
        >>> saved = ferry.save({"a": np.zeros((2, 3)), "b": np.ones(4)}, "model.npz")
        >>> with ferry.open("model.npz") as bundle:
        ...     print(list(bundle), bundle["b"], bundle.slice("a", np.s_[0, :2]))
        ['a', 'b'] [1. 1. 1. 1.] [0. 0.]
    """

    _give: Give | None = None
    _lends = False
    _reopen: Callable[[], Self] | None = None
    _by_alias: dict[str, str] | None = None

    def __init__(
        self,
        stored: Mapping[str, Stored],
        *,
        facts: Facts,
        place: Place,
        note: Note | None = None,
        metadata: Mapping[str, Any] | None = None,
        check: Callable[[], None] | None = None,
        files: Sequence[str] | None = None,
        aliases: Mapping[str, str] | None = None,
        details: Any = None,
        version: str | None = None,
        compression: str | None = None,
        checksums: bool | None = None,
        closing: Sequence[Callable[[], None]] = (),
        left_out: Collection[str] = (),
    ) -> None:
        """Puts tensors together.

        Args:
            stored: By name.
            facts: The facts of the format.
            place: Where the file is; closed with the bundle.
            note: Facts that the format has no field for.
            metadata: The user's metadata.
            check: Called before the first tensor is read; raises if the file is another one.
            files: By default the one of the place.
            aliases: Other names by which some tensors are found.
            details: See the class.
            version: The version of the format, if the file has one.
            compression: The format's own compression, if the file uses one.
            checksums: Whether checksums cover the values; by default what the format has.
            closing: Called on closing, after the place.
            left_out: Names of tensors that `value` does without: they are listed, cannot be read,
                and nobody misses them.
        """
        self.facts = facts
        self.place = place
        self.path = place.path
        self._shown = place.shown
        self.metadata: Mapping[str, Any] = metadata or {}
        self.details = details
        self.files: Sequence[str] = [place.path] if files is None else list(files)
        self.notes: list[str] = []
        self.packed: str | None = None
        self.version = version
        self.compression = compression
        self.checksums = facts.checksums if checksums is None else checksums
        self._note = note or Note()
        self._aliases = aliases or {}
        self._stored = stored
        self._many = stored if isinstance(stored, ManyStored) else None
        self._check = check
        self._closing = closing
        self._left_out = frozenset(left_out)

    @property
    def info(self) -> Mapping[str, TensorInfo]:
        """Dtype, shape and size of each tensor, known without reading it."""
        stored = self._stored
        if isinstance(stored, _Closed):
            return stored
        return _Infos(stored, self._note, self._aliases)

    @property
    def format(self) -> str:
        """The name of the format."""
        return self.facts.name

    def handing(
        self, give: Give | None, reopen: Callable[[], Self] | None, *, lends: bool = False
    ) -> Self:
        """The same bundle, with tensors converted by `give`, and pickled as `reopen`.

        Args:
            give: Converts our tensors to those of a framework.
            reopen: Opens the bundle again.
            lends: Whether arrays are handed out writable: see `tensorferry.storage.pages.lend`.
        """
        self._give, self._reopen, self._lends = give, reopen, lends
        return self

    def __getitem__(self, name: str) -> Any:
        name = self._resolve(name)
        return self._hand(name, self._tensor(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __contains__(self, name: object) -> bool:
        return name in self._stored or (isinstance(name, str) and self._aliased(name) is not None)

    @property
    def _summary(self) -> str:
        is_closed = isinstance(self._stored, _Closed)
        return f"{self.format}, {'closed' if is_closed else display.plural(len(self), 'tensor')}"

    def _card(self) -> Card:
        notes: list[tuple[Tone, str]] = [("note", note) for note in self.notes]
        fields = [("metadata", pairs(self.metadata))]
        return Card(
            "Bundle",
            self.place.shown,
            self._summary,
            fields=fields,
            grids=[grid(self.info)],
            lines=notes,
        )

    def __repr__(self) -> str:
        return Card("Bundle", self.place.shown, self._summary).line()

    def _repr_html_(self) -> str:
        return self._card().html()

    def _ipython_key_completions_(self) -> list[str]:
        return [name for name in self if name.isprintable()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._reopen is None:
            raise TypeError("a bundle can be pickled if tensorferry.open made it")
        return _call, (self._reopen,)

    def close(self) -> None:
        """Closes the files; tensors that were returned stay valid."""
        self.place.close()
        for close in self._closing:
            close()
        self._stored, self._many = _Closed(self._shown), None

    # What there is

    def infos(self) -> Mapping[str, TensorInfo]:
        """Returns `info` for all tensors at once."""
        if self._many is not None and not self._note.origins:
            quickly = self._many.infos(self._aliases)
            if quickly is not None:
                return Infos(quickly)
        info = self.info
        return Infos({name: info[name] for name in self._stored})

    def count(self, progress: Progress | bool | None = None) -> int:
        """Number of tensors."""
        return len(self._stored)

    @property
    def layout(self) -> dict[str, Any] | None:
        """How the tensors form the value: see `tensorferry.tensors.layout`."""
        return self._note.layout

    @property
    def origins(self) -> Mapping[str, Any]:
        """Names and devices that were stored with tensors."""
        return self._note.origins

    def _resolve(self, name: str) -> str:
        """The name of a tensor, or that of the tensor whose other name it is."""
        if name in self._stored:
            return name
        stored = self._stored
        found = self._aliased(name)
        if found is None:
            raise stored.error() if isinstance(stored, _Closed) else KeyError(name)
        return found

    def _aliased(self, name: str) -> str | None:
        if self._by_alias is None:
            self._by_alias = {alias: owner for owner, alias in self._aliases.items()}
        found = self._by_alias.get(name)
        return found if found in self._stored else None

    def unknown(self, name: str) -> UnsupportedError:
        """The error for a name that the bundle does not have."""
        names = list(self._stored)
        near = difflib.get_close_matches(name, names, n=3)
        hint = f"did you mean {', '.join(map(repr, near))}?" if near else None
        if not near:
            hint = f"there are {', '.join(names[:5])}" if names else "there is no tensor in it"
        return UnsupportedError(f"no tensor is called {name!r}", path=self.place.shown, hint=hint)

    # Values

    def slice(self, name: str, index: Any) -> Any:
        """Returns `bundle[name][index]`, reading only that part where the file allows it.

        Args:
            name: The name of a dense tensor.
            index: Integers, slices and an ellipsis: `np.s_[0:2, :]`.
        """
        name = self._resolve(name)
        with _located(self._shown, name):
            return self._hand(name, self._stored[name].read_part(index))

    def value(self, progress: Progress | bool | None = None) -> Any:
        """Reads everything: the structure that was saved, or a dict of the tensors.

        Args:
            progress: True shows a bar; a function receives the number of tensors read and the
                total.
        """
        tensors = self._all_at_once() if progress is None else None
        if tensors is None:
            tensors = {}
            with following(progress, self._shown, "tensors") as tell:
                for name, tensor in self.read_many(n for n in self if n not in self._left_out):
                    tensors[name] = self._hand(name, tensor)
                    if tell is not None:
                        tell(len(tensors), len(self))
        if self._note.layout is None:
            return tensors
        with _located(self._shown, None):
            return layout.rebuild(self._note.layout, tensors)

    def _all_at_once(self) -> dict[str, Any] | None:
        """All tensors by name, if each is an array in a file that is in memory."""
        if self._many is None or self._check is not None:
            return None
        arrays = self._many.read_all()
        if arrays and self._lends and not next(iter(arrays.values())).flags.writeable:
            arrays = {name: lend(array) for name, array in arrays.items()}
        if arrays is None or self._give is None:
            return arrays
        give, origins = self._give, self._note.origins
        return {name: give(array, origins.get(name)) for name, array in arrays.items()}

    def read_many(self, names: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
        """Yields names and NumPy tensors in the given order.

        The reads are planned together: from a store, neighbouring tensors come in one request, and
        several requests run at once.

        Args:
            names: The names of the tensors.

        Raises:
            KeyError: There is no tensor of that name.
            FormatError: A tensor is damaged; the tensors before it were returned.
        """
        wanted = list(names)
        arrays = self._at_hand() if 2 * len(wanted) > len(self._stored) else None
        for name in self.planned(wanted):
            yield name, self._tensor(name) if arrays is None else arrays[name]

    def _at_hand(self) -> Mapping[str, Array] | None:
        """All tensors, if that reads nothing or little: one by one they take longer."""
        many = self._many
        if many is None or self._check is not None or not self.place.is_open:
            return None
        size = self.place.open().size
        is_small = size is not None and size <= SMALL_FILE
        try:
            return many.read_all() if is_small else many.views()
        except FerryError:  # the one that is to blame raises it again
            return None

    def planned(self, names: Iterable[str]) -> Iterator[str]:
        """Yields the names of tensors that are then read in this order.

        If the caller reads each tensor when it receives the name, all reads follow one plan.
        """
        wanted = [self._resolve(name) for name in names]
        if not self.place.is_url:
            yield from wanted
            return
        for group in self._groups(wanted):
            self._expect(group)
            yield from group

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yields names and NumPy tensors, one by one."""
        return self.read_many(self)

    def problems(
        self, progress: Progress | bool | None = None, *, names: Sequence[str] | None = None
    ) -> Iterator[Problem]:
        """Reads all or some tensors, and yields those that are damaged.

        A sound tensor of an unsupported kind is not a problem.

        Args:
            progress: True shows a bar; a function receives the number of tensors read.
            names: The tensors to read; by default all.
        """
        with following(progress, self._shown, "tensors") as tell:
            yield from self._problems(self if names is None else names, tell)

    def _problems(self, names: Iterable[str], progress: Progress | None) -> Iterator[Problem]:
        for place, name in enumerate(names):
            try:
                release(self._tensor(name))
            except UnsupportedError:
                pass
            except FerryError as error:
                yield Problem.of(error, self.place.shown)
            if progress is not None:
                progress(place + 1, len(self))

    def _groups(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Names of tensors that are planned together."""
        group: list[str] = []
        size = 0
        for name in names:
            nbytes = self._stored[name].nbytes or 0
            if group and size + nbytes > TOGETHER:
                yield group
                group, size = [], 0
            group.append(name)
            size += nbytes
        if group:
            yield group

    def _expect(self, names: Iterable[str]) -> None:
        """Tells remote sources what will be read."""
        spans: dict[int, tuple[Source, list[tuple[int, int]]]] = {}
        for name in names:
            for source, start, stop in self._stored[name].extents():
                spans.setdefault(id(source), (source, []))[1].append((start, stop))
        for source, ranges in spans.values():
            source.expect(ranges)

    def _tensor(self, name: str) -> Tensor:
        try:
            if self._check is not None:
                self._check()
                self._check = None
            many = self._many  # another thread may close the bundle meanwhile
            array = None if many is None else many.read_quickly(name)
            return self._stored[name].read() if array is None else array
        except FerryError as error:
            error.located(path=self._shown, tensor=name)
            raise

    def _hand(self, name: str, tensor: Tensor) -> Any:
        if self._lends:
            tensor = _writable(tensor)
        return tensor if self._give is None else self._give(tensor, self._note.origins.get(name))


def _writable(tensor: Tensor) -> Tensor:
    """A tensor whose arrays are writable, where that is possible."""
    if isinstance(tensor, np.ndarray):  # nearly all
        return tensor if tensor.flags.writeable else lend(tensor)
    if isinstance(tensor, SparseTensor | RaggedTensor):
        # Its parts were checked, and stay what they are.
        for name in tensor.__slots__:
            part = getattr(tensor, name)
            lent = tuple(map(lend, part)) if isinstance(part, tuple) else lend(part)
            object.__setattr__(tensor, name, lent)
    return tensor


def _call(reopen: Callable[[], Bundle]) -> Bundle:
    return reopen()


class _Closed(dict[str, Any]):
    """The tensors of a bundle that was closed, maybe while another thread reads: none."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def error(self) -> ValueError:
        return ValueError(f"{self._shown} is closed")

    def __missing__(self, name: str) -> Any:
        raise self.error()


class _Infos(Mapping[str, TensorInfo]):
    """Looked up on access, because the shape of a sparse tensor has to be read."""

    def __init__(
        self, stored: Mapping[str, Stored], note: Note, aliases: Mapping[str, str]
    ) -> None:
        self._stored = stored
        self._origins = note.origins
        self._aliases = aliases

    def __getitem__(self, name: str) -> TensorInfo:
        stored = self._stored[name]
        origin = dict(self._origins[name]) if name in self._origins else {}
        origin |= origin_of(name, self._aliases.get(name, name))
        return TensorInfo(
            name,
            stored.dtype_name,
            stored.shape,
            stored.nbytes,
            stored.kind,
            stored.quantized,
            origin,
            stored.unreadable,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __repr__(self) -> str:
        return repr(dict(self))

    def _repr_html_(self) -> str:
        return Card("Infos", "", display.plural(len(self), "tensor"), grids=[grid(self)]).html()


class _located:  # noqa: N801  # used as a statement
    """Adds file and tensor to the errors of its block."""

    def __init__(self, path: str, tensor: str | None) -> None:
        self._place = {"path": path, "tensor": tensor}

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, FerryError):
            error.located(**self._place)
