"""`drystone retire`: take the rows of sources or blocks away."""

from __future__ import annotations

from typing import Annotated

import typer

from drystone.cli import exits, options
from drystone.cli.acting import Author, DryRun, Reason, act, author_or_user, request_of
from drystone.jobs import RetireRequest

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Sources = Annotated[list[str] | None, typer.Option("--source", metavar="ULID", help="A source; again for more.")]
Blocks = Annotated[
    list[str] | None, typer.Option("--block", metavar="ULID", help="A block: all of its sources; again for more.")
]
_NEXT = (
    "Readers leave these rows out from now on. An edit never comes off: only files of another name bring the rows back."
)


@app.command(epilog=exits.MEANING)
def retire(
    stream: options.Stream,
    *,
    reason: Reason,
    source: Sources = None,
    block: Blocks = None,
    author: Author = None,
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a retire edit: every row of these sources is gone for readers at once, and for good.

    What they replaced, and what replaced them, goes with them: else an old copy would come back to life. The same
    request again makes no second edit.
    """
    request = request_of(
        RetireRequest, sources=source or (), blocks=block or (), reason=reason, author=author_or_user(author)
    )
    act(stream, request, config=config, dry_run=dry_run, as_json=as_json, notes=[_NEXT])
