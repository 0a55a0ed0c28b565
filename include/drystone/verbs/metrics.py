"""Every metric that Drystone emits, once: its name, kind, unit, labels and meaning. No I/O.

`docs/reference/metrics.md` is written from this table; Airflow's stats and the page for Prometheus take their names
from it. Source: the design, "Airflow: how people use it".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from drystone.verbs.overview import Overview

Kind = Literal["counter", "gauge", "timing"]
_MOMENT = "s since 1970"
_STREAM = ("stream",)
_RUN = ("stream", "workflow")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `name`: as Airflow's stats take it. `unit`: of its values. `labels`: names of its tags.

    `stats`: emitted through Airflow's stats. `page`: shown on the page for Prometheus.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    meaning: str
    stats: bool = True
    page: bool = True

    @property
    def prometheus(self) -> str:
        """Its name on the page for Prometheus, which has times in seconds, and says so."""
        return self.name.replace(".", "_") + {"s": "_seconds", _MOMENT: "_timestamp_seconds"}.get(self.unit, "")


class Sample(NamedTuple):
    """A value of a metric, with a value for each of its labels."""

    metric: Metric
    labels: dict[str, str]
    value: float


def _of_a_run(name: str, unit: str, meaning: str, kind: Kind = "counter") -> Metric:
    return Metric(f"drystone.run.{name}", kind, unit, _RUN, meaning, page=False)


def _of_a_stream(name: str, unit: str, meaning: str, labels: tuple[str, ...] = _STREAM) -> Metric:
    return Metric(f"drystone.stream.{name}", "gauge", unit, labels, meaning)


RUNS = _of_a_run("runs", "runs", "runs that wrote a report")
FAILURES = _of_a_run("failures", "tasks", "tasks of runs that did not succeed")
ROWS = _of_a_run("rows", "rows", "rows in blocks that were written")
BYTES = _of_a_run("bytes", "bytes", "bytes of blocks that were written")
WRITTEN = _of_a_run("blocks_written", "blocks", "blocks that were uploaded")
MARKED = _of_a_run("blocks_marked", "blocks", "blocks that were marked for deletion")
DELETED = _of_a_run("blocks_deleted", "blocks", "blocks that were deleted")
BYTES_DELETED = _of_a_run("bytes_deleted", "bytes", "bytes of blocks that were deleted")
DURATION = _of_a_run("duration", "ms", "from the start of a run's first job to the end of its last", "timing")

VISIBLE = _of_a_stream("blocks_visible", "blocks", "blocks that readers read")
TOTAL = _of_a_stream("blocks_total", "blocks", "block folders in the bucket")
BLOCKS_MARKED = _of_a_stream("blocks_marked", "blocks", "blocks with a deletion mark")
STATES = _of_a_stream("blocks", "blocks", "block folders in each state", ("stream", "state"))
STREAM_ROWS = _of_a_stream("rows", "rows", "rows of the visible blocks")
STREAM_BYTES = _of_a_stream("bytes", "bytes", "bytes of the visible blocks")
FILES = _of_a_stream("files", "files", "files of the visible blocks")
SMALL_FILES = _of_a_stream(
    "small_files", "files", "chunk files of visible blocks below half of `compaction.target_block_bytes`"
)
RECLAIM = _of_a_stream("bytes_to_reclaim", "bytes", "bytes of covered, marked and abandoned blocks")
EVENT_LAG = _of_a_stream("event_lag", "s", "how far the time of the newest readable rows lies back")
INGEST_LAG = _of_a_stream("ingest_lag", "s", "since the ingest of the newest readable rows was planned")
LATE = _of_a_stream("late", "s", "by how much the ingest lag exceeds the stream's `lag_limit`; 0: not, or no limit")
PROBLEMS = _of_a_stream("problems", "findings", "what `drystone inspect` lists as problems")
DAMAGE = _of_a_stream("damage", "findings", "rows that should be there and cannot be read")
UNREADABLE = _of_a_stream("unreadable", "0 or 1", "1 where the stream could not be looked at")
SEEN = Metric(
    "drystone.stream.seen", "gauge", _MOMENT, _STREAM, "when the numbers of the stream were taken", stats=False
)
SUCCEEDED = Metric(
    "drystone.workflow.succeeded",
    "gauge",
    _MOMENT,
    _RUN,
    "when the newest run ended in which every task succeeded; 0: none is known",
    stats=False,
)
FAILED = Metric(
    "drystone.workflow.failed_tasks",
    "gauge",
    "tasks",
    _RUN,
    "tasks of the newest run that did not succeed",
    stats=False,
)
MISSING = Metric(
    "drystone.airflow.missing",
    "gauge",
    "0 or 1",
    ("kind", "name"),
    "1 for a pool or connection that Drystone's tasks need and Airflow does not have",
    stats=False,
)

METRICS: tuple[Metric, ...] = (
    *(RUNS, FAILURES, ROWS, BYTES, WRITTEN, MARKED, DELETED, BYTES_DELETED, DURATION),
    *(VISIBLE, TOTAL, BLOCKS_MARKED, STATES, STREAM_ROWS, STREAM_BYTES, FILES, SMALL_FILES, RECLAIM),
    *(EVENT_LAG, INGEST_LAG, LATE, PROBLEMS, DAMAGE, UNREADABLE, SEEN, SUCCEEDED, FAILED, MISSING),
)


def stream_samples(overview: Overview, now: int) -> Iterator[Sample]:
    """Yield the gauges of one stream at `now` (ms): lags grow while nobody looks."""
    stream = {"stream": overview.stream}
    yield Sample(UNREADABLE, stream, int(bool(overview.error)))
    if overview.at:
        yield Sample(SEEN, stream, overview.at / 1000)
    for workflow, runs in sorted(overview.runs.items()):
        labels = stream | {"workflow": workflow}
        yield Sample(SUCCEEDED, labels, (runs.succeeded or 0) / 1000)
        yield Sample(FAILED, labels, len(runs.failed))
    numbers = overview.numbers
    if numbers is None:
        return
    for state, count in numbers.states.items():
        yield Sample(STATES, stream | {"state": state.value}, count)
    plain = {
        VISIBLE: numbers.blocks_visible,
        TOTAL: numbers.blocks_total,
        BLOCKS_MARKED: numbers.blocks_marked,
        STREAM_ROWS: numbers.rows,
        STREAM_BYTES: numbers.bytes,
        FILES: numbers.files,
        SMALL_FILES: numbers.small_files,
        RECLAIM: numbers.bytes_to_reclaim,
        PROBLEMS: numbers.problems,
        DAMAGE: numbers.damage,
        LATE: (overview.late(now) or 0) / 1000,
    }
    for metric, value in plain.items():
        yield Sample(metric, stream, value)
    for metric, lag in ((EVENT_LAG, numbers.event_lag(now)), (INGEST_LAG, numbers.ingest_lag(now))):
        if lag is not None:
            yield Sample(metric, stream, lag / 1000)


def missing_samples(missing: Iterable[tuple[str, str]]) -> Iterator[Sample]:
    """Yield a 1 for each (kind, name) that Airflow lacks: `pool` or `connection`."""
    for kind, name in missing:
        yield Sample(MISSING, {"kind": kind, "name": name}, 1)


def page() -> str:
    """Return the reference page of this table."""
    lines = [
        "# Metrics",
        "",
        "<!-- Written by `make docs` from the table in include/drystone/verbs/metrics.py. -->",
        "",
        _INTRODUCTION,
        "| name | kind | unit | labels | Airflow's stats | page | meaning |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in METRICS:
        where = f"{'yes' if each.stats else ''} | {f'`{each.prometheus}`' if each.page else ''}"
        labels = ", ".join(f"`{label}`" for label in each.labels)
        lines.append(f"| `{each.name}` | {each.kind} | {each.unit} | {labels} | {where} | {each.meaning} |")
    return "\n".join(lines) + "\n"


_INTRODUCTION = """\
They come two ways. [How to be alerted](../how-to/alerts.md) sets both up.

* **Airflow's stats** (StatsD, Datadog or OpenTelemetry, as `[metrics]` in Airflow's configuration says): the last task
  of every run emits what the run did and, as `drystone__fleet` does every hour, how its stream is. Airflow puts its
  prefix in front (`airflow.drystone.run.rows`), and labels are tags. Plain StatsD has no tags: there the values of the
  labels follow the name, `airflow.drystone.run.rows.flights.ingest`. Dry runs count as runs, and for nothing else.
* **The page for Prometheus**, `/drystone/metrics` on Airflow's server, behind its login: what was last seen of each
  stream; lags are those of the moment of the request.
"""
