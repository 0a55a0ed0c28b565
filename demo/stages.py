"""The stages of a block's life, what the stream must look like after each, and what it does look like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc
from flights import Truth, with_event_time
from home import STREAM
from watch import read

from drystone.bucket import Bucket
from drystone.reader import StageStats, observe_stats


@dataclass(frozen=True)
class Expected:
    """Numbers of blocks that follow from the flights alone."""

    ingested: int
    days: int
    months: int

    @classmethod
    def of(cls, flights: pa.Table) -> Expected:
        """Count the days (UTC) of each origin, the days and the months."""
        time = with_event_time(flights)["event_time"]
        day = pc.strftime(time, "%Y-%m-%d")
        return cls(
            ingested=pa.table({"origin": flights["origin"], "day": day})
            .group_by(["origin", "day"])
            .aggregate([])
            .num_rows,
            days=len(pc.unique(day)),
            months=len(pc.unique(pc.strftime(time, "%Y-%m"))),
        )


_Rule = Callable[[StageStats, Expected], bool]
RULES: dict[str, _Rule] = {
    "ingest": lambda found, want: found.blocks_visible == found.blocks_total == want.ingested,
    "minor": lambda found, want: found.blocks_visible == want.days,
    "major": lambda found, want: found.blocks_visible == want.months,
    "mark": lambda found, want: (
        found.blocks_visible == want.months and found.blocks_marked == found.blocks_total - want.months
    ),
    "sweep": lambda found, want: found.blocks_visible == found.blocks_total == want.months and not found.blocks_marked,
}


@dataclass(frozen=True)
class Stage:
    """The stream after a stage: `seconds` is how long the stage took; rows and checksum are from reading it."""

    name: str
    blocks_visible: int
    blocks_total: int
    blocks_marked: int
    files: int
    bytes: int
    rows: int
    checksum: str
    seconds: float
    ok: bool


def take(name: str, bucket: Bucket, seconds: float, expected: Expected, truth: Truth) -> Stage:
    """Look at the stream, read it, and judge both."""
    found = observe_stats(bucket, STREAM)
    rows = read(bucket)
    ok = rows == truth and found.rows == truth.rows and RULES[name](found, expected)
    numbers = asdict(found) | {"rows": rows.rows}
    return Stage(name=name, **numbers, checksum=rows.checksum, seconds=round(seconds, 1), ok=ok)
