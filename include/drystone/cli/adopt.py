"""`drystone adopt`: blocks that a stream does not read get a place in it."""

from __future__ import annotations

from typing import Annotated

import typer

from drystone.cli import exits, options
from drystone.cli.acting import DryRun
from drystone.cli.repair import Blocks, carry_out_request
from drystone.cli.where import bucket_at
from drystone.jobs import RepairRequest

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Origin = Annotated[
    str | None, typer.Option("--from", metavar="URL", help="The bucket where they lie (default: the stream's own).")
]
OriginStream = Annotated[
    str | None, typer.Option("--from-stream", metavar="NAME", help="The stream there (default: of the same name).")
]
Why = Annotated[str, typer.Option("--reason", "-r", help="Why: it is kept in the audit log.")]


@app.command(epilog=exits.MEANING)
def adopt(
    stream: options.Stream,
    blocks: Blocks = None,
    *,
    origin: Origin = None,
    origin_stream: OriginStream = None,
    reason: Why = "",
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Give blocks a new ULID in the stream: restored ones, another stream's, other tools', those from the future.

    Without a ULID: all that lie there. Drystone's own keep their sources, so every row is still read once, and what was
    retired or expired stays gone. Blocks of other tools must hold Parquet, and must not share sources in part.
    """
    request = RepairRequest(
        kind="adopt",
        blocks=tuple(blocks or ()),
        origin=bucket_at(origin).url if origin is not None else None,
        origin_stream=origin_stream,
        reason=reason,
    )
    carry_out_request(stream, request, config, dry_run=dry_run, as_json=as_json)
