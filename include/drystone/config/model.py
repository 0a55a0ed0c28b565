"""The configuration file: one YAML document of streams. Names and defaults here are the reference.

Source: the design, "Four choices per stream", "Visibility: what it rests on", "Compaction".
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)

from drystone.block.chunks import GRANULARITIES, Granularity
from drystone.block.keys import check_stream
from drystone.block.states import Times
from drystone.config.complaints import misplaced
from drystone.config.durations import Duration, Size
from drystone.config.ingest import POSITION, DeadLetters, FilesIngest, Ingest, KafkaIngest, complete
from drystone.config.section import Section
from drystone.errors import UsageError

MINIMUM_DELAY = 5 * 60_000

DEFAULT_BUCKET_CONNECTION = "aws_default"
"""The Airflow connection that need not exist: without it boto3's own chain decides."""
MAX_PRECISION = 38

_TYPES = "bool, int8, int16, int32, int64, float32, float64, string, binary, date, timestamp (UTC), decimal(p, s)"
_TYPE_PATTERN = (
    r"(bool|int8|int16|int32|int64|float32|float64|string|binary|date|timestamp|decimal\(([0-9]+), ?([0-9]+)\))"
)
_TYPE = re.compile(_TYPE_PATTERN.replace("([0-9]+), ?([0-9]+)", "(?P<precision>[0-9]+), ?(?P<scale>[0-9]+)"))


_BUCKET = re.compile(r"file:(?!/*$).+|memory://[^/]+|s3://[\w.-]{3,63}(/[^?]*)?(\?[a-z_]+=[^&]+(&[a-z_]+=[^&]+)*)?")


def _check_bucket(address: str) -> str:
    if not _BUCKET.fullmatch(address):
        msg = "must be file:FOLDER, relative to this file or absolute, or s3://bucket/prefix?setting=value&…"
        raise ValueError(msg)
    return address


BucketAddress = Annotated[str, AfterValidator(_check_bucket)]


def _check_type(name: str) -> str:
    found = _TYPE.fullmatch(name)
    if found is None:
        msg = f"no such type; known: {_TYPES}"
        raise ValueError(msg)
    if found["precision"] and not 0 <= int(found["scale"]) <= int(found["precision"]) <= MAX_PRECISION:
        msg = f"decimal(precision, scale) needs scale <= precision <= {MAX_PRECISION}"
        raise ValueError(msg)
    return name


ColumnType = Annotated[
    str,
    AfterValidator(_check_type),
    WithJsonSchema({"type": "string", "pattern": f"^{_TYPE_PATTERN}$", "description": _TYPES}),
]


class TimesConfig(Section):
    """The times of a stream, which must fit each other.

    `upload_timeout` + `max_lag` + `clock_skew` ≤ `sync_delay`, and
    `read_timeout` + `max_lag` + `clock_skew` < `delete_delay`.
    """

    sync_delay: Duration = 15 * 60_000
    """A block is not read before its ULID and its meta.json are this old. At least 5min."""
    delete_delay: Duration = 15 * 60_000
    """A block is deleted no sooner than this after its mark. At least 5min."""
    upload_timeout: Duration = 10 * 60_000
    """An upload that takes longer stops, and removes what it wrote."""
    max_lag: Duration = 0
    """How late a client may see a write or a deletion: 0 for a strongly consistent store."""
    read_timeout: Duration = 10 * 60_000
    """The longest that a read may take without a pin."""
    clock_skew: Duration = 60_000
    """How far the clocks of two machines may differ."""
    group_timeout: Duration = 24 * 3_600_000
    """An incomplete group whose rows are visible elsewhere is removed when it is this old."""
    plan_ttl: Duration = 3_600_000
    """A plan that is older is refused: the bucket may have changed under it."""
    allow_short_delays: bool = False
    """Lifts the minimum of `sync_delay` and `delete_delay`: for demos and tests."""

    @model_validator(mode="after")
    def _inequalities(self) -> Self:
        if not self.allow_short_delays:
            for name in ("sync_delay", "delete_delay"):
                if getattr(self, name) < MINIMUM_DELAY:
                    msg = f"{name} is below its minimum of 5min (allow_short_delays: true lifts it, for tests)"
                    raise ValueError(msg)
        if self.upload_timeout + self.max_lag + self.clock_skew > self.sync_delay:
            msg = "upload_timeout + max_lag + clock_skew must not exceed sync_delay, or a block is read half-written"
            raise ValueError(msg)
        if self.read_timeout + self.max_lag + self.clock_skew >= self.delete_delay:
            msg = "read_timeout + max_lag + clock_skew must be less than delete_delay, or a read loses its blocks"
            raise ValueError(msg)
        return self

    def times(self) -> Times:
        """Return these times as the pure parts take them."""
        return Times(**self.model_dump(exclude={"allow_short_delays"}))


class Compaction(Section):
    """What is rewritten, when, and within which bounds."""

    target_block_bytes: Size = Field(256 << 20, ge=1)
    """The size of a block that compaction aims at. Minor compaction leaves alone what has half of it."""
    min_inputs: int = Field(2, ge=2)
    """Minor compaction waits for this many small blocks of a chunk."""
    size_ratio: float = Field(2.0, gt=0, le=100)
    """A block joins a merge only if it is at most this many times as big as all smaller ones of the merge together."""
    offset_from_latest: Duration = 0
    """Major compaction takes a chunk this long after the chunk's end."""
    max_group_bytes: Size = Field(64 << 30, ge=1)
    """A merge of more bytes is split, or left."""
    max_bytes_per_run: Size = Field(256 << 30, ge=1)
    """What one plan rewrites at most."""
    max_attempts: int = Field(3, ge=1)
    """A merge that failed this often is marked no-compact, and reported."""
    memory_per_task: Size = Field(512 << 20, ge=1)
    """What one merge may hold in memory, whatever the size of its blocks."""
    row_group_rows: int = Field(131_072, ge=1024, le=1 << 24)
    """Rows of a Parquet row group: the unit of pruning and of memory."""
    order: Literal["newest", "oldest"] = "newest"
    """Of merges with equal benefit, which time chunk comes first."""


class Granularities(Section):
    """The time chunk of new blocks, and the one that major compaction rolls up to."""

    ingest: Granularity = "day"
    """The time chunk of new blocks."""
    major: Granularity = "month"
    """The time chunk that major compaction rolls up to."""

    @model_validator(mode="after")
    def _not_finer(self) -> Self:
        if GRANULARITIES.index(self.major) < GRANULARITIES.index(self.ingest):
            msg = f"major ({self.major}) must not be finer than ingest ({self.ingest})"
            raise ValueError(msg)
        return self


_Kept = Annotated[Duration, Field(gt=0, le=100 * 365 * 86_400_000)]
"""A length of time below a century."""


class Retention(Section):
    """How long rows are kept, by the resolution of their blocks; what is not named is kept for ever.

    Keep rows of a finer resolution until the coarser ones have been made of them.
    """

    raw: _Kept | None = None
    """Rows as they came in."""
    five_minutes: _Kept | None = Field(None, alias="5min")
    """Rows of 5 minutes."""
    one_hour: _Kept | None = Field(None, alias="1h")
    """Rows of an hour."""

    def by_resolution(self) -> dict[int, int]:
        """Return how long (ms) rows of which resolution (ms) are kept, where that is bounded."""
        kept = {0: self.raw, 300_000: self.five_minutes, 3_600_000: self.one_hour}
        return {resolution: length for resolution, length in kept.items() if length is not None}


class Lifecycle(Section):
    """When the lifecycle runs: a cron expression, `asset` (after every ingest) or None (by hand)."""

    schedule: str | None = "asset"
    """A cron expression, `asset` or null."""


def _check_column(name: str) -> str:
    if not name or "`" in name or name.startswith("__"):
        msg = "cannot name a column: no backticks, and no two underscores in front, which are for Drystone's own"
        raise ValueError(msg)
    return name


_COLUMNS: TypeAdapter[dict[str, ColumnType]] = TypeAdapter(
    Annotated[dict[Annotated[str, AfterValidator(_check_column)], ColumnType], Field(min_length=1)]
)


def _columns(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Take a dictionary for columns and all else for a word, so that one mistake is one complaint."""
    if not isinstance(value, dict):
        if value == "infer":
            return handler(value)
        msg = "must be `infer`, or the columns with their types"
        raise ValueError(msg)
    columns = _COLUMNS.validate_python(value)
    names = [name.lower() for name in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        msg = f"column {twice[0]} stands twice; names that differ in case only are one to Spark"
        raise ValueError(msg)
    return columns


def _not_needed(schema: dict[str, Any]) -> None:
    """Take from the JSON Schema that every stream must have what some have by themselves."""
    schema["required"] = [name for name in schema["required"] if name not in {"time_column", "sort_key"}]


class StreamConfig(Section):
    """One stream: one schema, one label set, one policy."""

    model_config = ConfigDict(json_schema_extra=_not_needed)

    labels: dict[str, str] = Field(min_length=1)
    """The label set of the stream's blocks, as Thanos' tools show it."""
    time_column: str
    """The event time: a timestamp or date; null: unknown. Streams that keep Kafka messages as they are have theirs."""
    sort_key: tuple[str, ...] = Field(min_length=1)
    """What rows are sorted by in every file; rows from Kafka at last by topic, partition and offset."""
    columns: Annotated[dict[str, ColumnType] | Literal["infer"], WrapValidator(_columns)] = Field(
        "infer", alias="schema"
    )
    """Column types of the rows, derived ones included; `infer`: as Spark infers them at the first ingest of files."""
    granularity: Granularities = Granularities()
    """The time chunks of the stream."""
    times: TimesConfig = TimesConfig()
    """The delays of the stream."""
    generation: int = Field(0, ge=0)
    """Keeps the outputs of incompatible releases apart. Two may run side by side: each reader reads one of them."""
    tracker: Literal["listing"] = "listing"
    """How Drystone knows which blocks exist."""
    coordination: Literal["none"] = "none"
    """Who may replace what."""
    ingest: Ingest
    """Where rows come from."""
    compaction: Compaction = Compaction()
    """What is rewritten, and when."""
    retention: Retention = Retention()
    """How long rows are kept."""
    lifecycle: Lifecycle = Lifecycle()
    """When the lifecycle runs."""
    lag_limit: Duration | None = None
    """How old the newest ingest that readers see may get before `drystone__fleet` fails and names the stream."""
    owner: str = "drystone"
    """The owner of the stream's DAGs."""
    bucket: BucketAddress | None = None
    """Its own bucket, instead of the file's."""
    bucket_connection: str | None = Field(None, min_length=1)
    """Its own connection for the bucket, instead of the file's."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, stream: object) -> object:
        return complete(stream) if isinstance(stream, dict) else stream

    @model_validator(mode="after")
    def _columns_exist(self) -> Self:
        twice = sorted({name for name in self.sort_key if self.sort_key.count(name) > 1})
        if twice:
            msg = f"sort_key: {twice[0]} stands twice"
            raise ValueError(msg)
        if self.columns == "infer":
            return self
        derived = self.ingest.derive if isinstance(self.ingest, FilesIngest) else {}
        wanted = {*self.sort_key, self.time_column, *derived}
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

    @model_validator(mode="after")
    def _parser_fits(self) -> Self:
        parser = self.ingest.parser if isinstance(self.ingest, KafkaIngest) else None
        if parser is not None and (complaint := parser.complaint(self.parsed_columns, self.time_column)):
            raise ValueError(f"ingest.parser.{complaint}")
        return self

    @property
    def files(self) -> FilesIngest:
        """How the stream's files are read; raises UsageError if its rows come from somewhere else."""
        if isinstance(self.ingest, FilesIngest):
            return self.ingest
        raise UsageError(f"the rows of this stream do not come from files: ingest.kind is {self.ingest.kind}.")

    @property
    def kafka(self) -> KafkaIngest:
        """How the stream's messages are read; raises UsageError if its rows come from somewhere else."""
        if isinstance(self.ingest, KafkaIngest):
            return self.ingest
        raise UsageError(f"the rows of this stream do not come from Kafka: ingest.kind is {self.ingest.kind}.")

    @property
    def parsed_columns(self) -> dict[str, str]:
        """The columns that a parser gives: those of the schema, less the messages' positions."""
        columns = {} if self.columns == "infer" else self.columns
        return {name: kind for name, kind in columns.items() if name not in POSITION}


class SparkConfig(Section):
    """How jobs are submitted. `conf` is passed to spark-submit; the connection is Airflow's."""

    connection: str = "spark_default"
    """The Airflow connection that says where Spark is."""
    conf: dict[str, str] = Field(default_factory=dict)
    """Passed to spark-submit with `--conf`."""
    max_parallel_jobs: int = Field(2, ge=1, le=64)
    """Slots of the pool `drystone_spark`, and the number of batches that a compaction is cut into."""
    local_bytes: Size = Field(64 << 20, ge=0)
    """What reads no more than this, and few blocks, is done by Airflow's task itself, without Spark; 0B: nothing is."""
    shared_filesystem: bool = False
    """Says that a local bucket is seen under the same path by every worker of a cluster."""


def _stream_name(name: str) -> str:
    try:
        return check_stream(name)
    except UsageError as error:
        raise ValueError(str(error)) from None


class Config(Section):
    """The whole file."""

    version: Literal[1]
    """The version of this format."""
    bucket: BucketAddress
    """`file:relative/or/absolute/folder`, relative to the configuration file, or [`s3://…`](../how-to/use-s3.md)."""
    streams: dict[Annotated[str, AfterValidator(_stream_name)], StreamConfig] = Field(min_length=1)
    """The streams by name."""
    bucket_connection: str = Field(DEFAULT_BUCKET_CONNECTION, min_length=1)
    """The Airflow connection with the credentials for a bucket in S3; without `aws_default`, boto3's own chain."""
    spark: SparkConfig = SparkConfig()
    """How Spark jobs are submitted."""

    @model_validator(mode="after")
    def _exports_keep_apart(self) -> Self:
        taken: dict[object, str] = {}
        for name, stream in self.streams.items():
            if not isinstance(stream.ingest, KafkaIngest) or stream.ingest.export is None:
                continue
            prefix = stream.ingest.export.prefix
            other = taken.setdefault((stream.bucket, stream.generation, prefix), name)
            if other != name:
                why = f"is the one of stream {other}: messages would be there twice"
            elif prefix.partition("/")[0] in self.streams:
                why = "begins with the name of a stream: that folder is the stream's own"
            else:
                continue
            raise misplaced(why, ("streams", name, "ingest", "export", "prefix"), prefix)
        return self

    @model_validator(mode="after")
    def _dead_letters_fit(self) -> Self:
        taken: dict[str, str] = {}
        for name, stream in self.streams.items():
            if not isinstance(stream.ingest, KafkaIngest) or stream.ingest.dead_letters is None:
                continue
            wanted = stream.ingest.dead_letters
            other = self.streams.get(wanted)
            if other is None or not isinstance(other.ingest, DeadLetters):
                why = "must name a stream of this file whose ingest.kind is dead_letters"
            elif (other.bucket, other.bucket_connection) != (stream.bucket, stream.bucket_connection):
                why = "must name a stream in the same bucket, with the same bucket_connection"
            elif wanted in taken:
                why = f"is the stream of {taken[wanted]}'s dead letters: each stream needs its own"
            else:
                taken[wanted] = name
                continue
            raise misplaced(why, ("streams", name, "ingest", "dead_letters"), wanted)
        return self
