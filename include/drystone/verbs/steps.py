"""Steps: what Airflow's tasks do without Spark. A request in, a result object out, as `drystone.jobs` has it."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from pydantic import BaseModel, ValidationError

from drystone import clock
from drystone.bucket import open_bucket
from drystone.clock import Clock
from drystone.config.load import Loaded
from drystone.engine.erasures import erasures, keep_receipt, receipt_of
from drystone.engine.record import apply_config
from drystone.engine.report import plan_lines, receipt_lines
from drystone.errors import DrystoneError, UsageError
from drystone.jobs import STEP_REQUESTS, JobResult, ReceiptRequest, Step
from drystone.verbs.requests import Desk

_Done = tuple[dict[str, int | str], list[str], list[str]]
"""Numbers, ULIDs of blocks, lines of the report."""


def run_step(
    step: Step,
    loaded: Loaded,
    stream: str,
    run: str,
    request: object,
    *,
    dry_run: bool = False,
    now: Clock = clock.system,
) -> JobResult:
    """Do one step in this process, and return its result; never raises what the step raises, but reports it."""
    started = now()
    done: _Done = ({}, [], [])
    error: DrystoneError | None = None
    try:
        wanted = STEP_REQUESTS[step].model_validate(request)
        desk = Desk(open_bucket(loaded.bucket_url(stream)), stream, loaded.stream(stream), now)
        act: Callable[..., _Done] = _receipt if isinstance(wanted, ReceiptRequest) else _act
        done = act(desk, wanted, run, dry_run=dry_run)
    except ValidationError as raised:
        first = raised.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        error = UsageError(f"The request to {step} is wrong: {where}: {first['msg'].removeprefix('Value error, ')}.")
    except DrystoneError as raised:
        error = raised
    except Exception as raised:  # noqa: BLE001 - the boundary: whatever happened is this step's result
        traceback.print_exc()
        error = DrystoneError(f"this should not happen: {type(raised).__name__}: {raised}")
    ended = now()
    return JobResult(
        verb=step,
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
        summary=done[0],
        blocks=done[1],
        report="\n".join(done[2]),
    )


def _act(desk: Desk, request: BaseModel, run: str, *, dry_run: bool) -> _Done:
    """Plan, and carry out. The rows that an edit takes are bounded, not counted: a task without Spark reads no rows."""
    apply_config(desk.bucket, desk.stream, desk.config, dry_run=dry_run)
    plan = desk.plan(request, desk.look())
    done = () if dry_run else desk.carry_out(plan, run, getattr(request, "author", ""))
    summary: dict[str, int | str] = {"actions": len(plan.actions), "done": len(done)}
    if plan.edits:
        summary |= {"edit": plan.edits[0].edit.id, "rows_at_most": sum(each.rows for each in plan.edits)}
    return summary, [each.ulid for each in plan.unmarks if each.ulid in done], plan_lines(plan)


def _receipt(desk: Desk, request: ReceiptRequest, run: str, *, dry_run: bool) -> _Done:
    seen = desk.look()
    found = [receipt_of(desk.bucket, seen, edit, run) for edit in erasures(seen.snapshot, request.edit)]
    if not dry_run:
        for each in found:
            keep_receipt(desk.bucket, each)
    still_open = sum(each.state == "open" for each in found)
    lines = [line for each in found for line in receipt_lines(each)]
    return {"erasures": len(found), "open": still_open}, [], lines or ["No erasure was ever asked for."]
