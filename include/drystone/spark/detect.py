"""The detect job: observe, resolve and plan a compaction, in one; nothing is changed but a plan object written."""

from __future__ import annotations

from drystone import ulids
from drystone.block import keys
from drystone.engine.report import plan_lines
from drystone.jobs import Batch, DetectRequest
from drystone.plan.compaction import plan_major, plan_minor
from drystone.plan.model import Merge, Plan
from drystone.reader.stats import count
from drystone.reader.view import View
from drystone.spark.context import JobContext
from drystone.spark.outcome import Outcome
from drystone.timeline.timeline import resolve


def run(job: JobContext, request: DetectRequest) -> Outcome:
    """Plan the compaction that the request names, and keep the plan in the bucket (not in a dry run)."""
    snapshot = job.tracker.observe(job.clock())
    timeline = resolve(snapshot, job.times)
    planner = plan_minor if request.kind == "minor" else plan_major
    plan = planner(snapshot, timeline, job.policy, ulids.new(snapshot.taken_at), request.batches)
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
    report = plan_lines(plan)
    report += [f"* problem: {problem.text}" for problem in timeline.problems]
    report += [f"* **damage**: {damage.text}" for damage in timeline.damage]
    if job.dry_run:
        return Outcome(summary=summary, report=report)
    key = f"{keys.plans(job.stream)}{plan.id}.json"
    job.bucket.create(key, plan.to_json())
    return Outcome(summary=summary, plan_key=key, batches=_batches(plan), report=report)


def _batches(plan: Plan) -> list[Batch]:
    return [
        _batch(plan, number, [plan.merges[position] for position in positions])
        for number, positions in enumerate(plan.batches)
    ]


def _batch(plan: Plan, number: int, merges: list[Merge]) -> Batch:
    size, rows = sum(merge.bytes for merge in merges), sum(merge.rows for merge in merges)
    label = f"{number + 1} of {len(plan.batches)}: {len(merges)} merges, {rows:,} rows"
    return Batch(number=number, label=label, actions=len(merges), bytes=size, rows=rows)
