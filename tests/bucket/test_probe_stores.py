"""The probe on real servers of several makers: what it finds of each, and which of them Drystone refuses.

versitygw, which keeps its word, is one of the buckets of test_probe.py.
"""

from __future__ import annotations

import pytest
from stores import moto, s3mock, s3proxy

from drystone.bucket.conformance import keep, probe
from drystone.bucket.probed import ProbeReport, refuse_unfit
from drystone.bucket.s3 import S3Bucket
from drystone.errors import ConfigError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def results(bucket: S3Bucket) -> tuple[ProbeReport, dict[str, str]]:
    """Probe a bucket, which must be empty afterwards; return the report and what is not ok."""
    report = probe(bucket)
    assert report.lag or [info.key for info in bucket.list("")] == []
    return report, {each.capability: each.result for each in report.findings if each.result != "ok"}


def test_s3proxy_sorts_as_java_does() -> None:
    """S3Proxy keeps its word; it sorts as Java does, which only concerns names beyond ASCII: not refused."""
    with s3proxy() as bucket:
        report, found = results(bucket)
        assert found == {"unicode-order": "fails"}
        assert report.refusals == ()


def test_s3proxy_that_lags_is_measured() -> None:
    """S3Proxy with a lag of three seconds: measured, and needing a max_lag that covers it; create-only stays strict."""
    with s3proxy(late=3) as bucket:
        report, found = results(bucket)
        assert found["lag"] == "slow"
        assert 2_000 < report.lag < 6_000
        assert "create-only" not in found
        assert found["upload"] in {"unknown", "fails"}
        keep(bucket, ProbeReport(bucket=bucket.url, time=0, lag=report.lag, findings=()))


def test_moto_is_refused_where_it_lets_several_win() -> None:
    """It looks first and then writes: whether several won is told, and nothing else is wrong with it."""
    with moto() as bucket:
        report, found = results(bucket)
        assert found.keys() <= {"create-only", "upload"}
        assert {each.capability for each in report.refusals} == found.keys()


def test_a_store_that_fails_is_refused() -> None:
    """Adobe's S3Mock lets several writers create the same object: found out, and refused by every job from then on."""
    with s3mock() as bucket:
        report, found = results(bucket)
        assert found["create-only"] == "fails"
        assert "create-only" in {each.capability for each in report.refusals}
        keep(bucket, report)
        with pytest.raises(ConfigError, match=r"is refused: its probe of .*create-only: race"):
            refuse_unfit(bucket, 0)
