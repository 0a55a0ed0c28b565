"""The slices object: written once, after a plan's messages were accepted and before the first of their blocks."""

from __future__ import annotations

from pydantic import ValidationError

from drystone.bucket.protocol import Bucket
from drystone.errors import GivenUpError, InputError, InvariantError, ObjectExistsError, ObjectMissingError
from drystone.ingest.kafka.plans import Plan, Slices


def settle_slices(bucket: Bucket, plan: Plan, mine: Slices) -> None:
    """Say what the plan came to; another attempt must have come to the same.

    Raises InvariantError if it did not: then nothing may be uploaded, for readers would get some of both. GivenUpError
    if the plan was given up in the meantime.
    """
    try:
        bucket.create(plan.slices_key, mine.to_json())
    except ObjectExistsError:
        there = read_slices(bucket, plan)
    else:
        return
    if there is None:
        # It is there and cannot be seen yet.
        raise ObjectMissingError(plan.slices_key)
    if there == mine:
        return
    if not there.slices and not there.messages:
        raise GivenUpError(f"plan {plan} was given up by another run.", "Nothing was uploaded; the next run goes on.")
    what = f"{there.messages} messages in {len(there.slices)} slices, now {mine.messages} in {len(mine.slices)}"
    msg = f"plan {plan} came to other slices before: {what}."
    raise InvariantError(msg, "Its parser does not do the same each time: change its digest, which plans it anew.")


def read_slices(bucket: Bucket, plan: Plan) -> Slices | None:
    """Return what a plan came to, None if nobody has said it; raise InputError if it cannot be read."""
    try:
        return Slices.model_validate_json(bucket.get(plan.slices_key))
    except ObjectMissingError:
        return None
    except ValidationError as error:
        raise InputError(f"{plan.slices_key} cannot be read: {error.errors()[0]['msg']}.") from None
