"""From messages to blocks and out to files in S3: slices, chains and exports there, in good weather and in bad."""

from __future__ import annotations

import time

from exports import Bench, check, config, messages_of
from s3_buckets import Waits, behind, new_bucket, open_uploads

from drystone.bucket.s3 import S3Bucket
from drystone.testing.s3_proxy import Cut, Fault, Lose, Refuse, Reset, Weather, s3_proxy
from drystone.testing.s3_server import S3Server
from drystone.testing.streams import ManualClock

SHARES: dict[Fault, float] = {
    Refuse(503, "SlowDown"): 0.05,
    Reset(): 0.05,
    Lose(): 0.08,
    Cut("headers"): 0.03,
    Cut("body"): 0.03,
}


def live(bucket: S3Bucket) -> None:
    """Ingest, export, ingest more, export that: every message is in one file, and a run again changes nothing."""
    bench = Bench(bucket, ManualClock(time.time_ns() // 1_000_000), config())
    first, second = messages_of(60), messages_of(40, 1000, day=1)
    for messages in (first, second):
        bench.ingest(messages)
        bench.ready()
        done = bench.export()
        assert not done.failures
        assert done.summary["messages"] == len(messages)
    check(bench, [*first, *second])
    before = bench.objects()
    assert bench.export().summary["plans"] == 0
    assert bench.objects() == before


def test_messages_in_s3(s3: S3Server) -> None:
    """As in any other bucket, and no upload in parts is left open."""
    bucket = new_bucket(s3, credentials=s3.credentials)
    live(bucket)
    assert open_uploads(bucket) == []


def test_messages_in_bad_weather(s3: S3Server) -> None:
    """One request in four fails, is reset, or has its answer lost or cut off: the same files."""
    with s3_proxy(s3.endpoint) as proxy:
        bucket = behind(proxy, s3, Waits().retries(9))
        proxy.judge = Weather(11, SHARES)
        live(bucket)
        assert all(any(each.fault == fault for each in proxy.passed) for fault in SHARES)
