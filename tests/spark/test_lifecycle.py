"""The lifecycle on a real Spark, job by job, on January's flights."""

from __future__ import annotations

import time

import pytest
from flight_streams import SYNC_DELAY, Flights
from pyspark.sql import SparkSession

from drystone.block.states import State
from drystone.reader import look, observe_stats
from drystone.timeline.timeline import states

pytestmark = pytest.mark.spark


def test_every_stage_shows_the_same_rows(spark: SparkSession, stream: Flights) -> None:
    """From 93 blocks of a day and an origin to one of a month, a reader sees each of January's flights exactly once."""
    uploaded = stream.job(spark, "upload", "upload")
    assert uploaded.ok, uploaded.error
    assert uploaded.summary["blocks"] == 93
    time.sleep(SYNC_DELAY)
    assert stream.read() == stream.truth

    stream.compact(spark, "minor")
    assert observe_stats(stream.bucket, "flights").blocks_visible == 31
    assert stream.read() == stream.truth

    stream.compact(spark, "major")
    stats = observe_stats(stream.bucket, "flights")
    assert (stats.blocks_visible, stats.blocks_total, stats.blocks_marked) == (1, 125, 0)
    assert stream.read() == stream.truth

    marked, swept = stream.clean_up(spark)
    assert (marked.summary["marked"], swept.summary["deleted"]) == (124, 124)
    stats = observe_stats(stream.bucket, "flights")
    assert (stats.blocks_visible, stats.blocks_total, stats.blocks_marked) == (1, 1, 0)
    assert stream.read() == stream.truth
    view = look(stream.bucket, "flights")
    assert set(states(view.snapshot, view.timeline, view.record.rules).values()) == {State.HEALTHY}
