"""Little work is done without Spark: the same verbs decide and write the same, and what is more is left to Spark."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from buckets import objects
from flight_streams import DELETE_DELAY, SYNC_DELAY, Flights, make_stream
from pyspark.sql import SparkSession

from drystone.bucket import open_bucket
from drystone.config.load import load
from drystone.jobs import JobResult, Verb
from drystone.reader import observe_stats
from drystone.verbs import here
from drystone.verbs.steps import run_step

pytestmark = pytest.mark.spark
DAYS = 4
Do = Callable[..., JobResult | None]


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, january: pa.Table) -> Flights:
    """The flights of some days: a block for each day and origin, all of them ready."""
    few = january.filter(pc.less_equal(january["day"], DAYS))
    stream = make_stream(tmp_path_factory.mktemp("days"), few)
    assert stream.job(spark, "upload", "upload").ok
    time.sleep(SYNC_DELAY)
    return stream


def copied(stream: Flights, folder: Path) -> Flights:
    """Return the same stream in another folder, its objects' times included."""
    shutil.copytree(stream.folder, folder)
    loaded = load(folder / "drystone.yaml")
    return Flights(folder, loaded, open_bucket(loaded.bucket_url("flights")), stream.truth)


def lived(stream: Flights, do: Do) -> list[tuple[str, Mapping[str, Any]]]:
    """Take the stream through its life; return what each job said of itself, in numbers."""
    said: list[tuple[str, Mapping[str, Any]]] = []

    def done(verb: Verb, run: str, **request: object) -> JobResult:
        result = do(verb, run, **request)
        assert result is not None, f"{run} was left to Spark"
        assert result.ok, result.error
        # Files name themselves inside, so that they differ in size by a byte or two.
        said.append((run, {name: value for name, value in result.summary.items() if not name.endswith("bytes")}))
        return result

    for kind in ("minor", "major"):
        plan = done("detect", f"detect-{kind}", kind=kind, batches=2)
        for batch in plan.batches:
            done("compact", f"compact-{kind}-{batch.number}", plan_key=plan.plan_key, batch=batch.number)
        time.sleep(SYNC_DELAY)
        assert stream.read() == stream.truth
    done("mark", "mark")
    time.sleep(DELETE_DELAY + 1)
    done("sweep", "sweep")
    assert stream.read() == stream.truth
    stats = observe_stats(stream.bucket, "flights")
    assert (stats.blocks_visible, stats.blocks_total, stats.blocks_marked) == (1, 1, 0)
    return said


def by_itself(stream: Flights, *, most: int = 64 << 20) -> Do:
    """Return what does a verb in this process."""
    spark = stream.loaded.config.spark.model_copy(update={"local_bytes": most})
    loaded = replace(stream.loaded, config=stream.loaded.config.model_copy(update={"spark": spark}))

    def do(verb: Verb, run: str, **request: object) -> JobResult | None:
        return here.run_here(verb, loaded, "flights", run, request, stream.bucket)

    return do


def test_a_life_without_spark_is_the_same(days: Flights, tmp_path: Path, spark: SparkSession) -> None:
    """Job by job: the same numbers, the same rows, the same blocks left."""
    on_spark, alone = copied(days, tmp_path / "spark"), copied(days, tmp_path / "alone")
    spoken = lived(on_spark, lambda verb, run, **request: on_spark.job(spark, verb, run, **request))
    assert lived(alone, by_itself(alone)) == spoken
    marking = dict(spoken)["mark"]
    assert marking["marked"] == marking["blocks_total"] - 1 > 3 * DAYS


def untouched(stream: Flights, do: Do, verb: Verb, **request: object) -> None:
    """The verb is left to Spark, and nothing in the bucket has changed."""
    before = objects(stream.bucket)
    assert do(verb, "much", **request) is None
    assert objects(stream.bucket) == before


def test_what_is_too_much_is_left_to_spark(days: Flights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is changed: neither a block, nor a mark, nor a line in the log, nor a lease."""
    stream = copied(days, tmp_path / "stream")
    do, sources = by_itself(stream), observe_stats(stream.bucket, "flights").blocks_total
    untouched(stream, by_itself(stream, most=0), "detect", kind="minor")
    untouched(stream, do, "upload")
    plan = do("detect", "plan", kind="minor")
    assert plan is not None
    of_plan = {"plan_key": plan.plan_key, "batch": 0}
    untouched(stream, by_itself(stream, most=1), "compact", **of_plan)
    with monkeypatch.context() as patch:
        patch.setattr(here, "MOST_TASKS", 3)
        untouched(stream, do, "compact", **of_plan)
    compacted = do("compact", "compact", **of_plan)
    assert compacted is not None
    assert compacted.ok, compacted.error
    time.sleep(SYNC_DELAY)

    with monkeypatch.context() as patch:
        patch.setattr(here, "MOST_TASKS", sources - 1)
        untouched(stream, do, "mark")
    marked = do("mark", "mark")
    assert marked is not None
    assert marked.summary["marked"] == sources
    time.sleep(DELETE_DELAY + 1)
    with monkeypatch.context() as patch:
        patch.setattr(here, "MOST_TASKS", sources - 1)
        untouched(stream, do, "sweep")

    asked = {"predicate": {"column": "carrier", "op": "=", "value": "UA"}, "reason": "request 17", "author": "ann"}
    assert run_step("erase", stream.loaded, "flights", "erase", asked, stream.bucket).ok
    untouched(stream, by_itself(stream, most=1), "detect", kind="rewrite")
    rewriting = do("detect", "rewrite", kind="rewrite")
    assert rewriting is not None
    assert int(rewriting.summary["merges"]) >= DAYS


def test_what_goes_wrong_is_reported(days: Flights, tmp_path: Path) -> None:
    """A plan that is not there fails the job, as it does on Spark, and is not left to it."""
    stream = copied(days, tmp_path / "stream")
    result = by_itself(stream)("compact", "gone", plan_key="flights/.plans/none.json", batch=0)
    assert result is not None
    assert (result.ok, result.retryable) == (False, False)
    assert "flights/.plans/none.json" in result.error


_CHILD = """
import sys
from pathlib import Path
from drystone.bucket import open_bucket
from drystone.config.load import load
from drystone.verbs.here import run_here
verb, config, run, request = sys.argv[1:]
loaded = load(Path(config))
import json
run_here(verb, loaded, "flights", run, json.loads(request), open_bucket(loaded.bucket_url("flights")))
"""


def killed_while(stream: Flights, middle: Callable[[], bool], verb: Verb, **request: object) -> None:
    """Do the verb in a process of its own, and kill it with SIGKILL as soon as `middle` holds."""
    command = [sys.executable, "-c", _CHILD, verb, str(stream.config), f"killed-{verb}", json.dumps(request)]
    with subprocess.Popen(command) as child:
        while child.poll() is None and not middle():
            time.sleep(0.001)
        child.kill()
    assert child.returncode == -signal.SIGKILL, "it was through before"


@pytest.mark.slow
def test_a_task_that_is_killed_in_its_middle_leaves_nothing_that_stays(days: Flights, tmp_path: Path) -> None:
    """Amid its merges, its marks, its deletions: readers see every row, and the next one ends it."""
    stream = copied(days, tmp_path / "stream")
    document = yaml.safe_load(stream.config.read_text())
    document["spark"]["local_bytes"] = "64MB"
    stream.config.write_text(yaml.safe_dump(document))
    do = by_itself(stream)

    def there(name: str) -> int:
        return len(list((stream.folder / "bucket" / "flights").glob(f"0*/{name}")))

    before = there("meta.json")
    plan = do("detect", "plan", kind="minor")
    assert plan is not None
    of_plan = {"plan_key": plan.plan_key, "batch": 0}
    killed_while(stream, lambda: there("meta.json") > before, "compact", **of_plan)
    time.sleep(SYNC_DELAY)
    assert stream.read() == stream.truth
    killed_while(stream, lambda: there("deletion-mark.json") > 1, "mark")
    assert stream.read() == stream.truth
    lived(stream, do)
