"""Repairs and verification as jobs: a plan object first, then a batch of it on Spark's workers."""

from __future__ import annotations

import pytest
from small_streams import HEADER, STREAM, Small

from drystone.block import keys
from drystone.block.meta import Meta, parse
from drystone.plan.model import Plan

pytestmark = pytest.mark.spark


def ingested(small: Small) -> list[str]:
    """Ingest a file of three rows of two days; return the block of each day."""
    small.put("a.csv", f"{HEADER}2013-01-01 01:00:00,Oslo,1,0.5\n2013-01-01 02:00:00,Lund,2,\n2013-01-02,Oslo,3,1.5\n")
    done = small.job("upload")
    assert done.ok, done.error
    small.wait()
    return sorted(done.blocks, key=lambda ulid: meta_of(small, ulid).min_time)


def meta_of(small: Small, ulid: str) -> Meta:
    """The meta.json of a block."""
    return parse(small.bucket.get(keys.block(STREAM, ulid, "meta.json")), ulid)


def counts(small: Small) -> list[int]:
    """The numbers of the rows that a reader sees."""
    return sorted(row["count"] for row in small.rows())


def test_a_plan_is_made_kept_and_carried_out(small: Small) -> None:
    """The first job writes the plan that the second carries out; a retry of the second finds everything done."""
    ingested(small)
    where = {"column": "city", "op": "=", "value": "Lund"}
    dry = small.job("repair", "dry", dry_run=True, kind="drop-rows", where=where)
    assert (dry.ok, dry.plan_key, dry.summary["actions"]) == (True, None, 1)
    planned = small.job("repair", "plan", kind="drop-rows", where=where, reason="wrong")
    assert planned.plan_key is not None, planned.error
    plan = Plan.model_validate_json(small.bucket.get(planned.plan_key))
    assert planned.summary["digest"] == plan.digest
    done = small.job("repair", "act", plan_key=planned.plan_key)
    assert (done.ok, done.summary["rows_dropped"], len(done.blocks)) == (True, 1, 1)
    assert counts(small) == [1, 3]
    again = small.job("repair", "act", plan_key=planned.plan_key)
    assert not again.ok, "the plan has expired by now"
    assert "expired" in again.error


def test_a_retry_of_a_batch_does_nothing_twice(small: Small) -> None:
    """The same batch again, as Airflow retries it, uploads nothing more."""
    first, _ = ingested(small)
    planned = small.job("repair", "plan", kind="rewrite", blocks=[first])
    done = small.job("repair", "act", plan_key=planned.plan_key)
    assert (done.ok, len(done.blocks)) == (True, 1)
    again = small.job("repair", "act", plan_key=planned.plan_key)
    assert (again.ok, again.blocks) == (True, [])
    assert "done before" in again.report
    assert counts(small) == [1, 2, 3]


def test_a_file_is_read_as_an_ingest_reads_it(small: Small) -> None:
    """The file of a reupload goes through Spark's reader, and takes the place of its source at once."""
    first, _ = ingested(small)
    (source,) = meta_of(small, first).compaction.sources
    small.put("../fixed.csv", f"{HEADER}2013-01-01 01:00:00,Oslo,10,0.5\n2013-01-05,Lund,20,\n")
    planned = small.job("repair", "plan", kind="reupload", source=source, path="fixed.csv", reason="sent twice")
    done = small.job("repair", "act", plan_key=planned.plan_key)
    assert (done.ok, len(done.blocks)) == (True, 2), done.error
    assert counts(small) == [3, 10, 20]


def test_a_verification_fails_on_damage_and_names_it(small: Small) -> None:
    """`verify --deep` as a job reads every block on the workers; damage fails it for good, once all was checked."""
    first, second = ingested(small)
    assert small.job("verify", "fine", deep=True).ok
    chunk = small.folder / "bucket" / keys.block(STREAM, second, "chunks/000001.parquet")
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)
    found = small.job("verify", "damaged", deep=True)
    assert (found.ok, found.retryable, found.summary["damage"]) == (False, False, 1)
    assert second in found.report
    assert "SHA-256" in found.error
    assert small.job("verify", "one", deep=True, block=first).ok
