"""`drystone hold`: keep removers and compactors off blocks, for a repair."""

from __future__ import annotations

from typing import Annotated

import typer

from drystone import clock
from drystone.bucket import open_bucket
from drystone.cli import exits, options, output
from drystone.cli.acting import Author, DryRun, Reason, act, author_or_user, parse_length, request_of
from drystone.config.load import load
from drystone.jobs import HoldRequest, ReleaseRequest
from drystone.verbs.requests import Desk

app = typer.Typer(
    add_completion=False, rich_markup_mode="markdown", help="Keep removers and compactors off blocks, for a repair."
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The hold's name.", show_default=False)]
Blocks = Annotated[
    list[str] | None, typer.Option("--block", metavar="ULID", help="A block; again for more; none: the whole stream.")
]
Length = Annotated[int, typer.Option("--for", parser=parse_length, metavar="DURATION", help="For how long: 2h, 7d.")]


@app.command(epilog=exits.MEANING)
def create(
    stream: options.Stream,
    name: Name,
    *,
    length: Length,
    reason: Reason,
    block: Blocks = None,
    author: Author = None,
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Hold blocks, or the whole stream: they are neither compacted, nor marked, nor deleted, until the hold ends.

    A run that looked at the stream before may still act on it, and a listing may lag: rely on the hold only after
    `sync_delay`. The same hold again changes nothing.
    """
    request = request_of(
        HoldRequest, name=name, blocks=block or (), reason=reason, author=author_or_user(author), length=length
    )
    sync_delay = load(config).stream(stream).times.sync_delay
    note = f"It is effective from {output.moment(clock.system() + sync_delay)}: listings may lag until then."
    act(stream, request, config=config, dry_run=dry_run, as_json=as_json, notes=[note])


@app.command(epilog=exits.MEANING)
def release(
    stream: options.Stream,
    name: Name,
    *,
    reason: Reason = "no longer needed",
    author: Author = None,
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Take a hold away: from then on removers and compactors go on. Releasing what is not held changes nothing."""
    request = request_of(ReleaseRequest, name=name, reason=reason, author=author_or_user(author))
    act(stream, request, config=config, dry_run=dry_run, as_json=as_json)


@app.command("list", epilog=exits.MEANING)
def show(stream: options.Stream, *, config: options.Config = None, as_json: options.AsJson = False) -> None:
    """List the holds of a stream, and since when each is effective."""
    loaded = load(config)
    desk = Desk(open_bucket(loaded.bucket_url(stream)), stream, loaded.stream(stream), clock.system)
    now, sync_delay = clock.system(), desk.config.times.sync_delay
    found = [
        {
            "name": name,
            **hold.model_dump(mode="json"),
            "effective": hold.created + sync_delay,
            "state": "expired" if hold.expires <= now else "effective" if hold.created + sync_delay <= now else "new",
        }
        for name, hold in sorted(desk.holds().items())
    ]
    if as_json:
        output.write_json({"stream": stream, "at": now, "holds": found})
        return
    rows = (
        (
            each["name"],
            each["state"],
            output.moment(each["effective"]),
            _moment(each["expires"]),
            each["owner"],
            each["reason"],
            ", ".join(each["blocks"]) or "the whole stream",
        )
        for each in found
    )
    output.write_table(("name", "state", "effective from", "expires", "owner", "reason", "blocks"), rows)


def _moment(ms: int) -> str:
    return "never" if ms > clock.system() * 100 else output.moment(ms)
