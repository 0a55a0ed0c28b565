"""What verbs that change a stream share: the plan shown, and carried out unless it is a dry run."""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from drystone import clock, ulids
from drystone.bucket import open_bucket
from drystone.cli import output
from drystone.config.durations import parse_duration
from drystone.config.load import Loaded, load
from drystone.coordination import NoCoordination
from drystone.engine.count import counted
from drystone.engine.job import Job
from drystone.engine.local import LocalWorkers
from drystone.engine.pacer import ThreadPacer
from drystone.engine.record import apply_config
from drystone.errors import UsageError
from drystone.plan.model import Plan, WriteEdit
from drystone.tracker import ListingTracker
from drystone.verbs.requests import Desk

R = TypeVar("R", bound=BaseModel)
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why: it is kept with what is written, and in the log.")]
Author = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who asks for it (default: the user of this machine).")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")]


def parse_length(text: str) -> int:
    """Return a duration given with its unit, in ms."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def author_or_user(author: str | None) -> str:
    """Return who asks."""
    return author or getpass.getuser()


def request_of(model: type[R], **fields: object) -> R:
    """Return a request; raise UsageError that names the field which is wrong."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{where}: {first['msg'].removeprefix('Value error, ')}.") from None


def local_job(loaded: Loaded, stream: str, *, dry_run: bool) -> Job:
    """Return a job that this process works on. Its run's name in the log is `terminal` and a ULID."""
    bucket, config = open_bucket(loaded.bucket_url(stream)), loaded.stream(stream)
    return Job(
        stream=stream,
        config=config,
        run=f"terminal-{ulids.new(clock.system())}",
        dry_run=dry_run,
        bucket=bucket,
        record=apply_config(bucket, stream, config, dry_run=dry_run),
        tracker=ListingTracker(bucket, stream),
        coordination=NoCoordination(),
        workers=LocalWorkers(clock.system),
        clock=clock.system,
        pacer=ThreadPacer(),
    )


def act(
    stream: str,
    request: BaseModel,
    *,
    config: Path | None,
    dry_run: bool,
    as_json: bool,
    count: bool = True,
    notes: Iterable[str] = (),
) -> None:
    """Plan what the request asks for, show it, and carry it out unless it is a dry run; `notes` follow what was done.

    The run's name in the log is `terminal` and a ULID.
    """
    loaded = load(config)
    desk = Desk(open_bucket(loaded.bucket_url(stream)), stream, loaded.stream(stream), clock.system)
    seen = desk.look()
    plan = desk.plan(request, seen)
    if count and plan.edits:
        plan = counted(desk.bucket, seen, desk.config.time_column, plan)
    author = getattr(request, "author", "")
    done = () if dry_run else desk.carry_out(plan, f"terminal-{ulids.new(clock.system())}", author)
    said = [*notes] if done else []
    if as_json:
        output.write_json({"dry_run": dry_run, "plan": plan.model_dump(mode="json"), "done": done, "notes": said})
        return
    show_plan(plan)
    verdict = "Dry run: nothing was changed." if dry_run else f"{len(done)} of {len(plan.actions)} actions done."
    output.write_line(" ".join([verdict if plan.actions else "There is nothing to do.", *said]))


def show_plan(plan: Plan) -> None:
    """Print what a plan of edits, holds and unmarkings would do, and what it leaves alone."""
    rows: list[tuple[object, ...]] = [("hold", each.name, None, _held(each.hold.blocks)) for each in plan.holds]
    rows += [("release", each.name, None, each.reason) for each in plan.releases]
    for edit in plan.edits:
        rows += _edit_rows(edit)
    rows += [("unmark", each.ulid, None, each.reason) for each in plan.unmarks]
    rows += [("-", each.name, None, f"left alone: {each.reason}") for each in plan.skipped]
    output.write_table(("action", "what", ">rows", "of what"), rows)


def _edit_rows(action: WriteEdit) -> Iterable[tuple[object, ...]]:
    edit = action.edit
    how = "" if action.counted else ", at most"
    yield edit.kind, edit.id, action.rows, f"{len(action.taken)} groups{how}: {edit.reason}"
    for each in action.taken:
        sources = f"{len(each.sources)} of its sources" if each.sources else "all its sources"
        what = "all of it" if each.whole else sources
        yield "", each.group, each.rows, f"{what}; blocks {', '.join(each.blocks)}"


def _held(blocks: tuple[str, ...]) -> str:
    return ", ".join(blocks) or "the whole stream"
