"""How a bucket in a local folder writes: durable, whole, in time, and without leaving anything behind."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine

from drystone import clock
from drystone.bucket import LocalBucket
from drystone.bucket.local import ABANDONED_AFTER, remove_abandoned
from drystone.bucket.names import TEMP_FOLDER
from drystone.errors import ObjectExistsError, ObjectMissingError, UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The bucket's folder, which does not exist yet."""
    return tmp_path / "some" / "bucket"


@pytest.fixture
def bucket(folder: Path) -> LocalBucket:
    """A bucket that nobody has written to."""
    return LocalBucket(folder)


def keys_of(bucket: LocalBucket) -> list[str]:
    """Return the keys that a listing yields, in its order."""
    return [found.key for found in bucket.list("")]


def temp_files(folder: Path) -> list[Path]:
    """Return the files that are being written, or were."""
    return [*(folder / TEMP_FOLDER).glob("*")]


def test_bytes_are_on_the_disk_before_the_name_and_the_name_before_the_return(
    folder: Path, bucket: LocalBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write syncs the bytes while they have no name yet, then the object's folder, and those made for it."""
    staged = tmp_path / "staged"
    staged.write_bytes(b"data")
    synced: list[tuple[int, bool]] = []
    fsync = os.fsync

    def recording(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, target.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    writes: list[Callable[[str], None]] = [
        lambda key: bucket.put(key, b"data"),
        lambda key: bucket.create(key, b"data"),
        lambda key: bucket.upload(key, staged),
    ]
    for number, write in enumerate(writes):
        key = f"{number}/chunks/k"
        target = folder / key
        synced.clear()
        write(key)
        assert (target.stat().st_ino, False) in synced
        assert synced[-1] == (target.parent.stat().st_ino, True)
        for above in (folder, target.parent.parent):
            assert (above.stat().st_ino, False) in synced


def test_an_objects_time_is_when_it_got_its_name(folder: Path, tmp_path: Path) -> None:
    """A writer that was stopped before its object appeared cannot make one that looks old: it is stamped again."""
    start, late = 1_000_000_000_000, 1_000_003_600_000
    for verb in ("put", "create", "upload"):
        times = iter([start, late, late])
        bucket = LocalBucket(folder, lambda times=times: next(times))  # type: ignore[misc]
        if verb == "upload":
            (tmp_path / "staged").write_bytes(b"")
            bucket.upload(verb, tmp_path / "staged")
        else:
            getattr(bucket, verb)(verb, b"")
        assert bucket.head(verb).modified == late


def test_the_clock_gives_objects_their_times(folder: Path) -> None:
    """Times come from the clock that the bucket was given."""
    bucket = LocalBucket(folder, lambda: 1_356_998_400_123)
    bucket.put("k", b"")
    assert next(bucket.list("")).modified == 1_356_998_400_123


def test_upload_is_a_link_on_the_same_file_system(bucket: LocalBucket, tmp_path: Path) -> None:
    """Uploading from the bucket's own file system copies no bytes, not even through a symbolic link."""
    (tmp_path / "staged").write_bytes(b"rows")
    (tmp_path / "link").symlink_to("staged")
    bucket.upload("k", tmp_path / "link")
    assert bucket.path("k").samefile(tmp_path / "staged")
    assert not bucket.path("k").is_symlink()
    assert temp_files(bucket.path("k").parent) == []


def test_upload_copies_what_has_a_time_of_its_own_to_keep(bucket: LocalBucket, tmp_path: Path) -> None:
    """A file with further names, or one of the bucket's own, is copied, and keeps its time."""
    old = 1_000_000_000
    (tmp_path / "staged").write_bytes(b"rows")
    (tmp_path / "backup").hardlink_to(tmp_path / "staged")
    bucket.put("mine", b"mine")
    for number, path in enumerate((tmp_path / "staged", bucket.path("mine"))):
        os.utime(path, (old, old))
        bucket.upload(f"k{number}", path)
        assert path.stat().st_mtime == old
        assert not bucket.path(f"k{number}").samefile(path)
        assert bucket.get(f"k{number}") == path.read_bytes()
        assert bucket.head(f"k{number}").modified > old * 1000


def test_upload_copies_from_another_file_system(bucket: LocalBucket, tmp_path: Path) -> None:
    """Uploading from another file system copies the bytes, create-only as ever, and leaves no temp file."""
    other = Path("/dev/shm")  # noqa: S108 - another file system on every Linux
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("this machine has no second file system to write to")
    path = other / f"drystone-test-{os.getpid()}"
    try:
        path.write_bytes(b"rows" * 1_000_000)
        bucket.upload("b/k", path)
        with pytest.raises(ObjectExistsError):
            bucket.upload("b/k", path)
    finally:
        path.unlink()
    assert bucket.get("b/k") == b"rows" * 1_000_000
    assert temp_files(bucket.path("b").parent) == []


def test_no_write_leaves_a_temp_file(folder: Path, bucket: LocalBucket) -> None:
    """Whether a write succeeds or fails, its temp file is gone when it returns."""
    bucket.put("a/k", b"")
    bucket.create("k", b"")
    for failing in ("k", "a", "a/k/x"):
        with pytest.raises((ObjectExistsError, UsageError)):
            bucket.create(failing, b"")
    assert temp_files(folder) == []


def test_a_writer_killed_half_way_leaves_a_temp_file_that_nobody_sees(folder: Path, bucket: LocalBucket) -> None:
    """Kill a writer when half of its bytes are written: no listing and no read shows them, and others can write."""
    big = bytes(32 << 20)
    half_way = 0
    for _ in range(20):
        process = multiprocessing.get_context("fork").Process(target=lambda: bucket.create("big", big))
        process.start()
        while process.is_alive() and not any(path.stat().st_size for path in temp_files(folder)):
            assert keys_of(bucket) in ([], ["big"])
        process.kill()
        process.join()
        if not (left := temp_files(folder)):
            bucket.delete(["big"])  # It was faster than we were.
            continue
        half_way += 1
        assert keys_of(bucket) == []
        with pytest.raises(ObjectMissingError):
            bucket.get("big")
        bucket.create("big", b"small")
        assert bucket.get("big") == b"small"
        assert temp_files(folder) == left
        bucket.delete(["big"])
        left[0].unlink()
        if half_way == 2:
            break
    assert half_way == 2


def test_temp_files_of_dead_writers_are_removed_when_old(folder: Path, bucket: LocalBucket) -> None:
    """A temp file goes once nobody has touched it for an hour, at a bucket's first write, and not before."""
    bucket.put("k", b"")
    left = folder / TEMP_FOLDER / "1-left"
    left.write_bytes(b"part")
    os.utime(left, (0, 0))  # Its age is that of its last change, which cannot be set.
    LocalBucket(folder).put("k", b"")
    remove_abandoned(folder / TEMP_FOLDER, clock.system() + ABANDONED_AFTER - 60_000)
    assert left.exists()
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=2)):
        LocalBucket(folder).put("k", b"")
    assert not left.exists()
