"""`drystone trace`: from a message of Kafka to its row, and from a block to its messages."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from drystone import clock
from drystone.cli import exits, options, output
from drystone.config.load import load
from drystone.errors import UsageError
from drystone.ingest.kafka.streams import kafka_streams
from drystone.ingest.kafka.trace import trace_block, trace_message

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="Find the row of a message of Kafka, or the messages that a block was made of.",
)
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False)]
Number = Annotated[int, typer.Argument(metavar="PARTITION", min=0, help="Its partition.", show_default=False)]
Offset = Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="The message's offset.", show_default=False)]
Ulid = Annotated[str, typer.Argument(metavar="ULID", help="The block.", show_default=False)]


@app.command(epilog=exits.MEANING)
def message(
    topic: Topic,
    partition: Number,
    offset: Offset,
    *,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the block and the row of a message in every stream from Kafka: backup, parsed, dead letters.

    Rows are counted from 0, over all chunk files of a block.
    """
    streams = kafka_streams(load(config))
    found = trace_message(streams, topic, partition, offset, clock.system)
    if not found:
        names = ", ".join(stream.name for stream in streams) or "none"
        raise UsageError(f"no stream from Kafka has read topic {topic}.", f"Streams from Kafka: {names}.")
    if as_json:
        where = {"topic": topic, "partition": partition, "offset": offset}
        output.write_json(where | {"found": [asdict(each) for each in found]})
        return
    columns = ("stream", "group", "state", "block", "file", ">row", "plan")
    rows = ((each.stream, each.group, each.state, each.block, each.file, each.row, each.plan) for each in found)
    output.write_table(columns, rows)


@app.command(epilog=exits.MEANING)
def block(ulid: Ulid, *, config: options.Config = None, as_json: options.AsJson = False) -> None:
    """Show which messages a block was made of, and the blocks of the backups that hold them as they came."""
    found = trace_block(kafka_streams(load(config)), ulid, clock.system)
    if as_json:
        output.write_json(asdict(found))
        return
    columns = ("topic", ">partition", ">first offset", ">last offset", ">rows", "source")
    ranges = ((r.topic, r.partition, r.first_offset, r.last_offset, r.rows, r.source) for r in found.ranges)
    output.write_table(columns, ranges, title=f"block {ulid} of stream {found.stream}")
    for name, blocks in found.raw.items():
        output.write_line()
        output.write_table(("block",), ((each,) for each in blocks), title=f"as they came: stream {name}")
