"""`drystone plan`: what the next run would do. Nothing is changed, not even a plan object written."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from drystone import clock, ulids
from drystone.bucket import open_bucket
from drystone.bucket.protocol import Bucket
from drystone.cli import exits, options, output
from drystone.config.load import load
from drystone.config.model import Config
from drystone.engine.count import BlockHits
from drystone.engine.erasures import LookInto, Rewriting
from drystone.engine.record import apply_config
from drystone.engine.remover import spare_once_whole
from drystone.engine.report import size
from drystone.errors import DamagedStreamError
from drystone.plan.compaction import CompactionPolicy, plan_major, plan_minor
from drystone.plan.edits import Seen
from drystone.plan.model import Plan
from drystone.plan.removal import plan_marks, plan_sweep
from drystone.timeline.timeline import resolve
from drystone.tracker import ListingTracker

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Kind = Literal["minor", "major", "rewrite", "mark", "sweep"]
Kinds = Annotated[
    Kind,
    typer.Option(
        "--kind", help="A compaction within or of whole time chunks; what erasures rewrite; what to mark; to delete."
    ),
]
Batches = Annotated[
    int | None, typer.Option(min=1, help="Batches of a compaction (default: spark.max_parallel_jobs of the file).")
]


@app.command(epilog=exits.MEANING)
def plan(
    stream: options.Stream,
    *,
    kind: Kinds = "minor",
    batches: Batches = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what a run of this kind would do now, and what it would leave alone, and why.

    It is the very plan that a job would make and execute; --json prints the plan object.
    """
    loaded = load(config)
    bucket = open_bucket(loaded.bucket_url(stream))
    apply_config(bucket, stream, loaded.stream(stream), dry_run=True)
    made = make_plan(bucket, stream, kind, loaded.config, clock.system(), batches)
    if as_json:
        typer.echo(made.to_json())
        return
    show_plan(made)


def show_plan(made: Plan) -> None:
    """Print a plan for a person."""
    output.write_table(("action", "what", ">blocks", ">rows", ">size", "why"), _lines(made))
    output.write_line(f"{len(made.actions)} actions, {len(made.skipped)} left alone; good until {_expiry(made)}.")


def make_plan(bucket: Bucket, stream: str, kind: Kind, config: Config, now: int, batches: int | None = None) -> Plan:
    """Observe a stream, and return the plan that a job of the configuration would make."""
    rules = config.streams[stream]
    times = rules.times.times()
    snapshot = ListingTracker(bucket, stream).observe(now)
    timeline = resolve(snapshot, times)
    plan_id = ulids.new(now)
    if kind == "mark":
        return plan_marks(snapshot, timeline, times, plan_id)
    if kind == "sweep":
        return spare_once_whole(bucket, plan_sweep(snapshot, timeline, times, plan_id))
    policy = CompactionPolicy(rules.compaction, rules.granularity, times, rules.generation)
    if kind == "rewrite":
        look_into = LookInto(BlockHits(bucket, stream, rules.time_column))
        rewriting = Rewriting(bucket, policy, plan_id, lambda looks: [look_into(look) for look in looks])
        share = batches or config.spark.max_parallel_jobs
        made, search = rewriting.plan(Seen(snapshot, timeline, times, plan_id), share, dry_run=True)
        if search.errors:
            raise DamagedStreamError(f"{len(search.errors)} blocks cannot be looked through: {search.errors[0]}")
        return made
    planner = plan_minor if kind == "minor" else plan_major
    return planner(snapshot, timeline, policy, plan_id, batches or config.spark.max_parallel_jobs)


def _lines(made: Plan) -> list[tuple[object, ...]]:
    lines: list[tuple[object, ...]] = [
        ("merge", each.label, len(each.blocks), each.rows, size(each.bytes), f"{each.kind}: {each.reason}")
        for each in made.merges
    ]
    lines += [("unmark", each.ulid, 1, None, None, each.reason) for each in made.unmarks]
    lines += [("mark", each.ulid, 1, None, None, each.reason) for each in made.marks]
    lines += [("delete", each.ulid, 1, None, size(each.bytes), each.reason) for each in made.deletes]
    for action in made.replaces:
        lines.append(("replace", action.group, len(action.blocks), action.rows, size(action.bytes), action.reason))
        lines += [("", f"source {swap.root}", 1, swap.rows, None, "rows that go") for swap in action.swaps]
    lines += [("upload", f"source {each.root}", None, None, size(each.bytes), each.path) for each in made.reuploads]
    lines += [
        ("adopt", ", ".join(each.blocks), len(each.blocks), each.rows, size(each.bytes), f"from {each.origin_stream}")
        for each in made.adopts
    ]
    return lines + [("-", each.name, None, None, None, f"left alone: {each.reason}") for each in made.skipped]


def _expiry(made: Plan) -> str:
    return output.moment(made.expires)
