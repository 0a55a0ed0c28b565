"""`drystone retain`: expire what is older than the stream's retention."""

from __future__ import annotations

import typer

from drystone.cli import exits, options
from drystone.cli.acting import Author, DryRun, act, author_or_user, request_of
from drystone.jobs import RetainRequest

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
_NEXT = "Readers leave these rows out from now on; the lifecycle's next sweeps delete blocks that hold nothing else."


@app.command(epilog=exits.MEANING)
def retain(
    stream: options.Stream,
    *,
    author: Author = None,
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Write an expire edit for each resolution that has rows older than `retention` of the configuration keeps them.

    The limit is the beginning of a time chunk of new blocks. Again on the same day it finds nothing to do.
    """
    request = request_of(RetainRequest, author=author_or_user(author))
    act(stream, request, config=config, dry_run=dry_run, as_json=as_json, notes=[_NEXT])
