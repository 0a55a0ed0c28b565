"""`drystone audit`: what was done to a stream, by whom and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from drystone.cli import exits, options, output, where
from drystone.engine import audit as log

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
What = Annotated[list[str] | None, typer.Option("--what", help="Only such actions: upload, delete, erase, …")]
Of = Annotated[str | None, typer.Option("--of", metavar="NAME", help="Only what was done to this block, edit or hold.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the last so many.")]


@app.command(epilog=exits.MEANING)
def audit(
    stream: options.Stream,
    *,
    what: What = None,
    of: Of = None,
    limit: Limit = None,
    config: options.Config = None,
    bucket: options.BucketUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the audit log: each action, what became of it, why, by which run and for whom.

    An action that stays `intended` is one of a run that died or has not come to it: whether it was done, the bucket
    tells. Nothing is ever taken from the log.
    """
    found = [
        entry
        for entry in log.actions(where.bucket_of(stream, config, bucket), stream)
        if (not what or entry.what in what) and of in {None, entry.block}
    ]
    found = found[-limit:] if limit else found
    if as_json:
        output.write_json({"stream": stream, "actions": [asdict(entry) for entry in found]})
        return
    columns = ("when", "what", "of", "outcome", "run", "by", "why")
    rows = (
        (output.moment(e.when), e.what, e.block, e.outcome, e.run, e.by, f"{e.why}{f' ({e.note})' if e.note else ''}")
        for e in found
    )
    output.write_table(columns, rows)
    output.write_line(f"{len(found):,} actions.")
