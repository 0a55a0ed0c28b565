"""A job's result on its way into Airflow: read from the bucket, shortened to ids, keys and numbers for XCom."""

from __future__ import annotations

from pydantic import ValidationError

from drystone.bucket import Bucket
from drystone.errors import DrystoneError, ObjectMissingError
from drystone.jobs import JobResult

RESULT_XCOM = "result"
"""The XCom key under which every job's task leaves its summary."""

Summary = dict[str, int | str | bool | None]
"""What XCom holds of a result: see `summarize`."""


def read_result(bucket: Bucket, key: str) -> JobResult | None:
    """Return the result object `key`, or None if the job left none.

    Raises DrystoneError for an object that is no result: another version of Drystone wrote it.
    """
    try:
        raw = bucket.get(key)
    except ObjectMissingError:
        return None
    try:
        return JobResult.model_validate_json(raw)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        step = "Jobs and Airflow must run the same Drystone."
        raise DrystoneError(f"{key} is no job result: {reason}.", step) from None


def summarize(result: JobResult, key: str) -> Summary:
    """Return what XCom may hold: the object's key, counts and times in ms; never lists of blocks.

    The job's own `summary` is taken over where it holds numbers.
    """
    numbers = {name: value for name, value in result.summary.items() if isinstance(value, int)}
    return {
        **numbers,
        "result_key": key,
        "run": result.run,
        "dry_run": result.dry_run,
        "started": result.started,
        "ended": result.ended,
        "spark_start_ms": result.spark_start_ms,
        "work_ms": result.work_ms,
        "block_count": len(result.blocks),
        "plan_key": result.plan_key,
    }


def mapped_batches(result: JobResult) -> list[dict[str, object]]:
    """Return one set of arguments of `DrystoneSparkOperator` per batch of a plan, for `expand_kwargs`.

    A plan that says its digest is executed only as it was then.
    """
    if result.plan_key is None:
        return []
    bound = {"digest": result.summary["digest"]} if "digest" in result.summary else {}
    return [
        {"request": {"plan_key": result.plan_key, "batch": batch.number, **bound}, "batch_label": batch.label}
        for batch in result.batches
    ]
