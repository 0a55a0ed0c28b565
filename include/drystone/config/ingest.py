"""Where a stream's rows come from: `ingest`, by its `kind`. Source: the design, "Ingest".

Messages of Kafka keep their position: three columns that no other row of a stream has equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from drystone.config.durations import Duration, Size
from drystone.config.export import ExportConfig
from drystone.config.parser import AnyParser
from drystone.config.section import Day, Section

POSITION: Mapping[str, str] = {"kafka_topic": "string", "kafka_partition": "int32", "kafka_offset": "int64"}
"""Where a row's message lies in Kafka: columns of every stream that comes from there, and the end of its sort key."""
MESSAGE_TIME = "kafka_timestamp"
"""When a message was written, or says it was: the time column of streams that keep messages as they are."""
RAW_TIME = "kafka_timestamp_ms"
"""The same in ms as Kafka has it, however absurd; null where it has none."""
_BYTES: Mapping[str, str] = {"key": "binary", "value": "binary", "headers": "string"}
BACKUP: Mapping[str, str] = {**POSITION, MESSAGE_TIME: "timestamp", RAW_TIME: "int64", **_BYTES}
"""The columns of a backup group; `headers` is JSON: a list of [name, value in base64 or null]."""
DEAD: Mapping[str, str] = {**POSITION, MESSAGE_TIME: "timestamp", RAW_TIME: "int64", "error": "string", **_BYTES}
"""The columns of dead letters: a message as it came, and why it could not be parsed."""


OnChange = Literal["error", "replace", "append"]
"""What becomes of other content under a path that was ingested before."""


class FilesIngest(Section):
    """Rows from files: CSV, JSON lines or Parquet, gzipped or not.

    `path` is a glob relative to the configuration file, or absolute; strftime codes in it (`%Y-%m-%d`) are filled in
    from each run's data interval. `derive` adds columns by Spark SQL expressions over the file's own.
    """

    kind: Literal["files"] = "files"
    """Where rows come from."""
    path: str = Field(min_length=1)
    """A glob, relative to the configuration file or absolute; strftime codes stand for each run's data interval."""
    format: Literal["csv", "json", "parquet"]
    """How the files are written; gzip is seen by the name."""
    options: dict[str, str] = Field(default_factory=dict)
    """Options of Spark's reader for this format, such as `header`."""
    derive: dict[str, str] = Field(default_factory=dict)
    """Columns to add: name and Spark SQL expression over the file's own columns."""
    on_change: OnChange = "error"
    """Other content under a path that was ingested before: stops the run, is read in place of the old, or beside it."""
    schedule: str | None = None
    """A cron expression or `@daily` and the like; None: started by hand."""
    start_date: Day = "2024-01-01"
    """First data interval of a scheduled ingest."""


def _check_regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        msg = f"is no regular expression: {error}"
        raise ValueError(msg) from None
    return pattern


class KafkaIngest(Section):
    """Rows from Kafka: each committed message of every partition of the topics, exactly once.

    `group: backup` keeps messages as they are; `group: partition` parses them. Both may run beside each other over the
    same topics, as two streams. The upload policy (`max_bytes`, `max_age`) holds for each partition of a topic.
    """

    kind: Literal["kafka"]
    """Where rows come from."""
    group: Literal["backup", "partition"]
    """What becomes of a message: kept as it is, or parsed."""
    bootstrap_servers: str = Field(min_length=1)
    """The brokers to begin with: `host:port,host:port`."""
    topics: Annotated[str, Field(min_length=1), AfterValidator(_check_regex)]
    """A regular expression for whole names of topics; new ones are found by themselves."""
    consumer_group: str | None = Field(None, min_length=1)
    """Whose offsets are moved for other tools; default `drystone.<stream>.<generation>`. Nothing rests on them."""
    start: Literal["earliest", "latest"] = "earliest"
    """Where ingest of a topic begins that it has not met before. Partitions added later begin at their beginning."""
    max_bytes: Size = Field(200 * 1000**2, ge=1)
    """A partition with this many bytes waiting (estimated) is uploaded, in plans of about this size …"""
    max_age: Duration = 3_600_000
    """… and one whose oldest waiting message is older than this."""
    max_lag: Duration | None = None
    """The run fails, when it has done what it could, if a message older than this is in no block."""
    earliest_time: Day = "1990-01-01"
    """A row's time before this is taken for unknown …"""
    latest_time: Duration = 86_400_000
    """… and one that lies this far after the planning of its upload."""
    dead_letters: str | None = Field(None, min_length=1)
    """The stream that takes messages which cannot be parsed; needed by `group: partition`."""
    max_bad_fraction: float = Field(0.01, ge=0, le=1)
    """If more than this part of a plan's messages cannot be parsed, nothing of it is uploaded, and the run fails."""
    parser: AnyParser | None = None
    """How messages are parsed; needed by `group: partition`."""
    client: dict[str, str] = Field(default_factory=dict)
    """More settings of the driver's client, by librdkafka's names; `${NAME}` stands for an environment variable."""
    spark: dict[str, str] = Field(default_factory=dict)
    """More options of Spark's Kafka source, by Spark's names; `${NAME}` stands for an environment variable."""
    export: ExportConfig | None = None
    """Copies of the messages in Secor's files, of `group: backup`."""
    schedule: str | None = None
    """A cron expression or `@hourly` and the like; None: started by hand."""
    start_date: Day = "2024-01-01"
    """From when on the schedule holds; runs that were missed are not made up for: the next one takes all there is."""

    @model_validator(mode="after")
    def _group_fits(self) -> Self:
        if self.max_lag is not None and self.max_lag < self.max_age:
            msg = "max_lag must not be less than max_age: messages may wait for that long"
            raise ValueError(msg)
        if self.export is not None and self.group != "backup":
            msg = "export copies messages as they are: it is for group backup"
            raise ValueError(msg)
        own = ("parser", "dead_letters")
        if self.group == "partition":
            if missing := [name for name in own if getattr(self, name) is None]:
                msg = f"group partition needs {' and '.join(missing)}"
                raise ValueError(msg)
        elif given := [name for name in (*own, "max_bad_fraction") if name in self.model_fields_set]:
            msg = f"group backup never parses: leave {' and '.join(given)} out"
            raise ValueError(msg)
        return self


class DeadLetters(Section):
    """Messages that another stream's parser refused: named there by `dead_letters`, and filled by its ingest."""

    kind: Literal["dead_letters"]
    """Where rows come from."""


_KINDS: Mapping[str, type[Section]] = {"files": FilesIngest, "kafka": KafkaIngest, "dead_letters": DeadLetters}


def kind_of(value: Mapping[str, object]) -> str:
    """Return the kind that a section of the file says it is: files, if it says nothing."""
    return str(value.get("kind", "files"))


def _by_kind(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Hold a section to the model of its kind alone, so that one mistake is one complaint."""
    if isinstance(value, Section):
        return handler(value)
    if not isinstance(value, dict):
        return FilesIngest.model_validate(value)
    model = _KINDS.get(kind_of(value))
    if model is None:
        msg = f"kind {value['kind']!r} is unknown; known: {', '.join(_KINDS)}"
        raise ValueError(msg)
    return model.model_validate(value)


Ingest = Annotated[FilesIngest | KafkaIngest | DeadLetters, WrapValidator(_by_kind)]
"""Where rows come from, by `kind`."""


def fixed_columns(ingest: Mapping[str, object]) -> Mapping[str, str] | None:
    """Return the columns of a stream that keeps messages as they are; None where the file gives them."""
    if kind_of(ingest) == "dead_letters":
        return DEAD
    return BACKUP if kind_of(ingest) == "kafka" and ingest.get("group") == "backup" else None


def complete(stream: dict[str, object]) -> dict[str, object]:
    """Return a stream of the file with what follows from where its rows come from: schema, time column, sort key.

    Raises ValueError for columns in the file that are not the file's to say.
    """
    ingest = stream.get("ingest")
    if not isinstance(ingest, dict):
        return stream
    fixed = fixed_columns(ingest)
    if fixed is not None:
        if given := [name for name in ("schema", "time_column", "sort_key") if name in stream]:
            msg = f"{' and '.join(given)} cannot be chosen: messages are kept as they are; leave it out"
            raise ValueError(msg)
        return {**stream, "schema": dict(fixed), "time_column": MESSAGE_TIME, "sort_key": tuple(POSITION)}
    if kind_of(ingest) != "kafka":
        return stream
    columns, order = stream.get("schema", "infer"), stream.get("sort_key")
    if columns == "infer":
        msg = "schema is missing: Kafka does not say which columns messages have"
        raise ValueError(msg)
    named = [*(columns if isinstance(columns, dict) else ()), *(order if isinstance(order, list | tuple) else ())]
    if taken := sorted({name for name in named if str(name).lower() in POSITION}):
        msg = f"{' and '.join(taken)} cannot be chosen: every row gets it, and is sorted by it at last; leave it out"
        raise ValueError(msg)
    made = dict(stream)
    if isinstance(columns, dict):
        made["schema"] = {**columns, **POSITION}
    if isinstance(order, list | tuple) and order:
        made["sort_key"] = [*order, *POSITION]
    return made
