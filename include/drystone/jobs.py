"""What a job and its caller say to each other: the verbs, the request, and the result object.

A job is `spark-submit drystone_<verb>.py --config FILE --stream NAME --run ID [--request JSON] [--dry-run]`. The last
thing that it does, whether it succeeded or not, is to write a `JobResult` to the stream's bucket under
`result_key(stream, run)`; then it exits with 0 if and only if it succeeded. No result after the process has ended means
that it died, and may be tried again: every job is idempotent.

What moves no bytes is a *step*: it needs no Spark, and runs in the process of whoever asks for it, an Airflow task or
the terminal. Its request and its result object are of the same kind.
"""

from __future__ import annotations

import re
import sysconfig
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from drystone.block import keys
from drystone.block.meta import Ulid
from drystone.block.predicates import Predicate
from drystone.errors import UsageError

Verb = Literal["upload", "detect", "compact", "mark", "sweep", "repair", "verify", "export", "backfill", "replay"]
VERBS: tuple[Verb, ...] = get_args(Verb)
Step = Literal["retain", "retire", "erase", "hold", "release", "unmark", "receipt", "plan", "carry-out"]
STEPS: tuple[Step, ...] = get_args(Step)
_RUN = re.compile(r"[A-Za-z0-9_+:-][A-Za-z0-9._+:-]{0,499}")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class UploadRequest(_Model):
    """Upload what there is to upload: of a stream of files, or of one of Kafka.

    Files: those that the stream's pattern names in [start, end) (ISO-8601), or that `path` names instead. Kafka:
    `force`: all that waits, however little and young; `accept_gap`: go on after messages that Kafka has deleted.
    """

    interval: tuple[str, str] | None = None
    path: str | None = Field(None, min_length=1)
    force: bool = False
    accept_gap: bool = False

    @field_validator("interval")
    @classmethod
    def _half_open(cls, interval: tuple[str, str] | None) -> tuple[str, str] | None:
        return _half_open(interval)

    @property
    def moments(self) -> tuple[datetime, datetime] | None:
        """The interval as moments in UTC."""
        return None if self.interval is None else (moment(self.interval[0]), moment(self.interval[1]))


class _Asked(_Model):
    """Every request of a person says why, and who asks."""

    reason: str = Field(min_length=1)
    author: str = Field(min_length=1)


class EraseRequest(_Asked):
    """Erase the rows that match. `key`: tells it from a request that is else the same, for rows that came later."""

    predicate: Predicate
    key: str = ""


class DetectRequest(_Model):
    """Plan a compaction of this kind, in at most `batches` batches of about equal bytes.

    `proposed`: for a dry run, an erasure that is taken for written.
    """

    kind: Literal["minor", "major", "rewrite"]
    batches: int = Field(1, ge=1)
    proposed: EraseRequest | None = None


class CompactRequest(_Model):
    """Execute batch number `batch` of a plan."""

    plan_key: str
    batch: int = Field(ge=0)


class MarkRequest(_Model):
    """Mark what is covered or gone by an edit, unmark what is not."""


class SweepRequest(_Model):
    """Delete what has been marked for longer than deleteDelay, and old partial uploads."""


RepairKind = Literal["partial", "malformed", "rewrite", "drop-rows", "reupload", "adopt"]
REPAIR_KINDS: tuple[RepairKind, ...] = get_args(RepairKind)


class RepairRequest(_Model):
    """Plan a repair of this kind; or execute batch number `batch` of the plan `plan_key`, which must have `digest`.

    `blocks`: by ULID, which it is about. `where`: which rows drop-rows drops. reupload uploads the file `path` in place
    of the rows of `source`. adopt looks into the bucket `origin` (by default the stream's own) for the stream
    `origin_stream` (by default of the same name). `reason`: for the log; what once was whole goes only with one.
    `batches`: into how many shares the work is cut at most.
    """

    kind: RepairKind | None = None
    blocks: tuple[Ulid, ...] = ()
    where: Predicate | None = None
    source: Ulid | None = None
    path: str | None = Field(None, min_length=1)
    origin: str | None = Field(None, min_length=1)
    origin_stream: str | None = Field(None, min_length=1)
    reason: str = ""
    batches: int = Field(1, ge=1)
    plan_key: str | None = None
    digest: str | None = None
    batch: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.kind is None) == (self.plan_key is None):
            msg = "either kind or plan_key must be given"
            raise ValueError(msg)
        needed = {"rewrite": ["blocks"], "drop-rows": ["where"], "reupload": ["source", "path"]}
        missing = [name for name in needed.get(self.kind or "", []) if not getattr(self, name)]
        if missing:
            msg = f"{self.kind} needs {' and '.join(missing)}"
            raise ValueError(msg)
        return self


class BackfillRequest(_Model):
    """Plan to parse messages anew; or execute batch number `batch` of the plan `plan_key`, which must have `digest`.

    `offsets`: `TOPIC:PARTITION` or `TOPIC:PARTITION:FIRST-LAST` each. `interval`: [start, end) (ISO-8601), of the rows'
    time. `reason`: for the log. `batches`: into how many shares the work is cut at most.
    """

    offsets: tuple[str, ...] = ()
    interval: tuple[str, str] | None = None
    reason: str = ""
    batches: int = Field(1, ge=1)
    plan_key: str | None = None
    digest: str | None = None
    batch: int = Field(0, ge=0)

    @field_validator("interval")
    @classmethod
    def _half_open(cls, interval: tuple[str, str] | None) -> tuple[str, str] | None:
        return _half_open(interval)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.plan_key is None) != bool(self.offsets or self.interval):
            msg = "either offsets or an interval, or plan_key must be given"
            raise ValueError(msg)
        return self

    @property
    def moments(self) -> tuple[datetime, datetime] | None:
        """The interval as moments in UTC."""
        return None if self.interval is None else (moment(self.interval[0]), moment(self.interval[1]))


class ReplayRequest(_Model):
    """Send the messages of `offsets` (`TOPIC:PARTITION` or `TOPIC:PARTITION:FIRST-LAST` each) into the topic `to`.

    `again`: also into a topic that is ingested.
    """

    offsets: tuple[str, ...] = Field(min_length=1)
    to: str = Field(min_length=1)
    again: bool = False


class VerifyRequest(_Model):
    """Check the stream, or one block of it; `deep`: read every file."""

    deep: bool = False
    block: Ulid | None = None


class ExportRequest(_Model):
    """Export what is not exported yet, of the topics whose whole names fit `topics` (default: all).

    `again`: everything that was ever committed, from the beginning: files that are missing are written anew.
    """

    topics: str | None = Field(None, min_length=1)
    again: bool = False


REQUESTS: dict[Verb, type[_Model]] = {
    "upload": UploadRequest,
    "detect": DetectRequest,
    "compact": CompactRequest,
    "mark": MarkRequest,
    "sweep": SweepRequest,
    "repair": RepairRequest,
    "verify": VerifyRequest,
    "export": ExportRequest,
    "backfill": BackfillRequest,
    "replay": ReplayRequest,
}


class RetainRequest(_Model):
    """Expire what is older than the stream's retention. `author`: the person or the DAG that asks."""

    author: str = Field("drystone", min_length=1)


class RetireRequest(_Asked):
    """Retire sources, and those of blocks."""

    sources: tuple[Ulid, ...] = ()
    blocks: tuple[Ulid, ...] = ()


class HoldRequest(_Asked):
    """Hold blocks, or the whole stream, for `length` ms."""

    name: str
    blocks: tuple[Ulid, ...] = ()
    length: int = Field(gt=0)


class ReleaseRequest(_Asked):
    """Take a hold away."""

    name: str


class UnmarkRequest(_Asked):
    """Take a block's deletion mark away; `length`: for how many ms it is held where it would be marked again."""

    block: Ulid
    length: int = Field(gt=0)


class ReceiptRequest(_Model):
    """Write down what there is left of an erasure, by default of every one."""

    edit: Ulid | None = None


class PlanRequest(_Model):
    """Plan an erasure or a retirement, and keep the plan, for a person to say yes to."""

    asked: EraseRequest | RetireRequest


class CarryOutRequest(_Model):
    """Carry out the plan `plan_key`, which must have `digest`: the one that was shown. `author`: who asked for it."""

    plan_key: str
    digest: str
    author: str = Field(min_length=1)


STEP_REQUESTS: dict[Step, type[_Model]] = {
    "retain": RetainRequest,
    "retire": RetireRequest,
    "erase": EraseRequest,
    "hold": HoldRequest,
    "release": ReleaseRequest,
    "unmark": UnmarkRequest,
    "receipt": ReceiptRequest,
    "plan": PlanRequest,
    "carry-out": CarryOutRequest,
}


class Batch(_Model):
    """One mapped task's share of a plan."""

    number: int
    label: str
    actions: int
    bytes: int
    rows: int


class JobResult(_Model):
    """What a job did. Times are ms since the epoch, durations ms."""

    version: Literal[1] = 1
    verb: Verb | Step
    stream: str
    run: str
    dry_run: bool = False
    ok: bool
    error: str = ""
    next_step: str = ""
    retryable: bool = False
    started: int
    ended: int
    spark_start_ms: int = 0
    work_ms: int = 0
    summary: dict[str, int | str] = Field(default_factory=dict)
    blocks: list[str] = Field(default_factory=list)
    """ULIDs of the blocks that it uploaded, marked or deleted."""
    other_blocks: dict[str, list[str]] = Field(default_factory=dict)
    """ULIDs of the blocks that it uploaded to other streams, by stream: dead letters."""
    plan_key: str | None = None
    batches: list[Batch] = Field(default_factory=list)
    report: str = ""
    """Markdown for a person."""

    def to_json(self) -> bytes:
        """Return the bytes of the result object."""
        return self.model_dump_json(indent=1).encode()


def _half_open(interval: tuple[str, str] | None) -> tuple[str, str] | None:
    if interval is not None:
        start, end = map(moment, interval)
        if start >= end:
            msg = f"it must start before it ends, and {interval[0]} is not before {interval[1]}"
            raise ValueError(msg)
    return interval


def moment(text: str) -> datetime:
    """Return the moment that a text in ISO-8601 names, in UTC, which is also meant where it names no zone.

    Raises ValueError for anything else.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is no moment in ISO-8601, such as 2013-01-01T00:00:00Z"
        raise ValueError(msg) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def check_run(run: str) -> str:
    """Return `run`; raise UsageError if it cannot name a run."""
    if _RUN.fullmatch(run) is None:
        raise UsageError(f"{run!r} cannot name a run.", "Allowed: letters, digits, and any of . _ + : -, at most 500.")
    return run


def result_key(stream: str, run: str) -> str:
    """Return the key of the result object of run `run`; raise UsageError if that cannot name a run."""
    return f"{keys.reports(stream)}{check_run(run)}.json"


def script(verb: Verb) -> Path:
    """Return the installed `drystone_<verb>.py`; raise UsageError if this installation lacks it."""
    path = Path(sysconfig.get_path("data")) / "share" / "drystone" / "spark_jobs" / f"drystone_{verb}.py"
    if not path.is_file():
        raise UsageError(f"{path} is missing.", "Install Drystone again: the job scripts are part of the package.")
    return path
