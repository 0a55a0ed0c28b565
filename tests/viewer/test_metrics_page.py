"""What Prometheus reads, parsed by Prometheus' own parser."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from drystone.block.states import State
from drystone.verbs.metrics import METRICS, Sample, missing_samples, stream_samples
from drystone.verbs.overview import LastRuns, Numbers, Overview
from drystone.viewer.metrics import routes, text

HOUR = 3_600_000
NOW = 1_000 * HOUR
NUMBERS = Numbers(
    states=dict.fromkeys(State, 0) | {State.HEALTHY: 7, State.MARKED: 2},
    blocks_visible=7, blocks_total=9, blocks_marked=2, rows=70, bytes=700, files=14, small_files=6,
    bytes_to_reclaim=200, newest_event=NOW - 5 * HOUR, newest_ingest=NOW - 3 * HOUR, problems=1, damage=0,
)  # fmt: skip
RUNS = {"ingest": LastRuns(ended=NOW, succeeded=NOW - HOUR, failed=("upload",))}
SEEN = Overview(stream="a", bucket="b", at=NOW - HOUR, numbers=NUMBERS, runs=RUNS, lag_limit=2 * HOUR)
BROKEN = Overview(stream="c", bucket="b", at=0, error="away")


def samples() -> list[Sample]:
    """What a page of two streams shows, one of which cannot be read, and of a pool that is missing."""
    missing = missing_samples([("pool", 'odd"name\\with\nall')])
    return [*stream_samples(SEEN, NOW), *stream_samples(BROKEN, NOW), *missing]


def parsed(raw: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The values by name and labels."""
    families = text_string_to_metric_families(raw.decode())
    return {(each.name, frozenset(each.labels.items())): each.value for f in families for each in f.samples}


def test_every_documented_metric_is_on_the_page() -> None:
    """The page has each metric that the table promises there, as a gauge with its labels, and no other."""
    families = {each.name: each for each in text_string_to_metric_families(text(samples()).decode())}
    promised = {metric.prometheus: metric for metric in METRICS if metric.page}
    assert families.keys() == promised.keys()
    for name, family in families.items():
        metric = promised[name]
        assert (family.type, family.documentation.endswith(f"({metric.unit})")) == ("gauge", True)
        assert {frozenset(sample.labels) for sample in family.samples} == {frozenset(metric.labels)}


def test_values_are_those_of_the_moment() -> None:
    """Lags are counted to the moment of the request, in seconds; a stream that cannot be read shows only that."""
    found = parsed(text(samples()))
    stream = frozenset({("stream", "a")})
    assert found["drystone_stream_ingest_lag_seconds", stream] == 3 * 3600
    assert found["drystone_stream_event_lag_seconds", stream] == 5 * 3600
    assert found["drystone_stream_late_seconds", stream] == 3600
    assert found["drystone_stream_seen_timestamp_seconds", stream] == 999 * 3600
    assert found["drystone_stream_blocks", stream | {("state", "Marked")}] == 2
    run = stream | {("workflow", "ingest")}
    assert found["drystone_workflow_succeeded_timestamp_seconds", run] == 999 * 3600
    assert found["drystone_workflow_failed_tasks", run] == 1
    broken = {name: value for (name, labels), value in found.items() if ("stream", "c") in labels}
    assert broken == {"drystone_stream_unreadable": 1}


def test_any_label_survives() -> None:
    """Quotes, backslashes and line breaks in a label are read back as they were."""
    (labels,) = [dict(labels) for name, labels in parsed(text(samples())) if name == "drystone_airflow_missing"]
    assert labels == {"kind": "pool", "name": 'odd"name\\with\nall'}


def test_the_route_serves_text() -> None:
    """GET /metrics answers in Prometheus' format, and each time anew."""
    app = FastAPI()
    given = [samples(), []]
    app.include_router(routes(lambda: given.pop(0)))
    client = TestClient(app)
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert parsed(answer.content) == parsed(text(samples()))
    assert parsed(client.get("/metrics").content) == {}
