"""The example rules and dashboard ask for metrics and labels that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from promql import Named, named

from drystone.verbs.metrics import METRICS, page

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
FUNCTIONS = {"time", "absent", "sum", "count", "vector", "increase"}
LABELS = {metric.prometheus: set(metric.labels) for metric in METRICS if metric.page}
LABELS |= {f"airflow_{metric.name.replace('.', '_')}": set(metric.labels) for metric in METRICS if metric.stats}
"""The labels of each name: of the page's, and of those that Prometheus' exporter makes of Airflow's StatsD."""


def rules() -> list[dict[str, Any]]:
    """The rules of the example."""
    (group,) = yaml.safe_load((EXAMPLES / "alerts.yaml").read_text())["groups"]
    return group["rules"]


def dashboard() -> dict[str, Any]:
    """The example's dashboard."""
    return json.loads((EXAMPLES / "grafana.json").read_text())


def queries() -> Iterator[str]:
    """Yield every query of both."""
    yield from (rule["expr"] for rule in rules())
    yield from (target["expr"] for panel in dashboard()["panels"] for target in panel["targets"])
    for variable in dashboard()["templating"]["list"]:
        if found := re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]):
            yield f"sum by ({found[2]}) ({found[1]})"


def wrong(query: str) -> set[str]:
    """Return what a query names that there is not: a metric, a function, or a label that none of its metrics has."""
    found = named(query)
    known = set().union(*(LABELS.get(name, set()) for name in found.metrics))
    return (found.metrics - LABELS.keys()) | (found.labels - known) | (found.functions - FUNCTIONS)


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_every_query_asks_for_what_there_is(query: str) -> None:
    """Each metric, label and function of a query of the examples exists."""
    assert named(query).metrics
    assert wrong(query) == set()


def test_names_of_a_query_are_found() -> None:
    """The reader of queries finds metrics, labels and functions, and takes neither texts nor durations for them."""
    query = 'sum by (state) (rate(up{job=~"a|b{c", x!="y"}[5m] offset 1h)) / on (z) down > bool 1e9 and time() > 3'
    assert named(query) == Named(
        frozenset({"up", "down"}), frozenset({"state", "job", "x", "z"}), frozenset({"sum", "rate", "time"})
    )
    assert wrong("drystone_stream_lateness > 0") == {"drystone_stream_lateness"}
    assert wrong('drystone_stream_rows{workflow="x"}') == {"workflow"}
    assert wrong("rat(drystone_stream_rows[5m])") == {"rat"}


def test_rules_say_what_to_do() -> None:
    """Each rule has a name, a severity, what is wrong and what to do; labels in its texts are ones that it has."""
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in {"page", "ticket"}
        known = set().union(*(LABELS[name] for name in named(rule["expr"]).metrics))
        for text in (rule["annotations"]["summary"], rule["annotations"]["what_to_do"]):
            assert set(re.findall(r"\$labels\.(\w+)", text)) <= known


def test_the_dashboard_shows_what_rules_watch() -> None:
    """What a rule watches of a stream is on the dashboard; panels have ids of their own, and lie beside each other."""
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    watched = {"drystone_stream_late_seconds", "drystone_stream_damage", "drystone_stream_unreadable"}
    assert watched <= {name for query in queries() for name in named(query).metrics}


def test_the_page_names_every_metric() -> None:
    """The reference names each metric, as stats and as the page for Prometheus have it."""
    text = page()
    assert all(f"| `{metric.name}` |" in text for metric in METRICS)
    assert all(f"| `{metric.prometheus}` |" in text for metric in METRICS if metric.page)
