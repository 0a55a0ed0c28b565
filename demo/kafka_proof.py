"""The proof of the Kafka demo: each stream against what was committed, and each partition's offsets and lag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from flights import Truth
from kafka_feed import Feed
from kafka_produce import Landed, Producing
from kafka_truth import backup_rows, consumed, dead_rows, flight_rows
from rich.table import Table
from show import console
from watch import read

import drystone
from drystone.bucket import Bucket
from drystone.ingest.kafka.broker import Broker, Offsets, Partition
from drystone.testing.kafka import KafkaBroker

BACKUP, FLIGHTS, DEAD = "flights_backup", "flights", "flights_dead"
STREAMS = (BACKUP, FLIGHTS, DEAD)
_ERROR = frozenset({"error"})


@dataclass(frozen=True)
class Lag:
    """A partition: the first and the last offset in blocks, the end of what is committed, and what the group says."""

    topic: str
    partition: int
    rows: int
    first: int | None
    last: int | None
    end: int
    lag: int


def truths(
    landed: Sequence[Landed], feed: Feed, mistakes: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Truth]:
    """Return what each stream must hold. `mistakes`: columns that the parser reads from the field of another one."""
    return {BACKUP: backup_rows(landed), FLIGHTS: flight_rows(landed, feed, mistakes), DEAD: dead_rows(landed)}


def contents(bucket: Bucket) -> dict[str, Truth]:
    """Return what each stream holds, read row by row; the errors of dead letters are for people to judge."""
    return {stream: read(bucket, stream, _ERROR) for stream in STREAMS}


def lags(bucket: Bucket, broker: Broker, pattern: str) -> list[Lag]:
    """Return how far each partition is, by the rows of the backup stream and by the group's offsets."""
    ends = broker.offsets(
        [Partition(topic.name, each) for topic in broker.topics(pattern) for each in topic.partitions]
    )
    group = broker.committed(ends)
    columns = ["kafka_topic", "kafka_partition", "kafka_offset"]
    rows = pa.Table.from_batches([batch.select(columns) for batch in drystone.scan(bucket, BACKUP, columns=columns)])
    return [_lag(part, ends[part], group.get(part), rows) for part in sorted(ends)]


def _lag(part: Partition, offsets: Offsets, committed: int | None, rows: pa.Table) -> Lag:
    wanted = pc.and_(pc.equal(rows["kafka_topic"], part.topic), pc.equal(rows["kafka_partition"], part.number))
    found = rows["kafka_offset"].filter(wanted)
    span = pc.min_max(found).as_py()
    lag = offsets.end - (offsets.start if committed is None else committed)
    return Lag(part.topic, part.number, len(found), span["min"], span["max"], offsets.end, lag)


def judge(
    found: Mapping[str, Truth], wanted: Mapping[str, Truth], partitions: Sequence[Lag], kinds: tuple[int, int]
) -> Iterator[str]:
    """Yield what is not as it must be. `kinds`: how many flights and how many broken messages were to be produced."""
    for stream, truth in wanted.items():
        if found[stream] != truth:
            yield f"{stream} holds {found[stream]}, and must hold {truth}"
    if (wanted[FLIGHTS].rows, wanted[DEAD].rows) != kinds:
        yield f"{wanted[FLIGHTS].rows} flights and {wanted[DEAD].rows} broken messages are committed, not {kinds}"
    for each in partitions:
        if each.lag:
            yield f"{each.topic}-{each.partition} has a lag of {each.lag} offsets"
    if sum(each.rows for each in partitions) != wanted[BACKUP].rows:
        yield "the partitions' rows together are not those that were committed"


def ledger_is_true(server: KafkaBroker, broker: Broker, pattern: str, landed: Sequence[Landed]) -> Iterator[str]:
    """Yield how the producers' ledger differs from what a consumer of committed messages reads."""
    parts = [Partition(topic.name, each) for topic in broker.topics(pattern) for each in topic.partitions]
    read_ = consumed(server, broker.offsets(parts))
    ours = {(each.topic, each.partition, each.offset, each.message.value) for each in landed}
    if read_ != ours or len(ours) != len(landed):
        yield f"a consumer reads {len(read_)} messages, of which {len(read_ & ours)} of {len(landed)} are in the ledger"


def show(producing: Producing, found: Mapping[str, Truth], wanted: Mapping[str, Truth], lag: Sequence[Lag]) -> None:
    """Print both tables."""
    streams = Table(title="From Kafka to blocks")
    for heading in ("", "rows", "must be", "checksum", "exactly once"):
        streams.add_column(heading, justify="left" if heading in {"", "checksum", "exactly once"} else "right")
    streams.add_row("messages committed", f"{len(producing.committed):,}", "", "", "")
    streams.add_row("transactions, aborted", f"{producing.transactions:,}, {producing.aborted:,}", "", "", "")
    for stream in STREAMS:
        verdict = "yes" if found[stream] == wanted[stream] else "[red]NO[/]"
        streams.add_row(stream, f"{found[stream].rows:,}", f"{wanted[stream].rows:,}", found[stream].checksum, verdict)
    console.print(streams)
    table = Table(title="Partitions, by the rows of the backup stream")
    for heading in ("topic", "partition", "rows", "first offset", "last offset", "end", "lag"):
        table.add_column(heading, justify="left" if heading == "topic" else "right")
    for each in lag:
        cells: list[Any] = [each.topic, each.partition, each.rows, each.first, each.last, each.end, each.lag]
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells))
    console.print(table)
