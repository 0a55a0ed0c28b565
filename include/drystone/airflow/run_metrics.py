"""What a run did, as samples of metrics: sums over the results of its jobs. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from drystone.airflow.run_report import JobReport, RunReport
from drystone.verbs import metrics
from drystone.verbs.metrics import Metric, Sample

_COUNTERS = (
    metrics.ROWS,
    metrics.BYTES,
    metrics.WRITTEN,
    metrics.MARKED,
    metrics.DELETED,
    metrics.BYTES_DELETED,
)


def run_samples(report: RunReport) -> Iterator[Sample]:
    """Yield a value for every metric of a run; jobs of a dry run did nothing."""
    labels = {"stream": report.stream, "workflow": report.workflow}
    done: Counter[Metric] = Counter()
    for job in report.jobs:
        if not job.dry_run:
            done.update(_of(job))
    yield Sample(metrics.RUNS, labels, 1)
    yield Sample(metrics.FAILURES, labels, len(report.failed))
    for metric in _COUNTERS:
        yield Sample(metric, labels, done[metric])
    if report.jobs:
        took = max(job.ended for job in report.jobs) - min(job.started for job in report.jobs)
        yield Sample(metrics.DURATION, labels, took)


def _of(job: JobReport) -> dict[Metric, int]:
    """Return what one job did: `blocks` and `bytes` of its result are about what it did last to blocks."""
    size = _number(job, "bytes")
    if "deleted" in job.summary:
        return {metrics.DELETED: _number(job, "deleted"), metrics.BYTES_DELETED: size}
    if job.verb == "mark":
        return {metrics.MARKED: _number(job, "marked")}
    if job.verb in {"upload", "compact", "repair", "backfill"}:
        return {metrics.WRITTEN: job.blocks, metrics.ROWS: _number(job, "rows"), metrics.BYTES: size}
    return {}


def _number(job: JobReport, name: str) -> int:
    found = job.summary.get(name, 0)
    return found if isinstance(found, int) else 0
