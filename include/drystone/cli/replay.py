"""`drystone replay`: messages of a backup, or dead letters, sent into a topic again."""

from __future__ import annotations

from typing import Annotated

import typer

from drystone import clock, ulids
from drystone.cli import exits, options, output
from drystone.cli.acting import DryRun
from drystone.config.load import load
from drystone.errors import UsageError
from drystone.jobs import ReplayRequest
from drystone.verbs.replay import prepare

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Offsets = Annotated[
    list[str],
    typer.Option("--offsets", metavar="TOPIC:PARTITION:FIRST-LAST", help="These, or all of TOPIC:PARTITION."),
]
To = Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic to send them to; it must be there.")]
Again = Annotated[bool, typer.Option("--again", help="Also into a topic that is ingested: they are ingested twice.")]


@app.command(epilog=exits.MEANING)
def replay(
    stream: options.Stream,
    *,
    offsets: Offsets,
    to: To,
    again: Again = False,
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Send messages of a backup stream, or dead letters, into a topic: key, value, headers and time as they were.

    Each goes to the partition that it came from, in order, all in one transaction: who reads committed messages sees
    all of them or none.
    """
    if not offsets:
        raise UsageError("no offsets are given.", "Name some: TOPIC:PARTITION:FIRST-LAST.")
    if not to:
        raise UsageError("no topic is given.", "Name one with --to.")
    request = ReplayRequest(offsets=tuple(offsets), to=to, again=again)
    wanted = prepare(load(config), stream, request, ulids.new(clock.system()), clock.system)
    count = sum(wanted.count().values()) if dry_run else wanted.run()
    if as_json:
        output.write_json({"dry_run": dry_run, "stream": stream, "to": to, "messages": count})
        return
    output.write_line(f"{count:,} messages {'would be' if dry_run else 'were'} sent to {to}.")
