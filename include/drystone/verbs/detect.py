"""The detect verb: observe, resolve and plan a compaction, in one; nothing is changed but a plan object written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drystone import ulids
from drystone.engine.count import BlockHits
from drystone.engine.erasures import Found, Look, LookInto, Rewriting
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.engine.plans import keep_plan
from drystone.engine.report import plan_lines
from drystone.errors import UsageError
from drystone.jobs import Batch, DetectRequest, EraseRequest
from drystone.plan.compaction import plan_major, plan_minor
from drystone.plan.edits import Seen
from drystone.plan.model import Merge, Plan
from drystone.reader.stats import count
from drystone.reader.view import View
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, resolve
from drystone.verbs.requests import Desk


def run(job: Job, request: DetectRequest) -> Outcome:
    """Plan the compaction that the request names, and keep the plan in the bucket (not in a dry run)."""
    snapshot = job.tracker.observe(job.clock())
    timeline = resolve(snapshot, job.times)
    if request.proposed is not None:
        snapshot, timeline = _with_proposed(job, request.proposed, snapshot, timeline)
    plan, unread = _plan(job, request, snapshot, timeline)
    stats = count(View(job.bucket, job.record, snapshot, timeline))
    summary: dict[str, int | str] = {
        "merges": len(plan.merges),
        "merge_blocks": sum(len(merge.blocks) for merge in plan.merges),
        "merge_bytes": sum(merge.bytes for merge in plan.merges),
        "blocks_visible": stats.blocks_visible,
        "blocks_total": stats.blocks_total,
        "problems": len(timeline.problems),
        "damage": len(timeline.damage),
    }
    if unread:
        summary["blocks_unread"] = len(unread)
    report = plan_lines(plan)
    report += [f"* problem: {problem.text}" for problem in timeline.problems]
    # One block that cannot be read keeps no other from being rewritten; the erasure stays open because of it.
    report += [f"* could not be looked through: {error}" for error in unread]
    report += [f"* **damage**: {damage.text}" for damage in timeline.damage]
    if job.dry_run:
        return Outcome(summary=summary, report=report)
    return Outcome(summary=summary, plan_key=keep_plan(job.bucket, plan), batches=_batches(plan), report=report)


def _plan(job: Job, request: DetectRequest, snapshot: Snapshot, timeline: Timeline) -> tuple[Plan, list[str]]:
    """Return the plan, and what kept blocks from being looked through for a rewrite."""
    plan_id = ulids.new(snapshot.taken_at)
    if request.kind != "rewrite":
        planner = plan_minor if request.kind == "minor" else plan_major
        return planner(snapshot, timeline, job.policy, plan_id, request.batches), []
    look_into = LookInto(BlockHits(job.bucket, job.stream, job.config.time_column))

    def spread(looks: Sequence[Look]) -> list[Found]:
        """Look through the blocks on the workers."""
        job.workers.expect(len(looks), sum(file.size_bytes or 0 for look in looks for file in look.meta.thanos.files))
        return job.workers.map(look_into, looks, min(len(looks), 4 * job.workers.parallelism))

    rewriting = Rewriting(job.bucket, job.policy, job.run, spread)
    plan, search = rewriting.plan(Seen(snapshot, timeline, job.times, plan_id), request.batches, dry_run=job.dry_run)
    return plan, list(search.errors)


def _with_proposed(
    job: Job, proposed: EraseRequest, snapshot: Snapshot, timeline: Timeline
) -> tuple[Snapshot, Timeline]:
    """Return what the stream looks like once the erasure is written; only a dry run may ask for that."""
    if not job.dry_run:
        raise UsageError("only a dry run may take an erasure for written.", "Write it first: `drystone erase rows`.")
    desk = Desk(job.bucket, job.stream, job.config, job.clock)
    plan = desk.plan(proposed, Seen(snapshot, timeline, job.times, ulids.new(snapshot.taken_at)))
    edits = (*snapshot.edits, *(action.edit for action in plan.edits))
    after = replace(snapshot, edits=edits)
    return after, resolve(after, job.times)


def _batches(plan: Plan) -> list[Batch]:
    return [
        _batch(plan, number, [plan.merges[position] for position in positions])
        for number, positions in enumerate(plan.batches)
    ]


def _batch(plan: Plan, number: int, merges: list[Merge]) -> Batch:
    size, rows = sum(merge.bytes for merge in merges), sum(merge.rows for merge in merges)
    label = f"{number + 1} of {len(plan.batches)}: {len(merges)} merges, {rows:,} rows"
    return Batch(number=number, label=label, actions=len(merges), bytes=size, rows=rows)
