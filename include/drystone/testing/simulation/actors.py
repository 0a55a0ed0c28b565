"""The actors of a simulated life: each runs the jobs that Airflow would start, on the real code, and tries again."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from drystone import ulids
from drystone.block import keys
from drystone.block.chunks import chunk_at
from drystone.block.edits import Edit, Erase, Expire
from drystone.block.folder import Folder
from drystone.block.marks import DELETION_MARK, DeletionMark
from drystone.block.predicates import Comparison
from drystone.block.schema import Column, Schema
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.errors import DrystoneError, HeldError, ObjectExistsError, UploadTimeoutError, UsageError
from drystone.ingest.blocks import BuiltSource
from drystone.ingest.files import PlannedFile
from drystone.jobs import CompactRequest, DetectRequest, MarkRequest, RetireRequest, SweepRequest
from drystone.testing.simulation.facts import Row
from drystone.testing.simulation.scheduler import DeadProcessError, Life, SimulatedPacer
from drystone.testing.simulation.world import BEGIN, MINUTE, STREAM, World
from drystone.verbs import compact, detect, removal, upload
from drystone.verbs.requests import Desk

T = TypeVar("T")
HOUR = 60 * MINUTE
KINDS = ("x", "y")
EDITS = ("erase", "retire", "expire")
RESTS = (HOUR, 2 * HOUR, 5 * HOUR)
"""How long an operator rests between two edits, ms."""
MARKINGS = (10 * MINUTE, HOUR, 2 * HOUR)
"""How long another tool rests between two marks, ms."""
_SCHEMA = Schema(
    columns=(
        Column(name="time", type="timestamp"),
        Column(name="kind", type="string"),
        Column(name="number", type="int64"),
    )
)


@dataclass
class Actor:
    """Somebody who starts jobs. `offset`: by how many ms its machine's clock is wrong."""

    world: World
    name: str
    offset: int = 0
    runs: int = 0
    errors: list[str] = field(default_factory=list)

    def goes_on(self) -> bool:
        """Tell whether it is still time to begin something."""
        return self.world.scheduler.now < self.world.until

    def wait(self, *options: int) -> None:
        """Let one of these times pass (ms)."""
        self.world.scheduler.pause(self.world.choices.pick(options))

    def run(self, what: str, body: Callable[[Job], Outcome], run: str = "") -> Outcome | None:
        """Start a job once; None if it failed or died, and then whoever started it lives on."""
        world = self.world
        strand = world.scheduler.current
        self.runs += 1
        client = world.client(self.name, self.offset)
        try:
            outcome = body(world.job(client, run or f"{self.name} {what} {self.runs}"))
        except DeadProcessError:
            if world.scheduler.closing:
                raise
            strand.life = Life()
            return None
        except DrystoneError as error:
            self._count(error)
            return None
        self._count_failures(outcome)
        world.around.tally[what] += 1
        return outcome

    def _count(self, error: DrystoneError) -> None:
        tally = self.world.around.tally
        tally["failed jobs"] += 1
        tally["lease conflicts"] += isinstance(error, HeldError)
        tally["uploads out of time"] += isinstance(error, UploadTimeoutError)

    def _count_failures(self, outcome: Outcome) -> None:
        tally = self.world.around.tally
        tally["lease conflicts"] += any("holds the remover's lease" in line for line in outcome.failures)
        tally["failed actions"] += len(outcome.failures)


def new_file(world: World, number: int) -> Path:
    """Make a file of some rows, in one or two hours of a few, for an appender to find."""
    choices = world.choices
    hours = [BEGIN // HOUR + choices.pick((0, 0, 0, 1)) for _ in range(choices.pick((1, 1, 2)))]
    rows = tuple(
        Row(number * 100 + index, (hours[index % len(hours)] - 48) * HOUR + index * MINUTE, KINDS[index % 2])
        for index in range(choices.pick((2, 3, 6)))
    )
    path = world.folder / f"{number}.json"
    path.write_text(json.dumps([row.number for row in rows]))
    world.truth.files[path.name] = rows
    return path


def upload_file(job: Job, world: World, path: Path) -> Outcome:
    """Do what the upload job does, with rows that are made where Spark would read them."""

    def build(todo: Sequence[PlannedFile], folders: Collection[Folder]) -> list[BuiltSource]:
        builder = upload.block_builder(job, _SCHEMA, todo, folders)
        batches = [_batch(file, world.truth.files[file.plan.path]) for file in todo]
        lines = job.workers.map(lambda batch: [b.column(0).to_pylist() for b in builder(iter([batch]))], batches)
        return [BuiltSource.model_validate_json(line) for some in lines for part in some for line in part]

    return upload.run(job, [path], world.folder, build)


def _batch(file: PlannedFile, rows: Sequence[Row]) -> pa.RecordBatch:
    ordered = sorted(rows, key=lambda row: (chunk_at(row.time, "hour").start, row.time, row.number))
    times = [datetime.fromtimestamp(row.time / 1000, UTC) for row in ordered]
    return pa.RecordBatch.from_pydict(
        {
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "kind": pa.array([row.kind for row in ordered]),
            "number": pa.array([row.number for row in ordered], pa.int64()),
            "__path": pa.array([f"file://{file.location.resolve()}"] * len(ordered)),
            "__chunk": pa.array([chunk_at(row.time, "hour").start for row in ordered], pa.int64()),
        }
    )


def append(actor: Actor, files: Sequence[Path]) -> None:
    """Upload each file, and try again if that fails, as Airflow does."""
    for path in files:
        run = f"{actor.name} {path.name}"
        for _ in range(4):
            if actor.run("uploads", lambda job, path=path: upload_file(job, actor.world, path), run) is not None:  # type: ignore[misc]
                break
            actor.wait(MINUTE, 5 * MINUTE, 30 * MINUTE)
        actor.wait(MINUTE, 10 * MINUTE, 30 * MINUTE)


def compact_now(actor: Actor, kind: str) -> bool:
    """Plan a compaction, perhaps wait, and execute the plan; tell whether there was anything to do, or it failed."""
    request = DetectRequest.model_validate({"kind": kind, "batches": 2})
    planned = actor.run("plans", lambda job: detect.run(job, request))
    if planned is None or planned.plan_key is None:
        return planned is None
    key = planned.plan_key
    for batch in planned.batches:
        actor.wait(0, MINUTE, 20 * MINUTE)
        todo = CompactRequest(plan_key=key, batch=batch.number)
        actor.run("compactions", lambda job, todo=todo: compact.run(job, todo))  # type: ignore[misc]
    return bool(planned.batches)


def remove_now(actor: Actor, verb: str) -> bool:
    """Mark, or sweep; tell whether there was anything to do, or it failed."""
    act: Callable[[Job], Outcome]
    if verb == "mark":
        act = lambda job: removal.run_mark(job, MarkRequest())  # noqa: E731
    else:
        act = lambda job: removal.run_sweep(job, SweepRequest())  # noqa: E731
    outcome = actor.run(f"{verb}s", act)
    return outcome is None or bool(outcome.summary["actions"])


def edit(actor: Actor, make: Callable[[str, int], Edit]) -> None:
    """Write an edit, and be sure that it is written."""
    client = actor.world.client(actor.name, actor.offset, sleeps=False)
    now = client.clock()
    made = make(ulids.new(now), now)
    strand = actor.world.scheduler.current
    for _ in range(20):
        try:
            client.bucket.create(keys.edit(STREAM, made.id), made.to_json())
        except ObjectExistsError:
            break
        except DeadProcessError:
            if actor.world.scheduler.closing:
                raise
            strand.life = Life()
        except DrystoneError:
            continue
        else:
            break
    actor.world.around.tally[f"{made.kind} edits"] += 1


def retire(actor: Actor, source: str) -> None:
    """Ask for the retirement of a source, until it is written, or the stream has no such source any more."""
    world = actor.world
    strand = world.scheduler.current
    request = RetireRequest(sources=(source,), reason="wrong", author="somebody")
    for _ in range(20):
        client = world.client(actor.name, actor.offset, sleeps=False)
        desk = Desk(client.bucket, STREAM, world.config, client.clock, SimulatedPacer(world.scheduler))
        try:
            desk.carry_out(desk.plan(request, desk.look()), client.name, request.author)
        except DeadProcessError:
            if world.scheduler.closing:
                raise
            strand.life = Life()
        except UsageError:
            return
        except DrystoneError:
            continue
        else:
            break
    world.around.tally["retire edits"] += 1


def operate(actor: Actor) -> None:
    """Take rows away, now and then: by an erase, a retire or an expire edit."""
    world = actor.world
    while actor.goes_on():
        actor.wait(*RESTS)
        kind = world.choices.pick(EDITS)
        known = sorted(world.truth.settled)
        if kind == "erase":
            value = world.choices.pick(KINDS)
            predicate = Comparison(column="kind", op="=", value=value)
            edit(actor, lambda i, t, p=predicate: Erase(id=i, reason="", author="", time=t, predicate=p))  # type: ignore[misc]
        elif kind == "retire" and known:
            retire(actor, world.choices.pick(known))
        elif kind == "expire":
            before = (BEGIN // HOUR - 48 + world.choices.pick((0, 1))) * HOUR + 30 * MINUTE
            edit(actor, lambda i, t, b=before: Expire(id=i, reason="", author="", time=t, before=b))  # type: ignore[misc]


def mark_wrongly(actor: Actor) -> None:
    """Be another tool, which marks a block for reasons of its own."""
    world = actor.world
    while actor.goes_on():
        actor.wait(*MARKINGS)
        found = sorted(block.ulid for block in world.truth.blocks.values() if block.whole)
        if found:
            ulid = world.choices.pick(found)
            mark = DeletionMark(id=ulid, details="by another tool", deletion_time=-(-world.scheduler.now // 1000))
            try:
                world.client(actor.name).bucket.create(keys.block(STREAM, ulid, DELETION_MARK), mark.to_json())
            except DrystoneError:
                continue
            world.around.tally["wrong marks"] += 1
