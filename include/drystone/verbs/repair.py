"""The repair verb: without a plan it makes one, with one it carries out a batch of it.

Source: the design, "Blocks: lifecycle verbs" (repair).
"""

from __future__ import annotations

from pathlib import Path

from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.engine.plans import batches_of, keep_plan, read_plan
from drystone.engine.repair import Uploader, carry_out, plan_repair
from drystone.engine.report import plan_lines
from drystone.jobs import RepairRequest


def run(job: Job, request: RepairRequest, base: Path, upload: Uploader) -> Outcome:
    """Plan what the request asks for, and keep the plan (not in a dry run); or carry out a batch of a plan.

    A file that the request names is one below `base`; `upload` reads and uploads it.
    """
    if request.plan_key is None:
        plan = plan_repair(job, request, base)
        summary: dict[str, int | str] = {"actions": len(plan.actions), "left_alone": len(plan.skipped)}
        report = plan_lines(plan)
        if job.dry_run:
            return Outcome(summary=summary, report=report)
        key = keep_plan(job.bucket, plan)
        return Outcome(summary=summary | {"digest": plan.digest}, plan_key=key, batches=batches_of(plan), report=report)
    plan = read_plan(job.bucket, request.plan_key, request.digest)
    if job.dry_run:
        return Outcome(summary={"actions": len(plan.batches[request.batch])}, report=plan_lines(plan))
    job.coordination.begin(job.run)
    done = carry_out(job, plan, request.batch, upload)
    job.coordination.commit(done.blocks)
    return Outcome(
        summary=done.summary, blocks=done.blocks, report=done.lines, failures=done.failures, retryable=done.transient
    )
