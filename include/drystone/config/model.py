"""The configuration file: one YAML document of streams. Names and defaults here are the reference.

Source: the design, "Four choices per stream", "Visibility: what it rests on", "Compaction".
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from drystone.block.chunks import GRANULARITIES, Granularity
from drystone.block.keys import check_stream
from drystone.block.states import Times
from drystone.config.durations import Duration, Size
from drystone.errors import UsageError

MINIMUM_DELAY = 5 * 60_000

ColumnType = Annotated[
    str,
    Field(
        pattern=r"^(bool|int8|int16|int32|int64|float32|float64|string|binary|date|timestamp|decimal\(\d+, ?\d+\))$",
        description="bool, int8 … int64, float32, float64, string, binary, date, timestamp (UTC), decimal(p,s)",
    ),
]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TimesConfig(_Section):
    """The times of a stream. `allow_short_delays` lifts the minimum of 5 minutes: for demos and tests."""

    sync_delay: Duration = 15 * 60_000
    delete_delay: Duration = 15 * 60_000
    upload_timeout: Duration = 10 * 60_000
    max_lag: Duration = 0
    read_timeout: Duration = 10 * 60_000
    clock_skew: Duration = 60_000
    group_timeout: Duration = 24 * 3_600_000
    plan_ttl: Duration = 3_600_000
    allow_short_delays: bool = False

    @model_validator(mode="after")
    def _inequalities(self) -> Self:
        if not self.allow_short_delays:
            for name in ("sync_delay", "delete_delay"):
                if getattr(self, name) < MINIMUM_DELAY:
                    msg = f"{name} is below its minimum of 5min (allow_short_delays: true lifts it, for tests)"
                    raise ValueError(msg)
        if self.upload_timeout + self.max_lag + self.clock_skew > self.sync_delay:
            msg = "upload_timeout + max_lag + clock_skew must not exceed sync_delay, or a block is read before it is whole"
            raise ValueError(msg)
        if self.read_timeout + self.max_lag + self.clock_skew >= self.delete_delay:
            msg = "read_timeout + max_lag + clock_skew must be less than delete_delay, or a read loses its blocks"
            raise ValueError(msg)
        return self

    def times(self) -> Times:
        """Return these times as the pure parts take them."""
        return Times(**self.model_dump(exclude={"allow_short_delays"}))


class FilesIngest(_Section):
    """Rows from files: CSV, JSON lines or Parquet, gzipped or not.

    `path` is a glob relative to the configuration file, or absolute; strftime codes in it (`%Y-%m-%d`) are filled in
    from each run's data interval. `derive` adds columns by Spark SQL expressions over the file's own.
    """

    kind: Literal["files"] = "files"
    path: str = Field(min_length=1)
    format: Literal["csv", "json", "parquet"]
    options: dict[str, str] = Field(default_factory=dict)
    derive: dict[str, str] = Field(default_factory=dict)
    schedule: str | None = None
    """A cron expression or `@daily` and the like; None: started by hand."""
    start_date: str = "2024-01-01"
    """First data interval of a scheduled ingest."""


class Compaction(_Section):
    """What is rewritten, when, and within which bounds."""

    target_block_bytes: Size = 256 << 20
    min_inputs: int = Field(2, ge=2)
    """Minor compaction waits for this many small blocks of a chunk."""
    size_ratio: float = Field(2.0, gt=0, le=100)
    """A block joins a merge only if it is at most this many times as big as all smaller ones of the merge together."""
    offset_from_latest: Duration = 0
    """Major compaction takes a chunk this long after the chunk's end."""
    max_group_bytes: Size = 64 << 30
    max_bytes_per_run: Size = 256 << 30
    max_attempts: int = Field(3, ge=1)
    memory_per_task: Size = 512 << 20
    row_group_rows: int = Field(131_072, ge=1024, le=1 << 24)
    order: Literal["newest", "oldest"] = "newest"


class Granularities(_Section):
    """The time chunk of new blocks, and the one that major compaction rolls up to."""

    ingest: Granularity = "day"
    major: Granularity = "month"

    @model_validator(mode="after")
    def _not_finer(self) -> Self:
        if GRANULARITIES.index(self.major) < GRANULARITIES.index(self.ingest):
            msg = f"major ({self.major}) must not be finer than ingest ({self.ingest})"
            raise ValueError(msg)
        return self


class Lifecycle(_Section):
    """When the lifecycle runs: a cron expression, `asset` (after every ingest) or None (by hand)."""

    schedule: str | None = "asset"


class StreamConfig(_Section):
    """One stream: one schema, one label set, one policy."""

    labels: dict[str, str] = Field(min_length=1)
    time_column: str
    sort_key: tuple[str, ...] = Field(min_length=1)
    columns: dict[str, ColumnType] | Literal["infer"] = Field("infer", alias="schema")
    """Column types of the rows, derived columns included; `infer`: as Spark infers them at the first ingest."""
    granularity: Granularities = Granularities()
    times: TimesConfig = TimesConfig()
    generation: int = Field(0, ge=0)
    tracker: Literal["listing"] = "listing"
    coordination: Literal["none"] = "none"
    ingest: FilesIngest
    compaction: Compaction = Compaction()
    lifecycle: Lifecycle = Lifecycle()
    owner: str = "drystone"
    bucket: str | None = None
    """Its own bucket, instead of the file's."""

    @model_validator(mode="after")
    def _columns_exist(self) -> Self:
        if self.columns == "infer":
            return self
        wanted = {*self.sort_key, self.time_column, *self.ingest.derive}
        missing = sorted(wanted - self.columns.keys())
        if missing:
            msg = f"schema lacks {', '.join(missing)}; it has {', '.join(self.columns)}"
            raise ValueError(msg)
        if self.columns[self.time_column] not in {"timestamp", "date"}:
            msg = f"time_column {self.time_column} must be a timestamp or a date, not {self.columns[self.time_column]}"
            raise ValueError(msg)
        for name in self.sort_key:
            if re.match(r"binary|decimal", self.columns[name]):
                msg = f"sort_key: {name} is {self.columns[name]}, which cannot be sorted by"
                raise ValueError(msg)
        return self


class SparkConfig(_Section):
    """How jobs are submitted. `conf` is passed to spark-submit; the connection is Airflow's."""

    connection: str = "spark_default"
    conf: dict[str, str] = Field(default_factory=dict)
    max_parallel_jobs: int = Field(2, ge=1, le=64)
    """Slots of the pool `drystone_spark`, and the number of batches that a compaction is cut into."""
    shared_filesystem: bool = False
    """Says that a local bucket is seen under the same path by every worker of a cluster."""


def _stream_name(name: str) -> str:
    try:
        return check_stream(name)
    except UsageError as error:
        raise ValueError(str(error)) from None


class Config(_Section):
    """The whole file."""

    version: Literal[1]
    bucket: str
    """`file:relative/or/absolute/folder`, relative to the configuration file."""
    streams: dict[Annotated[str, AfterValidator(_stream_name)], StreamConfig] = Field(min_length=1)
    spark: SparkConfig = SparkConfig()
