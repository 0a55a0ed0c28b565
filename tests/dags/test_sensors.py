"""The sensors and their trigger against a bucket in a local folder, with delays of some hundred milliseconds."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from airflow.triggers.base import BaseTrigger

from drystone import jobs, ulids
from drystone.airflow.readiness import BlockWatch
from drystone.airflow.sensors import OUTAGE, SHORTEST_DEFERRAL, BlocksReadySensor, DeleteDelaySensor, result_keys
from drystone.airflow.triggers import BlocksReadyTrigger
from drystone.block import keys
from drystone.block.states import Times
from drystone.bucket import Bucket, LocalBucket
from drystone.clock import system
from drystone.errors import BucketError

STREAM = "events"
TIMES = Times(sync_delay=400, upload_timeout=100, clock_skew=50, delete_delay=500, read_timeout=50)


@pytest.fixture
def bucket(config_file: Path) -> LocalBucket:
    """The bucket that the configuration file names."""
    return LocalBucket(config_file.parent / "bucket")


def upload(bucket: Bucket, name: str, blocks: int = 1, *, whole: bool = True) -> dict[str, str]:
    """Upload blocks and leave the result of the job that did; return the XCom of its task."""
    made = []
    for _ in range(blocks):
        ulid = ulids.new(system())
        bucket.put(keys.block(STREAM, ulid, "chunks/000001.parquet"), b"x" * 10)
        if whole:
            bucket.put(keys.block(STREAM, ulid, "meta.json"), meta(ulid))
        made.append(ulid)
    found = jobs.JobResult(verb="upload", stream=STREAM, run=name, ok=True, started=0, ended=1, blocks=made)
    bucket.put(jobs.result_key(STREAM, name), found.to_json())
    return {"result_key": jobs.result_key(STREAM, name)}


def meta(ulid: str) -> bytes:
    """A meta.json as another tool would write it."""
    return (
        f'{{"version":1,"ulid":"{ulid}","minTime":0,"maxTime":1,"stats":{{"numSamples":1,"numChunks":1}},'
        f'"compaction":{{"level":1,"sources":["{ulid}"]}},"thanos":{{"version":1,"labels":{{"a":"b"}},'
        '"files":[{"rel_path":"chunks/000001.parquet","size_bytes":10}]}}'
    ).encode()


def sensor(config_file: Path, results: object) -> BlocksReadySensor:
    """The sensor over some XComs."""
    return BlocksReadySensor(task_id="ready", stream=STREAM, config_file=str(config_file), results=results, timeout=600)


def deferral(config_file: Path, results: object) -> TaskDeferred:
    """Execute the sensor, which must defer."""
    with pytest.raises(TaskDeferred) as caught:
        sensor(config_file, results).execute({})
    return caught.value


def fire(trigger: BaseTrigger) -> Any:
    """Run a trigger as the triggerer does: made again from what was written to the database; return its event."""
    path, arguments = trigger.serialize()
    assert path == "drystone.airflow.triggers.BlocksReadyTrigger"

    async def first() -> Any:
        async for event in BlocksReadyTrigger(**arguments).run():
            return event.payload
        return None

    return asyncio.run(first())


def trigger(bucket: Bucket, results: list[str], **times: int) -> BlocksReadyTrigger:
    """The trigger that a sensor would defer to, but without the shortest deferral."""
    now = system()
    arguments = {"not_before": now, "deadline": now + 5000} | times
    return BlocksReadyTrigger(bucket_url=bucket.url, stream=STREAM, results=results, times=asdict(TIMES), **arguments)


def test_a_job_that_uploaded_nothing_is_ready_at_once(config_file: Path, bucket: LocalBucket) -> None:
    """No results, no blocks in them, or a job that was skipped: the sensor returns without deferring."""
    for results in (None, [], [None], upload(bucket, "empty", blocks=0)):
        sensor(config_file, results).execute({})


def test_blocks_that_are_ready_already_do_not_defer(config_file: Path, bucket: LocalBucket) -> None:
    """Past syncDelay the sensor returns at once."""
    results = upload(bucket, "old", blocks=2)
    time.sleep(TIMES.sync_delay / 1000)
    sensor(config_file, results).execute({})


def test_a_deferral_is_never_short(config_file: Path, bucket: LocalBucket) -> None:
    """Some hundred milliseconds to go are a deferral of ten seconds: shorter ones can make Airflow fail the task."""
    begun = system()
    deferred = deferral(config_file, [upload(bucket, "one"), upload(bucket, "two")])
    assert isinstance(deferred.trigger, BlocksReadyTrigger)
    assert deferred.trigger.not_before >= begun + SHORTEST_DEFERRAL
    assert deferred.trigger.results == [jobs.result_key(STREAM, "one"), jobs.result_key(STREAM, "two")]
    assert deferred.method_name == "conclude"
    assert deferred.timeout.total_seconds() > OUTAGE.total_seconds() + SHORTEST_DEFERRAL / 1000 - 1


def test_the_trigger_waits_for_sync_delay(bucket: LocalBucket) -> None:
    """The trigger fires when the last block is past syncDelay, not before."""
    results = upload(bucket, "now", blocks=3)
    begun = system()
    assert fire(trigger(bucket, [results["result_key"]], not_before=begun + TIMES.sync_delay)) == {"ready": True}
    assert system() >= begun + TIMES.sync_delay


def test_the_trigger_keeps_its_shortest_wait(bucket: LocalBucket) -> None:
    """Even for blocks that are ready the trigger does not fire before `not_before`."""
    results = upload(bucket, "none", blocks=0)
    begun = system()
    assert fire(trigger(bucket, [results["result_key"]], not_before=begun + 300)) == {"ready": True}
    assert system() >= begun + 300


def test_the_trigger_gives_up_with_names(config_file: Path, bucket: LocalBucket) -> None:
    """At its deadline the trigger fires with the blocks that never became whole, and the task fails with them."""
    results = upload(bucket, "broken", whole=False)
    (ulid,) = {info.key.split("/")[1] for info in bucket.list(f"{STREAM}/0")}
    event = fire(trigger(bucket, [results["result_key"]], deadline=system() + 200))
    assert not event["ready"]
    with pytest.raises(AirflowFailException, match=f"{ulid}: not whole: it has no meta.json") as caught:
        sensor(config_file, results).conclude({}, event)
    assert "drystone inspect" in str(caught.value)


def test_the_trigger_survives_a_store_that_fails(bucket: LocalBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that cannot be read now is asked again, and is no reason to fail the task."""
    results = upload(bucket, "late", blocks=0)
    looks = []
    true_look = BlockWatch.look

    def look(self: BlockWatch, now: int) -> Any:
        looks.append(now)
        if len(looks) == 1:
            raise BucketError("the store is away.")
        return true_look(self, now)

    monkeypatch.setattr(BlockWatch, "look", look)
    monkeypatch.setattr("drystone.airflow.triggers.POLL_MS", 50)
    assert fire(trigger(bucket, [results["result_key"]])) == {"ready": True}
    assert len(looks) == 2


def test_a_result_that_is_gone_is_tried_again(config_file: Path) -> None:
    """A result object that cannot be found is a transient failure of the sensor, which has retries."""
    with pytest.raises(AirflowException) as caught:
        sensor(config_file, {"result_key": jobs.result_key(STREAM, "gone")}).execute({})
    assert not isinstance(caught.value, AirflowFailException)


def test_results_are_xcoms_of_jobs() -> None:
    """One summary, many or none are taken; anything else is a mistake in the DAG."""
    one = {"result_key": "a"}
    assert result_keys(one) == ["a"]
    assert result_keys(iter([one, None, {"result_key": "b"}])) == ["a", "b"]
    for wrong in ("a", 7):
        with pytest.raises(TypeError):
            result_keys(wrong)


def delete_delay(config_file: Path, *, skip: bool | str = False) -> DeleteDelaySensor:
    """The sensor for deletion marks."""
    return DeleteDelaySensor(task_id="delay", stream=STREAM, config_file=str(config_file), skip=skip, timeout=600)


def test_without_young_marks_nothing_is_waited_for(config_file: Path, bucket: LocalBucket) -> None:
    """No mark, or only marks past deleteDelay: the sensor returns at once."""
    delete_delay(config_file).execute({})
    bucket.put(keys.block(STREAM, ulids.new(system()), "deletion-mark.json"), b"{}")
    time.sleep((TIMES.delete_delay + TIMES.clock_skew) / 1000)
    delete_delay(config_file).execute({})


def test_young_marks_are_waited_for(config_file: Path, bucket: LocalBucket) -> None:
    """A young mark defers the task, for ten seconds at the least, and with a timeout after that."""
    bucket.put(keys.block(STREAM, ulids.new(system()), "deletion-mark.json"), b"{}")
    with pytest.raises(TaskDeferred) as caught:
        delete_delay(config_file).execute({})
    moment = caught.value.trigger.moment.timestamp() * 1000
    assert moment >= system() + SHORTEST_DEFERRAL - 1000
    assert caught.value.timeout.total_seconds() > OUTAGE.total_seconds()
    delete_delay(config_file).conclude({}, None)


def test_a_mark_from_the_future_is_not_waited_for(config_file: Path, bucket: LocalBucket) -> None:
    """A mark whose time lies hours ahead means a wrong clock: the task fails at once and says so."""
    key = keys.block(STREAM, ulids.new(system()), "deletion-mark.json")
    bucket.put(key, b"{}")
    os.utime(bucket.path(key), (time.time() + 7200, time.time() + 7200))
    with pytest.raises(AirflowFailException, match=r"from the future.*clock"):
        delete_delay(config_file).execute({})


def test_a_dry_run_does_not_wait(config_file: Path, bucket: LocalBucket) -> None:
    """In a dry run there is nothing to wait for, whatever marks there are."""
    bucket.put(keys.block(STREAM, ulids.new(system()), "deletion-mark.json"), b"{}")
    delete_delay(config_file, skip="True").execute({})
