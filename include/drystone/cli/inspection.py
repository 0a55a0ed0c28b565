"""`drystone inspect`: everything about a stream, or about one block."""

from __future__ import annotations

import typer

from drystone.cli import exits, options, output, where
from drystone.cli.block_view import show_block
from drystone.cli.stream_view import show_stream
from drystone.reader.details import block_details, stream_details
from drystone.reader.view import look

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command("inspect", epilog=exits.MEANING)
def inspect(
    stream: options.Stream,
    ulid: options.MaybeUlid = None,
    *,
    config: options.Config = None,
    bucket: options.BucketUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a stream: its rules, its blocks by state, all problems and all damage; or one block of it.

    Of a block: its state and why, its meta.json, sources, lineage (what it came from, what covers it, what it covers),
    files, marks and problems. Looking never fails for what it finds: `drystone verify` has the exit code.
    """
    view = look(where.bucket_of(stream, config, bucket), stream)
    if ulid is None:
        summary = stream_details(view)
        output.write_json(summary) if as_json else show_stream(summary)
        return
    details = block_details(view, ulid)
    output.write_json(details) if as_json else show_block(details)
