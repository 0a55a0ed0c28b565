"""What a live stream cannot change in its configuration, and the way to get there. Source: the design, "Compaction"."""

from __future__ import annotations

from dataclasses import asdict

from drystone.block.chunks import GRANULARITIES
from drystone.block.record import StreamRecord
from drystone.config.model import StreamConfig
from drystone.errors import StreamChangeError

_WAY_OUT = "Put the old value back, or ingest into a new stream (another name) and drop the old one when it is done."


def record_of(name: str, config: StreamConfig) -> StreamRecord:
    """Return the record that this configuration gives the stream."""
    return StreamRecord(
        stream=name,
        time_column=config.time_column,
        sort_key=config.sort_key,
        ingest_granularity=config.granularity.ingest,
        major_granularity=config.granularity.major,
        generation=config.generation,
        times=asdict(config.times.times()),
    )


def check_change(old: StreamRecord, new: StreamRecord) -> None:
    """Raise StreamChangeError if a stream that was written under `old` cannot go on under `new`.

    Blocks sorted by another key cannot be merged, rows of another time column lie in other chunks, and a finer
    granularity would weld a coarse block to many chunks. A lower generation is none: two may run side by side.
    """
    for field in ("sort_key", "time_column"):
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            msg = f"stream {new.stream}: {field} is {before!r} and cannot become {after!r}."
            raise StreamChangeError(msg, _WAY_OUT)
    for field in ("ingest", "major"):
        before, after = getattr(old, f"{field}_granularity"), getattr(new, f"{field}_granularity")
        if GRANULARITIES.index(after) < GRANULARITIES.index(before):
            msg = f"stream {new.stream}: granularity.{field} is {before} and cannot become finer ({after})."
            raise StreamChangeError(msg, _WAY_OUT)
