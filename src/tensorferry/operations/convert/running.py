"""Conversions that an engine runs: shards, each written by one task, and all else as one task.

The rows of the source are counted, in parts, and every shard gets as many; a task reads the parts
of files that its rows lie in. Shards are gathered beside the target and appear together
(`tensorferry.storage.staging`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from tensorferry import engines
from tensorferry.classes import dataclass
from tensorferry.engines import Engine, Job
from tensorferry.errors import UnsupportedError
from tensorferry.files.splitting import refuse_stream, splits_of
from tensorferry.operations.convert.transfer import Plan, Result, Transfer
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

    def convert(self, transfer: Transfer) -> Result:
        """Does what `Transfer.run` does."""
        plan = transfer.plan
        if plan.path == STANDARD_STREAM:
            raise UnsupportedError(
                "a worker has no part in this program's standard output",
                hint="name a file, or leave engine= out",
            )
        opened = transfer.subject.opened
        if isinstance(opened, Rows):
            refuse_stream(opened)
            if len(plan.files) > 1:
                return self._into_shards(transfer, opened), None
        return engines.run(WholeJob(self.opening, plan), self.engine, transfer.progress)

    def _into_shards(self, transfer: Transfer, rows: Rows) -> int:
        plan = transfer.plan
        records = records_in(rows)
        if records is not None and plan.target.records and not plan.changes:
            rows = records.as_bytes()
        splits = splits_of(rows, self.engine.task_size, least=len(plan.files))
        parts = [part for split in splits for part in split.parts]
        counts: list[int] = engines.run(CountJob(rows, tuple(splits)), self.engine)
        shares = portions(parts, counts, len(plan.files))
        with staged(
            plan.path,
            plan.files,
            plan=_identity(plan, rows, shares),
            options=plan.how.storage_options,
            durable=plan.how.durable,
        ) as stage:
            template = dataclasses.replace(splits[0], parts=())
            if plan.in_arrow:  # which also carries columns that cannot be tensors
                columns = self.opening.options.get("columns")
                template = dataclasses.replace(
                    template, how=dataclasses.replace(template.how, columns=columns)
                )
            tasks = tuple(zip(plan.files, shares, strict=True))
            job = ShardsJob(tasks, template, self.opening.found.name, plan, stage)
            return engines.run(job, self.engine, transfer.progress)


def _identity(plan: Plan, rows: Rows, shares: Sequence[Portion]) -> dict[str, Any]:
    """What makes a difference to the bytes; the options of stores may be secret."""
    how = dataclasses.replace(plan.how, storage_options=None)
    return {
        "files": list(plan.files),
        "format": plan.target.name,
        "names": dict(plan.names),
        "changes": repr(plan.changes),
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
        whole: The plan of all shards together.
        stage: Where files are gathered.
    """

    on_driver = ("shares",)
    shares: tuple[tuple[str, Portion], ...]
    split: Split
    source: str
    whole: Plan
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
            plan = dataclasses.replace(self.whole, path=path, files=(path,))
            count, _ = Transfer(subject, plan).run()
        assert count is not None
        self.stage.finish(name, {"rows": count})
        return count

    def merge(self, partials: Iterable[int]) -> int:
        """The number of all rows."""
        return sum(partials)


@dataclass(frozen=True)
class WholeJob(Job[None, Result, Result]):
    """Writes the target in one task; a target that is there is replaced.

    Attributes:
        opening: How the source is opened.
        whole: What is written.
    """

    opening: Opening
    whole: Plan

    def plan(self, size: int) -> list[None]:
        """The one task."""
        return [None]

    def run(self, task: None, held: Any) -> Result:
        """Does all of it."""
        with self.opening.again() as subject:
            return Transfer(subject, self.whole).run()

    def merge(self, partials: Iterable[Result]) -> Result:
        """The result of the one task."""
        return next(iter(partials))
