"""Options and arguments that several verbs take."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer


def parse_moment(text: str) -> int:
    """Return a time given in ISO-8601 (without an offset: UTC), or in ms since the epoch, as the latter."""
    if text.lstrip("-").isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is no time: give ISO-8601, such as 2013-01-31 or 2013-01-31T12:00:00Z, or ms since 1970."
        raise typer.BadParameter(msg) from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="Configuration file (default: $DRYSTONE_CONFIG, else drystone.yaml)."
    ),
]
BucketUrl = Annotated[
    str | None,
    typer.Option("--bucket", "-b", metavar="URL", help="Look into this bucket, without a configuration file."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; times are ms since the epoch, sizes bytes.")]
Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.", show_default=False)]
MaybeStream = Annotated[str | None, typer.Argument(metavar="STREAM", help="The stream's name.", show_default=False)]
MaybeUlid = Annotated[str | None, typer.Argument(metavar="ULID", help="One block of it.", show_default=False)]
Start = Annotated[
    int | None, typer.Option(parser=parse_moment, metavar="TIME", help="First moment, in ISO-8601 (UTC).")
]
End = Annotated[int | None, typer.Option(parser=parse_moment, metavar="TIME", help="End, exclusive, in ISO-8601.")]
Generation = Annotated[
    int | None,
    typer.Option(min=0, help="Whose rows (default: of the configured generation; with --bucket, of the newest)."),
]
AllowIncomplete = Annotated[
    bool, typer.Option("--allow-incomplete", help="Read what is there although rows are missing, and say so.")
]
