"""`drystone unmark`: take a block's deletion mark away."""

from __future__ import annotations

from typing import Annotated

import typer

from drystone.cli import exits, options
from drystone.cli.acting import Author, DryRun, Reason, act, author_or_user, parse_length, request_of
from drystone.jobs import UnmarkRequest

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Ulid = Annotated[str, typer.Argument(metavar="ULID", help="The marked block.", show_default=False)]
Length = Annotated[
    int, typer.Option("--for", parser=parse_length, metavar="DURATION", help="How long the block is held: 36h, 7d.")
]
_NEXT = "A held block is not marked again until the hold is released or expires: see `drystone hold list`."


@app.command(epilog=exits.MEANING)
def unmark(
    stream: options.Stream,
    ulid: Ulid,
    *,
    reason: Reason,
    length: Length = "7d",  # type: ignore[assignment] # the parser makes it a number
    author: Author = None,
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Take away the deletion mark of a block, whatever it was marked for.

    Where the next lifecycle would mark the block again, because another one covers it or an edit took its rows, it is
    held first, under the name `unmark-ULID`. Rows that an edit took away stay away.
    """
    request = request_of(UnmarkRequest, block=ulid, reason=reason, author=author_or_user(author), length=length)
    act(stream, request, config=config, dry_run=dry_run, as_json=as_json, notes=[_NEXT])
