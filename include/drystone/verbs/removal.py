"""The mark and sweep verbs: the remover's two turns. Each plans, then acts with a second look, under the lease."""

from __future__ import annotations

from collections.abc import Sequence

from drystone import ulids
from drystone.engine.acting import act
from drystone.engine.housekeeping import tidy
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.engine.remover import Acted, spare_once_whole
from drystone.engine.report import plan_lines
from drystone.jobs import MarkRequest, SweepRequest
from drystone.plan.model import Plan
from drystone.plan.removal import plan_marks, plan_sweep
from drystone.reader.stats import count
from drystone.reader.view import View
from drystone.timeline.timeline import resolve


def run_mark(job: Job, _request: MarkRequest) -> Outcome:
    """Unmark what nothing supersedes, mark what is superseded or gone."""
    plan, summary = _plan(job, "mark")
    if job.dry_run:
        return Outcome(summary=summary, report=plan_lines(plan))
    unmarks = act(job, plan, plan.unmarks, "unmark")
    marks = act(job, plan, plan.marks, "mark")
    marked, every = _done(marks), [*unmarks, *marks]
    summary |= {"marked": len(marked), "unmarked": len(_done(unmarks))}
    report = [*plan_lines(plan), *_left(every)]
    return Outcome(summary=summary, blocks=marked, report=report, failures=_failures(every))


def run_sweep(job: Job, _request: SweepRequest) -> Outcome:
    """Delete what has been marked for deleteDelay and is still superseded or gone, and old partial uploads."""
    plan, summary = _plan(job, "sweep")
    plan = spare_once_whole(job.bucket, plan)
    if job.dry_run:
        return Outcome(summary=summary, report=plan_lines(plan))
    acted = act(job, plan, plan.deletes, "delete")
    tidy(job.bucket, job.stream, job.clock())
    deleted = _done(acted)
    gone = set(deleted)
    summary |= {"deleted": len(deleted), "bytes": sum(each.bytes for each in plan.deletes if each.ulid in gone)}
    report = [*plan_lines(plan), *_left(acted)]
    return Outcome(summary=summary, blocks=deleted, report=report, failures=_failures(acted))


def _plan(job: Job, kind: str) -> tuple[Plan, dict[str, int | str]]:
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


def _done(acted: Sequence[Acted]) -> list[str]:
    return [each.ulid for each in acted if each.done]


def _failures(acted: Sequence[Acted]) -> list[str]:
    return [f"block {each.ulid}: {each.error}" for each in acted if each.error]


def _left(acted: Sequence[Acted]) -> list[str]:
    return [f"* left alone after the second look: {each.ulid}: {each.refusal}" for each in acted if each.refusal]
