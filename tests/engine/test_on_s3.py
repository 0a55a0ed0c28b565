"""A stream's whole life in S3: the real verbs, tasks that are pickled, in good weather, in bad, and seen late."""

from __future__ import annotations

from pathlib import Path

from s3_buckets import Waits, behind, new_bucket, open_uploads
from s3_lives import Life

from drystone.block.predicates import Comparison
from drystone.bucket.s3_store import Retries, Store
from drystone.engine.verify import verify_stream
from drystone.jobs import RepairRequest
from drystone.testing.s3_lag import Lag
from drystone.testing.s3_proxy import Cut, Fault, Lose, Refuse, Reset, Weather, s3_proxy
from drystone.testing.s3_server import S3Server

STREAM = "events"
SHARES: dict[Fault, float] = {
    Refuse(500, "InternalError"): 0.04,
    Refuse(503, "SlowDown"): 0.04,
    Reset(): 0.04,
    Lose(): 0.06,
    Cut("status"): 0.02,
    Cut("headers"): 0.02,
    Cut("body"): 0.02,
}


def live(life: Life) -> None:
    """Append, compact, mark and sweep; every row is read exactly once all the time, and only the result is left."""
    for number in range(5):
        life.append(number)
    before = life.blocks()
    life.wait()
    assert life.rows() == life.truth
    merged = life.compact()
    assert len(merged) == 1
    assert life.mark() == []  # What replaces the others is not ready yet.
    life.wait()
    assert life.rows() == life.truth
    assert set(life.mark()) == before
    assert life.rows() == life.truth
    life.wait()
    assert set(life.sweep()) == before
    life.wait()
    assert life.blocks() == set(merged)
    assert life.rows() == life.truth
    assert life.compact() == life.mark() == life.sweep() == []


def test_a_streams_life_in_s3(s3: S3Server, tmp_path: Path) -> None:
    """Upload, detect, compact, mark and sweep work as on a disk, and a deep verification finds nothing to object to."""
    bucket = new_bucket(s3, credentials=s3.credentials)
    life = Life(bucket, tmp_path)
    live(life)
    assert verify_stream(bucket, STREAM, life.clock(), deep=True).findings == ()
    assert open_uploads(bucket) == []


def test_repairs_in_s3(s3: S3Server, tmp_path: Path) -> None:
    """Rows are dropped, blocks written again, and a lost one comes back from a backup: each row is read once."""
    bucket = new_bucket(s3, credentials=s3.credentials)
    life = Life(bucket, tmp_path)
    for number in range(3):
        life.append(number)
    life.wait()
    oslo = Comparison(column="city", op="=", value="Oslo")
    dropped = life.runs.repair(RepairRequest(kind="drop-rows", where=oslo, reason="wrong"), tmp_path)
    assert len(dropped) == 3
    life.wait()
    left = [row for row in life.truth if row[1] != "Oslo"]
    assert 0 < len(left) < len(life.truth)
    assert life.rows() == left

    again = life.runs.repair(RepairRequest(kind="rewrite", blocks=tuple(dropped), reason="anew"), tmp_path)
    life.wait()
    assert life.rows() == left
    assert dropped <= set(life.mark())
    life.wait()
    assert dropped <= set(life.sweep())
    assert life.blocks() == again

    lost = min(again)
    for item in list(bucket.list(f"{STREAM}/{lost}/")) + list(bucket.list(f"{STREAM}/.schema")):
        bucket.put(f"attic/{item.key.removeprefix(f'{STREAM}/')}", bucket.get(item.key))
    bucket.delete([item.key for item in bucket.list(f"{STREAM}/{lost}/")])
    assert len(life.rows()) < len(left)
    back = life.runs.repair(RepairRequest(kind="adopt", origin_stream="attic", reason="restored"), tmp_path)
    assert len(back) == 1
    life.wait()
    assert life.rows() == left
    assert verify_stream(bucket, STREAM, life.clock(), deep=True).findings == ()
    assert open_uploads(bucket) == []


def test_a_streams_life_in_bad_weather(s3: S3Server, tmp_path: Path) -> None:
    """One request in four fails, is reset, or has its answer lost or cut off: the same life, and the same end."""
    with s3_proxy(s3.endpoint) as proxy:
        life = Life(behind(proxy, s3, Waits().retries(9)), tmp_path)
        proxy.judge = Weather(7, SHARES)
        live(life)
        assert all(any(each.fault == fault for each in proxy.passed) for fault in SHARES)


def test_a_streams_life_seen_late(s3: S3Server, tmp_path: Path) -> None:
    """Listings hide what is new and show what is gone for a minute: nothing is lost, doubled, or deleted too early.

    But for the lease: a remover that does not see its own does nothing.
    """
    with s3_proxy(s3.endpoint) as proxy:
        life = Life(behind(proxy, s3), tmp_path)
        store = Store(s3.address(), s3.credentials, Retries())
        lag = Lag(store, 60, seed=5, clock=lambda: life.later / 1000, late_gets=False)
        lag.fits = lambda key: "/.lease/" not in key
        proxy.late = lag
        for number in range(5):
            life.append(number)
        assert life.rows() == []
        life.wait()
        assert life.rows() == life.truth
        merged = life.compact()
        assert life.rows() == life.truth
        life.wait()
        marked = life.mark()
        assert len(marked) == 5
        life.wait()
        assert set(life.sweep()) == set(marked)
        assert life.blocks() == {*marked, *merged}
        life.wait()
        assert life.rows() == life.truth
        assert life.blocks() == set(merged)
        assert lag.hidden > 0
        assert lag.shown > 0
