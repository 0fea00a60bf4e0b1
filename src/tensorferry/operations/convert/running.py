"""Conversions that an engine runs: shards, each written by one task, and all else as one task.

The rows of the source are counted, in parts, and every shard gets as many; a task reads the parts
of files that its rows lie in. Shards are gathered beside the target and appear together
(`tensorferry.storage.staging`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorferry import engines
from tensorferry.engines import Engine, Job
from tensorferry.errors import UnsupportedError
from tensorferry.files.save import Saved
from tensorferry.files.splitting import refuse_stream, splits_of
from tensorferry.formats.contract import Facts
from tensorferry.operations.convert.transfer import Changes, Transfer, Writing
from tensorferry.operations.count import CountJob
from tensorferry.operations.shares import Opening, records_in
from tensorferry.operations.subject import Subject
from tensorferry.rows.rows import Rows
from tensorferry.rows.splits import Portion, Split, portions
from tensorferry.storage import STANDARD_STREAM
from tensorferry.storage.staging import Stage, staged


@dataclass(frozen=True)
class Running:
    """Runs conversions.

    Attributes:
        opening: How the source is opened.
        engine: What runs the tasks.
    """

    opening: Opening
    engine: Engine

    def convert(self, transfer: Transfer) -> tuple[int | None, Saved | None]:
        """Does what `Transfer.run` does."""
        if transfer.path == STANDARD_STREAM:
            raise UnsupportedError(
                "a worker has no part in this program's standard output",
                hint="name a file, or leave engine= out",
            )
        opened = transfer.subject.opened
        if isinstance(opened, Rows):
            refuse_stream(opened)
            if len(transfer.files) > 1:
                return self._into_shards(transfer, opened), None
        job = WholeJob(
            self.opening,
            dict(transfer.names),
            transfer.changes,
            transfer.target,
            transfer.path,
            transfer.files,
            transfer.how,
            transfer.in_arrow,
        )
        return engines.run(job, self.engine, transfer.progress)

    def _into_shards(self, transfer: Transfer, rows: Rows) -> int:
        records = records_in(rows)
        is_copy = records is not None and transfer.target.records and not transfer.changes
        if records is not None and is_copy:
            rows = records.as_bytes()
        splits = splits_of(rows, self.engine.task_size, least=len(transfer.files))
        parts = [part for split in splits for part in split.parts]
        counts: list[int] = engines.run(CountJob(rows, tuple(splits)), self.engine)
        shares = portions(parts, counts, len(transfer.files))
        how = transfer.how
        with staged(
            transfer.path,
            transfer.files,
            plan=_plan(transfer, rows, shares),
            options=how.storage_options,
            durable=how.durable,
        ) as stage:
            template = dataclasses.replace(splits[0], parts=())
            if transfer.in_arrow:  # which also carries columns that cannot be tensors
                columns = self.opening.options.get("columns")
                template = dataclasses.replace(
                    template, how=dataclasses.replace(template.how, columns=columns)
                )
            job = ShardsJob(
                tuple(zip(transfer.files, shares, strict=True)),
                template,
                self.opening.found.name,
                dict(transfer.names),
                transfer.changes,
                transfer.target,
                how,
                transfer.in_arrow,
                stage,
            )
            return engines.run(job, self.engine, transfer.progress)


def _plan(transfer: Transfer, rows: Rows, shares: Sequence[Portion]) -> dict[str, Any]:
    """What makes a difference to the bytes; the options of stores may be secret."""
    how = dataclasses.replace(transfer.how, storage_options=None)
    return {
        "files": list(transfer.files),
        "format": transfer.target.name,
        "names": dict(transfer.names),
        "changes": repr(transfer.changes),
        "how": repr(how),
        "versions": {place.path: place.version() for place in rows.places},
        "shares": [
            [[part.place.path, part.start, part.stop] for part in share.parts]
            + [share.start, share.stop]
            for share in shares
        ],
    }


@dataclass(frozen=True)
class ShardsJob(Job["tuple[str, Portion]", int, int]):
    """Writes rows into shards, one a task.

    Attributes:
        shares: The rows of each file.
        split: How rows are opened.
        source: As the user named it.
        names: New names of the columns, by their old ones.
        changes: What becomes of them on the way.
        target: The format.
        how: How files are written.
        in_arrow: Whether columns go over in Arrow's types.
        stage: Where files are gathered.
    """

    on_driver = ("shares",)
    shares: tuple[tuple[str, Portion], ...]
    split: Split
    source: str
    names: Mapping[str, str]
    changes: Changes
    target: Facts
    how: Writing
    in_arrow: bool
    stage: Stage

    def plan(self, size: int) -> Sequence[tuple[str, Portion]]:
        """One task for each shard."""
        return self.shares

    def run(self, task: tuple[str, Portion], held: Any) -> int:
        """Writes one shard, and gives the number of its rows."""
        name, share = task
        done = self.stage.finished(name)
        if done is not None and type(done.get("rows")) is int:
            return int(done["rows"])
        split = self.split
        with split.kind.of_parts(share.parts, split.how, facts=split.facts) as rows:
            subject = Subject(self.source, rows.portion(share.start, share.stop))
            path = self.stage.path(name)
            transfer = Transfer(
                subject,
                dict(self.names),
                self.changes,
                self.target,
                path,
                (path,),
                self.how,
                self.in_arrow,
                None,
            )
            count, _ = transfer.run()
        assert count is not None
        self.stage.finish(name, {"rows": count})
        return count

    def merge(self, partials: Iterable[int]) -> int:
        """The number of all rows."""
        return sum(partials)


@dataclass(frozen=True)
class WholeJob(Job[None, "tuple[int | None, Saved | None]", "tuple[int | None, Saved | None]"]):
    """Writes the target in one task; a target that is there is replaced.

    Attributes:
        opening: How the source is opened.
        names: See `Transfer`.
        changes: See `Transfer`.
        target: See `Transfer`.
        path: See `Transfer`.
        files: See `Transfer`.
        how: See `Transfer`.
        in_arrow: See `Transfer`.
    """

    opening: Opening
    names: Mapping[str, str]
    changes: Changes
    target: Facts
    path: str
    files: tuple[str, ...]
    how: Writing
    in_arrow: bool

    def plan(self, size: int) -> list[None]:
        """The one task."""
        return [None]

    def run(self, task: None, held: Any) -> tuple[int | None, Saved | None]:
        """Does all of it."""
        with self.opening.again() as subject:
            return Transfer(
                subject,
                dict(self.names),
                self.changes,
                self.target,
                self.path,
                self.files,
                self.how,
                self.in_arrow,
                None,
            ).run()

    def merge(
        self, partials: Iterable[tuple[int | None, Saved | None]]
    ) -> tuple[int | None, Saved | None]:
        """What was done."""
        return next(iter(partials))
