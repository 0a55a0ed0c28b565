"""`drystone read`: a stream's rows, each exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from drystone.cli import exits, options, output, where
from drystone.cli.sinks import Format, open_sink
from drystone.cli.warned import warnings_as_lines
from drystone.errors import UsageError
from drystone.reader import look, scan
from drystone.reader.scanning import output_schema
from drystone.rows.checksum import ContentChecksum

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
_SHOWN = 20
Columns = Annotated[
    str | None, typer.Option(metavar="A,B,…", help="The columns to read (default: all).", show_default=False)
]
Limit = Annotated[
    int | None, typer.Option(min=0, help=f"Stop after this many rows (default: {_SHOWN} in a table, else all).")
]
How = Annotated[Format, typer.Option("--format", help="How rows are written.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file, whole or not at all.")
]
Count = Annotated[bool, typer.Option("--count", help="Print the number of rows and their content checksum instead.")]
PinOption = Annotated[
    bool, typer.Option("--pin", help="For reads longer than read_timeout: nothing is deleted meanwhile.")
]


@app.command(epilog=exits.MEANING)
def read(
    stream: options.Stream,
    *,
    start: options.Start = None,
    end: options.End = None,
    columns: Columns = None,
    limit: Limit = None,
    how: How = "table",
    out: Output = None,
    count: Count = False,
    pin: PinOption = False,
    generation: options.Generation = None,
    allow_incomplete: options.AllowIncomplete = False,
    config: options.Config = None,
    bucket: options.BucketUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Read the rows of a stream with start <= time < end, each exactly once, in no particular order.

    Blocks and row groups out of range are not read. --json is --format jsonl, and with --count one object.
    """
    if as_json and how not in {"table", "jsonl"}:
        raise UsageError(f"--json and --format {how} are two formats.", "Give one of them.")
    how = "jsonl" if as_json else how
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    opened = where.bucket_of(stream, config, bucket)
    generation = where.generation_of(stream, config, bucket, generation)
    with warnings_as_lines():
        batches = scan(
            opened, stream, start, end, names, allow_incomplete=allow_incomplete, pin=pin, generation=generation
        )
        wanted = _SHOWN if limit is None and how == "table" and not count else limit
        rows = _first(batches, wanted)
        if count:
            _count(rows, as_json=as_json)
            return
        with open_sink(how, out) as sink:
            empty = True
            for batch in rows:
                sink.write(batch)
                empty = False
            if empty:
                # What is written has its columns even where there are no rows.
                schema = output_schema(look(opened, stream, generation=generation), names)
                sink.write(pa.RecordBatch.from_pylist([], schema=schema))


def _count(batches: Iterator[pa.RecordBatch], *, as_json: bool) -> None:
    total = ContentChecksum()
    for batch in batches:
        total.update(batch)
    if as_json:
        output.write_json({"rows": total.rows, "checksum": total.hex})
    else:
        output.write_line(f"{total.rows:,} rows, checksum {total.hex}")


def _first(batches: Iterator[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    """Yield batches until there were `rows` rows; None: all of them."""
    left = rows
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)
        if not left:
            return
