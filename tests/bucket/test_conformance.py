"""What every bucket must do, whatever its kind: the one test suite of the protocol, with test_conformance_races.py."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from drystone import clock
from drystone.bucket import Bucket, open_bucket
from drystone.bucket.s3 import S3Bucket
from drystone.errors import ObjectExistsError, ObjectMissingError, UsageError

AWKWARD = (
    "a!",
    "a+/x",
    "a-",
    "a.b/c.d",
    "a/x",
    "a/x-/1",
    "a/x.y",
    "a/x0/z",
    "a0",
    "ab",
    "b/.hidden",
    "b/a",
    "b/a-/1",
    "b/a0",
    "b/a1/z",
    "B/a",
    ".dot/a",
    "with space/and %41+&=?#*[x]",
    "back\\slash",
    "é/1",  # composed
    "e\u0301/1",  # decomposed: another key
    "\uffee",  # UTF-16 would sort the next one before it
    "\U0001f600",
    "z/" + "y" * 255,
    "/".join("deep" for _ in range(30)),
)

TICK = 10
"""A kernel stamps files by a clock that is some ms behind."""


def keys_of(bucket: Bucket, prefix: str = "", start_after: str = "") -> list[str]:
    """Return the keys that a listing yields, in its order."""
    return [found.key for found in bucket.list(prefix, start_after)]


def fill(bucket: Bucket, keys: tuple[str, ...] = AWKWARD) -> list[str]:
    """Create an object under each key; return the keys in the order that a listing must have."""
    for key in keys:
        bucket.create(key, key.encode())
    return sorted(keys, key=str.encode)


# --- one object ---


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 5000])
def test_what_was_put_is_what_one_gets(bucket: Bucket, data: bytes) -> None:
    """`get` returns exactly the bytes of the last `put`, however few or many."""
    bucket.put("folder/key", b"older")
    bucket.put("folder/key", data)
    assert bucket.get("folder/key") == data


def test_create_takes_a_free_key_and_never_a_taken_one(bucket: Bucket) -> None:
    """`create` writes under a free key; under a taken one it raises and leaves the object as it is."""
    bucket.create("k", b"first")
    before = bucket.head("k")
    with pytest.raises(ObjectExistsError, match="'k'"):
        bucket.create("k", b"second")
    assert bucket.get("k") == b"first"
    assert bucket.head("k") == before


def test_a_deleted_key_is_free_again(bucket: Bucket) -> None:
    """After a deletion `create` succeeds, with the new bytes."""
    bucket.create("f/k", b"first")
    bucket.delete(["f/k"])
    bucket.create("f/k", b"second")
    assert bucket.get("f/k") == b"second"


def test_upload_takes_a_file_and_leaves_it(bucket: Bucket, tmp_path: Path) -> None:
    """`upload` makes an object of a file's bytes; the file stays, and may be deleted without harm to the object."""
    path = tmp_path / "staged"
    path.write_bytes(b"rows" * 100_000)
    bucket.upload("block/chunks/000001.parquet", path)
    assert path.read_bytes() == b"rows" * 100_000
    path.unlink()
    assert bucket.get("block/chunks/000001.parquet") == b"rows" * 100_000


def test_upload_never_replaces(bucket: Bucket, tmp_path: Path) -> None:
    """`upload` to a taken key raises, and leaves the object as it is, its time included."""
    path = tmp_path / "staged"
    path.write_bytes(b"new")
    bucket.create("k", b"old")
    before = bucket.head("k")
    with pytest.raises(ObjectExistsError):
        bucket.upload("k", path)
    assert bucket.get("k") == b"old"
    assert bucket.head("k") == before


def test_one_file_can_become_several_objects(bucket: Bucket, tmp_path: Path) -> None:
    """Uploading a file again, under another key or the same, does not touch the object that it became first."""
    path = tmp_path / "staged"
    path.write_bytes(b"rows")
    bucket.upload("one", path)
    first = bucket.head("one")
    bucket.upload("two", path)
    with pytest.raises(ObjectExistsError):
        bucket.upload("one", path)
    assert bucket.head("one") == first
    assert bucket.get("two") == b"rows"


def test_upload_needs_a_file(bucket: Bucket, tmp_path: Path) -> None:
    """`upload` of a missing path, a folder or a pipe raises UsageError that names it, and writes nothing."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "nothing", tmp_path, tmp_path / "pipe"):
        with pytest.raises(UsageError, match=str(path)):
            bucket.upload("k", path)
    assert keys_of(bucket) == []


def test_a_missing_object_is_a_leaf_error_with_its_key(bucket: Bucket) -> None:
    """Reading what is not there raises ObjectMissingError, also below an object and above one."""
    bucket.put("f/k", b"")
    calls: list[Callable[[str], object]] = [bucket.get, bucket.head, lambda key: bucket.get_range(key, 0, 0)]
    for key in ("nothing", "f", "f/k/below", "f/other"):
        for call in calls:
            with pytest.raises(ObjectMissingError) as caught:
                call(key)
            assert caught.value.key == key


def test_ranges(bucket: Bucket) -> None:
    """`get_range` returns the bytes asked for, fewer only where the object ends, and none beyond."""
    data = bytes(range(100))
    bucket.put("k", data)
    for start in (0, 1, 50, 99, 100, 101, 10**12):
        for length in (0, 1, 49, 50, 100, 10**15):
            assert bucket.get_range("k", start, length) == data[start : start + length]
    bucket.put("empty", b"")
    assert bucket.get_range("empty", 0, 10) == b""


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, -1)])
def test_a_negative_range_is_a_mistake(bucket: Bucket, start: int, length: int) -> None:
    """A negative offset or length raises UsageError: it never counts from the end."""
    bucket.put("k", b"data")
    with pytest.raises(UsageError):
        bucket.get_range("k", start, length)


def test_head_and_list_agree(bucket: Bucket) -> None:
    """`head` and `list` tell the same size and time of an object."""
    fill(bucket)
    listed = {found.key: found for found in bucket.list("")}
    assert {key: bucket.head(key) for key in AWKWARD} == listed
    assert all(found.size == len(found.key.encode()) for found in listed.values())


def test_times_are_those_of_the_write_and_never_run_back(bucket: Bucket, tmp_path: Path) -> None:
    """An object's time is when it appeared, in ms: not before the call, not after it, and later for a later write.

    A store that tells whole seconds gives the end of the second.
    """
    early, late = (TICK, 999) if isinstance(bucket, S3Bucket) else (0, 0)
    path = tmp_path / "staged"
    last = 0
    for number in range(5):
        path.write_bytes(b"staged long before")
        writes: list[tuple[str, Callable[[str], None]]] = [
            (f"put/{number}", lambda key: bucket.put(key, b"")),
            ("put/same", lambda key: bucket.put(key, b"")),
            (f"create/{number}", lambda key: bucket.create(key, b"")),
            (f"upload/{number}", lambda key: bucket.upload(key, path)),
        ]
        for key, write in writes:
            before = clock.system()
            write(key)
            modified = bucket.head(key).modified
            assert max(before - early, last) <= modified <= clock.system() + late
            last = modified
        path.unlink()


# --- deleting ---


def test_delete_removes_what_is_named_and_nothing_else(bucket: Bucket) -> None:
    """`delete` removes the objects named; a key that names nothing, a prefix or no key at all is no error."""
    expected = fill(bucket)
    gone = {"a-", "a/x-/1", "b/a", "\U0001f600", "z/" + "y" * 255}
    bucket.delete([*gone, "b", "nothing", "no/such/folder", "ab/below"])
    bucket.delete([])
    bucket.delete(iter(sorted(gone)))
    assert keys_of(bucket) == [key for key in expected if key not in gone]


# --- listing ---


def test_an_empty_bucket_lists_nothing(bucket: Bucket) -> None:
    """A bucket that nobody has written to yields nothing, for any prefix and start."""
    for prefix in ("", "a", "a/", "a/b"):
        assert keys_of(bucket, prefix) == []
        assert keys_of(bucket, prefix, "a") == []


def test_listing_is_in_the_byte_order_of_whole_keys(bucket: Bucket) -> None:
    """A listing has every key once, in the byte order of UTF-8: `a+/x`, `a-` and `a.b/c` before `a/x`, `a0` after."""
    expected = fill(bucket)
    assert keys_of(bucket) == expected


def test_listing_by_prefix(bucket: Bucket) -> None:
    """A listing has the keys that begin with the prefix, which may end anywhere, and no others."""
    expected = fill(bucket)
    prefixes = {key[:length] for key in AWKWARD for length in range(len(key) + 1) if length < 12 or length > 140}
    prefixes |= {key + "/" for key in AWKWARD} | {"nothing", "/", "//", "../", "..", "a//", "b/../", "./"}
    for prefix in prefixes:
        assert keys_of(bucket, prefix) == [key for key in expected if key.startswith(prefix)], prefix


def test_listing_from_a_key(bucket: Bucket) -> None:
    """`start_after` leaves out what sorts up to it, whether it is a key, the beginning of one or neither."""
    expected = fill(bucket)
    starts = {
        *AWKWARD,
        *(key + "/" for key in AWKWARD),
        *(key[:-1] for key in AWKWARD),
        "a/",
        "b/a!",
        "0",
        "\U0010ffff",
    }
    for prefix in ("", "a", "b/", "b/a", "é"):
        for start in starts:
            wanted = [key for key in expected if key.startswith(prefix) and key.encode() > start.encode()]
            assert keys_of(bucket, prefix, start) == wanted, (prefix, start)


def test_a_listing_can_be_taken_up_again_anywhere(bucket: Bucket) -> None:
    """Reading one key at a time, each from the last one seen, gives the same as one listing."""
    expected = fill(bucket)
    seen = [""]
    while (found := next(bucket.list("", seen[-1]), None)) is not None:
        seen.append(found.key)
    assert seen[1:] == expected


# --- keys and addresses ---


@pytest.mark.parametrize(
    "key",
    [
        *("", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a\0b", "\ud800"),
        *("a" * 256, "a/" * 600 + "a", ".tmp-drystone/x", "a/.tmp-drystone"),
    ],
    ids=repr,
)
def test_what_is_no_key_is_refused_by_every_verb(bucket: Bucket, tmp_path: Path, key: str) -> None:
    """A text that cannot be a key raises UsageError from every verb that takes one."""
    path = tmp_path / "staged"
    path.write_bytes(b"")
    calls: list[Callable[[], object]] = [
        lambda: bucket.get(key),
        lambda: bucket.head(key),
        lambda: bucket.get_range(key, 0, 1),
        lambda: bucket.put(key, b""),
        lambda: bucket.create(key, b""),
        lambda: bucket.upload(key, path),
        lambda: bucket.delete([key]),
        lambda: bucket.uri(key),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="cannot be the key"):
            call()
    assert keys_of(bucket) == []


def test_the_url_opens_the_same_bucket(bucket: Bucket) -> None:
    """`open_bucket(bucket.url)` sees the same objects, and has the same address."""
    bucket.put("f/k", b"data")
    again = open_bucket(bucket.url)
    assert again.get("f/k") == b"data"
    assert again.url == bucket.url


def test_uris_lie_below_the_url(bucket: Bucket) -> None:
    """An object's address is the bucket's without its settings, a slash and the key as it is; Hadoop says s3a."""
    place = bucket.url.partition("?")[0].replace("s3://", "s3a://")
    assert bucket.uri("a b/é%41") == f"{place}/a b/é%41"


def test_a_pickled_bucket_is_the_same_bucket(bucket: Bucket) -> None:
    """A pickled bucket, before and after its first write, reads and writes the same objects as the first."""
    early: Bucket = pickle.loads(pickle.dumps(bucket))  # noqa: S301 - our own bytes
    early.create("k", b"by the copy")
    late: Bucket = pickle.loads(pickle.dumps(early))  # noqa: S301
    assert bucket.get("k") == late.get("k") == b"by the copy"
    with pytest.raises(ObjectExistsError):
        bucket.create("k", b"")
