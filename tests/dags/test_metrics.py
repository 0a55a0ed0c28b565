"""Metrics of real task runs, as real receivers get them: StatsD over UDP, OpenTelemetry over HTTP."""

from __future__ import annotations

import atexit
import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk._shared.observability.metrics.otel_logger import flush_otel_metrics
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from receivers import posts_received

from drystone.airflow.run_metrics import run_samples
from drystone.airflow.run_report import JobReport, RunReport
from drystone.bucket import LocalBucket
from drystone.config.load import load
from drystone.testing.streams import write_record
from drystone.verbs.metrics import METRICS, Metric

ROOT = Path(__file__).resolve().parents[2]
EMITTED = {metric.name: metric for metric in METRICS if metric.stats}
NEEDS_ROWS = {"drystone.stream.event_lag", "drystone.stream.ingest_lag"}
"""A stream without a readable row is not late, so these two are not there."""


@contextmanager
def sent_to(monkeypatch: pytest.MonkeyPatch, **settings: object) -> Iterator[None]:
    """Airflow's metrics go where `settings` say, as in a task's process; afterwards nowhere."""
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name.upper()}", str(value))
    stats.initialize(factory=get_stats_factory(), export_legacy_names=False)
    try:
        yield
    finally:
        for name in settings:
            monkeypatch.delenv(f"AIRFLOW__METRICS__{name.upper()}")
        stats.initialize(factory=get_stats_factory(), export_legacy_names=False)


@pytest.fixture
def ingest(submit_standin: None, monkeypatch: pytest.MonkeyPatch, database: Path) -> Any:
    """A function that runs the DAG events__ingest, whose job says that it wrote 7 rows of 900 bytes in a block."""
    result = {"summary": {"rows": 7, "bytes": 900}, "blocks": ["01JB0000000000000000000000"]}
    monkeypatch.setenv("STANDIN", json.dumps({"upload": {"result": result}, "wait_until_ready": {}}))
    loaded = load(Path(os.environ["DRYSTONE_CONFIG"]))
    write_record(LocalBucket(database / "bucket"), "events", loaded.stream("events"))

    def run() -> str:
        dag = DagBag(dag_folder=str(ROOT / "dags/drystone_ingest.py")).dags["events__ingest"]
        for task in dag.tasks:
            task.retries = 0
        return str(dag.test(run_conf={"dry_run": False}).state)

    return run


@pytest.fixture
def statsd() -> Iterator[socket.socket]:
    """A StatsD server's socket."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        server.settimeout(0.2)
        yield server


def lines(server: socket.socket) -> list[str]:
    """Return what the server was sent until now."""
    found: list[str] = []
    try:
        while True:
            found += server.recv(65536).decode().splitlines()
    except TimeoutError:
        return found


def ours(received: list[str]) -> dict[str, set[str]]:
    """Return the values (`7|c`) of our metrics in lines of StatsD, by name."""
    found: dict[str, set[str]] = {}
    for line in received:
        name, _, value = line.partition(":")
        if name.startswith("airflow.drystone."):
            found.setdefault(name.removeprefix("airflow."), set()).add(value)
    return found


STATSD_KINDS = {"counter": r"-?\d+\|c", "gauge": r"[\d.]+\|g", "timing": r"[\d.]+\|ms"}


def test_statsd_gets_the_documented_names(statsd: socket.socket, ingest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run sends every documented metric, of its kind, to StatsD with tags, and nothing that is not documented."""
    port = statsd.getsockname()[1]
    with sent_to(monkeypatch, statsd_on=True, statsd_host="127.0.0.1", statsd_port=port, statsd_influxdb_enabled=True):
        ingest()
    found = ours(lines(statsd))
    names = {name.partition(",")[0] for name in found}
    assert names == EMITTED.keys() - NEEDS_ROWS
    for name, values in found.items():
        plain, *tags = name.split(",")
        metric = EMITTED[plain]
        assert tuple(tag.partition("=")[0] for tag in tags) == metric.labels
        assert all(re.fullmatch(STATSD_KINDS[metric.kind], value) for value in values), (name, values)
    run = "stream=events,workflow=ingest"
    assert found[f"drystone.run.rows,{run}"] == {"7|c"}
    assert found[f"drystone.run.bytes,{run}"] == {"900|c"}
    assert found[f"drystone.run.blocks_written,{run}"] == {"1|c"}


def test_plain_statsd_keeps_streams_apart(statsd: socket.socket, ingest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where StatsD has no tags the names say which stream it is, so that no gauge stands for another one's."""
    port = statsd.getsockname()[1]
    with sent_to(monkeypatch, statsd_on=True, statsd_host="127.0.0.1", statsd_port=port):
        ingest()
    found = ours(lines(statsd))
    assert found["drystone.run.rows.events.ingest"] == {"7|c"}
    assert "drystone.stream.blocks_total.events" in found
    assert "drystone.stream.blocks.events.Healthy" in found
    assert not found.keys() & EMITTED.keys()


def test_a_look_that_fails_fails_no_run(
    statsd: socket.socket, ingest: Any, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the stream cannot be looked at, a run ends as its tasks did, with its numbers; the stream is unreadable."""
    record = LocalBucket(database / "bucket").path("events/.stream.json")
    whole = record.read_bytes()
    record.write_text("{")
    try:
        port = statsd.getsockname()[1]
        with sent_to(monkeypatch, statsd_on=True, statsd_host="127.0.0.1", statsd_port=port):
            assert ingest() == "success"
    finally:
        record.write_bytes(whole)
    found = ours(lines(statsd))
    assert found["drystone.run.rows.events.ingest"] == {"7|c"}
    assert found["drystone.stream.unreadable.events"] == {"1|g"}
    assert "drystone.stream.blocks_total.events" not in found


def test_opentelemetry_gets_the_documented_metrics(ingest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of a DAG sends every documented metric, of its kind and with its attributes, over OTLP."""
    from opentelemetry import metrics as otel  # noqa: PLC0415 -- not before Airflow is configured

    with posts_received() as (port, received):
        with sent_to(monkeypatch, otel_on=True, otel_host="127.0.0.1", otel_port=port):
            ingest()
            otel.get_meter_provider().force_flush()  # type: ignore[attr-defined]
        otel.get_meter_provider().shutdown()  # type: ignore[attr-defined]
        # Airflow would flush once more when the interpreter ends, after the receiver has gone.
        atexit.unregister(flush_otel_metrics)
    found = {}
    for path, body in received:
        assert path == "/v1/metrics"
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            found |= {each.name: each for scope in resource.scope_metrics for each in scope.metrics}
    mine = {name.removeprefix("airflow."): each for name, each in found.items() if ".drystone." in name}
    assert mine.keys() == EMITTED.keys() - NEEDS_ROWS
    kinds = {"counter": "sum", "gauge": "gauge", "timing": "exponential_histogram"}
    for name, each in mine.items():
        kind = kinds[EMITTED[name].kind]
        assert each.WhichOneof("data") == kind
        for point in getattr(each, kind).data_points:
            assert {pair.key for pair in point.attributes} == set(EMITTED[name].labels)
    (point,) = mine["drystone.run.rows"].sum.data_points
    assert point.as_int == 7


def job(verb: Any, *, dry_run: bool = False, blocks: int = 0, **summary: int) -> JobReport:
    """A job of a report."""
    return JobReport(
        task=verb, verb=verb, ok=True, error="", started=1_000, ended=5_000, spark_start_ms=0, work_ms=1,
        blocks=blocks, summary=dict(summary), dry_run=dry_run,
    )  # fmt: skip


def counted(*done: JobReport, failed: tuple[str, ...] = ()) -> dict[str, float]:
    """Return the samples of a run of these jobs, by the last part of their names."""
    report = RunReport(stream="a", dag_id="a__lifecycle", run_id="r", failed=failed, jobs=done)
    samples = list(run_samples(report))
    assert all(sample.labels == {"stream": "a", "workflow": "lifecycle"} for sample in samples)
    return {sample.metric.name.rpartition(".")[2]: sample.value for sample in samples}


def test_a_run_is_summed_by_what_its_jobs_did() -> None:
    """Bytes of a sweep are deleted, those of a compaction written; what a dry run would do counts for nothing."""
    found = counted(
        job("compact", blocks=2, rows=10, bytes=100),
        job("compact", blocks=1, rows=5, bytes=50),
        job("mark", blocks=4, marked=4),
        job("sweep", blocks=3, deleted=3, bytes=900),
        job("detect", merge_bytes=70),
        failed=("report",),
    )
    assert found == {
        "runs": 1, "failures": 1, "rows": 15, "bytes": 150, "blocks_written": 3, "blocks_marked": 4,
        "blocks_deleted": 3, "bytes_deleted": 900, "duration": 4_000,
    }  # fmt: skip
    dry = counted(job("compact", dry_run=True, blocks=2, rows=10, bytes=100))
    assert {name for name, value in dry.items() if value} == {"runs", "duration"}


def test_names_are_what_every_receiver_takes() -> None:
    """Each name is there once, and fit for StatsD, OpenTelemetry and Prometheus; each label is one of Prometheus."""

    def fits(metric: Metric) -> bool:
        return bool(re.fullmatch(r"drystone(\.[a-z_]+)+", metric.name)) and len(metric.name) < 200

    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert all(map(fits, METRICS))
    assert all(re.fullmatch("[a-z]+", label) for metric in METRICS for label in metric.labels)
    assert all(metric.stats or metric.page for metric in METRICS)
