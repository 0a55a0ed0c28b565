"""When blocks can be read and marks have been seen, looked up in a bucket whose time the test moves."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from drystone import jobs, ulids
from drystone.airflow.readiness import BlockWatch, Waiting, marks_until
from drystone.block import keys
from drystone.block.states import Times
from drystone.bucket import MemoryBucket
from drystone.errors import ObjectMissingError

STREAM = "events"
TIMES = Times(sync_delay=1000, delete_delay=2000, clock_skew=100)
START = 1_700_000_000_000


@dataclass
class World:
    """A bucket, and the time in it."""

    bucket: MemoryBucket
    now: int = START

    def put(self, ulid: str, name: str, data: bytes = b"x" * 10) -> None:
        """Write one file of a block, now."""
        self.bucket.put(keys.block(STREAM, ulid, name), data)

    def block(self, *, ignore_delay: bool = False) -> str:
        """Write a whole block, now."""
        ulid = ulids.new(self.now)
        self.put(ulid, "chunks/000001.parquet")
        self.put(ulid, "index")
        self.put(ulid, "meta.json", meta(ulid, ignore_delay=ignore_delay))
        return ulid

    def look(self, *blocks: str) -> Waiting:
        """Look at some blocks, now."""
        return BlockWatch(self.bucket, STREAM, TIMES, set(blocks)).look(self.now)


def meta(ulid: str, *, ignore_delay: bool = False) -> bytes:
    """A meta.json that lists one chunk of ten bytes."""
    files = '[{"rel_path":"chunks/000001.parquet","size_bytes":10},{"rel_path":"meta.json"}]'
    extension = (
        '{"format_version":1,"stream":"events","schema_fingerprint":"f","time_chunk":{"start":0,"end":1,'
        f'"granularity":"day"}},"time_column":"at","sort_key":["at"],"ignore_delay":{str(ignore_delay).lower()}}}'
    )
    return (
        f'{{"version":1,"ulid":"{ulid}","minTime":0,"maxTime":1,"stats":{{"numSamples":1,"numChunks":1}},'
        f'"compaction":{{"level":1,"sources":["{ulid}"]}},"thanos":{{"version":1,"labels":{{"a":"b"}},"files":{files},'
        f'"extensions":{{"drystone":{extension}}}}}}}'
    ).encode()


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """An empty bucket at the moment START."""
    found = World(MemoryBucket(f"readiness-{request.node.name}"))
    MemoryBucket(f"readiness-{request.node.name}", clock=lambda: found.now)
    return found


def test_nothing_to_wait_for(world: World) -> None:
    """Without blocks there is nothing to wait for, and nothing is listed."""
    assert world.look().reasons == {}


def test_a_block_is_ready_when_its_sync_delay_is_over(world: World) -> None:
    """A whole block waits until both its ULID and its meta.json are older than syncDelay, to the millisecond."""
    ulid = world.block()
    world.now += TIMES.sync_delay - 1
    waiting = world.look(ulid)
    assert waiting.reasons == {ulid: "syncDelay is not over"}
    assert waiting.until == START + TIMES.sync_delay
    world.now = waiting.until
    assert world.look(ulid).reasons == {}


def test_a_late_meta_starts_the_delay_again(world: World) -> None:
    """A writer that paused before its last PUT cannot make a block ready at once: meta.json's own time counts."""
    ulid = ulids.new(START)
    world.put(ulid, "chunks/000001.parquet")
    world.now += 5 * TIMES.sync_delay
    world.put(ulid, "meta.json", meta(ulid))
    assert world.look(ulid).until == world.now + TIMES.sync_delay
    world.now += TIMES.sync_delay
    assert world.look(ulid).reasons == {}


def test_ignore_delay_lifts_it(world: World) -> None:
    """A block that says ignore_delay is ready as soon as it is whole."""
    assert world.look(world.block(ignore_delay=True)).reasons == {}


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("meta.json", None, "not whole: it has no meta.json"),
        ("chunks/000001.parquet", None, "not whole: chunks/000001.parquet is missing"),
        ("chunks/000001.parquet", b"short", "not whole: chunks/000001.parquet has 5 bytes, not 10"),
        ("meta.json", b'{"version": 1, "ul', "not whole: block"),
    ],
)
def test_a_block_that_is_not_whole_is_named(world: World, name: str, data: bytes | None, reason: str) -> None:
    """However old: a block without meta.json, with a missing or short file, or a cut-off meta.json is not ready."""
    ulid = world.block()
    world.now += 60 * TIMES.sync_delay
    whole = world.block()
    key = keys.block(STREAM, ulid, name)
    world.bucket.delete([key])
    if data is not None:
        world.put(ulid, name, data)
    world.now += 60 * TIMES.sync_delay
    waiting = world.look(ulid, whole)
    assert list(waiting.reasons) == [ulid]
    assert waiting.reasons[ulid].startswith(reason)
    assert ulid in str(waiting)


def test_a_block_that_is_not_to_be_seen_yet_is_waited_for(world: World) -> None:
    """A folder that the listing does not show may lag, until it could have been deleted by the rules."""
    ulid = ulids.new(START)
    world.now += TIMES.sync_delay + TIMES.delete_delay - 1
    assert "not to be seen" in world.look(ulid).reasons[ulid]
    world.now += 1
    assert world.look(ulid).reasons == {}


@pytest.mark.parametrize("gone", [(), ("meta.json",), ("meta.json", "chunks/000001.parquet", "index")])
def test_a_block_in_deletion_was_ready_before(world: World, gone: tuple[str, ...]) -> None:
    """A marked block is no reason to wait, whole or half deleted: somebody covered it, so it had been ready."""
    ulid = world.block()
    world.put(ulid, "deletion-mark.json")
    world.bucket.delete([keys.block(STREAM, ulid, name) for name in gone])
    assert world.look(ulid).reasons == {}


def test_what_was_ready_once_is_not_looked_at_again(world: World) -> None:
    """A watch drops what was ready: a block that is deleted in the meantime does not come back as missing."""
    early, later = world.block(), ""
    world.now += TIMES.sync_delay
    later = world.block()
    watch = BlockWatch(world.bucket, STREAM, TIMES, {early, later})
    assert list(watch.look(world.now).reasons) == [later]
    world.bucket.delete(info.key for info in list(world.bucket.list(keys.block(STREAM, early))))
    world.now += TIMES.sync_delay
    assert watch.look(world.now).reasons == {}


def test_other_folders_do_not_matter(world: World) -> None:
    """Blocks of other jobs, and folders that are no blocks, are not waited for."""
    mine = world.block()
    world.now += TIMES.sync_delay
    world.block()
    world.bucket.put(f"{STREAM}/{mine.lower()}/meta.json", b"x")
    world.bucket.put(f"{STREAM}/ZZZ/meta.json", b"x")
    assert world.look(mine).reasons == {}


def result(*blocks: str) -> bytes:
    """A result object that lists some blocks."""
    found = jobs.JobResult(verb="upload", stream=STREAM, run="r", ok=True, started=0, ended=1, blocks=list(blocks))
    return found.to_json()


def test_a_watch_knows_its_blocks_from_results(world: World) -> None:
    """The blocks to wait for are those that the jobs' result objects list; a result that is not there is an error."""
    one, other = world.block(), world.block()
    world.bucket.put(jobs.result_key(STREAM, "a"), result(one))
    world.bucket.put(jobs.result_key(STREAM, "b"), result(other))
    wanted = [jobs.result_key(STREAM, "a"), jobs.result_key(STREAM, "b")]
    assert BlockWatch.of_results(world.bucket, STREAM, wanted, TIMES).pending == {one, other}
    with pytest.raises(ObjectMissingError):
        BlockWatch.of_results(world.bucket, STREAM, [jobs.result_key(STREAM, "c")], TIMES)


def test_ten_names_are_enough(world: World) -> None:
    """A message names at most ten blocks, and says how many more there are."""
    missing = [ulids.new(START) for _ in range(12)]
    text = str(world.look(*missing))
    assert sum(ulid in text for ulid in missing) == 10
    assert text.endswith("and 2 more")


def test_marks_are_seen_after_delete_delay(world: World) -> None:
    """The wait goes by the youngest deletion mark of the stream, plus the tolerated skew; without marks, no wait."""
    assert marks_until(world.bucket, STREAM, TIMES) == 0
    first, second = world.block(), world.block()
    world.put(first, "no-compact-mark.json")
    assert marks_until(world.bucket, STREAM, TIMES) == 0
    world.put(first, "deletion-mark.json")
    world.now += 700
    world.put(second, "deletion-mark.json")
    world.bucket.put("other/" + second + "/deletion-mark.json", b"x")
    assert marks_until(world.bucket, STREAM, TIMES) == world.now + TIMES.delete_delay + TIMES.clock_skew
