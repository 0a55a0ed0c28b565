"""Which files an interval names, and the create-only plan that makes every retry give the same sources."""

from __future__ import annotations

import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from buckets import Call, Spy, objects

from drystone import ulids
from drystone.block.chunks import Chunk, chunk_at
from drystone.bucket import LocalBucket, MemoryBucket
from drystone.errors import InputError, ObjectMissingError, SourceChangedError, UsageError
from drystone.ingest.files import (
    FileDone,
    FilePlan,
    PlannedFile,
    commit,
    find_files,
    is_done,
    read,
)
from drystone.ingest.planning import FilePlanner
from drystone.timeline.gone import find_gone

NOW = 1_700_000_000_000
STREAM = "events"
DAY = chunk_at(NOW, "day")


def at(day: int, hour: int = 0, minute: int = 0) -> datetime:
    """Return a moment of January 2013."""
    return datetime(2013, 1, day, hour, minute, tzinfo=UTC)


def touch(folder: Path, *names: str) -> None:
    """Make files that hold their own names."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


@pytest.mark.parametrize(
    ("pattern", "interval", "expected"),
    [
        ("%Y-%m-%d/*.csv", (at(1), at(2)), ["2013-01-01/a.csv", "2013-01-01/b.csv"]),
        ("%Y-%m-%d/*.csv", (at(1), at(3)), ["2013-01-01/a.csv", "2013-01-01/b.csv", "2013-01-02/a.csv"]),
        ("%Y-%m-%d/a.csv", (at(1, 23), at(2, 1)), ["2013-01-01/a.csv", "2013-01-02/a.csv"]),
        ("%Y-%m-%d/a.csv", (at(1), at(1)), []),
        ("%Y-%m/*.txt", (at(1), at(31)), ["2013-01/m.txt"]),
        ("%Y-%m/*.txt", (at(31), datetime(2013, 2, 1, tzinfo=UTC)), ["2013-01/m.txt"]),
        ("hours/%Y%m%d%H.csv", (at(1, 9), at(1, 11)), ["hours/2013010109.csv", "hours/2013010110.csv"]),
        ("hours/%Y%m%d%H.csv", (at(1, 9, 30), at(1, 10)), ["hours/2013010109.csv"]),
        ("minutes/%H%M", (at(1, 9, 58), at(1, 10)), ["minutes/0958", "minutes/0959"]),
        ("%Y-%m-%d/*.csv", (at(2).astimezone(timezone(timedelta(hours=9))), at(3)), ["2013-01-02/a.csv"]),
        ("**/*.txt", None, ["2013-01/m.txt", "top.txt"]),
        ("top.*", (at(1), at(2)), ["top.txt"]),
        ("100%%/*", None, ["100%/x"]),
        ("100%%/*", (at(1), at(2)), ["100%/x"]),
        ("20*", None, []),
        ("nothing/*", None, []),
    ],
)
def test_files_of_an_interval(
    tmp_path: Path, pattern: str, interval: tuple[datetime, datetime] | None, expected: list[str]
) -> None:
    """Codes stand for the minutes, hours, days or months of a half-open interval in UTC; folders are no files."""
    base = tmp_path / "[odd] %Y"
    touch(base, "2013-01-01/a.csv", "2013-01-01/b.csv", "2013-01-02/a.csv", "2013-01-03/a.csv", "2013-01/m.txt")
    touch(base, *(f"hours/20130101{hour:02}.csv" for hour in (8, 9, 10, 11)), "top.txt", "100%/x")
    touch(base, *(f"minutes/{name}" for name in ("0957", "0958", "0959", "1000")))
    assert find_files(pattern, interval, base) == sorted(base / name for name in expected)


def test_an_absolute_pattern_is_taken_as_it_is(tmp_path: Path) -> None:
    """It does not lie below the configuration file."""
    touch(tmp_path, "in/a.csv")
    assert find_files(f"{tmp_path}/in/*", None, Path("/etc")) == [tmp_path / "in/a.csv"]


def test_codes_need_an_interval(tmp_path: Path) -> None:
    """A run without an interval cannot say which files; and nobody names files by seconds."""
    with pytest.raises(UsageError, match="has date codes, and this run has no interval"):
        find_files("%Y/*.csv", None, tmp_path)
    with pytest.raises(UsageError, match=r"has %S in it\. The finest code is %M"):
        find_files("%H%M%S.csv", (at(1), at(2)), tmp_path)


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> MemoryBucket:
    """An empty bucket."""
    return MemoryBucket(request.node.name)


def plan(bucket: MemoryBucket | LocalBucket | Spy, path: Path, now: int = NOW, generation: int = 0) -> PlannedFile:
    """Plan a file below its folder's folder."""
    return plan_below(path.parent.parent, bucket, path, now, generation)


def plan_below(
    base: Path, bucket: MemoryBucket | LocalBucket | Spy, path: Path, now: int = NOW, generation: int = 0
) -> PlannedFile:
    """Plan a file of a stream whose configuration lies in `base`."""
    return FilePlanner(bucket, STREAM, generation, base, "error", lambda: find_gone([], [])).plan(path, now)


def test_a_plan_is_made_once(bucket: MemoryBucket, tmp_path: Path) -> None:
    """A later run gets the first run's plan, with its time, and so names the same sources."""
    touch(tmp_path, "in/a.csv")
    first = plan(bucket, tmp_path / "in/a.csv")
    before = objects(bucket)
    later = plan(bucket, tmp_path / "in/a.csv", NOW + 99)
    assert later == first
    assert objects(bucket) == before
    assert first.plan.planned_at == NOW
    assert ulids.time_of(first.plan.source(DAY)) == NOW


def _plan_in_a_process(arguments: tuple[Path, Path, int]) -> FilePlan:
    bucket, path, now = arguments
    return plan(LocalBucket(bucket), path, now).plan


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_all_who_race_get_one_plan(kind: str, tmp_path: Path) -> None:
    """Runs that plan a file at once, each at a time of its own, agree on one time and one set of sources."""
    touch(tmp_path, "in/a.csv")
    work = [(tmp_path / "bucket", tmp_path / "in/a.csv", NOW + number) for number in range(8)]
    if kind == "threads":
        together = threading.Barrier(8)

        def run(arguments: tuple[Path, Path, int]) -> FilePlan:
            together.wait()
            return _plan_in_a_process(arguments)

        with ThreadPoolExecutor(8) as pool:
            plans = list(pool.map(run, work))
    else:
        with ProcessPoolExecutor(4) as processes:
            plans = list(processes.map(_plan_in_a_process, work))
    assert len({each.source(DAY) for each in plans}) == 1
    assert len(set(plans)) == 1


def test_a_plan_that_cannot_be_seen_yet_is_not_made_up(bucket: MemoryBucket, tmp_path: Path) -> None:
    """If the key is taken and the object cannot be read, the run fails and may be tried again: no other sources."""
    touch(tmp_path, "in/a.csv")
    plan(bucket, tmp_path / "in/a.csv")

    def hide(call: Call) -> None:
        if call.verb == "get":
            raise ObjectMissingError(call.key)

    with pytest.raises(ObjectMissingError) as caught:
        plan(Spy(bucket, hide), tmp_path / "in/a.csv", NOW + 1)
    assert caught.value.retryable


def test_other_content_is_refused(bucket: MemoryBucket, tmp_path: Path) -> None:
    """A known path with other content stops, and its plan stays; the old content is welcome again."""
    touch(tmp_path, "in/a.csv")
    first = plan(bucket, tmp_path / "in/a.csv")
    (tmp_path / "in/a.csv").write_text("other")
    with pytest.raises(SourceChangedError, match=r"in/a.csv was ingested with other content \(SHA-256 ") as caught:
        plan(bucket, tmp_path / "in/a.csv")
    assert not caught.value.retryable
    touch(tmp_path, "in/a.csv")
    assert plan(bucket, tmp_path / "in/a.csv").plan == first.plan


def test_a_file_is_known_by_its_path_below_the_configuration(bucket: MemoryBucket, tmp_path: Path) -> None:
    """A checkout that moves, or is reached by a link, keeps its sources; a file elsewhere has its whole path."""
    touch(tmp_path, "one/in/a.csv", "else.csv")
    first = plan_below(tmp_path / "one", bucket, tmp_path / "one/in/a.csv", NOW)
    assert first.plan.path == "in/a.csv"
    (tmp_path / "link").symlink_to(tmp_path / "one")
    assert plan_below(tmp_path / "link", bucket, tmp_path / "link/in/a.csv", NOW + 1).plan == first.plan
    (tmp_path / "one").rename(tmp_path / "two")
    assert plan_below(tmp_path / "two", bucket, tmp_path / "two/in/a.csv", NOW + 1).plan == first.plan
    other = plan_below(tmp_path / "two", bucket, tmp_path / "else.csv", NOW)
    assert other.plan.path == str(tmp_path / "else.csv")


def test_sources_differ_by_everything_that_they_stand_for() -> None:
    """The same plan and chunk always give the same id; another path, content, time, chunk, stream or generation not."""
    plain = {"stream": "s", "path": "p", "sha256": "d", "size": 1, "planned_at": NOW, "generation": 0}
    changes = {"stream": "t", "path": "q", "sha256": "e", "planned_at": NOW + 1, "generation": 1}
    plans = [FilePlan.model_validate(plain | {key: value}) for key, value in changes.items()]
    chunks = [DAY, chunk_at(NOW, "hour"), chunk_at(NOW + 86_400_000, "day"), Chunk(DAY.start, DAY.end, "month")]
    own = FilePlan.model_validate(plain)
    ids = [*(each.source(DAY) for each in plans), *(own.source(chunk) for chunk in chunks)]
    assert len(set(ids)) == len(ids)
    assert all(ulids.is_canonical(each) for each in ids)
    assert own.source(DAY) == FilePlan.model_validate(plain | {"size": 2}).source(DAY)
    assert own.source(DAY) == "01HF7YAT00YYB4D46QAS3VYE2D", "sources in people's buckets are named like this for good"


def test_a_file_is_committed_once(bucket: MemoryBucket, tmp_path: Path) -> None:
    """The first commit stays; a second one is harmless; nothing else makes a file done."""
    touch(tmp_path, "in/a.csv")
    file = plan(bucket, tmp_path / "in/a.csv")
    assert not is_done(bucket, file)
    commit(bucket, file, FileDone(run="first", time=NOW, rows=1, sources=1))
    before = objects(bucket)
    commit(bucket, file, FileDone(run="second", time=NOW + 1, rows=2, sources=2))
    assert objects(bucket) == before
    assert is_done(bucket, file)
    assert is_done(bucket, plan(bucket, tmp_path / "in/a.csv", NOW + 5))
    assert not is_done(bucket, plan(bucket, tmp_path / "in/a.csv", generation=1)), "another generation begins anew"


def test_a_change_since_the_plan_is_seen(bucket: MemoryBucket, tmp_path: Path) -> None:
    """A file that was written to, replaced or removed after it was planned is not taken for what was planned."""
    touch(tmp_path, "in/a.csv", "in/b.csv")
    path = tmp_path / "in/a.csv"
    file = plan(bucket, path)
    file.stamp.check(path)
    with path.open("a") as more:
        more.write("more")
    with pytest.raises(SourceChangedError, match="changed while it was read"):
        file.stamp.check(path)
    path.write_text("in/a.csv")
    (tmp_path / "in/b.csv").replace(path)
    with pytest.raises(SourceChangedError):
        file.stamp.check(path)
    path.unlink()
    with pytest.raises(InputError, match="No such file"):
        file.stamp.check(path)
    with pytest.raises(InputError, match="No such file"):
        plan(bucket, path)


def test_a_plan_that_is_none_is_named(bucket: MemoryBucket) -> None:
    """What cannot be read as a plan is an error with its key; no plan at all is None."""
    bucket.put("a", b"{}")
    with pytest.raises(InputError, match="ingest plan a cannot be read: Field required"):
        read(bucket, "a", FilePlan)
    assert read(bucket, "b", FilePlan) is None
