"""Samples of Drystone's metrics, handed to whatever Airflow is configured to send its own to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats

from drystone.verbs.metrics import Sample


def emit(samples: Iterable[Sample]) -> None:
    """Emit each sample whose metric goes through Airflow's stats; nothing happens where Airflow sends none."""
    tagless = _has_no_tags()
    for metric, labels, value in samples:
        if not metric.stats:
            continue
        # A gauge of one stream must not stand for that of another: without tags, the name tells them apart.
        name = ".".join([metric.name, *labels.values()]) if tagless else metric.name
        match metric.kind:
            case "counter":
                stats.incr(name, int(value), tags=labels)
            case "gauge":
                stats.gauge(name, value, tags=labels)
            case "timing":
                stats.timing(name, timedelta(milliseconds=value), tags=labels)


def _has_no_tags() -> bool:
    """Whether metrics go to a plain StatsD, in the order of preference that Airflow has."""
    if conf.getboolean("metrics", "statsd_datadog_enabled"):
        return False
    return bool(conf.getboolean("metrics", "statsd_on") and not conf.getboolean("metrics", "statsd_influxdb_enabled"))
