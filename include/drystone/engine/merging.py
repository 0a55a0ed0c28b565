"""Executing merges on workers: one task per output block; a merge that fails leaves the others alone.

Source: the design, "Compaction: executing".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drystone import ulids
from drystone.block import keys
from drystone.block.journal import Attempt
from drystone.engine.compact import Output, OutputTask, Preparation, build_output, check_whole
from drystone.engine.job import Job
from drystone.engine.recipe import Recipe
from drystone.errors import DrystoneError


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of some merges: the blocks that were uploaded and stay, and why which merges failed, by key.

    `transient`: another attempt may help one of those.
    """

    outputs: tuple[Output, ...] = ()
    failed: Mapping[str, str] | None = None
    transient: bool = False

    @property
    def failures(self) -> Mapping[str, str]:
        """Why which merges failed, by key."""
        return self.failed or {}

    @property
    def blocks(self) -> list[str]:
        """The ULIDs of the new blocks."""
        return [output.ulid for output in self.outputs]


def execute(job: Job, recipes: Mapping[str, Recipe]) -> Merged:
    """Build all outputs of all merges, log the new blocks, and note in the journal what was tried."""
    merged = _build(job, recipes)
    job.audit("upload", {output.ulid: f"merge {output.key}" for output in merged.outputs})
    if recipes:
        now = job.clock()
        done = {key: recipe.merge.groups for key, recipe in recipes.items() if key not in merged.failures}
        attempt = Attempt(run=job.run, time=now, done=done, failed=dict(merged.failures))
        job.bucket.create(f"{keys.journal(job.stream)}{ulids.new(now)}.json", attempt.to_json())
    return merged


def summarize(recipes: Mapping[str, Recipe], merged: Merged) -> dict[str, int | str]:
    """Return the numbers of a job's summary."""
    outputs = merged.outputs
    return {
        "merges": len(recipes) - len(merged.failures),
        "merges_failed": len(merged.failures),
        "blocks_in": sum(len(recipe.inputs) for key, recipe in recipes.items() if key not in merged.failures),
        "blocks_out": len(outputs),
        "rows_in": sum(output.rows_in for output in outputs),
        "rows": sum(output.rows for output in outputs),
        "rows_erased": sum(output.rows_erased for output in outputs),
        "rows_retired": sum(output.rows_retired for output in outputs),
        "rows_deduplicated": sum(output.rows_deduplicated for output in outputs),
        "bytes": sum(output.bytes for output in outputs),
    }


def lines(recipes: Mapping[str, Recipe], merged: Merged) -> list[str]:
    """Return what was done, for a person."""
    rows = sum(output.rows for output in merged.outputs)
    found = [
        f"{len(recipes) - len(merged.failures)} merges done, {len(merged.outputs)} blocks of {rows:,} rows uploaded."
    ]
    dropped = sum(output.rows_in - output.rows for output in merged.outputs)
    if dropped:
        found.append(f"{dropped:,} rows were left out: erased, retired or held twice.")
    return found


def _build(job: Job, recipes: Mapping[str, Recipe]) -> Merged:
    tasks: list[OutputTask] = []
    failed: dict[str, str] = {}
    transient = False
    preparation = Preparation(job.bucket, job.stream, job.config, job.run, job.coordination.stamp(), job.workers.clock)
    for key, recipe in recipes.items():
        try:
            tasks += preparation.tasks(recipe, ulids.new(job.clock()))
        except DrystoneError as error:
            failed[key] = str(error)
            transient |= error.retryable
    if not tasks:
        return Merged((), failed, transient)
    tasks.sort(key=lambda task: -task.bytes)
    job.workers.expect(len(tasks), sum(task.bytes for task in tasks))
    results = job.workers.map(build_output, tasks)
    failed |= {result.key: result.error for result in results if result.error}
    transient |= any(result.retryable for result in results if result.error)
    outputs = [result for result in results if not result.error]
    for key, recipe in recipes.items():
        mine = [output for output in outputs if output.key == key]
        if key not in failed and (why := check_whole(recipe, mine)):
            failed[key] = why
            take_back(job, [output.ulid for output in mine])
            outputs = [output for output in outputs if output.key != key]
    return Merged(tuple(outputs), failed, transient)


def take_back(job: Job, blocks: Sequence[str]) -> None:
    """Remove blocks that this run uploaded and that no reader has seen: their rows do not add up."""
    for ulid in blocks:
        prefix = keys.block(job.stream, ulid)
        names = [item.key for item in job.bucket.list(prefix)]
        job.bucket.delete(sorted(names, key=lambda name: not name.endswith("/meta.json")))
