"""`drystone files`: the chunk files that hold a stream's rows now, for DuckDB and the like."""

from __future__ import annotations

import typer

from drystone import reader
from drystone.cli import exits, options, output, where
from drystone.cli.warned import warnings_as_lines
from drystone.engine.report import size

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command(epilog=exits.MEANING)
def files(
    stream: options.Stream,
    *,
    start: options.Start = None,
    end: options.End = None,
    allow_incomplete: options.AllowIncomplete = False,
    generation: options.Generation = None,
    config: options.Config = None,
    bucket: options.BucketUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """List the visible chunk files, each with the SQL condition (DuckDB's dialect) that makes reading it exact.

    All rows that meet their file's condition, without the column __source, are the stream's rows, each exactly once.
    This holds for the stream's delete_delay from now.
    """
    opened = where.bucket_of(stream, config, bucket)
    generation = where.generation_of(stream, config, bucket, generation)
    with warnings_as_lines():
        found = reader.files(opened, stream, start, end, allow_incomplete=allow_incomplete, generation=generation)
    if as_json:
        output.write_json({"stream": stream, "files": found})
    else:
        output.write_table(("file", ">size", "only rows where"), ((f.uri, size(f.size), f.filter) for f in found))
