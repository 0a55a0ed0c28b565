"""The mark and sweep jobs: the remover's two turns. Each plans, then acts with a second look, under the lease."""

from __future__ import annotations

from collections.abc import Sequence

from drystone import clock, ulids
from drystone.engine.housekeeping import tidy
from drystone.engine.lease import kept_lease
from drystone.engine.remover import Acted, Remover, spare_once_whole
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
    unmarks = _act(job, plan, plan.unmarks, "unmark")
    marks = _act(job, plan, plan.marks, "mark")
    marked, every = _done(marks), [*unmarks, *marks]
    summary |= {"marked": len(marked), "unmarked": len(_done(unmarks))}
    report = [*plan_lines(plan), *_left(every)]
    return Outcome(summary=summary, blocks=marked, report=report, failures=_failures(every))


def run_sweep(job: JobContext, _request: SweepRequest) -> Outcome:
    """Delete what has been marked for deleteDelay and is still superseded or gone, and old partial uploads."""
    plan, summary = _plan(job, "sweep")
    plan = spare_once_whole(job.bucket, plan)
    if job.dry_run:
        return Outcome(summary=summary, report=plan_lines(plan))
    acted = _act(job, plan, plan.deletes, "delete")
    tidy(job.bucket, job.stream, job.clock())
    deleted = _done(acted)
    gone = set(deleted)
    summary |= {"deleted": len(deleted), "bytes": sum(each.bytes for each in plan.deletes if each.ulid in gone)}
    report = [*plan_lines(plan), *_left(acted)]
    return Outcome(summary=summary, blocks=deleted, report=report, failures=_failures(acted))


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


def _act(job: JobContext, plan: Plan, actions: Sequence[Mark | Unmark | Delete], what: str) -> list[Acted]:
    """Do the actions on Spark's workers, log what was done, and return what became of each."""
    if not actions:
        return []
    context = job.spark.sparkContext
    with kept_lease(job.bucket, job.stream, job.run, job.clock) as lease:
        remover = Remover(job.bucket, job.stream, lease, plan, job.times.delete_delay, clock.system)
        shares = min(len(actions), 4 * context.defaultParallelism)
        acted: list[Acted] = context.parallelize(actions, shares).map(remover.act).collect()
        done = frozenset(_done(acted))
        job.audit(what, {each.ulid: each.reason for each in actions if each.ulid in done})
    return acted


def _done(acted: Sequence[Acted]) -> list[str]:
    return [each.ulid for each in acted if each.done]


def _failures(acted: Sequence[Acted]) -> list[str]:
    return [f"block {each.ulid}: {each.error}" for each in acted if each.error]


def _left(acted: Sequence[Acted]) -> list[str]:
    return [f"* left alone after the second look: {each.ulid}: {each.refusal}" for each in acted if each.refusal]
