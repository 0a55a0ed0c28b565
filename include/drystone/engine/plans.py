"""Plan objects in the bucket: written once by who plans, read by who acts."""

from __future__ import annotations

from pydantic import ValidationError

from drystone.block import keys
from drystone.bucket.protocol import Bucket
from drystone.errors import InputError, ObjectMissingError, UsageError
from drystone.jobs import Batch
from drystone.plan.model import Action, Plan


def keep_plan(bucket: Bucket, plan: Plan) -> str:
    """Write the plan, and return its key; raise ObjectExistsError if there is one with its id."""
    key = f"{keys.plans(plan.stream)}{plan.id}.json"
    bucket.create(key, plan.to_json())
    return key


def read_plan(bucket: Bucket, key: str, digest: str | None = None) -> Plan:
    """Return the plan under `key`; raise UsageError if there is none, InputError if it cannot be read.

    With `digest`, what it was when it was shown, UsageError if it is another one now.
    """
    try:
        plan = Plan.model_validate_json(bucket.get(key))
    except ObjectMissingError:
        raise UsageError(f"there is no plan {key}.", "Plan again.") from None
    except ValidationError as error:
        raise InputError(f"plan {key} cannot be read: {error.errors()[0]['msg']}.", "Plan again.") from None
    if digest not in {None, plan.digest}:
        msg = f"plan {key} is not the one that was shown: its digest is {plan.digest}."
        raise UsageError(msg, "Plan again.")
    return plan


def batch_of(plan: Plan, number: int) -> list[Action]:
    """Return the actions of one batch; raise UsageError if the plan has no such batch."""
    if not 0 <= number < len(plan.batches):
        raise UsageError(f"plan {plan.id} has {len(plan.batches)} batches, and no number {number}.")
    return [plan.actions[position] for position in plan.batches[number]]


def batches_of(plan: Plan) -> list[Batch]:
    """Return the shares of a plan of a repair or a backfill, one for each mapped task."""
    found = []
    for number, positions in enumerate(plan.batches):
        actions = [plan.actions[position] for position in positions]
        label = f"{number + 1} of {len(plan.batches)}: {len(actions)} {plan.kind} actions"
        size, rows = (sum(getattr(each, name, 0) for each in actions) for name in ("bytes", "rows"))
        found.append(Batch(number=number, label=label, actions=len(actions), bytes=size, rows=rows))
    return found
