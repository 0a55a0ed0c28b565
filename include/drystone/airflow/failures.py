"""From Drystone's errors to Airflow's: what another try can help is retried, anything else fails at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from drystone.errors import DrystoneError
from drystone.jobs import JobResult


@contextmanager
def as_task_failure() -> Iterator[None]:
    """Turn a DrystoneError into AirflowException (retried with back-off) or AirflowFailException (fails at once)."""
    try:
        yield
    except DrystoneError as error:
        raise failure(str(error), retryable=error.retryable) from error


def failure(message: str, *, retryable: bool) -> AirflowException:
    """Return the exception that makes Airflow do the right thing."""
    return AirflowException(message) if retryable else AirflowFailException(message)


def result_failure(result: JobResult) -> AirflowException:
    """Return the exception for the result of a job that says that it failed."""
    text = f"{result.verb} of {result.stream} failed: {result.error} {result.next_step}".strip()
    return failure(text, retryable=result.retryable)
