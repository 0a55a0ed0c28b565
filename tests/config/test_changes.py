"""What a live stream cannot take is refused, with the way to do it; everything else is written down for readers."""

from __future__ import annotations

from typing import Any

import pytest
from buckets import objects

from drystone.block import keys
from drystone.bucket import MemoryBucket
from drystone.config.model import StreamConfig
from drystone.engine.record import apply_config, read_record
from drystone.errors import ConfigError, StreamChangeError

STREAM = "events"
PLAIN: dict[str, Any] = {
    "labels": {"dataset": "events"},
    "time_column": "time",
    "sort_key": ["city", "time"],
    "granularity": {"ingest": "day", "major": "month"},
    "generation": 1,
    "ingest": {"path": "in/*.csv", "format": "csv"},
}


def config(**changes: Any) -> StreamConfig:
    """Return the stream's configuration with some changes."""
    return StreamConfig.model_validate(PLAIN | changes)


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> MemoryBucket:
    """A bucket in which the stream lives."""
    bucket = MemoryBucket(request.node.name)
    apply_config(bucket, STREAM, config())
    return bucket


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sort_key": ["time", "city"]}, r"sort_key is \('city', 'time'\) and cannot become \('time', 'city'\)"),
        ({"time_column": "at"}, "time_column is 'time' and cannot become 'at'"),
        ({"granularity": {"ingest": "hour"}}, r"granularity.ingest is day and cannot become finer \(hour\)"),
        ({"granularity": {"major": "day"}}, r"granularity.major is month and cannot become finer \(day\)"),
    ],
)
def test_changes_that_a_live_stream_cannot_take(bucket: MemoryBucket, changes: dict[str, Any], said: str) -> None:
    """The error says what cannot become what, and the way out; the bucket is left as it was."""
    before = objects(bucket)
    with pytest.raises(StreamChangeError, match=f"stream events: {said}") as caught:
        apply_config(bucket, STREAM, config(**changes))
    assert "ingest into a new stream" in caught.value.next_step
    assert isinstance(caught.value, ConfigError)
    assert not caught.value.retryable
    assert objects(bucket) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"granularity": {"ingest": "month", "major": "year"}},
        {"generation": 2},
        {"times": {"sync_delay": "1h"}},
        {"owner": "ann"},
        {"compaction": {"min_inputs": 5}},
    ],
)
def test_changes_that_a_live_stream_takes(bucket: MemoryBucket, changes: dict[str, Any]) -> None:
    """They are in the record that readers use from then on; a dry run writes nothing."""
    before = objects(bucket)
    wanted = apply_config(bucket, STREAM, config(**changes), dry_run=True)
    assert objects(bucket) == before
    apply_config(bucket, STREAM, config(**changes))
    assert read_record(bucket, STREAM) == wanted
    assert wanted.rules == config(**changes).times.times()


def test_a_new_stream_takes_everything() -> None:
    """Nothing is compared for a stream that has no record, and a dry run does not make one."""
    bucket = MemoryBucket("new")
    apply_config(bucket, STREAM, config(sort_key=["x"]), dry_run=True)
    assert objects(bucket) == {}
    apply_config(bucket, STREAM, config(sort_key=["x"]))
    assert list(objects(bucket)) == [keys.record(STREAM)]
