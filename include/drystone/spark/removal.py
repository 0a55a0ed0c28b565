"""The mark and sweep jobs: the remover's two turns. Each plans, then acts with a second look, under the lease."""

from __future__ import annotations

from collections.abc import Sequence

from drystone import clock, ulids
from drystone.engine.housekeeping import tidy
from drystone.engine.lease import remover_lease
from drystone.engine.remover import Remover, spare_once_whole
from drystone.engine.report import plan_lines
from drystone.jobs import MarkRequest, SweepRequest
from drystone.plan.model import Delete, Mark, Plan, Unmark
from drystone.plan.removal import plan_marks, plan_sweep
from drystone.reader.stats import count
from drystone.reader.view import View
from drystone.spark.context import JobContext
from drystone.spark.outcome import Outcome
from drystone.timeline.timeline import resolve


def run_mark(job: JobContext, _request: MarkRequest) -> Outcome:
    """Unmark what nothing supersedes, mark what is superseded or gone."""
    plan, summary = _plan(job, "mark")
    if job.dry_run:
        return Outcome(summary=summary, report=plan_lines(plan))
    unmarked, left_marked = _act(job, plan, plan.unmarks)
    marked, left = _act(job, plan, plan.marks)
    job.audit("unmark", {each.ulid: each.reason for each in plan.unmarks if each.ulid in unmarked})
    job.audit("mark", {each.ulid: each.reason for each in plan.marks if each.ulid in marked})
    summary |= {"marked": len(marked), "unmarked": len(unmarked)}
    return Outcome(summary=summary, blocks=marked, report=[*plan_lines(plan), *_left(left_marked | left)])


def run_sweep(job: JobContext, _request: SweepRequest) -> Outcome:
    """Delete what has been marked for deleteDelay and is still superseded or gone, and old partial uploads."""
    plan, summary = _plan(job, "sweep")
    plan = spare_once_whole(job.bucket, plan)
    if job.dry_run:
        return Outcome(summary=summary, report=plan_lines(plan))
    deleted, left = _act(job, plan, plan.deletes)
    job.audit("delete", {each.ulid: each.reason for each in plan.deletes if each.ulid in deleted})
    tidy(job.bucket, job.stream, job.clock())
    gone = set(deleted)
    summary |= {"deleted": len(deleted), "bytes": sum(each.bytes for each in plan.deletes if each.ulid in gone)}
    return Outcome(summary=summary, blocks=deleted, report=[*plan_lines(plan), *_left(left)])


def _plan(job: JobContext, kind: str) -> tuple[Plan, dict[str, int | str]]:
    snapshot = job.tracker.observe(job.clock())
    timeline = resolve(snapshot, job.times)
    planner = plan_marks if kind == "mark" else plan_sweep
    plan = planner(snapshot, timeline, job.times, ulids.new(snapshot.taken_at))
    stats = count(View(job.bucket, job.record, snapshot, timeline))
    return plan, {
        "actions": len(plan.actions),
        "blocks_visible": stats.blocks_visible,
        "blocks_total": stats.blocks_total,
        "blocks_marked": stats.blocks_marked,
    }


def _act(job: JobContext, plan: Plan, actions: Sequence[Mark | Unmark | Delete]) -> tuple[list[str], dict[str, str]]:
    """Do the actions on Spark's workers; return what was done, and what was left alone and why."""
    if not actions:
        return [], {}
    context = job.spark.sparkContext
    with remover_lease(job.bucket, job.stream, job.run, job.times.plan_ttl, job.clock) as lease:
        remover = Remover(job.bucket, job.stream, lease, plan, job.times.delete_delay, clock.system)
        shares = min(len(actions), 4 * context.defaultParallelism)
        results = context.parallelize(actions, shares).map(remover.act).collect()
    done = [ulid for ulid, refusal in results if not refusal]
    return done, {ulid: refusal for ulid, refusal in results if refusal}


def _left(left: dict[str, str]) -> list[str]:
    return [f"* left alone after the second look: {ulid}: {refusal}" for ulid, refusal in left.items()]
