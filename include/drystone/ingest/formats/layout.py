"""Where files lie: `<prefix>/<topic>/<part>/…/<generation>_<Kafka partition>_<offset, 20 digits><extension>`.

Source: the seed "Secor", the output path: from the names of the files alone one can tell which of them holds a message.
Parts of a path are those of Secor's own parsers: `dt=2013-01-31`, `hr=07`, `offset=1000000`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from drystone.config.export import Split

PERIODS: dict[Split, int] = {"hour": 3_600_000, "day": 86_400_000}
"""How long (ms) the time of one folder is; what is split in another way has no periods."""
UNKNOWN = -(1 << 62)
"""The number of the folder of messages without a time: of no day and no hour, however long ago."""

_NAME = re.compile(r"(?P<generation>\d+)_(?P<partition>\d+)_(?P<offset>\d{20})(?P<extension>\.[a-z.]+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file lies. `parts`: the folders below the topic; `offset`: of its first message."""

    topic: str
    parts: tuple[str, ...]
    generation: int
    partition: int
    offset: int
    extension: str

    def key(self, prefix: str) -> str:
        """Return the key below `prefix`."""
        name = f"{self.generation}_{self.partition}_{self.offset:020d}{self.extension}"
        return "/".join([prefix, self.topic, *self.parts, name])


def parse(prefix: str, key: str) -> Place | None:
    """Return where a key below `prefix` lies, or None for what is no file of messages."""
    topic, *parts, name = key.removeprefix(f"{prefix}/").split("/")
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    generation, partition, offset = (int(found[each]) for each in ("generation", "partition", "offset"))
    return Place(topic, tuple(parts), generation, partition, offset, found["extension"])


@dataclass(frozen=True, slots=True)
class Folders:
    """How messages are told into folders, which are numbered. `offsets`: how many offsets one of `offset` holds."""

    split: Split
    offsets: int = 1_000_000

    def numbers(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the number of each message's folder (int64)."""
        if self.split == "none":
            return pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        if self.split == "offset":
            return pc.divide(batch.column("offset"), self.offsets)
        unit = "hour" if self.split == "hour" else "day"
        # Without its zone, which is UTC: Arrow would look it up.
        time = batch.column("timestamp").cast(pa.timestamp("us"))
        start = pc.floor_temporal(time, unit=unit).cast(pa.int64())
        return pc.fill_null(pc.divide(start, PERIODS[self.split] * 1000), UNKNOWN)

    def parts(self, number: int) -> tuple[str, ...]:
        """Return the path of the folder with this number, below its topic."""
        if self.split == "none":
            return ()
        if self.split == "offset":
            return (f"offset={number * self.offsets}",)
        if number == UNKNOWN:
            return ("dt=unknown", "hr=unknown") if self.split == "hour" else ("dt=unknown",)
        start = _EPOCH + timedelta(milliseconds=number * PERIODS[self.split])
        day = f"dt={start.date().isoformat()}"
        return (day, f"hr={start:%H}") if self.split == "hour" else (day,)
