"""`drystone bucket`: try out whether a store does what Drystone relies on."""

from __future__ import annotations

from typing import Annotated

import typer

from drystone.bucket import conformance
from drystone.bucket.probed import ProbeReport
from drystone.cli import exits, options, output, where
from drystone.config.durations import parse_duration

app = typer.Typer(
    add_completion=False, rich_markup_mode="markdown", help="Try out whether a store does what Drystone relies on."
)


def _window(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Url = Annotated[str, typer.Argument(metavar="URL", help="The bucket's address, such as s3://bucket/prefix.")]
Keys = Annotated[
    int, typer.Option("--keys", min=2, help="Objects to list and to delete at once; S3 lists 1,000 a page.")
]
Window = Annotated[
    int,
    typer.Option(parser=_window, metavar="DURATION", help="How long a change may stay unseen before the store fails."),
]


@app.callback()
def _bucket() -> None:
    """Make this a group of commands, though it has one."""


@app.command(epilog=exits.MEANING)
def probe(
    url: Url,
    *,
    keys: Keys = conformance.KEYS,
    window: Window = "10s",  # type: ignore[assignment] # the parser takes the text
    as_json: options.AsJson = False,
) -> None:
    """Try out everything that Drystone relies on, in a folder `.drystone/probe-…` that is removed in the end.

    What was found is kept in the bucket as `.drystone/probe.json`. If it failed, `config check` and all jobs refuse the
    bucket until another probe succeeds. Exit code 1 if it is refused, 3 if the store failed meanwhile.
    """
    bucket = where.bucket_at(url)
    report = conformance.probe(bucket, number_of_keys=keys, window=window)
    conformance.keep(bucket, report)
    if as_json:
        output.write_json(report.model_dump())
    else:
        _show(report)
    if report.refusals:
        raise typer.Exit(exits.PROBLEMS)
    if any(finding.result == "unknown" for finding in report.findings):
        raise typer.Exit(exits.TRY_AGAIN)


def _show(report: ProbeReport) -> None:
    lines = ((each.capability, each.result, each.found, each.without) for each in report.findings)
    output.write_table(("capability", "result", "found", "what Drystone does"), lines, title=report.bucket)
    output.write_line()
    if report.refusals:
        names = ", ".join(each.capability for each in report.refusals)
        output.write_line(f"Drystone refuses this bucket: {names}.")
    else:
        output.write_line("Drystone can work on this bucket.")
