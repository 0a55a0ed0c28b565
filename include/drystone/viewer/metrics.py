"""What Prometheus reads: the gauges of `drystone.verbs.metrics` in its text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drystone.verbs.metrics import METRICS, Sample


def routes(read: Callable[[], Iterable[Sample]]) -> APIRouter:
    """Return `GET /metrics`: what `read()` returns, of metrics that the page has, with its help, kind and labels."""
    router = APIRouter()

    @router.get("/metrics")
    def metrics() -> Response:
        return Response(text(read()), media_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"})

    return router


def text(samples: Iterable[Sample]) -> bytes:
    """Return samples in Prometheus' text format, each metric with its help and in the order of the table."""
    registry = CollectorRegistry()
    registry.register(_Given(samples))
    return generate_latest(registry)


class _Given(Collector):
    """Hands over samples that were taken before."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        place = {metric: number for number, metric in enumerate(METRICS)}
        found = ((place[sample.metric], sample) for sample in samples if sample.metric.page)
        self._found = sorted(found, key=itemgetter(0))

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with its samples."""
        for number, samples in groupby(self._found, key=itemgetter(0)):
            metric = METRICS[number]
            help_text = f"{metric.meaning} ({metric.unit})".replace("`", "")
            family = GaugeMetricFamily(metric.prometheus, help_text, labels=metric.labels)
            for _, sample in samples:
                family.add_metric([sample.labels[label] for label in metric.labels], sample.value)
            yield family

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: the names are those of the table."""
        yield from ()
