"""The upload verb, less the reading of files: plan them, leave out what was done before, build, say what is done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from pathlib import Path

from drystone.block.folder import Folder
from drystone.block.schema import Schema
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.engine.record import keep_schema
from drystone.errors import InputError
from drystone.ingest import files as ingest
from drystone.ingest.blocks import BlockBuilder, BuiltSource, sources_of
from drystone.ingest.files import FileDone, PlannedFile
from drystone.ingest.planning import FilePlanner
from drystone.timeline.gone import Gone
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import resolve

Build = Callable[[Sequence[PlannedFile], Collection[Folder]], list[BuiltSource]]
"""Uploads a block for each source of these files that none of the stream's folders has whole, and returns all."""


def run(job: Job, found: Sequence[Path], base: Path, build: Build) -> Outcome:
    """Plan, upload and commit these files, named by their paths below `base`; what was done before is left as it is."""
    planner = _planner(job, base)
    planned = [planner.plan(path, job.clock()) for path in found]
    todo = [file for file in planned if not ingest.is_done(job.bucket, file)]
    changed = sum(file.plan.number > 0 for file in todo)
    summary: dict[str, int | str] = {"files": len(found), "files_done_before": len(found) - len(todo)}
    summary["files_changed"] = changed
    if not todo:
        return Outcome(summary=summary | {"rows": 0, "blocks": 0}, report=[f"{len(found)} files, all done before."])
    job.coordination.begin(job.run)
    snapshot = job.tracker.observe(job.clock())
    _check_roots(job, todo, snapshot)
    folders = snapshot.folders.values()
    built = build(todo, folders)
    for file in todo:
        # Also of a file of which no row was read.
        file.stamp.check(file.location)
    ulids = [each.ulid for each in built if each.ulid]
    job.coordination.commit(ulids)
    _log(job, todo, list(_whole(built, folders)))
    _commit(job, todo, built)
    rows = sum(each.rows for each in built)
    summary |= {"rows": rows, "blocks": len(ulids), "bytes": sum(each.bytes for each in built)}
    skipped = len(built) - len(ulids)
    summary |= {"blocks_skipped": skipped}
    report = [f"{len(ulids)} blocks of {rows:,} rows from {len(todo)} files; {skipped} were there before."]
    if changed:
        report.append(f"{changed} of these files had other content before.")
    return Outcome(summary=summary, blocks=ulids, report=report)


def _planner(job: Job, base: Path) -> FilePlanner:
    @cache
    def gone() -> Gone:
        timeline = resolve(job.tracker.observe(job.clock()), job.times)
        # Also what is about to replace something: the newest counts, and this one is to be newer.
        return timeline.gone.also(pair for group in timeline.groups.values() for pair in group.retires)

    rules = job.config.files
    return FilePlanner(job.bucket, job.stream, job.config.generation, base, rules.on_change, gone)


def block_builder(job: Job, schema: Schema, todo: Sequence[PlannedFile], folders: Collection[Folder]) -> BlockBuilder:
    """Return what makes blocks of the rows of these files, but for what these folders hold already.

    Keeps the schema in the bucket: see `keep_schema` for what it raises.
    """
    return BlockBuilder(
        bucket=job.bucket,
        stream=job.stream,
        config=job.config,
        schema=schema,
        fingerprint=keep_schema(job.bucket, job.stream, schema),
        files={str(file.location.resolve()): file for file in todo},
        present=sources_of(folders),
        stamp=dict(job.coordination.stamp()),
        operation=job.run,
        clock=job.workers.clock,
    )


def _check_roots(job: Job, todo: Sequence[PlannedFile], snapshot: Snapshot) -> None:
    """Make sure that nothing which is to be replaced was retired since that was planned: it would go on to be nowhere.

    Raises InputError.
    """
    replacing = [file.plan for file in todo if file.plan.replaces]
    retired = resolve(snapshot, job.times).gone.retired if replacing else frozenset[str]()
    for plan in replacing:
        if lost := sorted(retired.intersection(plan.replaces or ())):
            msg = f"source {lost[0]}, which {plan.path} replaces, was retired since, and with it what replaces it."
            raise InputError(msg, "Give the file a new name.")


def _whole(built: Sequence[BuiltSource], folders: Collection[Folder]) -> Iterator[tuple[str, str]]:
    """Yield each block that is whole now, with its source: also one of a run that was killed before it logged it."""
    alone: dict[str, list[str]] = {}
    for folder in folders:
        if folder.loadable and len(folder.sources) == 1:
            alone.setdefault(next(iter(folder.sources)), []).append(folder.ulid)
    for each in built:
        yield from ((ulid, each.source) for ulid in ([each.ulid] if each.ulid else alone.get(each.source, ())))


def _log(job: Job, todo: Sequence[PlannedFile], whole: Sequence[tuple[str, str]]) -> None:
    replacing = {pair.by: file.plan.path for file in todo for pair in file.plan.retires()}
    # In this order: what the log knows as uploaded, and as no replacement, is of first generation.
    job.audit("replace", {ulid: f"by {replacing[source]}" for ulid, source in whole if source in replacing})
    job.audit("upload", {ulid: f"source {source}" for ulid, source in whole})


def _commit(job: Job, todo: Sequence[PlannedFile], built: Sequence[BuiltSource]) -> None:
    for file in todo:
        mine = [each for each in built if each.path == file.plan.path]
        ids = tuple(sorted({each.source for each in mine}))
        rows = sum(each.rows for each in mine)
        done = FileDone(run=job.run, time=job.clock(), rows=rows, sources=len(ids), ids=ids)
        ingest.commit(job.bucket, file, done)
