"""`drystone backfill`: messages of a wrong range parsed anew. --dry-run shows the plan."""

from __future__ import annotations

from typing import Annotated

import typer

from drystone.cli import exits, options, output
from drystone.cli.acting import DryRun, local_job, request_of
from drystone.config.load import load
from drystone.engine.outcome import Outcome
from drystone.engine.report import plan_lines
from drystone.ingest.kafka.streams import kafka_streams
from drystone.ingest.parsers.registry import parser_of
from drystone.jobs import BackfillRequest
from drystone.verbs.backfill import Backfill

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Offsets = Annotated[
    list[str] | None,
    typer.Option("--offsets", metavar="TOPIC:PARTITION:FIRST-LAST", help="These, or all of TOPIC:PARTITION."),
]
Start = Annotated[str | None, typer.Option("--start", metavar="TIME", help="Rows from this moment on, in ISO-8601 …")]
End = Annotated[str | None, typer.Option("--end", metavar="TIME", help="… up to this one, exclusive.")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why: it is kept in the audit log.")]


@app.command(epilog=exits.MEANING)
def backfill(
    stream: options.Stream,
    *,
    offsets: Offsets = None,
    start: Start = None,
    end: End = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Parse messages anew with the parser that is configured now, and put the new rows in place of the old ones.

    Whole ingest plans are taken that have such offsets, or rows of such times. Messages that Kafka has deleted come
    from the backup stream. Ingest may go on; readers see the old rows until the new ones are ready.
    """
    loaded = load(config)
    if (start is None) != (end is None):
        raise typer.BadParameter("give both --start and --end.")
    interval = None if start is None else (start, end)
    request = request_of(BackfillRequest, offsets=tuple(offsets or ()), interval=interval, reason=reason)
    job = local_job(loaded, stream, dry_run=dry_run)
    run = Backfill(job, request, kafka_streams(loaded), parser_of(loaded.stream(stream), loaded.path.parent))
    plan = run.plan()
    done = Outcome() if dry_run or not plan.refills else run.carry_out(plan, 0)
    if as_json:
        document = {"dry_run": dry_run, "plan": plan.model_dump(mode="json"), "blocks": done.blocks}
        output.write_json(document | {"summary": done.summary, "failures": done.failures})
    else:
        for line in [*plan_lines(plan), *done.report, *done.failures]:
            output.write_line(line.removeprefix("* "))
        if dry_run:
            output.write_line("Dry run: nothing was changed.")
    if done.failures:
        raise typer.Exit(exits.TRY_AGAIN if done.retryable else exits.PROBLEMS)
