"""`drystone ls`: the streams, or the blocks of one."""

from __future__ import annotations

from typing import Annotated

import typer

from drystone import clock
from drystone.block.states import State
from drystone.bucket.protocol import Bucket
from drystone.cli import exits, options, output, where
from drystone.engine.report import size
from drystone.errors import DrystoneError, UsageError
from drystone.reader.lines import BlockLine, StreamLine, block_lines, stream_line
from drystone.reader.view import look

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
States = Annotated[
    list[State] | None,
    typer.Option("--state", case_sensitive=False, help="Only blocks in this state; give it again for more."),
]


@app.command(epilog=exits.MEANING)
def ls(
    stream: options.MaybeStream = None,
    *,
    state: States = None,
    config: options.Config = None,
    bucket: options.BucketUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """List the streams, or the blocks of a stream.

    A block's rows are read if its state is Healthy, Marked or Deletable and no ready group covers it; `why` says so.
    Streams are counted with all of their generations; `drystone inspect` tells these apart.
    """
    if stream is None:
        if state:
            raise UsageError("--state filters blocks.", "Give a stream: drystone ls STREAM --state …")
        _list_streams(where.streams(config, bucket), as_json=as_json)
        return
    view = look(where.bucket_of(stream, config, bucket), stream)
    lines = [line for line in block_lines(view) if not state or line.state in state]
    if as_json:
        output.write_json({"stream": stream, "at": view.timeline.at, "blocks": lines})
    else:
        _show_blocks(lines)


def _show_blocks(lines: list[BlockLine]) -> None:
    columns = ("ulid", "state", ">level", "chunk", ">rows", ">size", ">sources", "group", ">age", "why")
    output.write_table(columns, (_cells(line) for line in lines))


def _cells(line: BlockLine) -> tuple[object, ...]:
    # A group of one has the name of its block, which says nothing more.
    group = "" if line.group == line.ulid else f"{line.group} {line.group_index + 1}/{line.group_size}"
    age = output.length(line.age)
    sizes = (line.rows, size(line.bytes), line.sources)
    return (line.ulid, line.state, line.level, line.chunk, *sizes, group, age, line.why)


def _list_streams(found: list[tuple[str, Bucket]], *, as_json: bool) -> None:
    """Print a line for each; one that cannot be read keeps none of the others from being shown."""
    code = 0
    lines: list[StreamLine] = []
    for name, bucket in found:
        try:
            lines.append(stream_line(look(bucket, name, clock.system())))
        except UsageError:
            lines.append(StreamLine(name, bucket.url, error="no data yet"))
        except DrystoneError as error:
            code = max(code, exits.code_of(error))
            lines.append(StreamLine(name, bucket.url, error=exits.lines_of(error)))
    if as_json:
        output.write_json({"streams": lines})
    else:
        columns = ("stream", ">visible", ">blocks", ">marked", ">rows", ">size", ">problems", ">damage", "bucket", "")
        output.write_table(columns, (_stream_cells(line) for line in lines))
    raise typer.Exit(code)


def _stream_cells(line: StreamLine) -> tuple[object, ...]:
    numbers = (line.visible, line.blocks, line.marked, line.rows, size(line.bytes), line.problems, line.damage)
    return (line.stream, *numbers, line.bucket, line.error)
