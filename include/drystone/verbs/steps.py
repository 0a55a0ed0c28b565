"""Steps: what Airflow's tasks do without Spark. A request in, a result object out, as `drystone.jobs` has it."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel, ValidationError

from drystone import clock
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.load import Loaded
from drystone.engine.erasures import erasures, keep_receipt, receipt_of
from drystone.engine.outcome import Outcome
from drystone.engine.plans import keep_plan, read_plan
from drystone.engine.record import apply_config
from drystone.engine.report import plan_lines, receipt_lines
from drystone.errors import UsageError
from drystone.jobs import STEP_REQUESTS, Batch, CarryOutRequest, JobResult, PlanRequest, ReceiptRequest, Step
from drystone.plan.model import Plan
from drystone.verbs.requests import Desk
from drystone.verbs.results import result_of


def run_step(
    step: Step,
    loaded: Loaded,
    stream: str,
    run: str,
    request: object,
    bucket: Bucket,
    *,
    dry_run: bool = False,
    now: Clock = clock.system,
) -> JobResult:
    """Do one step in this process, and return its result; never raises what the step raises, but reports it."""

    def act() -> Outcome:
        wanted = _request(step, request)
        return _ACTS.get(type(wanted), _act)(
            Desk(bucket, stream, loaded.stream(stream), now), wanted, run, dry_run=dry_run
        )

    return result_of(step, stream, run, act, dry_run=dry_run, now=now)


def _request(step: Step, request: object) -> BaseModel:
    try:
        return STEP_REQUESTS[step].model_validate(request)
    except ValidationError as raised:
        first = raised.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"The request to {step} is wrong: {where}: {first['msg'].removeprefix('Value error, ')}."
        raise UsageError(message) from None


def _act(desk: Desk, request: BaseModel, run: str, *, dry_run: bool) -> Outcome:
    """Plan, and carry out. The rows that an edit takes are bounded, not counted: a task without Spark reads no rows."""
    apply_config(desk.bucket, desk.stream, desk.config, dry_run=dry_run)
    plan = desk.plan(request, desk.look())
    return _carried_out(desk, plan, run, getattr(request, "author", ""), dry_run=dry_run)


def _carried_out(desk: Desk, plan: Plan, run: str, author: str, *, dry_run: bool) -> Outcome:
    done = () if dry_run else desk.carry_out(plan, run, author)
    blocks = [each.ulid for each in plan.unmarks if each.ulid in done]
    return Outcome(summary=_numbers(plan) | {"done": len(done)}, blocks=blocks, report=plan_lines(plan))


def _numbers(plan: Plan) -> dict[str, int | str]:
    summary: dict[str, int | str] = {"actions": len(plan.actions)}
    if plan.edits:
        summary |= {"edit": plan.edits[0].edit.id, "rows_at_most": sum(each.rows for each in plan.edits)}
    return summary


def _plan(desk: Desk, request: PlanRequest, _run: str, *, dry_run: bool) -> Outcome:
    """Show a plan, and keep it, for a person to say yes to; one without an action, or a dry run's, is not kept."""
    apply_config(desk.bucket, desk.stream, desk.config, dry_run=dry_run)
    plan = desk.plan(request.asked, desk.look())
    if dry_run or not plan.actions:
        return Outcome(summary=_numbers(plan), report=plan_lines(plan))
    rows = sum(each.rows for each in plan.edits)
    label = f"{plan.kind}: at most {rows:,} rows in {sum(len(each.taken) for each in plan.edits)} groups"
    batch = Batch(number=0, label=label, actions=len(plan.actions), bytes=0, rows=rows)
    key = keep_plan(desk.bucket, plan)
    summary = _numbers(plan) | {"digest": plan.digest}
    return Outcome(summary=summary, plan_key=key, batches=[batch], report=plan_lines(plan))


def _carry_out(desk: Desk, request: CarryOutRequest, run: str, *, dry_run: bool) -> Outcome:
    apply_config(desk.bucket, desk.stream, desk.config, dry_run=dry_run)
    plan = read_plan(desk.bucket, request.plan_key, request.digest)
    return _carried_out(desk, plan, run, request.author, dry_run=dry_run)


def _receipt(desk: Desk, request: ReceiptRequest, run: str, *, dry_run: bool) -> Outcome:
    seen = desk.look()
    found = [receipt_of(desk.bucket, seen, edit, run) for edit in erasures(seen.snapshot, request.edit)]
    if not dry_run:
        for each in found:
            keep_receipt(desk.bucket, each)
    still_open = sum(each.state == "open" for each in found)
    lines = [line for each in found for line in receipt_lines(each)]
    summary: dict[str, int | str] = {"erasures": len(found), "open": still_open}
    return Outcome(summary=summary, report=lines or ["No erasure was ever asked for."])


_ACTS: dict[type, Callable[..., Outcome]] = {ReceiptRequest: _receipt, PlanRequest: _plan, CarryOutRequest: _carry_out}
