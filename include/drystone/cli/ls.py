"""`drystone ls`: the streams, or the blocks of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from drystone import clock, ulids
from drystone.block.chunks import Chunk
from drystone.block.meta import TimeChunk
from drystone.block.states import State
from drystone.bucket.protocol import Bucket
from drystone.cli import exits, options, output, where
from drystone.engine.report import size
from drystone.errors import DrystoneError, UsageError
from drystone.reader.stats import count
from drystone.reader.view import View, look
from drystone.timeline.explain import explain
from drystone.timeline.timeline import states

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
States = Annotated[
    list[State] | None,
    typer.Option("--state", case_sensitive=False, help="Only blocks in this state; give it again for more."),
]


@dataclass(frozen=True, slots=True)
class StreamLine:
    """A stream in a few numbers. `bytes` and `rows` are those of the visible blocks. `error`: why there are none."""

    stream: str
    bucket: str
    visible: int = 0
    blocks: int = 0
    marked: int = 0
    rows: int = 0
    bytes: int = 0
    problems: int = 0
    damage: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class BlockLine:
    """A block in one line. Times are ms since the epoch, `age` is ms since its upload began."""

    ulid: str
    state: State
    why: str
    level: int | None
    chunk: str
    min_time: int | None
    max_time: int | None
    rows: int | None
    bytes: int
    files: int
    sources: int
    group: str
    group_index: int
    group_size: int
    age: int


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


def block_lines(view: View) -> Iterator[BlockLine]:
    """Yield a line for every block folder, in the order of their ULIDs, which is that of their age."""
    times = view.record.rules
    found = states(view.snapshot, view.timeline, times)
    reasons = explain(view.snapshot, view.timeline, found, times)
    for ulid, folder in sorted(view.snapshot.folders.items()):
        meta = folder.meta
        extension = meta.drystone if meta is not None else None
        group = extension.group if extension is not None else None
        yield BlockLine(
            ulid=ulid,
            state=found[ulid],
            why=reasons[ulid],
            level=None if meta is None else meta.compaction.level,
            chunk="" if extension is None else _label(extension.time_chunk),
            min_time=None if meta is None else meta.min_time,
            max_time=None if meta is None else meta.max_time,
            rows=None if meta is None else meta.stats.num_samples,
            bytes=folder.size,
            files=sum(name.startswith("chunks/") for name in folder.files),
            sources=len(folder.sources),
            group=ulid if group is None else group.id,
            group_index=0 if group is None else group.index,
            group_size=1 if group is None else group.size,
            age=view.timeline.at - ulids.time_of(ulid),
        )


def _label(chunk: TimeChunk) -> str:
    return Chunk(chunk.start, chunk.end, chunk.granularity).label


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
            lines.append(_stream_line(look(bucket, name, clock.system())))
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


def _stream_line(view: View) -> StreamLine:
    stats, timeline = count(view), view.timeline
    return StreamLine(
        stream=view.record.stream,
        bucket=view.bucket.url,
        visible=stats.blocks_visible,
        blocks=stats.blocks_total,
        marked=stats.blocks_marked,
        rows=stats.rows,
        bytes=stats.bytes,
        problems=len(timeline.problems),
        damage=len(timeline.damage),
    )


def _stream_cells(line: StreamLine) -> tuple[object, ...]:
    numbers = (line.visible, line.blocks, line.marked, line.rows, size(line.bytes), line.problems, line.damage)
    return (line.stream, *numbers, line.bucket, line.error)
