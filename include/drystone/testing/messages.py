"""Messages as Kafka would give them, streams for them, and a parser that is small enough to be right by inspection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from drystone.block.schema import Column, Schema
from drystone.bucket.protocol import Bucket
from drystone.config.model import StreamConfig
from drystone.engine.record import apply_config, keep_schema
from drystone.ingest.kafka.messages import MESSAGES
from drystone.ingest.kafka.plans import Plan
from drystone.ingest.origin import Target
from drystone.ingest.parsers.protocol import Parsed

DAY = 86_400_000
_KAFKA = {"kind": "kafka", "bootstrap_servers": "127.0.0.1:1", "topics": "flights"}


@dataclass(frozen=True)
class Message:
    """One message; `time` in ms since the epoch, None for none."""

    offset: int
    time: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def batches(
    messages: Sequence[Message], rows: int = 1000, topic: str = "flights", partition: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the messages in batches of so many rows."""
    for start in range(0, len(messages), rows):
        part = messages[start : start + rows]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([topic] * len(part)),
                pa.array([partition] * len(part), pa.int32()),
                pa.array([each.offset for each in part], pa.int64()),
                pa.array([None if each.time is None else each.time * 1000 for each in part], pa.int64()).cast(
                    MESSAGES.field("timestamp").type
                ),
                pa.array([each.key for each in part], pa.binary()),
                pa.array([each.value for each in part], pa.binary()),
                pa.array([list(each.headers) for each in part], MESSAGES.field("headers").type),
            ],
            schema=MESSAGES,
        )


@dataclass(frozen=True)
class FieldsParser:
    """Parses JSON objects of `at` (ISO-8601, null: unknown) and `city`; splits by `city` if asked to.

    Its bugs: it misspells cities in `wrong`, and takes messages of those in `refused` for bad ones.
    """

    split: bool = False
    wrong: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()

    @property
    def digest(self) -> str:
        """What it does, in words."""
        return f"fields {self.split} {sorted(self.wrong)} {sorted(self.refused)}"

    def parse(self, messages: pa.RecordBatch, planned_at: int) -> Parsed:
        """See the protocol."""
        good: list[tuple[int, datetime | None, str]] = []
        errors: list[tuple[int, str]] = []
        for position, value in enumerate(messages.column("value").to_pylist()):
            try:
                fields = json.loads(value)
                at = None if fields["at"] is None else datetime.fromisoformat(fields["at"])
                known = at if at is not None and at.timestamp() * 1000 < planned_at + DAY else None
                city = fields["city"]
                if city in self.refused:
                    errors.append((position, f"refused: {city}"))
                    continue
                good.append((position, known, city.upper() if city in self.wrong else city))
            except (ValueError, KeyError, TypeError) as error:
                errors.append((position, f"no object: {error!r}"))
        cities = pa.array([city for _, _, city in good], pa.string())
        rows = pa.table({"at": pa.array([at for _, at, _ in good], pa.timestamp("us", "UTC")), "city": cities})
        positions = pa.array([position for position, _, _ in good], pa.int64())
        return Parsed(rows, positions, cities if self.split else None, errors)


def backup_config(**more: object) -> StreamConfig:
    """Return the configuration of a backup stream."""
    return StreamConfig.model_validate({"labels": {"stream": "raw"}, "ingest": {**_KAFKA, "group": "backup"}, **more})


def partition_config(**more: object) -> StreamConfig:
    """Return the configuration of a partition stream of what `FieldsParser` gives."""
    ingest = {"group": "partition", "dead_letters": "dead", "parser": {"format": "json"}}
    own = {"schema": {"at": "timestamp", "city": "string"}, "time_column": "at", "sort_key": ["city", "at"]}
    return StreamConfig.model_validate({"labels": {"stream": "flights"}, **own, "ingest": {**_KAFKA, **ingest}, **more})


def dead_config(**more: object) -> StreamConfig:
    """Return the configuration of a stream of dead letters."""
    return StreamConfig.model_validate({"labels": {"stream": "dead"}, "ingest": {"kind": "dead_letters"}, **more})


def target(bucket: Bucket, stream: str, config: StreamConfig) -> Target:
    """Return where rows of a stream go, its record and schema written."""
    apply_config(bucket, stream, config)
    columns = config.columns if isinstance(config.columns, dict) else {}
    schema = Schema(columns=tuple(Column(name=name, type=kind) for name, kind in columns.items()))
    return Target(stream, config, schema, keep_schema(bucket, stream, schema), "run-1", {})


def plan(stream: str, start: int, end: int, planned_at: int, **more: object) -> Plan:
    """Return a plan of partition 0 of the topic `flights`."""
    fields = {"generation": 0, "topic": "flights", "topic_id": "T1", "partition": 0, "parser": "", "reason": "size"}
    own = {"stream": stream, "start": start, "end": end, "planned_at": planned_at}
    return Plan.model_validate({**fields, **own, **more})


def flight(offset: int, at: str | None, city: str, time: int) -> Message:
    """Return a message that `FieldsParser` understands."""
    value = json.dumps({"at": at, "city": city}).encode()
    return Message(offset, time, key=city.encode(), value=value)


def committed(messages: Iterable[Message]) -> list[int]:
    """Return the offsets."""
    return [each.offset for each in messages]
