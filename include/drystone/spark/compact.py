"""The compact job: one Spark task builds and uploads one output block; a merge that fails leaves the others alone.

Source: the design, "Compaction: executing".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from drystone import ulids
from drystone.block import keys
from drystone.block.journal import Attempt
from drystone.block.marks import NO_COMPACT_MARK, NoCompactMark
from drystone.engine.compact import Output, OutputTask, Preparation, build_output, check_whole
from drystone.engine.recipe import Recipe, recipe_for
from drystone.errors import DrystoneError, InputError, ObjectExistsError, ObjectMissingError, UsageError
from drystone.jobs import CompactRequest
from drystone.plan.model import Merge, Plan
from drystone.spark.context import JobContext
from drystone.spark.outcome import Outcome
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import resolve


def run(job: JobContext, request: CompactRequest) -> Outcome:
    """Execute one batch of a plan, from what is in the bucket now: what is done or overtaken is passed over."""
    plan = _read_plan(job, request.plan_key)
    plan.check(job.clock())
    if not 0 <= request.batch < len(plan.batches):
        raise UsageError(f"plan {plan.id} has {len(plan.batches)} batches, and no number {request.batch}.")
    merges = [plan.merges[position] for position in plan.batches[request.batch]]
    snapshot = job.tracker.observe(job.clock())
    timeline = resolve(snapshot, job.times)
    found = {merge.key: recipe_for(merge, snapshot, timeline) for merge in merges}
    recipes = {key: recipe for key, recipe in found.items() if isinstance(recipe, Recipe)}
    skipped = [f"* passed over {m.label}: {found[m.key]}" for m in merges if m.key not in recipes]
    if job.dry_run:
        return Outcome(summary={"merges": len(recipes)}, report=[*skipped, f"Would do {len(recipes)} merges."])
    job.coordination.begin(job.run)
    outputs, failed, transient = _execute(job, recipes)
    ulids_done = [output.ulid for output in outputs]
    job.coordination.commit(ulids_done)
    job.audit("upload", {output.ulid: f"merge {output.key}" for output in outputs})
    _keep_journal(job, recipes, failed)
    report = [*_report(recipes, outputs, failed), *skipped]
    report += _give_up(job, snapshot, {merge.key: merge for merge in merges}, failed)
    return Outcome(
        summary=_summary(recipes, outputs, failed),
        blocks=ulids_done,
        report=report,
        failures=[f"merge {recipes[key].merge.label} failed: {why}" for key, why in failed.items()],
        retryable=transient,
    )


def _read_plan(job: JobContext, key: str) -> Plan:
    try:
        return Plan.model_validate_json(job.bucket.get(key))
    except ObjectMissingError:
        raise UsageError(f"there is no plan {key}.", "Plan again with detect.") from None
    except ValidationError as error:
        raise InputError(f"plan {key} cannot be read: {error.errors()[0]['msg']}.", "Plan again with detect.") from None


def _execute(job: JobContext, recipes: Mapping[str, Recipe]) -> tuple[list[Output], dict[str, str], bool]:
    """Build all outputs of all merges on Spark's workers.

    Returns what was uploaded and stays, why which merges failed, and whether another attempt may help any of those.
    """
    tasks: list[OutputTask] = []
    failed: dict[str, str] = {}
    transient = False
    preparation = Preparation(job.bucket, job.stream, job.config, job.run, job.coordination.stamp())
    for key, recipe in recipes.items():
        try:
            tasks += preparation.tasks(recipe, ulids.new(job.clock()))
        except DrystoneError as error:
            failed[key] = str(error)
            transient |= error.retryable
    if not tasks:
        return [], failed, transient
    tasks.sort(key=lambda task: -task.bytes)
    results = job.spark.sparkContext.parallelize(tasks, len(tasks)).map(build_output).collect()
    failed |= {result.key: result.error for result in results if result.error}
    transient |= any(result.retryable for result in results if result.error)
    outputs = [result for result in results if not result.error]
    for key, recipe in recipes.items():
        mine = [output for output in outputs if output.key == key]
        if key not in failed and (why := check_whole(recipe, mine)):
            failed[key] = why
            _take_back(job, mine)
            outputs = [output for output in outputs if output.key != key]
    return outputs, failed, transient


def _take_back(job: JobContext, outputs: Sequence[Output]) -> None:
    """Remove outputs that this run uploaded and that no reader has seen: their rows do not add up."""
    for output in outputs:
        prefix = keys.block(job.stream, output.ulid)
        names = [item.key for item in job.bucket.list(prefix)]
        job.bucket.delete(sorted(names, key=lambda name: not name.endswith("/meta.json")))


def _keep_journal(job: JobContext, recipes: Mapping[str, Recipe], failed: Mapping[str, str]) -> None:
    if not recipes:
        return
    now = job.clock()
    done = {key: recipe.merge.groups for key, recipe in recipes.items() if key not in failed}
    attempt = Attempt(run=job.run, time=now, done=done, failed=dict(failed))
    job.bucket.create(f"{keys.journal(job.stream)}{ulids.new(now)}.json", attempt.to_json())


def _give_up(job: JobContext, snapshot: Snapshot, merges: Mapping[str, Merge], failed: Mapping[str, str]) -> list[str]:
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


def _summary(
    recipes: Mapping[str, Recipe], outputs: Sequence[Output], failed: Mapping[str, str]
) -> dict[str, int | str]:
    return {
        "merges": len(recipes) - len(failed),
        "merges_failed": len(failed),
        "blocks_in": sum(len(recipe.inputs) for key, recipe in recipes.items() if key not in failed),
        "blocks_out": len(outputs),
        "rows_in": sum(output.rows_in for output in outputs),
        "rows": sum(output.rows for output in outputs),
        "rows_erased": sum(output.rows_erased for output in outputs),
        "rows_retired": sum(output.rows_retired for output in outputs),
        "rows_deduplicated": sum(output.rows_deduplicated for output in outputs),
        "bytes": sum(output.bytes for output in outputs),
    }


def _report(recipes: Mapping[str, Recipe], outputs: Sequence[Output], failed: Mapping[str, str]) -> list[str]:
    rows = sum(output.rows for output in outputs)
    lines = [f"{len(recipes) - len(failed)} merges done, {len(outputs)} blocks of {rows:,} rows uploaded."]
    dropped = sum(output.rows_in - output.rows for output in outputs)
    if dropped:
        lines.append(f"{dropped:,} rows were left out: erased, retired or held twice.")
    return lines
