"""From a verb to its result object: what every job and every step ends with, whatever was raised."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from drystone.clock import Clock
from drystone.engine.local import TooMuchError
from drystone.engine.outcome import Outcome
from drystone.errors import BucketError, DrystoneError
from drystone.jobs import JobResult, Step, Verb


def unforeseen(error: Exception) -> DrystoneError:
    """Return the error to report for what nobody has thought of: a failing machine may be tried again, a bug not."""
    line = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, OSError):
        return BucketError(f"this machine failed: {line}.")
    return DrystoneError(f"this should not happen: {line}.", "The job's log has the traceback; please report it.")


def result_of(
    verb: Verb | Step,
    stream: str,
    run: str,
    act: Callable[[], Outcome],
    *,
    dry_run: bool,
    now: Clock,
    translate: Callable[[Exception], DrystoneError] = unforeseen,
) -> JobResult:
    """Do it, and return its result; what it raises is reported in that, save TooMuchError: then nothing was done.

    `translate`: says what an exception that is not ours means.
    """
    started = now()
    outcome, error = Outcome(), None
    try:
        outcome = act()
    except DrystoneError as raised:
        error = raised
    except TooMuchError:
        raise
    except Exception as raised:  # noqa: BLE001 - the boundary: whatever happened is this job's result
        traceback.print_exc()
        error = translate(raised)
    if error is None and outcome.verdict is not None:
        error = outcome.verdict
    if error is None and outcome.failures:
        error = DrystoneError(f"{len(outcome.failures)} actions failed, the others were done: {outcome.failures[0]}")
        error.retryable = outcome.retryable
    ended = now()
    return JobResult(
        verb=verb,
        stream=stream,
        run=run,
        dry_run=dry_run,
        ok=error is None,
        error=error.message if error else "",
        next_step=error.next_step if error else "",
        retryable=error.retryable if error else False,
        started=started,
        ended=ended,
        work_ms=ended - started,
        summary=outcome.summary,
        blocks=outcome.blocks,
        other_blocks=outcome.other_blocks,
        plan_key=outcome.plan_key,
        batches=outcome.batches,
        report="\n".join([*outcome.report, *outcome.failures]),
    )
