"""One run at a time removes: the lease is taken by one, runs out by itself, and can be taken over only then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from buckets import Call, Spy, objects

from drystone.block import keys
from drystone.bucket import LocalBucket, MemoryBucket
from drystone.bucket.protocol import ObjectInfo
from drystone.engine.lease import TTL_MS, kept_lease, remover_lease
from drystone.errors import HeldError
from drystone.testing.streams import ManualClock

STREAM = "events"
TTL = 60_000


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def bucket(clock: ManualClock, request: pytest.FixtureRequest) -> MemoryBucket:
    """An empty bucket."""
    return MemoryBucket(request.node.name, clock)


def test_a_second_run_is_turned_away(bucket: MemoryBucket, clock: ManualClock) -> None:
    """While one run has the lease another is refused, told who has it and for how long; it may try again later."""
    with remover_lease(bucket, STREAM, "first", TTL, clock) as held:
        clock.advance(TTL - 1_000)
        with (
            pytest.raises(HeldError, match="first is removing, and has the lease for another 1 s") as caught,
            remover_lease(bucket, STREAM, "second", TTL, clock),
        ):
            pytest.fail("two removers at once")
        assert caught.value.retryable
        held.check(clock.now)
    assert objects(bucket) == {}, "it is given back"
    with remover_lease(bucket, STREAM, "second", TTL, clock):
        pass


def test_a_lease_is_given_back_after_a_failure(bucket: MemoryBucket, clock: ManualClock) -> None:
    """A run that fails leaves the lease to the next one at once."""
    with pytest.raises(ZeroDivisionError), remover_lease(bucket, STREAM, "first", TTL, clock):
        _ = 1 / 0
    with remover_lease(bucket, STREAM, "second", TTL, clock):
        pass


def test_a_lease_runs_out(bucket: MemoryBucket, clock: ManualClock) -> None:
    """A run that died keeps others off until its time is over, and not longer; if it was asleep, it may not go on."""
    dead = remover_lease(bucket, STREAM, "dead", TTL, clock)
    held = dead.__enter__()
    clock.advance(TTL)
    with pytest.raises(HeldError, match="dead no longer holds"):
        held.check(clock.now)
    with remover_lease(bucket, STREAM, "next", TTL, clock) as mine:
        mine.check(clock.now)
        clock.advance(-1)
        with pytest.raises(HeldError, match="dead no longer holds"):
            held.check(clock.now)
        assert list(objects(bucket)) == [mine.key], "the old lease is gone"


def test_the_same_run_starts_again(bucket: MemoryBucket, clock: ManualClock) -> None:
    """A retry takes over the lease of its first attempt at once, and the first attempt, if it lives, must stop."""
    first = remover_lease(bucket, STREAM, "run", TTL, clock)
    held = first.__enter__()
    with remover_lease(bucket, STREAM, "run", TTL, clock) as again:
        again.check(clock.now)
        with pytest.raises(HeldError):
            held.check(clock.now)
        first.__exit__(None, None, None)
        again.check(clock.now)


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_of_many_that_race_one_wins(kind: str, tmp_path: Path, bucket: MemoryBucket, clock: ManualClock) -> None:
    """Of eight runs that ask at the same moment, one gets the lease at a time."""
    place = bucket if kind == "memory" else LocalBucket(tmp_path, clock)
    together = threading.Barrier(8)
    inside, most, lock = [0], [0], threading.Lock()

    def run(number: int) -> bool:
        together.wait()
        try:
            with remover_lease(place, STREAM, f"run {number}", TTL, clock) as held:
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                together.wait(timeout=30)
                held.check(clock.now)
                with lock:
                    inside[0] -= 1
        except HeldError:
            together.wait(timeout=30)
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(run, range(8)))
    assert sum(won) == most[0] == 1


def test_losing_the_race_at_the_last_moment(bucket: MemoryBucket, clock: ManualClock) -> None:
    """If another run takes the lease between the look and the write, the write fails, and so does the run."""
    faster = remover_lease(bucket, STREAM, "faster", TTL, clock)

    def overtake(call: Call) -> None:
        if call.verb == "create":
            faster.__enter__()

    with (
        pytest.raises(HeldError, match="faster is removing"),
        remover_lease(Spy(bucket, overtake), STREAM, "slower", TTL, clock),
    ):
        pytest.fail("two removers at once")


def test_what_is_no_lease_is_left_alone(bucket: MemoryBucket, clock: ManualClock) -> None:
    """Somebody's note beside the leases neither holds nor loses anything."""
    bucket.put(f"{keys.leases(STREAM)}README", b"notes")
    with remover_lease(bucket, STREAM, "run", TTL, clock) as held:
        held.check(clock.now)
    assert list(objects(bucket)) == [f"{keys.leases(STREAM)}README"]


def test_an_unreadable_lease_holds(bucket: MemoryBucket, clock: ManualClock) -> None:
    """A lease that cannot be read keeps removers off, and the error names the object."""
    key = f"{keys.leases(STREAM)}000000000003.json"
    bucket.put(key, b"{")
    with pytest.raises(HeldError, match=key), remover_lease(bucket, STREAM, "run", TTL, clock):
        pytest.fail("who knows who is removing")


class Unlisted(Spy):
    """A bucket whose listings lag behind."""

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """See Bucket."""
        return (item for item in super().list(prefix, start_after) if "/.lease/" not in item.key)


def test_a_listing_that_lags_does_not_end_a_lease(bucket: MemoryBucket, clock: ManualClock) -> None:
    """A remover holds its lease although no listing shows it yet, until the lease has run out."""
    with remover_lease(Unlisted(bucket), STREAM, "run", TTL, clock) as held:
        held.check(clock.now)
        with pytest.raises(HeldError):
            held.check(clock.now + TTL)


class Steps:
    """A pacer under whose sleeps and turns the clock moves on."""

    def __init__(self, clock: ManualClock) -> None:
        """`clock`: the one that moves."""
        self.clock = clock
        self.turn: Callable[[], None] = lambda: None

    def sleep(self, ms: int) -> None:
        """Let time pass."""
        self.clock.advance(ms)

    @contextmanager
    def every(self, ms: int, act: Callable[[], None]) -> Iterator[None]:
        """Let the test say when it is time."""

        def turn() -> None:
            self.clock.advance(ms)
            act()

        self.turn = turn
        yield


def test_a_kept_lease_is_renewed_while_the_run_lives(bucket: MemoryBucket, clock: ManualClock) -> None:
    """A run that takes many times as long as a lease keeps it; once nobody renews it, it runs out."""
    pacer = Steps(clock)
    with kept_lease(bucket, STREAM, "run", clock, pacer) as held:
        for _ in range(40):
            pacer.turn()
            held.check(clock.now)
        clock.advance(TTL_MS)
        with pytest.raises(HeldError):
            held.check(clock.now)


def test_the_next_run_waits_for_a_dead_ones_lease(bucket: MemoryBucket, clock: ManualClock) -> None:
    """A run that was killed keeps the next one waiting until its lease has run out, and not longer."""
    dead = kept_lease(bucket, STREAM, "dead", clock, Steps(clock))
    dead.__enter__()
    before = clock.now
    with kept_lease(bucket, STREAM, "next", clock, Steps(clock)) as held:
        held.check(clock.now)
    assert TTL_MS <= clock.now - before < 2 * TTL_MS
