"""What a bucket in a local folder does beyond the protocol: files, folders, and the system's refusals."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import resource
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drystone.bucket import LocalBucket
from drystone.bucket.failures import explain
from drystone.bucket.folders import place
from drystone.bucket.names import TEMP_FOLDER
from drystone.errors import BucketError, DrystoneError, ObjectMissingError, UsageError

NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The bucket's folder, which does not exist yet."""
    return tmp_path / "some" / "bucket"


@pytest.fixture
def bucket(folder: Path) -> LocalBucket:
    """A bucket that nobody has written to."""
    return LocalBucket(folder)


def keys_of(bucket: LocalBucket, prefix: str = "", start_after: str = "") -> list[str]:
    """Return the keys that a listing yields, in its order."""
    return [found.key for found in bucket.list(prefix, start_after)]


def temp_files(folder: Path) -> list[Path]:
    """Return the files that are being written, or were."""
    return [*(folder / TEMP_FOLDER).glob("*")]


def in_a_child(work: Callable[[], object]) -> str:
    """Run `work` in a process of its own; return the error that it ended with, as `Class: message`."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            sender.send(f"{type(error).__name__}: {error}")
        else:
            sender.send("no error")

    process = context.Process(target=run)
    process.start()
    assert receiver.poll(30)
    answer: str = receiver.recv()
    process.join()
    return answer


def without_rights(work: Callable[[], object]) -> str:
    """Do the same as a user who may do less than the administrator."""

    def run() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        work()

    return in_a_child(run)


@pytest.fixture
def public() -> Iterator[LocalBucket]:
    """A bucket in a folder that every user of the machine may write to."""
    with tempfile.TemporaryDirectory() as folder:
        bucket = LocalBucket(Path(folder) / "bucket")
        bucket.put("k", b"")
        for path in (Path(folder), bucket.path("k").parent, bucket.path("k").parent / TEMP_FOLDER):
            path.chmod(0o777)
        yield bucket


# --- folders ---


def test_the_first_write_makes_the_folder_and_a_listing_does_not(folder: Path, bucket: LocalBucket) -> None:
    """A missing folder lists nothing and stays missing; the first write makes it."""
    assert keys_of(bucket) == []
    bucket.delete(["a/b"])
    assert not folder.exists()
    bucket.put("a/b", b"")
    assert keys_of(bucket) == ["a/b"]


def test_a_relative_folder_is_the_one_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative folder is resolved when the bucket is made, and stays the same wherever the process or a copy goes."""
    monkeypatch.chdir(tmp_path)
    bucket = LocalBucket(Path("here"))
    monkeypatch.chdir("/")
    bucket.put("k", b"")
    copy: LocalBucket = pickle.loads(pickle.dumps(bucket))  # noqa: S301 - our own bytes
    assert keys_of(copy) == ["k"]
    assert (tmp_path / "here" / "k").is_file()


def test_an_object_is_a_plain_file_that_others_may_read(folder: Path, bucket: LocalBucket) -> None:
    """An object is the file that `path` and `uri` name, with the rights that the user gives to new files."""
    bucket.put("a/b", b"data")
    assert bucket.path("a/b") == folder / "a" / "b"
    assert bucket.uri("a/b") == f"file://{folder}/a/b"
    assert bucket.path("a/b").read_bytes() == b"data"
    (folder / "plain").touch()
    assert stat.S_IMODE(bucket.path("a/b").stat().st_mode) == stat.S_IMODE((folder / "plain").stat().st_mode)


def test_deleting_the_last_object_of_a_folder_removes_it(folder: Path, bucket: LocalBucket) -> None:
    """Folders that a deletion empties go, those with objects and the bucket's own stay."""
    for key in ("s/b1/chunks/1", "s/b1/meta", "s/b2/meta"):
        bucket.put(key, b"")
    bucket.delete(["s/b1/chunks/1"])
    assert not (folder / "s/b1/chunks").exists()
    assert (folder / "s/b1").exists()
    bucket.delete(["s/b1/meta"])
    assert [path.name for path in (folder / "s").iterdir()] == ["b2"]
    bucket.delete(["s/b2/meta"])
    assert not (folder / "s").exists()
    assert folder.exists()


def test_a_deletion_that_died_half_way_is_finished_by_the_next(folder: Path, bucket: LocalBucket) -> None:
    """Deleting a key that is gone already removes the empty folders that its first deletion left."""
    for left in ("s/b1/chunks", "s/b1", "s"):
        (folder / left).mkdir(parents=True)
        bucket.delete(["s/b1/chunks/1"])
        assert not (folder / "s").exists()
        assert folder.exists()


def test_deletions_happen_in_order_and_stop_at_the_first_that_fails(public: LocalBucket) -> None:
    """What comes after an object that cannot be removed is left: a block loses its meta.json first or nothing."""
    for key in ("1", "b/2", "3"):
        public.put(key, b"")
    public.path("b").chmod(0o500)
    assert without_rights(lambda: public.delete(["1", "b/2", "3"])).startswith("BucketError: cannot delete")
    assert keys_of(public) == ["3", "b/2", "k"]


def test_no_key_can_be_the_folder_of_another(bucket: LocalBucket) -> None:
    """Where an object's key is another's folder, writing raises UsageError that says so, and changes nothing."""
    bucket.put("a/b", b"1")
    for write in (bucket.put, bucket.create):
        for key in ("a", "a/b/c", "a/b/c/d"):
            with pytest.raises(UsageError, match="no key can be the folder of another"):
                write(key, b"2")
    assert keys_of(bucket) == ["a/b"]
    assert bucket.get("a/b") == b"1"
    bucket.delete(["a", "a/b/c"])
    assert bucket.get("a/b") == b"1"


def test_empty_folders_make_way_for_an_object(folder: Path, bucket: LocalBucket) -> None:
    """Empty folders that a remover left when it died do not keep an object from taking their name."""
    for key, write in (("one", bucket.create), ("two", bucket.put)):
        (folder / key / "x/y").mkdir(parents=True)
        (folder / key / "z").mkdir()
        with pytest.raises(ObjectMissingError):
            bucket.get(key)
        write(key, b"data")
        assert bucket.get(key) == b"data"


def test_a_write_gives_up_when_its_folder_never_stays(folder: Path) -> None:
    """A folder that is removed again and again ends a write with BucketError, after a bounded number of attempts."""
    attempts = 0

    def move(source: Path, target: Path) -> None:
        nonlocal attempts
        attempts += 1
        if target.parent.exists():
            target.parent.rmdir()
        source.hardlink_to(target)

    with pytest.raises(BucketError, match="was removed"):
        place(move, folder / "source", folder / "x" / "target")
    assert attempts == 50


# --- listings ---


def test_what_is_no_object_is_not_listed(folder: Path, bucket: LocalBucket, tmp_path: Path) -> None:
    """Links, pipes, empty folders, names that are no UTF-8, and temp folders (also nested ones) are no objects."""
    LocalBucket(folder / "nested").put("k", b"")
    (folder / "nested" / TEMP_FOLDER / "left").touch()
    (folder / "empty/folder").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    (folder / "nested/dangling").symlink_to("nothing")
    os.mkfifo(folder / "pipe")
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe"))).touch()
    assert keys_of(bucket) == ["nested/k"]
    for key in ("loop", "pipe", "nested/dangling", "empty"):
        with pytest.raises(ObjectMissingError):
            bucket.head(key)


def test_a_listing_reads_only_folders_that_can_match(
    folder: Path, bucket: LocalBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither folders outside the prefix nor those that sort before the start are read."""
    keys = [f"{stream}/{name}/x/y" for stream in ("a", "s", "z") for name in (".audit", "01A", "01B", "01C")]
    for key in keys:
        bucket.put(key, b"")
    read = []
    scandir = os.scandir

    def recording(path: Path) -> object:
        read.append(str(path.relative_to(folder)))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", recording)
    assert keys_of(bucket, "s/", "s/0") == ["s/01A/x/y", "s/01B/x/y", "s/01C/x/y"]
    assert read == ["s", "s/01A", "s/01A/x", "s/01B", "s/01B/x", "s/01C", "s/01C/x"]
    read.clear()
    assert keys_of(bucket, "s/01B/x/", "s/01B/w") == ["s/01B/x/y"]
    assert read == ["s/01B/x"]
    read.clear()
    assert keys_of(bucket, "s/01", "s/01B/x/y") == ["s/01C/x/y"]
    assert read == ["s", "s/01B", "s/01B/x", "s/01C", "s/01C/x"]
    read.clear()
    assert next(bucket.list("")).key == "a/.audit/x/y"
    assert read == [".", "a", "a/.audit", "a/.audit/x"]


def test_a_listing_passes_over_what_vanishes_under_it(folder: Path, bucket: LocalBucket) -> None:
    """What is deleted, or becomes a folder, after the listing has read its name is left out; the rest is listed."""
    for key in ("a", "b", "c", "d/1", "e"):
        bucket.put(key, b"")
    listing = bucket.list("")
    assert next(listing).key == "a"
    bucket.delete(["b", "c", "d/1"])
    (folder / "c").mkdir()
    assert [found.key for found in listing] == ["e"]


# --- refusals ---


def test_without_rights_every_verb_says_which_right_is_missing(public: LocalBucket) -> None:
    """Permission denied is a BucketError with the path, and with the advice to give the right."""
    public.put("secret/k", b"")
    staged = public.path("k").parent.parent / "staged"
    staged.write_bytes(b"")
    calls: list[Callable[[], object]] = [
        lambda: public.put("secret/new", b""),
        lambda: public.create("secret/new", b""),
        lambda: public.upload("secret/new", staged),
        lambda: public.get("secret/k"),
        lambda: public.get_range("secret/k", 0, 1),
        lambda: public.head("secret/k"),
        lambda: public.delete(["secret/k"]),
        lambda: keys_of(public),
    ]
    public.path("secret").chmod(0)
    answers = [without_rights(call) for call in calls]
    public.path("secret").chmod(0o700)
    for answer in answers:
        assert answer.startswith("BucketError: cannot ")
        assert str(public.path("secret")) in answer
        assert "Permission denied. Give this user the right" in answer
    assert keys_of(public) == ["k", "secret/k"]


def test_when_there_is_no_more_space_nothing_is_written(folder: Path, bucket: LocalBucket) -> None:
    """A write that the system stops half-way raises BucketError, shows nothing, and leaves no temp file."""
    bucket.put("k", b"old")

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        bucket.put("k", bytes(2 << 20))

    answer = in_a_child(work)
    assert answer.startswith(
        f"BucketError: cannot write {folder}/k: File too large. Nothing was written: free some space"
    )
    assert bucket.get("k") == b"old"
    assert keys_of(bucket) == ["k"]
    assert temp_files(folder) == []


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, BucketError, "free some space"),
        (errno.EDQUOT, BucketError, "quota"),
        (errno.EROFS, BucketError, "right to read and write"),
        (errno.EXDEV, BucketError, "one file system"),
        (errno.EMFILE, BucketError, "ulimit"),
        (errno.EIO, BucketError, "the disk"),
        (errno.ENOTDIR, UsageError, "other keys"),
    ],
)
def test_every_refusal_of_the_system_says_what_to_do(number: int, kind: type[DrystoneError], advice: str) -> None:
    """An error of the system names the verb, the path and the reason, and what to do next."""
    error = explain(OSError(number, os.strerror(number)), "write", Path("/b/k"))
    assert type(error) is kind
    assert error.message == f"cannot write /b/k: {os.strerror(number)}."
    assert advice in error.next_step
