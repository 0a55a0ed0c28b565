"""Steps: what Airflow's tasks do without Spark. A request in, a result object out, as `drystone.jobs` has it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationError

from drystone import clock
from drystone.bucket import Bucket, open_bucket
from drystone.clock import Clock
from drystone.config.load import Loaded
from drystone.engine.erasures import erasures, keep_receipt, receipt_of
from drystone.engine.plans import keep_plan, read_plan
from drystone.engine.record import apply_config
from drystone.engine.report import plan_lines, receipt_lines
from drystone.errors import DrystoneError, UsageError
from drystone.jobs import STEP_REQUESTS, Batch, CarryOutRequest, JobResult, PlanRequest, ReceiptRequest, Step
from drystone.plan.model import Plan
from drystone.verbs.requests import Desk


@dataclass(frozen=True, slots=True)
class _Done:
    """Numbers, ULIDs of blocks, lines of the report, and a plan that was kept, with its only batch."""

    summary: dict[str, int | str] = field(default_factory=dict)
    blocks: list[str] = field(default_factory=list)
    report: list[str] = field(default_factory=list)
    plan_key: str | None = None
    batches: list[Batch] = field(default_factory=list)


def run_step(
    step: Step,
    loaded: Loaded,
    stream: str,
    run: str,
    request: object,
    *,
    bucket: Bucket | None = None,
    dry_run: bool = False,
    now: Clock = clock.system,
) -> JobResult:
    """Do one step in this process, and return its result; never raises what the step raises, but reports it.

    `bucket`: the stream's, with the caller's credentials; by default the one at the configuration's address.
    """
    started = now()
    done = _Done()
    error: DrystoneError | None = None
    try:
        wanted = STEP_REQUESTS[step].model_validate(request)
        opened = bucket or open_bucket(loaded.bucket_url(stream))
        desk = Desk(opened, stream, loaded.stream(stream), now)
        done = _ACTS.get(type(wanted), _act)(desk, wanted, run, dry_run=dry_run)
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
        summary=done.summary,
        blocks=done.blocks,
        plan_key=done.plan_key,
        batches=done.batches,
        report="\n".join(done.report),
    )


def _act(desk: Desk, request: BaseModel, run: str, *, dry_run: bool) -> _Done:
    """Plan, and carry out. The rows that an edit takes are bounded, not counted: a task without Spark reads no rows."""
    apply_config(desk.bucket, desk.stream, desk.config, dry_run=dry_run)
    plan = desk.plan(request, desk.look())
    return _carried_out(desk, plan, run, getattr(request, "author", ""), dry_run=dry_run)


def _carried_out(desk: Desk, plan: Plan, run: str, author: str, *, dry_run: bool) -> _Done:
    done = () if dry_run else desk.carry_out(plan, run, author)
    blocks = [each.ulid for each in plan.unmarks if each.ulid in done]
    return _Done(_numbers(plan) | {"done": len(done)}, blocks, plan_lines(plan))


def _numbers(plan: Plan) -> dict[str, int | str]:
    summary: dict[str, int | str] = {"actions": len(plan.actions)}
    if plan.edits:
        summary |= {"edit": plan.edits[0].edit.id, "rows_at_most": sum(each.rows for each in plan.edits)}
    return summary


def _plan(desk: Desk, request: PlanRequest, _run: str, *, dry_run: bool) -> _Done:
    """Show a plan, and keep it, for a person to say yes to; one without an action, or a dry run's, is not kept."""
    apply_config(desk.bucket, desk.stream, desk.config, dry_run=dry_run)
    plan = desk.plan(request.asked, desk.look())
    if dry_run or not plan.actions:
        return _Done(_numbers(plan), report=plan_lines(plan))
    rows = sum(each.rows for each in plan.edits)
    label = f"{plan.kind}: at most {rows:,} rows in {sum(len(each.taken) for each in plan.edits)} groups"
    batch = Batch(number=0, label=label, actions=len(plan.actions), bytes=0, rows=rows)
    key = keep_plan(desk.bucket, plan)
    return _Done(_numbers(plan) | {"digest": plan.digest}, [], plan_lines(plan), key, [batch])


def _carry_out(desk: Desk, request: CarryOutRequest, run: str, *, dry_run: bool) -> _Done:
    apply_config(desk.bucket, desk.stream, desk.config, dry_run=dry_run)
    plan = read_plan(desk.bucket, request.plan_key, request.digest)
    return _carried_out(desk, plan, run, request.author, dry_run=dry_run)


def _receipt(desk: Desk, request: ReceiptRequest, run: str, *, dry_run: bool) -> _Done:
    seen = desk.look()
    found = [receipt_of(desk.bucket, seen, edit, run) for edit in erasures(seen.snapshot, request.edit)]
    if not dry_run:
        for each in found:
            keep_receipt(desk.bucket, each)
    still_open = sum(each.state == "open" for each in found)
    lines = [line for each in found for line in receipt_lines(each)]
    return _Done({"erasures": len(found), "open": still_open}, [], lines or ["No erasure was ever asked for."])


_ACTS: dict[type, Callable[..., _Done]] = {ReceiptRequest: _receipt, PlanRequest: _plan, CarryOutRequest: _carry_out}
