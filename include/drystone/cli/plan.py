"""`drystone plan`: what the next run would do. Nothing is changed, not even a plan object written."""

from __future__ import annotations

from typing import Annotated

import typer

from drystone import clock
from drystone.bucket import open_bucket
from drystone.cli import exits, options, output
from drystone.config.load import load
from drystone.engine.report import size
from drystone.plan.model import Plan
from drystone.verbs.next_plan import Kind, next_plan
from drystone.verbs.requests import Desk

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
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
    rules = loaded.stream(stream)
    seen = Desk(bucket, stream, rules, clock.system).look()
    made = next_plan(bucket, seen, kind, rules, batches or loaded.config.spark.max_parallel_jobs)
    if as_json:
        typer.echo(made.to_json())
        return
    show_plan(made)


def show_plan(made: Plan) -> None:
    """Print a plan for a person."""
    output.write_table(("action", "what", ">blocks", ">rows", ">size", "why"), _lines(made))
    output.write_line(f"{len(made.actions)} actions, {len(made.skipped)} left alone; good until {_expiry(made)}.")


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
