"""The compact verb: one task builds and uploads one output block; a merge that fails leaves the others alone.

Source: the design, "Compaction: executing".
"""

from __future__ import annotations

from collections.abc import Mapping

from drystone.block import keys
from drystone.block.marks import NO_COMPACT_MARK, NoCompactMark
from drystone.engine import merging
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.engine.plans import batch_of, read_plan
from drystone.engine.recipe import Recipe, recipe_for
from drystone.errors import ObjectExistsError
from drystone.jobs import CompactRequest
from drystone.plan.model import Merge
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import resolve


def run(job: Job, request: CompactRequest) -> Outcome:
    """Execute one batch of a plan, from what is in the bucket now: what is done or overtaken is passed over."""
    plan = read_plan(job.bucket, request.plan_key)
    plan.check(job.clock())
    merges = [action for action in batch_of(plan, request.batch) if isinstance(action, Merge)]
    snapshot = job.tracker.observe(job.clock())
    timeline = resolve(snapshot, job.times)
    found = {merge.key: recipe_for(merge, snapshot, timeline) for merge in merges}
    recipes = {key: recipe for key, recipe in found.items() if isinstance(recipe, Recipe)}
    skipped = [f"* passed over {m.label}: {found[m.key]}" for m in merges if m.key not in recipes]
    if job.dry_run:
        return Outcome(summary={"merges": len(recipes)}, report=[*skipped, f"Would do {len(recipes)} merges."])
    job.coordination.begin(job.run)
    merged = merging.execute(job, recipes)
    job.coordination.commit(merged.blocks)
    report = [*merging.lines(recipes, merged), *skipped]
    report += _give_up(job, snapshot, {merge.key: merge for merge in merges}, merged.failures)
    return Outcome(
        summary=merging.summarize(recipes, merged),
        blocks=merged.blocks,
        report=report,
        failures=[f"merge {recipes[key].merge.label} failed: {why}" for key, why in merged.failures.items()],
        retryable=merged.transient,
    )


def _give_up(job: Job, snapshot: Snapshot, merges: Mapping[str, Merge], failed: Mapping[str, str]) -> list[str]:
    """Mark no-compact what failed `max_attempts` times, so that the rest of the stream goes on without it."""
    lines: list[str] = []
    for key, why in failed.items():
        before = sum(key in attempt.failed for attempt in snapshot.journal)
        if before + 1 < job.config.compaction.max_attempts:
            continue
        for ulid in merges[key].blocks:
            mark = NoCompactMark(id=ulid, no_compact_time=job.clock() // 1000, reason="manual", details=why)
            try:
                job.bucket.create(keys.block(job.stream, ulid, NO_COMPACT_MARK), mark.to_json())
            except ObjectExistsError:
                continue
        lines.append(f"* merge {merges[key].label} failed {before + 1} times: its blocks are marked no-compact")
    return lines
