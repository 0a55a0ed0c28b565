"""`drystone export`: a backup stream's messages as Secor's files."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from drystone.cli import exits, options, output
from drystone.cli.acting import DryRun, local_job, request_of
from drystone.config.load import load
from drystone.jobs import ExportRequest
from drystone.verbs import export as verb
from drystone.verbs.look_at_kafka import look_at_kafka

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Topics = Annotated[
    str | None, typer.Option("--topics", metavar="REGEX", help="Only topics whose whole name fits (default: all).")
]
Again = Annotated[bool, typer.Option("--again", help="Everything from the beginning: what is missing is written anew.")]


@app.command(epilog=exits.MEANING)
def export(
    stream: options.Stream,
    *,
    topics: Topics = None,
    again: Again = False,
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Write what is ingested and not exported yet to files in Secor's layout; exit code 1 if anything failed.

    What is there already is left as it is. Kafka is asked only for what is not ingested yet: it decides which days or
    hours are finished, and get their _SUCCESS.
    """
    job = local_job(load(config), stream, dry_run=dry_run)
    request = request_of(ExportRequest, topics=topics, again=again)
    done = verb.run(job, request, partial(look_at_kafka, job))
    if as_json:
        output.write_json({"dry_run": dry_run, "summary": done.summary, "failures": done.failures})
    else:
        for line in [*done.report, *(f"failed: {failure}" for failure in done.failures)]:
            output.write_line(line)
    raise typer.Exit(exits.PROBLEMS if done.failures else 0)
