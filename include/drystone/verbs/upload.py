"""The upload verb, less the reading of files: plan them, leave out what was done before, build, say what is done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from drystone.block.folder import Folder
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.ingest import files as ingest
from drystone.ingest.blocks import BuiltSource
from drystone.ingest.files import FileDone, PlannedFile

Build = Callable[[Sequence[PlannedFile], Collection[Folder]], list[BuiltSource]]
"""Uploads a block for each source of these files that none of the stream's folders has whole, and returns all."""


def run(job: Job, found: Sequence[Path], base: Path, build: Build) -> Outcome:
    """Plan, upload and commit these files, named by their paths below `base`; what was done before is left as it is."""
    planned = [_plan(job, path, base) for path in found]
    todo = [file for file in planned if not ingest.is_done(job.bucket, file)]
    summary: dict[str, int | str] = {"files": len(found), "files_done_before": len(found) - len(todo)}
    if not todo:
        return Outcome(summary=summary | {"rows": 0, "blocks": 0}, report=[f"{len(found)} files, all done before."])
    job.coordination.begin(job.run)
    folders = job.tracker.observe(job.clock()).folders.values()
    built = build(todo, folders)
    ulids = [each.ulid for each in built if each.ulid]
    job.coordination.commit(ulids)
    job.audit("upload", {ulid: f"source {source}" for ulid, source in _whole(built, folders)})
    _commit(job, todo, built)
    rows = sum(each.rows for each in built)
    summary |= {"rows": rows, "blocks": len(ulids), "bytes": sum(each.bytes for each in built)}
    skipped = len(built) - len(ulids)
    summary |= {"blocks_skipped": skipped}
    report = [f"{len(ulids)} blocks of {rows:,} rows from {len(todo)} files; {skipped} were there before."]
    return Outcome(summary=summary, blocks=ulids, report=report)


def _whole(built: Sequence[BuiltSource], folders: Collection[Folder]) -> Iterator[tuple[str, str]]:
    """Yield each block that is whole now, with its source: also one of a run that was killed before it logged it."""
    alone = {
        next(iter(folder.sources)): folder.ulid for folder in folders if folder.loadable and len(folder.sources) == 1
    }
    for each in built:
        ulid = each.ulid or alone.get(each.source, "")
        if ulid:
            yield ulid, each.source


def _plan(job: Job, path: Path, base: Path) -> PlannedFile:
    return ingest.plan_file(job.bucket, job.stream, job.config.generation, path, base, job.clock())


def _commit(job: Job, todo: Sequence[PlannedFile], built: Sequence[BuiltSource]) -> None:
    for file in todo:
        mine = [each for each in built if each.path == file.plan.path]
        done = FileDone(run=job.run, time=job.clock(), rows=sum(each.rows for each in mine), sources=len(mine))
        ingest.commit(job.bucket, file, done)
