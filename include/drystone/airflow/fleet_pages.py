"""The pages of all streams in Airflow's server: what was last kept of each, with the credentials of its connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drystone import clock
from drystone.airflow.fleet import opener
from drystone.airflow.needs import missing
from drystone.airflow.overviews import kept_of_all
from drystone.config.load import load
from drystone.verbs.metrics import Sample, missing_samples, stream_samples
from drystone.verbs.overview import Overview
from drystone.viewer import fleet, metrics


def routers() -> list[Any]:
    """Return the routes of the overview and of what Prometheus reads."""
    return [fleet.routes(_fleet), metrics.routes(_samples)]


def kept() -> list[Overview]:
    """Return what was last kept of every stream of the configuration."""
    loaded = load()
    return kept_of_all(loaded, opener(loaded))


def _fleet() -> fleet.Fleet:
    return fleet.Fleet(clock.system(), kept(), missing(load()))


def _samples() -> Iterator[Sample]:
    seen = _fleet()
    for overview in seen.streams:
        yield from stream_samples(overview, seen.now)
    yield from missing_samples(seen.missing)
