"""What every bucket must do when many work on it at once, or die at it: the other half of the protocol's tests."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from buckets import objects

from drystone.bucket import Bucket, ObjectInfo
from drystone.bucket.s3 import S3Bucket
from drystone.errors import BucketError, ObjectExistsError

RACERS = 8
ROUNDS = 12
BODY = 64 << 10


def keys_of(bucket: Bucket, prefix: str = "") -> list[str]:
    """Return the keys that a listing yields, in its order."""
    return [found.key for found in bucket.list(prefix)]


def body(racer: int) -> bytes:
    """Return what this racer writes: big enough to be torn, and its own in every byte."""
    return bytes([racer]) * BODY


def run_racer(bucket: Bucket, verb: str, folder: Path, racer: int, wait: Callable[[], object]) -> list[int]:
    """Write the same keys as all other racers, at the same moment; return the rounds that this one won."""
    won = []
    for number in range(ROUNDS):
        path = folder / f"racer-{racer}-{number}"
        path.write_bytes(body(racer))
        wait()
        try:
            if verb == "create":
                bucket.create(f"race/{number}/key", body(racer))
            else:
                bucket.upload(f"race/{number}/key", path)
        except ObjectExistsError:
            continue
        won.append(number)
    return won


def check_race(bucket: Bucket, wins: dict[int, list[int]]) -> None:
    """Assert one winner a round, and that the object is whole and the winner's."""
    for number in range(ROUNDS):
        winners = [racer for racer, won in wins.items() if number in won]
        assert len(winners) == 1, f"round {number}: {winners}"
        assert bucket.get(f"race/{number}/key") == body(winners[0])
    assert keys_of(bucket) == sorted(f"race/{number}/key" for number in range(ROUNDS))


@pytest.mark.parametrize("verb", ["create", "upload"])
def test_of_racing_threads_one_wins(bucket: Bucket, tmp_path: Path, verb: str) -> None:
    """Of many threads that create one key at the same moment exactly one succeeds, and the object is whole and its."""
    barrier = threading.Barrier(RACERS)
    wins: dict[int, list[int]] = {}

    def race(racer: int) -> None:
        wins[racer] = run_racer(bucket, verb, tmp_path, racer, barrier.wait)

    threads = [threading.Thread(target=race, args=(racer,)) for racer in range(RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == RACERS
    check_race(bucket, wins)


@pytest.mark.parametrize("verb", ["create", "upload"])
def test_of_racing_processes_one_wins(shared_bucket: Bucket, tmp_path: Path, verb: str) -> None:
    """Of many processes that create one key at the same moment exactly one succeeds; the object is whole and its."""
    context = multiprocessing.get_context("fork")  # Others cannot import a test module.
    barrier, results = context.Barrier(RACERS), context.Queue()
    pickled = pickle.dumps(shared_bucket)

    def race(racer: int) -> None:
        mine: Bucket = pickle.loads(pickled)  # noqa: S301 - our own bytes
        results.put((racer, run_racer(mine, verb, tmp_path, racer, lambda: barrier.wait(60))))

    processes = [context.Process(target=race, args=(racer,)) for racer in range(RACERS)]
    for process in processes:
        process.start()
    wins = dict(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    assert len(wins) == RACERS
    check_race(shared_bucket, wins)


@pytest.mark.parametrize("verb", ["create", "put"])
def test_a_killed_writer_leaves_all_or_nothing(shared_bucket: Bucket, verb: str) -> None:
    """Kill a writer at any moment: the object is there whole or not at all, and the next writer succeeds.

    A store finishes what it was sent before the writer died: then that may come true a moment later.
    """
    context = multiprocessing.get_context("fork")
    pickled = pickle.dumps(shared_bucket)
    big = bytes(range(256)) * (64 << 10)

    def write(key: str) -> None:
        mine: Bucket = pickle.loads(pickled)  # noqa: S301 - our own bytes
        getattr(mine, verb)(key, big)

    started = time.perf_counter()
    write("whole")
    normal = time.perf_counter() - started
    for number in range(8):
        key = f"killed/{number}"
        process = context.Process(target=write, args=(key,))
        process.start()
        process.join(normal * number / 7)
        process.kill()
        process.join()
        found = objects(shared_bucket, key)
        assert found in ({}, {key: big})
        if verb == "put" and isinstance(shared_bucket, S3Bucket):
            continue  # What a dead client has sent may still come true: in place of the next writer's.
        shared_bucket.delete(found)
        try:
            shared_bucket.create(key, b"the next writer's")
        except ObjectExistsError:
            assert isinstance(shared_bucket, S3Bucket)  # As above, but a create is in nobody's place.
            assert shared_bucket.get(key) == big
        else:
            assert shared_bucket.get(key) == b"the next writer's"
        shared_bucket.delete([key])


def test_a_reader_sees_whole_objects_only(bucket: Bucket) -> None:
    """While an object is replaced again and again, each read returns one whole version, and so does each range."""
    bucket.put("k", body(0))
    stop = threading.Event()
    failures: list[Exception] = []

    def replace() -> None:
        try:
            version = 0
            while not stop.is_set():
                version = (version + 1) % 256
                bucket.put("k", body(version))
        except BucketError as error:
            failures.append(error)

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        for _ in range(200):
            whole = bucket.get("k")
            assert whole == body(whole[0])
            part = bucket.get_range("k", 100, BODY)
            assert part == body(part[0])[100:]
            assert [found.size for found in bucket.list("k")] == [BODY]
    finally:
        stop.set()
        writer.join()
    assert failures == []


def test_creates_in_a_folder_that_others_empty(bucket: Bucket) -> None:
    """Creating objects succeeds while others delete the last one of the same folder all the time."""
    failures: list[Exception] = []

    def work(name: int) -> None:
        try:
            for number in range(60):
                key = f"busy/folder/{name}-{number}"
                bucket.create(key, b"data")
                assert bucket.head(key) == ObjectInfo(key, 4, bucket.head(key).modified)
                bucket.delete([key])
        except Exception as error:  # noqa: BLE001 - the test shows it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert keys_of(bucket) == []


def test_listing_while_others_write_and_delete(bucket: Bucket) -> None:
    """A listing never fails under writers and deleters, stays in order, and shows what is there all along just once."""
    staying = {f"stay/{number}/x" for number in range(20)}
    for key in staying:
        bucket.create(key, b"")
    stop = threading.Event()
    failures: list[BaseException] = []

    def churn(name: int) -> None:
        try:
            while not stop.is_set():
                keys = [f"stay/{number}/{name}" for number in range(20)] + [f"stay/{name}-{n}/a/b" for n in range(5)]
                for key in keys:
                    bucket.put(key, b"x")
                bucket.delete(keys)
        except BaseException as error:  # noqa: BLE001 - the test shows it
            failures.append(error)

    threads = [threading.Thread(target=churn, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            found = keys_of(bucket, "stay/")
            assert found == sorted(set(found))
            assert staying <= set(found)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
