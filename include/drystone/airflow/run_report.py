"""The report of a DAG run: what its jobs did, its times, what failed. JSON in the bucket, Markdown for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from drystone import jobs
from drystone.airflow.outcome import read_result
from drystone.airflow.runs import results_prefix, run_name
from drystone.block import keys
from drystone.bucket import Bucket
from drystone.errors import ObjectMissingError

_SUFFIX = ".json"
_REPORT = "report"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JobReport(_Model):
    """One job of the run. `task` is the task's id, with the map index if it is mapped; times in ms.

    `dry_run`: it only showed what it would do.
    """

    task: str
    verb: jobs.Verb | jobs.Step
    ok: bool
    error: str
    started: int
    ended: int
    spark_start_ms: int
    work_ms: int
    blocks: int
    summary: dict[str, int | str]
    dry_run: bool = False

    @classmethod
    def of(cls, task: str, result: jobs.JobResult) -> JobReport:
        """Return the report of a job from its result."""
        return cls(task=task, blocks=len(result.blocks), **result.model_dump(include=_TAKEN))


_TAKEN = {"verb", "ok", "error", "started", "ended", "spark_start_ms", "work_ms", "summary", "dry_run"}


class RunReport(_Model):
    """The whole run. `failed`: tasks that did not succeed. Sums are over all jobs, which may have run at once."""

    version: Literal[1] = 1
    stream: str
    dag_id: str
    run_id: str
    failed: tuple[str, ...]
    jobs: tuple[JobReport, ...]

    @property
    def workflow(self) -> str:
        """What the DAG does to the stream: `ingest`, `lifecycle`, …."""
        return self.dag_id.removeprefix(f"{self.stream}__")

    @property
    def dry_run(self) -> bool:
        """Whether it only showed what it would do."""
        return any(job.dry_run for job in self.jobs)

    @property
    def key(self) -> str:
        """The report's own key in the bucket."""
        return _key(self.stream, run_name(self.dag_id, self.run_id))

    def numbers(self) -> dict[str, JsonValue]:
        """Return what an asset event carries: the key, and sums."""
        return {
            "report_key": self.key,
            "jobs": len(self.jobs),
            "blocks": sum(job.blocks for job in self.jobs),
            "spark_start_ms": sum(job.spark_start_ms for job in self.jobs),
            "work_ms": sum(job.work_ms for job in self.jobs),
        }

    def to_markdown(self) -> str:
        """Return the report for a person."""
        lines = [f"# {self.dag_id}", "", f"Run `{self.run_id}`. Report object: `{self.key}`.", ""]
        lines += ["| task | verb | ok | blocks | Spark start | work | what |", "|---|---|---|---:|---:|---:|---|"]
        lines += [_row(job) for job in self.jobs]
        if self.failed:
            lines += ["", f"Did not succeed: {', '.join(self.failed)}."]
        return "\n".join(lines)


def collect(bucket: Bucket, stream: str, dag_id: str, run_id: str, failed: Iterable[str]) -> RunReport:
    """Return the report of a run from the results that its jobs left in the bucket, in the order they began."""
    prefix = results_prefix(stream, dag_id, run_id)
    found = []
    for info in bucket.list(prefix):
        task = info.key.removeprefix(prefix).removesuffix(_SUFFIX)
        result = None if task == _REPORT else read_result(bucket, info.key)
        if result is not None:
            found.append(JobReport.of(task, result))
    found.sort(key=lambda job: (job.started, job.task))
    return RunReport(stream=stream, dag_id=dag_id, run_id=run_id, failed=tuple(sorted(failed)), jobs=tuple(found))


def read_report(bucket: Bucket, stream: str, run: str) -> RunReport | None:
    """Return the report of the run with this name (`runs.run_name`), or None if there is none."""
    try:
        return RunReport.model_validate_json(bucket.get(_key(stream, run)))
    except ObjectMissingError:
        return None


def report_run(stream: str, key: str) -> str | None:
    """Return the name of the run whose report has this key, None if the key is not that of a report."""
    name = key.removeprefix(keys.reports(stream))
    ending = f".{_REPORT}{_SUFFIX}"
    return name.removesuffix(ending) if name.startswith(f"{stream}__") and name.endswith(ending) else None


def _key(stream: str, run: str) -> str:
    return jobs.result_key(stream, f"{run}.{_REPORT}")


def _row(job: JobReport) -> str:
    facts = [*([job.error] if job.error else []), *(f"{name} {value}" for name, value in job.summary.items())]
    what = " ".join(", ".join(facts).split()).replace("|", "\\|")
    times = f"{job.spark_start_ms / 1000:.1f} s | {job.work_ms / 1000:.1f} s"
    return f"| {job.task} | {job.verb} | {'yes' if job.ok else '**no**'} | {job.blocks} | {times} | {what} |"
