"""An erasure on Spark's workers: blocks looked through there, those with such rows written anew, the others left."""

from __future__ import annotations

import pytest
from small_streams import HEADER, STREAM, Small

from drystone import clock
from drystone.block import keys
from drystone.block.meta import parse
from drystone.block.receipt import Receipt
from drystone.bucket import open_bucket
from drystone.verbs.steps import run_step

pytestmark = pytest.mark.spark


def test_an_erasure_on_spark(small: Small) -> None:
    """The dry run counts what the real one drops; only blocks with such rows are written anew, and readers agree."""
    for number, cities in enumerate(("Oslo,Lund", "Lund,Rome")):
        day = f"2013-01-0{number + 1}"
        rows = "".join(f"{day} 0{hour}:00:00,{city},{hour},\n" for hour, city in enumerate(cities.split(",")))
        small.put(f"{number}.csv", HEADER + rows)
    blocks = small.job("upload").blocks
    small.wait()
    asked = {"predicate": {"column": "city", "op": "=", "value": "Oslo"}, "reason": "request 17", "author": "ann"}
    dry = small.job("detect", "dry", dry_run=True, kind="rewrite", proposed=asked)
    assert dry.summary["merges"] == 1, dry.error
    assert "1 rows were erased" in dry.report
    assert len(small.rows()) == 4

    bucket = open_bucket(small.loaded.bucket_url(STREAM))
    written = run_step("erase", small.loaded, STREAM, "write", asked, bucket, now=clock.system)
    assert written.ok, written.error
    assert sorted(row["city"] for row in small.rows()) == ["Lund", "Lund", "Rome"]
    planned = small.job("detect", "plan", kind="rewrite", batches=2)
    done = small.job("compact", "rewrite", plan_key=planned.plan_key, batch=0)
    assert (done.summary["rows"], done.summary["rows_erased"]) == (1, 1), done.error
    (made,) = done.blocks
    edit = str(written.summary["edit"])
    extension = parse(small.bucket.get(keys.block(STREAM, made, "meta.json")), made).drystone
    assert extension is not None
    assert extension.edits == (edit,)
    (item,) = small.bucket.list(keys.receipts(STREAM, edit))
    assert set(Receipt.model_validate_json(small.bucket.get(item.key)).clear) < set(blocks)
    small.wait()
    assert sorted(row["city"] for row in small.rows()) == ["Lund", "Lund", "Rome"]
