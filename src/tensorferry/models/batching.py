"""Batch prediction: a model over files of rows, in parts that an engine runs.

Each worker loads the model once, and streams the rows of one split after another through it. Each
split becomes one file of outputs, gathered beside the target; all of them appear together
(`tensorferry.storage.staging`). A run that was interrupted goes on with what is not done.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from tensorferry import display, engines, storage
from tensorferry.cards import Card, Tone
from tensorferry.classes import dataclass, field
from tensorferry.engines import Engine, Job
from tensorferry.errors import Problem, UnsupportedError
from tensorferry.files.open import open as open_file
from tensorferry.files.save import Saved
from tensorferry.files.splitting import splits_of
from tensorferry.files.writer import open_writer
from tensorferry.formats import table
from tensorferry.formats.contract import RowWriter
from tensorferry.models.calling import Calls, Columns, joined
from tensorferry.models.dangers import Allow
from tensorferry.progress import Progress, duration
from tensorferry.rows.rows import ROWS, Rows
from tensorferry.rows.splits import Split
from tensorferry.storage import listing
from tensorferry.storage.place import Place, Target
from tensorferry.storage.shards import is_set, shard_names
from tensorferry.storage.staging import Stage, staged


@dataclass(frozen=True)
class Model:
    """A model, and how it is called; the attributes are arguments of `tensorferry.predict`."""

    given: Any
    signature: str | None = None
    lengths: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    allow: Allow = ()

    def load(self) -> Calls:
        """Loads the model, or makes it, where it is called."""
        model = self.given() if is_factory(self.given) else self.given
        return Calls(model, self.signature, self.lengths, self.keep, self.allow)

    def identity(self) -> list[Any]:
        """What tells this model from others: the versions of its files, or the code of it."""
        asked = [self.signature, dict(self.lengths), list(self.keep), repr(self.allow)]
        if isinstance(self.given, str | os.PathLike):
            return [*asked, os.fspath(self.given), _versions(os.fspath(self.given))]
        return [*asked, _code_of(self.given)]


def is_factory(given: Any) -> bool:
    """Whether something makes a model: a class, or a function that takes nothing."""
    if isinstance(given, type):
        return True
    if isinstance(given, str | os.PathLike) or not callable(given):
        return False
    try:
        return not inspect.signature(given).parameters
    except (TypeError, ValueError):
        return False


def _versions(path: str) -> list[list[str]]:
    """The files of a model, each with its version."""
    path = storage.localize(path).rstrip("/")
    if storage.is_url(path):
        names = storage.match(f"{path}/**/*") or [path]
    elif os.path.isdir(path):
        names = [os.path.join(at, name) for at, _, inside in os.walk(path) for name in inside]
    else:
        names = [path]
    places = [Place(name) for name in sorted(names)]
    listing.learn(places)
    return [[place.path, place.version()] for place in places]


def _code_of(given: Any) -> str:
    """What is known of a function: its name and the text of its source."""
    inner = getattr(given, "func", given)  # of functools.partial
    about = given if isinstance(inner, type) or inspect.isroutine(inner) else type(given)
    try:
        text = inspect.getsource(inner if about is given else type(given))
    except (OSError, TypeError):
        text = ""
    name = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', type(given))}"
    bound = repr((getattr(given, "args", ()), getattr(given, "keywords", {})))
    return f"{name} {hashlib.sha256((text + bound).encode()).hexdigest()}"


class _Held:
    """What a worker holds: the model, loaded when the first rows come."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @cached_property
    def calls(self) -> Calls:
        return self._model.load()


# Into memory


@dataclass(frozen=True)
class PredictJob(Job[Split, Columns, Columns]):
    """Calls a model with the rows of each split.

    Attributes:
        rows: The inputs.
        model: The model.
        batch_size: Number of rows in a call.
    """

    on_driver = ("rows",)
    rows: Rows
    model: Model
    batch_size: int

    def plan(self, size: int) -> list[Split]:
        """One task for each split."""
        return splits_of(self.rows, size)

    def start(self) -> _Held:
        """The model."""
        return _Held(self.model)

    def run(self, task: Split, held: _Held) -> Columns:
        """The outputs for the rows of a split."""
        with task.open() as rows:
            return joined(_outputs(rows, held.calls, self.batch_size))

    def merge(self, partials: Iterable[Columns]) -> Columns:
        """The outputs for all rows."""
        return joined(outputs for outputs in partials if outputs)


def _outputs(rows: Rows, calls: Calls, size: int) -> Iterable[Columns]:
    return calls.run(iter(rows.batches(size, columns=calls.columns(rows.columns))), None)


def predict(
    model: Model,
    inputs: Any,
    batch_size: int | None,
    engine: Engine,
    progress: Progress | None,
    *,
    options: Mapping[str, Any] | None,
) -> Columns:
    """The outputs of a model for files of rows; see `tensorferry.predict`."""
    with _rows_of(inputs, options) as rows:
        return engines.run(PredictJob(rows, model, batch_size or ROWS), engine, progress)


def _rows_of(inputs: Any, options: Mapping[str, Any] | None) -> Rows:
    """The rows that a user means.

    Raises:
        UnsupportedError: They are no rows of files.
    """
    is_named = isinstance(inputs, str | os.PathLike)
    if isinstance(inputs, list | tuple):
        is_named = bool(inputs) and all(isinstance(one, str | os.PathLike) for one in inputs)
    opened = open_file(inputs, storage_options=options) if is_named else inputs
    if not isinstance(opened, Rows):
        if is_named:
            opened.close()
        raise UnsupportedError(
            f"an engine reads inputs from files of rows, and these are {type(opened).__name__}",
            hint="save them as TFRecords or Parquet first, or leave engine= out",
        )
    return opened


# Into files


@dataclass(frozen=True)
class Output:
    """Where outputs go.

    Attributes:
        format: The name of a format of rows.
        target: The target as the user named it.
        options: Options of the format.
        shards: Number of files; None for as many as there are tasks.
        metadata: What the user wants to keep with the files.
    """

    format: str
    target: Target
    options: Mapping[str, Any]
    shards: int | None
    metadata: Mapping[str, Any]

    def writer(self, target: Target, shards: int | None = None) -> RowWriter:
        """Opens a file, or a set of shards."""
        return open_writer(self.format, target, self.options, shards=shards, metadata=self.metadata)


@dataclass(frozen=True, repr=False)
class Predicted(Saved):
    """What `tensorferry.save_predictions` did with an engine.

    Attributes:
        rows: Number of rows that were predicted, those of resumed files among them.
        seconds: How long it took.
        resumed: Number of files that an earlier run had written already.
        failures: Rows of the inputs that are damaged, and were skipped as `on_error` says.
        fresh: Number of rows that this run has predicted.
    """

    rows: int = 0
    seconds: float = 0.0
    resumed: int = 0
    failures: tuple[Problem, ...] = ()
    fresh: int = 0

    @property
    def rate(self) -> float:
        """Rows a second, of the fresh ones."""
        return self.fresh / self.seconds if self.seconds else 0.0

    def _card(self) -> Card:
        about = [self.format, display.plural(self.rows, "row"), display.size(self.nbytes)]
        about += [duration(self.seconds), f"{self.rate:,.0f} rows/s"]
        fields: list[tuple[str, Any]] = [
            ("files", len(self.files)),
            ("resumed", self.resumed or None),
            ("failures", len(self.failures) or None),
        ]
        tone: Tone = "bad" if self.failures else "good"
        lines: list[tuple[Tone, str]] = [("bad", str(problem)) for problem in self.failures]
        return Card("Predicted", self.path, ", ".join(about), tone, fields, lines=lines)


@dataclass(frozen=True)
class Done:
    """What became of one file.

    Attributes:
        rows: Number of rows in the file.
        failures: The inputs that could not be read: problem, path, record and offset of each.
        resumed: Whether an earlier run has written it.
    """

    rows: int
    failures: list[list[Any]] = field(default_factory=list)
    resumed: bool = False

    @classmethod
    def from_note(cls, note: Mapping[str, Any] | None) -> Done | None:
        """What an earlier run has noted; None if it is no such note."""
        rows, failures = (note or {}).get("rows"), (note or {}).get("failures")
        if type(rows) is not int or not isinstance(failures, list):
            return None
        if not all(isinstance(one, list) and len(one) == 4 for one in failures):
            return None
        return cls(rows, failures, resumed=True)


@dataclass(frozen=True)
class SaveJob(Job["tuple[str, Split]", Done, "list[Done]"]):
    """Writes the outputs of each split into a file.

    Attributes:
        tasks: The names of files, and what they are made of.
        model: The model.
        batch_size: Number of rows in a call.
        output: How files are written.
        stage: Where they are gathered.
    """

    on_driver = ("tasks",)
    tasks: tuple[tuple[str, Split], ...]
    model: Model
    batch_size: int
    output: Output
    stage: Stage

    def plan(self, size: int) -> Sequence[tuple[str, Split]]:
        """One task for each file."""
        return self.tasks

    def start(self) -> _Held:
        """The model."""
        return _Held(self.model)

    def run(self, task: tuple[str, Split], held: _Held) -> Done:
        """Writes one file, unless it is there; a table without rows is left to the driver."""
        name, split = task
        known = Done.from_note(self.stage.finished(name))
        if known is not None:
            return known
        with split.open() as rows:
            outputs = iter(_outputs(rows, held.calls, self.batch_size))
            first = list(next(outputs, {}).items())
            if not first and not table.facts_of(self.output.format).records:
                return Done(0)
            with self.writer(name) as out:
                for batch in chain([dict(first)] if first else [], outputs):
                    out.write_batch(batch)
            failures = [[one.problem, one.path, one.record, one.offset] for one in rows.damages]
        self.stage.finish(name, {"rows": out.count, "failures": failures})
        return Done(out.count, failures)

    def writer(self, name: str) -> RowWriter:
        """The writer of one file."""
        target = self.output.target
        path = self.stage.path(name)
        return self.output.writer(Target(path, options=target.options, durable=target.durable))

    def merge(self, partials: Iterable[Done]) -> list[Done]:
        """What became of all files."""
        return list(partials)


def save(
    model: Model,
    inputs: Any,
    batch_size: int | None,
    output: Output,
    engine: Engine,
    progress: Progress | None,
) -> Predicted:
    """Writes the outputs of a model for files of rows; see `tensorferry.save_predictions`."""
    started = time.monotonic()
    target, size = output.target, batch_size or ROWS
    with _rows_of(inputs, target.options) as rows:
        names, splits = _divided(rows, output, engine.task_size)
        plan = {
            "files": names,
            "model": model.identity(),
            "batch_size": size,
            "format": output.format,
            "options": repr(sorted(output.options.items())),
            "metadata": repr(sorted(output.metadata.items())),
            "versions": {place.path: place.version() for place in rows.places},
            "inputs": [
                [[part.place.path, part.start, part.stop] for part in split.parts]
                for split in splits
            ],
            "reading": repr(splits[0].how),
        }
    with staged(
        target.path, names, plan=plan, options=target.options, durable=target.durable, keep=True
    ) as stage:
        tasks = tuple(zip(names, splits, strict=True))
        job = SaveJob(tasks, model, size, output, stage)
        done = engines.run(job, engine, progress)
        _fill(job, names, done)
    written = [target.place().at(name) for name in names]
    listing.learn(written)
    return Predicted(
        target.path,
        output.format,
        sum(place.size() or 0 for place in written),
        files=tuple(names),
        rows=sum(one.rows for one in done),
        seconds=time.monotonic() - started,
        resumed=sum(one.resumed for one in done),
        failures=tuple(
            Problem(problem, path, record, offset)
            for one in done
            for problem, path, record, offset in one.failures
        ),
        fresh=sum(one.rows for one in done if not one.resumed),
    )


def _divided(rows: Rows, output: Output, size: int) -> tuple[list[str], list[Split]]:
    """The files, and what each is made of.

    Raises:
        UnsupportedError: The inputs cannot be divided into as many parts as shards are asked for.
    """
    path = output.target.path
    wanted = output.shards
    if wanted is None and is_set(path) and "@*" not in path:
        wanted = len(shard_names(path))
    if wanted is None:
        splits = splits_of(rows, size)
        if len(splits) == 1 and not is_set(path):
            return [path], splits
        return shard_names(path, len(splits)), splits
    splits = splits_of(rows, sys.maxsize, least=wanted)
    if len(splits) != wanted:
        raise UnsupportedError(
            f"the inputs can be divided into {len(splits)} parts, expected {wanted} for the shards",
            path=path,
            hint=f"leave shards= out, or ask for {len(splits)}",
        )
    return shard_names(path, wanted), splits


def _fill(job: SaveJob, names: Sequence[str], done: Sequence[Done]) -> None:
    """Writes the tables that have no rows, with the columns of one that has.

    Raises:
        UnsupportedError: None has rows.
    """
    if table.facts_of(job.output.format).records or all(one.rows for one in done):
        return
    filled = next((name for name, one in zip(names, done, strict=True) if one.rows), None)
    if filled is None:
        raise UnsupportedError("there are no rows, and so no columns for a table")
    with open_file(job.stage.path(filled), storage_options=job.stage.options) as rows:
        assert isinstance(rows, Rows)
        schema = rows.arrow_schema
    for name, one in zip(names, done, strict=True):
        if not one.rows:
            with job.writer(name) as out:
                out.write_batch(schema.empty_table())
