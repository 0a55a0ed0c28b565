"""The remover's turn on many actions: under its lease, on workers, each logged before it is done and afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from drystone.engine import audit
from drystone.engine.audit import Entry
from drystone.engine.job import Job
from drystone.engine.lease import kept_lease
from drystone.engine.remover import Acted, Remover
from drystone.engine.second_look import SecondLook
from drystone.plan.model import Delete, Mark, Plan, Unmark


def act(job: Job, plan: Plan, actions: Sequence[Mark | Unmark | Delete], what: str) -> list[Acted]:
    """Do the actions of a plan, logged as `what` before and after, and return what became of each.

    Raises HeldError if another remover has the lease.
    """
    if not actions:
        return []
    job.workers.expect(len(actions))
    with kept_lease(job.bucket, job.stream, job.run, job.clock, job.pacer) as lease:
        look = SecondLook(job.bucket, job.stream, job.workers.clock)
        remover = Remover(look, lease, plan, job.times.delete_delay)
        intended = [_line(each, what, job) for each in actions]
        audit.append(job.bucket, job.stream, intended, job.clock())
        acted = job.workers.map(remover.act, actions, min(len(actions), 4 * job.workers.parallelism))
        outcomes = {each.ulid: (each.outcome, each.error or each.refusal) for each in acted}
        audit.conclude(job.bucket, job.stream, intended, outcomes, job.clock())
    return acted


def _line(action: Mark | Unmark | Delete, what: str, job: Job) -> Entry:
    """Return what the log says before the act; from then on it knows what the act rests on as once whole."""
    needs = () if isinstance(action, Unmark) else action.needs
    return Entry(what, action.ulid, action.reason, job.run, job.clock(), outcome="intended", needs=needs)
