"""What is S3's own: credentials, clear errors, parts, encryption, and what goes over the wire."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from s3_buckets import Waits, behind, file_of, new_bucket, open_uploads

from drystone import clock
from drystone.block.marks import DELETION_MARK
from drystone.bucket import open_bucket, s3_multipart
from drystone.bucket.protocol import Versioned
from drystone.bucket.s3 import S3Bucket
from drystone.bucket.s3_credentials import Credentials, freeze, session
from drystone.bucket.s3_delete import BATCH_KEYS, batches
from drystone.bucket.s3_list import modified
from drystone.bucket.s3_multipart import PART_BYTES, SINGLE_BYTES
from drystone.errors import BucketAccessError, BucketError, ObjectMissingError, UsageError
from drystone.testing.processes import free_port
from drystone.testing.s3_proxy import Nth, Refuse, Request, S3Proxy
from drystone.testing.s3_server import S3Server

NOBODY = Credentials("AKIANOBODY", "not-the-secret")


# --- errors ---


def test_wrong_credentials_are_an_error_that_nobody_tries_again(s3: S3Server) -> None:
    """An unknown key and a wrong secret are said at once, with what to set, and without the secret."""
    for credentials in (NOBODY, Credentials(s3.access_key, "not-the-secret")):
        waits = Waits()
        bucket = S3Bucket(s3.address(), credentials=credentials, retries=waits.retries())
        for call in (
            lambda b=bucket: b.get("k"),
            lambda b=bucket: list(b.list("")),
            lambda b=bucket: b.create("k", b""),
        ):
            with pytest.raises(BucketAccessError, match=r"its credentials are wrong.*AWS_ACCESS_KEY_ID") as caught:
                call()
            assert "not-the-secret" not in str(caught.value)
            assert not caught.value.retryable
        assert waits == []


def test_missing_credentials_say_where_they_are_looked_for(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any credentials the error says so, and which ways there are to give some."""
    for name in s3.environment:
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(BucketAccessError, match=r"no usable credentials.*Set AWS_ACCESS_KEY_ID"):
        new_bucket(s3).get("k")


def test_a_profile_that_does_not_exist_is_named(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong AWS_PROFILE is an error with its name, not another account."""
    monkeypatch.setenv("AWS_PROFILE", "there-is-none")
    with pytest.raises(BucketAccessError, match="there-is-none"):
        new_bucket(s3).get("k")


def test_a_missing_bucket_is_no_empty_bucket(s3: S3Server, tmp_path: Path) -> None:
    """In a bucket that does not exist every verb says so: HEAD, whose answer does not tell, and deletes included."""
    bucket = S3Bucket(s3.address("nobody-made-it"), credentials=s3.credentials)
    path = file_of(tmp_path, SINGLE_BYTES + 1)
    for call in (
        lambda: bucket.get("k"),
        lambda: bucket.head("k"),
        lambda: bucket.get_range("k", 0, 1),
        lambda: list(bucket.list("")),
        lambda: bucket.put("k", b""),
        lambda: bucket.create("k", b""),
        lambda: bucket.upload("k", path),
        lambda: bucket.delete(["k"]),
        lambda: bucket.delete(["k", "l"]),
    ):
        with pytest.raises(BucketAccessError, match=r"there is no such bucket.*correct the bucket's address"):
            call()


def test_an_unreachable_store_is_tried_a_few_times_only() -> None:
    """Where nobody listens, the error comes after the last of a few attempts, and says what to check."""
    waits = Waits()
    address = f"s3://lake?endpoint=http://127.0.0.1:{free_port()}"
    bucket = S3Bucket(address, credentials=NOBODY, retries=waits.retries(4))
    with pytest.raises(BucketError, match=r"cannot be reached. Check the endpoint") as caught:
        bucket.get("k")
    assert caught.value.retryable
    assert waits == [0.25, 0.5, 1.0]


@pytest.mark.parametrize(
    ("status", "code", "match"),
    [
        (403, "AccessDenied", "may not do that.*use-s3.md"),
        (403, "RequestTimeTooSkewed", "clock.*NTP"),
        (400, "ExpiredToken", r"have expired.*Renew"),
        (400, "AuthorizationHeaderMalformed", "the region is another one"),
        (501, "NotImplemented", "the store cannot do that.*probe"),
    ],
)
def test_what_only_a_person_can_put_right_is_not_tried_again(
    s3: S3Server, proxy: S3Proxy, status: int, code: str, match: str
) -> None:
    """Such an error comes after one request, is not retryable, and says what to do."""
    bucket = behind(proxy, s3)
    proxy.judge = lambda _: Refuse(status, code)
    with pytest.raises(BucketAccessError, match=match) as caught:
        bucket.get("k")
    assert not caught.value.retryable
    assert len(proxy.passed) == 1


def test_a_redirect_is_said_and_not_followed_for_ever(s3: S3Server, proxy: S3Proxy) -> None:
    """Where the bucket is in another region, or all requests are sent elsewhere, the error says what to check."""
    bucket = behind(proxy, s3)
    proxy.judge = lambda request: Refuse(301, "PermanentRedirect") if request.key else None
    with pytest.raises(BucketAccessError, match=r"another region.*\?region="):
        bucket.get("k")
    proxy.judge = lambda _: Refuse(301, "MovedPermanently")
    with pytest.raises(BucketAccessError, match=r"redirects every request.*http or https"):
        bucket.get("k")


def test_a_slow_down_is_waited_for_and_then_said(s3: S3Server, proxy: S3Proxy) -> None:
    """A busy store is asked again after waits that double; one that stays busy is an error after the last attempt."""
    waits = Waits()
    bucket = behind(proxy, s3, waits.retries(5))
    bucket.put("k", b"data")
    proxy.judge = Nth(Refuse(503, "SlowDown"), lambda _: True, frozenset({0, 1}))
    assert bucket.get("k") == b"data"
    assert waits == [0.25, 0.5]
    proxy.passed.clear()
    proxy.judge = lambda _: Refuse(503, "SlowDown")
    with pytest.raises(BucketError, match="asks to slow down") as caught:
        bucket.get("k")
    assert caught.value.retryable
    assert len(proxy.passed) == 5


# --- credentials ---


def test_a_pickled_bucket_needs_no_credentials_where_it_arrives(s3_account: S3Server) -> None:
    """A process without any credentials can use a bucket that was pickled, and they appear nowhere else."""
    bucket = new_bucket(s3_account)
    bucket.put("k", b"data")
    code = (
        "import os, pickle, sys; bucket = pickle.loads(sys.stdin.buffer.read()); print(repr(bucket), bucket.url);"
        "print(bucket.get('k')); again = pickle.loads(pickle.dumps(bucket)); print(again.get('k')); print(os.environ)"
    )
    bare = {"PATH": os.environ["PATH"], "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull}
    bare["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(bucket), env=bare, capture_output=True, check=True
    )
    assert done.stdout.count(b"b'data'") == 2
    assert s3_account.secret_key.encode() not in done.stdout + done.stderr


def test_a_child_process_does_not_share_its_parents_connections(s3: S3Server) -> None:
    """A bucket that was used before a fork works on both sides of it, at the same time."""
    bucket = new_bucket(s3, credentials=s3.credentials)
    bucket.put("k", b"data")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [context.Process(target=lambda: results.put([bucket.get("k") for _ in range(20)])) for _ in range(2)]
    for child in children:
        child.start()
    assert [bucket.get("k") for _ in range(20)] == [b"data"] * 20
    assert [results.get(timeout=60) for _ in children] == [[b"data"] * 20] * 2
    for child in children:
        child.join()


def test_a_pickled_bucket_is_small_and_says_nothing_of_this_process(s3: S3Server) -> None:
    """What travels is the address, the credentials and the settings: not a client, and no state of the dice."""
    bucket = new_bucket(s3, credentials=s3.credentials)
    bucket.put("k", b"data")
    assert len(pickle.dumps(bucket)) < 1000


def test_no_text_of_a_bucket_holds_its_credentials(s3: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    """Neither `repr`, `str`, the address nor a log at its most talkative shows the secret."""
    caplog.set_level(logging.DEBUG)
    bucket = S3Bucket(s3.address(), credentials=s3.credentials)
    bucket.put("no secret", b"")
    list(bucket.list(""))
    shown = f"{bucket!r} {bucket} {bucket.url} {s3.credentials!r} {s3!r} {vars(bucket)} {caplog.text}"
    assert s3.secret_key not in shown


def test_credentials_that_came_along_give_way_to_ones_own_when_they_expire(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handed-over credentials sign until shortly before they expire; then those of the process's own chain do."""
    moment = [clock.system()]
    handed = Credentials("theirs", "s", "t", moment[0] + 3_600_000)
    found = session(handed, lambda: moment[0])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ours")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert freeze(found) == handed
    moment[0] += 3_590_000
    assert freeze(found) == Credentials("ours", "secret")
    assert found.get_credentials().get_frozen_credentials().access_key == "ours"


def test_expired_credentials_without_ones_own_are_said(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the handed-over credentials have expired and the process has none, the error says both."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    handed = replace(s3.credentials, expires=clock.system() - 1)
    with pytest.raises(BucketAccessError, match="have expired, and this process has none"):
        S3Bucket(s3.address(), credentials=handed).get("k")


def test_the_expiry_of_a_session_travels_along() -> None:
    """Temporary credentials are handed over with the moment at which they expire."""
    from botocore.credentials import RefreshableCredentials  # noqa: PLC0415

    until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    told = {"access_key": "a", "secret_key": "s", "token": "t", "expiry_time": until.isoformat()}
    made = session(None)
    made._credentials = RefreshableCredentials.create_from_metadata(told, lambda: told, "role")
    assert freeze(made) == Credentials("a", "s", "t", int(until.timestamp() * 1000))


# --- large files ---


@pytest.mark.parametrize("size", [SINGLE_BYTES, SINGLE_BYTES + 1, SINGLE_BYTES + PART_BYTES])
def test_a_file_of_any_size_arrives_whole(s3: S3Server, proxy: S3Proxy, tmp_path: Path, size: int) -> None:
    """Up to a limit a file is sent at once, beyond it in parts, and nobody sees it before the last request."""
    bucket = behind(proxy, s3)
    path = file_of(tmp_path, size)
    seen: list[bool] = []
    proxy.judge = lambda request: seen.append(request.method == "POST" and "uploadId" in request.query) or None
    bucket.upload("b/chunks/1", path)
    assert bucket.head("b/chunks/1").size == size
    assert bucket.get("b/chunks/1") == path.read_bytes()
    parts = proxy.count(lambda request: "partNumber" in request.query)
    assert parts == (0 if size <= SINGLE_BYTES else -(-size // PART_BYTES))
    assert any(seen) == (size > SINGLE_BYTES)


def test_parts_in_memory_are_bounded(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the file, at most a few parts are held at once."""
    alive, most, lock = [0], [0], threading.Lock()
    send = s3_multipart._read

    class Part(bytes):
        def __del__(self) -> None:
            with lock:
                alive[0] -= 1

    def read(descriptor: int, size: int, length: int, number: int) -> bytes:
        with lock:
            alive[0] += 1
            most[0] = max(most[0], alive[0])
        return Part(send(descriptor, size, length, number))

    monkeypatch.setattr(s3_multipart, "_read", read)
    new = S3Bucket(s3.address(), credentials=s3.credentials)
    path = file_of(tmp_path, 42 << 20)
    with path.open("rb") as file:
        s3_multipart.upload_parts(new._store, f"bounded/{tmp_path.name}", file.fileno(), path.stat().st_size, 5 << 20)
    assert 1 <= most[0] <= s3_multipart.PARTS_AT_ONCE + 1


def test_a_file_that_shrinks_meanwhile_is_an_error(s3: S3Server, tmp_path: Path) -> None:
    """A file that becomes shorter while it is sent raises UsageError, and nothing is left: no object and no part."""
    bucket = S3Bucket(s3.address(prefix=f"shrink/{tmp_path.name}"), credentials=s3.credentials)
    path = file_of(tmp_path, 12 << 20)
    with path.open("rb") as file:
        os.truncate(path, 7 << 20)
        with pytest.raises(UsageError, match="became shorter"):
            s3_multipart.upload_parts(bucket._store, "k", file.fileno(), 12 << 20, 5 << 20)
    assert open_uploads(bucket) == []
    with pytest.raises(ObjectMissingError):
        bucket.head("k")


# --- deleting ---


def test_what_says_what_a_block_is_goes_alone_and_in_order() -> None:
    """A batch never spans a meta.json or a mark, and none is larger than S3 takes: order is kept where it matters."""
    block = ["s/A/meta.json", "s/A/chunks/1", "s/A/chunks/2", "s/A/index", "s/A/no-compact-mark.json"]
    block.append(f"s/A/{DELETION_MARK}")
    assert list(batches([*block, "s/B/meta.json", "s/B/index"])) == [
        ["s/A/meta.json"],
        ["s/A/chunks/1", "s/A/chunks/2", "s/A/index"],
        ["s/A/no-compact-mark.json"],
        [f"s/A/{DELETION_MARK}"],
        ["s/B/meta.json"],
        ["s/B/index"],
    ]
    many = [f"k{number}" for number in range(2 * BATCH_KEYS + 1)]
    assert [len(batch) for batch in batches(many)] == [BATCH_KEYS, BATCH_KEYS, 1]
    assert list(batches(["a", "b\x01", "c"])) == [["a"], ["b\x01"], ["c"]]


def test_deleting_a_block_takes_few_requests_in_order(s3: S3Server, proxy: S3Proxy) -> None:
    """A block's deletion is one request for meta.json, one for the data, one for each mark, in this order."""
    bucket = behind(proxy, s3)
    names = ["s/A/meta.json", *(f"s/A/chunks/{n}" for n in range(30)), "s/A/index", f"s/A/{DELETION_MARK}"]
    for name in names:
        bucket.put(name, b"")
    proxy.passed.clear()
    bucket.delete(names)
    sent = [(each.request.method, each.request.key.rpartition("/")[2]) for each in proxy.passed]
    assert sent == [("DELETE", "meta.json"), ("POST", ""), ("DELETE", DELETION_MARK)]
    assert list(bucket.list("")) == []


# --- on the wire ---


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"sse": "AES256"}, {"x-amz-server-side-encryption": "AES256"}),
        (
            {"sse": "aws:kms", "sse_kms_key": "the-key"},
            {
                "x-amz-server-side-encryption": "aws:kms",
                "x-amz-server-side-encryption-aws-kms-key-id": "the-key",
            },
        ),
    ],
)
def test_every_write_asks_for_the_encryption_of_the_address(
    s3: S3Server, proxy: S3Proxy, tmp_path: Path, settings: dict[str, str], expected: dict[str, str]
) -> None:
    """`put`, `create`, and `upload` at once and in parts carry the encryption headers; reads do not."""
    plain = behind(proxy, s3)
    bucket = S3Bucket(replace(plain._address, **settings), credentials=s3.credentials, retries=Waits().retries(1))
    large = file_of(tmp_path, SINGLE_BYTES + 1)
    calls = [
        lambda: bucket.put("put", b"x"),
        lambda: bucket.create("create", b"x"),
        lambda: bucket.upload("upload", file_of(tmp_path, 10)),
        lambda: bucket.upload("parts", large),
    ]
    for call in calls:
        proxy.passed.clear()
        proxy.judge = lambda _: Refuse(400, "TestIsOver")  # The test's server has no keys: the request is what counts.
        with pytest.raises(BucketError):
            call()
        sent = {name.lower(): value for name, value in proxy.passed[0].request.headers.items()}
        assert expected.items() <= sent.items()
    proxy.passed.clear()
    with pytest.raises(BucketError):
        bucket.get("put")
    assert not any("encryption" in name.lower() for name in proxy.passed[0].request.headers)


def test_addresses_of_both_styles_reach_the_bucket(s3: S3Server, proxy: S3Proxy) -> None:
    """With path_style the bucket's name is in the path."""
    behind(proxy, s3).put("k", b"")
    assert [each.request.bucket for each in proxy.passed] == ["drystone"]


def test_times_are_rounded_up_to_the_end_of_their_second() -> None:
    """An object never looks older than it is, and LIST and HEAD tell the same, whatever each knows of the second."""
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
    assert modified(moment) == modified(moment.replace(microsecond=0)) == int(moment.timestamp()) * 1000 + 999


def test_keys_of_others_that_no_bucket_takes_are_not_listed(s3: S3Server) -> None:
    """A console's folder markers are no objects of Drystone's."""
    bucket = new_bucket(s3, credentials=s3.credentials)
    bucket.put("a/b", b"")
    client, address = bucket._store.client(), bucket._address
    client.put_object(Bucket=address.bucket, Key=f"{address.root}folder/", Body=b"")
    assert [found.key for found in bucket.list("")] == ["a/b"]


def test_a_listing_of_many_pages_asks_once_for_each(s3: S3Server, proxy: S3Proxy) -> None:
    """A listing takes one request a page, begins where it is told to, and asks for no more pages than are read."""
    bucket = behind(proxy, s3)
    for number in range(30):
        bucket.put(f"k{number:02}", b"")
    proxy.passed.clear()
    assert len(list(bucket.list("k"))) == 30
    assert proxy.count(is_list) == 5
    proxy.passed.clear()
    assert [found.key for found in bucket.list("k", "k20")] == [f"k{number}" for number in range(21, 30)]
    assert proxy.count(is_list) == 2
    proxy.passed.clear()
    assert next(iter(bucket.list("k"))).key == "k00"
    assert proxy.count(is_list) == 1


def is_list(request: Request) -> bool:
    """Tell whether a request lists objects."""
    return request.is_list


def test_open_bucket_takes_the_credentials_of_the_environment(s3_account: S3Server) -> None:
    """An address and the environment are all that is needed."""
    bucket = open_bucket(s3_account.url(prefix="from the environment"))
    bucket.put("k", b"data")
    assert bucket.get("k") == b"data"
    assert isinstance(bucket, S3Bucket)


def test_whether_old_versions_are_kept(s3: S3Server) -> None:
    """A store that never kept versions says so; one that keeps them, or did, does; who may not ask is told nothing."""
    bucket = new_bucket(s3, credentials=s3.credentials)
    assert isinstance(bucket, Versioned)
    assert bucket.keeps_versions() is False
    refused = S3Bucket(s3.address(), credentials=NOBODY, retries=Waits().retries())
    assert refused.keeps_versions() is None
    for status in ("Enabled", "Suspended"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bucket._store.client(), "get_bucket_versioning", lambda s=status, **_: {"Status": s})
            assert bucket.keeps_versions() is True
