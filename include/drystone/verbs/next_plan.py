"""The plan that the next job of a kind would make and execute, made for looking at: nothing is written."""

from __future__ import annotations

from typing import Literal

from drystone.bucket.protocol import Bucket
from drystone.config.model import StreamConfig
from drystone.engine.count import BlockHits
from drystone.engine.erasures import LookInto, Rewriting
from drystone.engine.remover import spare_once_whole
from drystone.errors import DamagedStreamError
from drystone.plan.compaction import CompactionPolicy, plan_major, plan_minor
from drystone.plan.edits import Seen
from drystone.plan.model import Plan
from drystone.plan.removal import plan_marks, plan_sweep

Kind = Literal["minor", "major", "rewrite", "mark", "sweep"]


def next_plan(bucket: Bucket, seen: Seen, kind: Kind, config: StreamConfig, batches: int) -> Plan:
    """Return the plan that a job of this kind would make of what was seen; `batches`: of a compaction.

    Only `rewrite` reads rows. Raises BucketError, and DamagedStreamError for blocks that cannot be looked through.
    """
    snapshot, timeline, times, plan_id = seen.snapshot, seen.timeline, seen.times, seen.plan_id
    if kind == "mark":
        return plan_marks(snapshot, timeline, times, plan_id)
    if kind == "sweep":
        return spare_once_whole(bucket, plan_sweep(snapshot, timeline, times, plan_id))
    policy = CompactionPolicy(config.compaction, config.granularity, times, config.generation)
    if kind == "rewrite":
        look_into = LookInto(BlockHits(bucket, snapshot.stream, config.time_column))
        rewriting = Rewriting(bucket, policy, plan_id, lambda looks: [look_into(look) for look in looks])
        made, search = rewriting.plan(seen, batches, dry_run=True)
        if search.errors:
            raise DamagedStreamError(f"{len(search.errors)} blocks cannot be looked through: {search.errors[0]}")
        return made
    planner = plan_minor if kind == "minor" else plan_major
    return planner(snapshot, timeline, policy, plan_id, batches)
