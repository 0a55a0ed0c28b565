"""`drystone verify`: whether everything is there, and is what was written."""

from __future__ import annotations

from typing import Annotated

import typer

from drystone import clock
from drystone.cli import exits, options, output, where
from drystone.engine.report import size
from drystone.engine.verify import Verification, verify_stream

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Deep = Annotated[bool, typer.Option("--deep", help="Read every file: hashes, row groups, order, sources, checksums.")]


@app.command(epilog=exits.MEANING)
def verify(
    stream: options.Stream,
    ulid: options.MaybeUlid = None,
    *,
    deep: Deep = False,
    config: options.Config = None,
    bucket: options.BucketUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a stream, or one block of it; exit code 1 if anything is wrong.

    Sizes of all files, each block's index against its meta.json, and that every source is read exactly once.
    With --deep also hashes, row groups against the index, schema, sort order, sources and content checksums.
    Nothing is changed.
    """
    found = verify_stream(where.bucket_of(stream, config, bucket), stream, clock.system(), deep=deep, only=ulid)
    if as_json:
        output.write_json(found)
    else:
        _show(found)
    raise typer.Exit(exits.PROBLEMS if found.findings else 0)


def _show(found: Verification) -> None:
    if found.findings:
        lines = ((f.severity, f.block, f.file, f.what, f.to_do) for f in found.findings)
        output.write_table(("severity", "block", "file", "what is wrong", "what to do"), lines)
        output.write_line()
    how = "every row" if found.deep else "metadata only: --deep reads every row"
    counts = f"{found.blocks:,} blocks, {found.files:,} files, {size(found.bytes)}, {found.rows:,} rows ({how})"
    output.write_line(f"{counts}: {len(found.findings)} findings.")
