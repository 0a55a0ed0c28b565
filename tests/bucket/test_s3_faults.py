"""S3 behind a proxy that harms: lost and cut answers, errors, resets. What is written is known, or said not to be."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from s3_buckets import Waits, behind, file_of, open_uploads

from drystone.bucket import s3_write
from drystone.bucket.s3 import S3Bucket
from drystone.bucket.s3_multipart import SINGLE_BYTES
from drystone.bucket.s3_store import Retries, Store
from drystone.bucket.s3_write import Owner
from drystone.errors import (
    BucketAccessError,
    BucketError,
    DrystoneError,
    ObjectExistsError,
    ObjectMissingError,
    UsageError,
)
from drystone.testing.s3_proxy import Cut, Fault, Lose, Nth, Refuse, Request, Reset, S3Proxy, Say, Weather
from drystone.testing.s3_server import S3Server


def is_put(request: Request) -> bool:
    """Tell whether a request writes a whole object."""
    return request.method == "PUT" and "uploadId" not in request.query


def is_head(request: Request) -> bool:
    """Tell whether a request looks at an object."""
    return request.method == "HEAD"


def is_completion(request: Request) -> bool:
    """Tell whether a request puts an object's parts together."""
    return request.method == "POST" and "uploadId" in request.query


def is_part(request: Request) -> bool:
    """Tell whether a request sends a part."""
    return "partNumber" in request.query


def direct(bucket: S3Bucket, server: S3Server) -> S3Bucket:
    """Return the same bucket, reached without the proxy."""
    return S3Bucket(server.address(prefix=bucket._address.prefix), credentials=server.credentials)


# --- the write-id rule ---


def own_answer_lost(server: S3Server, proxy: S3Proxy) -> None:
    """Write, and lose the answer: the second attempt is refused because of the first one, and that is success."""
    bucket = behind(proxy, server)
    proxy.judge = Nth(Lose(), is_put)
    bucket.create("k", b"mine")
    assert direct(bucket, server).get("k") == b"mine"
    assert [each.status for each in proxy.passed] == [200, 412, 200]


def others_write_came_first(server: S3Server, proxy: S3Proxy) -> None:
    """Write, and lose the request; somebody else writes before the second attempt, and that is a conflict."""
    bucket = behind(proxy, server)
    rival = direct(bucket, server)

    def judge(request: Request) -> Fault | None:
        if not is_put(request) or proxy.passed:
            return None
        rival.create("k", b"theirs")
        return Reset()

    proxy.judge = judge
    with pytest.raises(ObjectExistsError):
        bucket.create("k", b"mine")
    assert rival.get("k") == b"theirs"


def test_a_refusal_because_of_ones_own_write_is_success(s3: S3Server, proxy: S3Proxy) -> None:
    """After a lost answer, 412 and an object with our id is success, and the object was written once."""
    own_answer_lost(s3, proxy)


def test_a_refusal_because_of_anothers_write_is_a_conflict(s3: S3Server, proxy: S3Proxy) -> None:
    """After a lost request, 412 and an object with another's id is a conflict, and the object is left."""
    others_write_came_first(s3, proxy)


@pytest.mark.parametrize(("always", "scene"), [(Owner.THEIRS, own_answer_lost), (Owner.OURS, others_write_came_first)])
def test_planted_taking_every_refusal_alike_is_caught(
    s3: S3Server,
    proxy: S3Proxy,
    monkeypatch: pytest.MonkeyPatch,
    always: Owner,
    scene: Callable[[S3Server, S3Proxy], None],
) -> None:
    """Planted: "412 means conflict" and "412 means success" each fail one of the two tests above."""
    monkeypatch.setattr(s3_write, "owner_of", lambda *_: always)
    with pytest.raises((AssertionError, ObjectExistsError, pytest.fail.Exception)):
        scene(s3, proxy)


def test_an_object_proven_ours_rescues_when_no_answer_ever_comes(s3: S3Server, proxy: S3Proxy) -> None:
    """Even if every answer to the write is lost, reading our id back is success; the attempts are bounded."""
    waits = Waits()
    bucket = behind(proxy, s3, waits.retries(4))
    proxy.judge = lambda request: Lose() if is_put(request) else None
    bucket.create("k", b"mine")
    assert direct(bucket, s3).get("k") == b"mine"
    assert proxy.count(is_put) == 4
    assert len(waits) == 3


def test_nothing_but_an_object_proven_ours_rescues(s3: S3Server, proxy: S3Proxy) -> None:
    """If no request got through, the failure is raised, whether the key is free or another's object is there."""
    bucket = behind(proxy, s3)
    proxy.judge = lambda request: Reset() if is_put(request) else None
    for _ in range(2):
        with pytest.raises(BucketError) as caught:
            bucket.create("k", b"mine")
        assert caught.value.retryable
        assert "not known" in caught.value.__notes__[0]
        direct(bucket, s3).put("k", b"theirs")
    assert direct(bucket, s3).get("k") == b"theirs"


@pytest.mark.parametrize("refusal", [Refuse(503, "SlowDown"), Refuse(403, "AccessDenied")])
def test_what_cannot_be_read_back_is_inconclusive(s3: S3Server, proxy: S3Proxy, refusal: Refuse) -> None:
    """If reading back fails, for now or for good, the error says "inconclusive", and neither success nor conflict."""
    bucket = behind(proxy, s3)
    lose = Nth(Lose(), is_put)
    proxy.judge = lambda request: refusal if is_head(request) else lose(request)
    with pytest.raises(BucketError, match="not known: inconclusive"):
        bucket.create("k", b"mine")


def test_a_refusal_without_an_object_is_inconclusive(s3: S3Server, proxy: S3Proxy) -> None:
    """A store that says "taken" and shows nothing is asked a bounded number of times; then it is inconclusive."""
    waits = Waits()
    bucket = behind(proxy, s3, waits.retries(4))
    proxy.judge = lambda request: Refuse(412, "PreconditionFailed") if is_put(request) else None
    with pytest.raises(BucketError, match="shows no such object: inconclusive"):
        bucket.create("k", b"mine")
    assert (proxy.count(is_put), proxy.count(is_head), len(waits)) == (1, 4, 3)


def test_an_object_that_is_seen_late_is_waited_for(s3: S3Server, proxy: S3Proxy) -> None:
    """After 412, a read-back that finds nothing is repeated: a store may show a write late."""
    bucket = behind(proxy, s3)
    lose, hide = Nth(Lose(), is_put), Nth(Refuse(404, "NoSuchKey"), is_head, frozenset({0, 1}))
    proxy.judge = lambda request: lose(request) or hide(request)
    bucket.create("k", b"mine")
    assert proxy.count(is_head) == 3
    seconds: list[float] = []
    for number in range(Retries().attempts - 1):
        Retries(sleep=seconds.append).watch(number)
    assert sum(seconds) > 15  # The default waits long enough for any store that is worth using.


def test_a_conflict_under_way_is_tried_again_if_nothing_came_of_it(s3: S3Server, proxy: S3Proxy) -> None:
    """On 409 nothing was written: with a free key we try again, and with another's object it is a conflict."""
    bucket = behind(proxy, s3)
    proxy.judge = Nth(Refuse(409, "ConditionalRequestConflict"), is_put)
    bucket.create("k", b"mine")
    assert bucket.get("k") == b"mine"
    proxy.judge = Nth(Refuse(409, "ConditionalRequestConflict"), is_put)
    with pytest.raises(ObjectExistsError):
        bucket.create("k", b"mine, too")


def test_a_folder_that_another_empties_is_no_key_in_the_way(s3: S3Server, proxy: S3Proxy) -> None:
    """What a gateway says of a folder that goes at this moment is tried again; a key that stays in the way is said."""
    bucket = behind(proxy, s3)
    proxy.judge = Nth(Refuse(409, "ObjectParentIsFile"), is_put)
    bucket.create("f/k", b"mine")
    proxy.judge = lambda _: None
    for write in (bucket.create, bucket.put):
        for key in ("f/k/below", "f"):
            with pytest.raises(UsageError, match="another object's key is in the way"):
                write(key, b"")


def test_an_error_that_came_after_the_write_is_seen_through(s3: S3Server, proxy: S3Proxy) -> None:
    """A 500 on every attempt but with the object written by the first is success."""
    bucket = behind(proxy, s3)
    lose = Nth(Lose(), is_put)
    proxy.judge = lambda request: lose(request) or (Refuse(500, "InternalError") if is_put(request) else None)
    bucket.create("k", b"mine")
    assert direct(bucket, s3).get("k") == b"mine"


# --- answers that are cut off ---

READS: dict[str, Callable[[S3Bucket], object]] = {
    "get": lambda bucket: bucket.get("s/a"),
    "get_range": lambda bucket: bucket.get_range("s/a", 2, 100),
    "head": lambda bucket: bucket.head("s/a"),
    "list": lambda bucket: list(bucket.list("s/")),
}


@pytest.mark.parametrize("within", ["status", "headers", "body"])
@pytest.mark.parametrize("verb", READS)
def test_a_cut_answer_is_never_taken_for_one(s3: S3Server, proxy: S3Proxy, verb: str, within: str) -> None:
    """An answer that ends after `200 OK`, amid its headers or amid its body is asked for again, and never believed."""
    bucket = behind(proxy, s3)
    for name in ("a", "b", "c"):
        bucket.put(f"s/{name}", b"x" * 1000)
    expected = READS[verb](bucket)
    proxy.judge = Nth(Cut(within), lambda _: True)
    assert READS[verb](bucket) == expected
    assert proxy.faults(Cut) == 1


def test_planted_believing_a_cut_answer_is_caught(
    s3: S3Server, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: without a look at what an answer must have, boto3's word would make a full bucket an empty one."""
    monkeypatch.setattr(Store, "once", lambda self, call, _: {"IsTruncated": False, **call(self.client())})
    bucket = behind(proxy, s3)
    bucket.put("s/a", b"")
    proxy.judge = Nth(Cut("status"), lambda request: request.is_list)
    assert list(bucket.list("s/")) == []


@pytest.mark.parametrize("within", ["status", "headers", "body"])
def test_a_cut_answer_to_a_write_is_made_sure_of(s3: S3Server, proxy: S3Proxy, tmp_path: Path, within: str) -> None:
    """`create`, `put`, `upload` and `delete` end as they should, whatever is cut of their answers."""
    bucket = behind(proxy, s3)
    plain = direct(bucket, s3)
    proxy.judge = Nth(Cut(within), is_put, frozenset({0, 2, 4}))
    bucket.create("created", b"data")
    bucket.put("put", b"data")
    bucket.upload("uploaded", file_of(tmp_path, 100))
    assert {found.key: found.size for found in plain.list("")} == {"created": 4, "put": 4, "uploaded": 100}
    proxy.judge = Nth(Cut(within), lambda request: request.is_write)
    bucket.delete(["created", "put", "uploaded"])
    assert list(plain.list("")) == []
    plain.put("meta.json", b"")
    proxy.judge = Nth(Cut(within), lambda request: request.is_write)
    bucket.delete(["meta.json"])
    assert list(plain.list("")) == []


# --- listings of strange stores ---


def page(*keys: str, more: str = "", truncated: bool = False) -> Say:
    """Return a page of a listing, with a token if there is more."""
    found = "".join(
        f"<Contents><Key>{key}</Key><Size>1</Size><LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>"
        for key in keys
    )
    token = f"<NextContinuationToken>{more}</NextContinuationToken>" if more else ""
    cut = "true" if more or truncated else "false"
    return Say(f"<ListBucketResult>{found}<IsTruncated>{cut}</IsTruncated>{token}</ListBucketResult>".encode())


def pages(proxy: S3Proxy, *answers: Say) -> None:
    """Let these be the answers to the next listing, page by page."""
    left = iter(answers)
    proxy.judge = lambda request: next(left) if request.is_list else None


def test_a_page_may_be_empty_and_not_the_last(s3: S3Server, proxy: S3Proxy) -> None:
    """A truncated page without objects is followed by the next one; so is one at the end that is empty."""
    bucket = behind(proxy, s3)
    root = bucket._address.root
    pages(proxy, page(more="1"), page(f"{root}a", f"{root}b", more="2"), page(more="3"), page())
    assert [found.key for found in bucket.list("")] == ["a", "b"]
    tokens = [each.request.query.get("continuation-token") for each in proxy.passed]
    assert tokens == [None, "1", "2", "3"]


def test_a_listing_that_does_not_get_on_is_an_error(s3: S3Server, proxy: S3Proxy) -> None:
    """A truncated page without a token, or with the same one again, is an error: rows must not be missed in silence."""
    bucket = behind(proxy, s3)
    root = bucket._address.root
    for answers in ([page(f"{root}a", truncated=True)], [page(f"{root}a", more="1"), page(more="1")]):
        pages(proxy, *answers)
        with pytest.raises(BucketError, match="does not say how to get on"):
            list(bucket.list(""))


@pytest.mark.parametrize("second", ["a", "b"])
def test_a_listing_out_of_order_is_an_error(s3: S3Server, proxy: S3Proxy, second: str) -> None:
    """A store that does not keep the byte order of keys, or shows one twice, cannot be used, and is told of."""
    bucket = behind(proxy, s3)
    root = bucket._address.root
    pages(proxy, page(f"{root}b", more="1"), page(f"{root}{second}"))
    with pytest.raises(BucketError, match="not in the byte order of keys, or twice"):
        list(bucket.list(""))


def test_a_store_without_ranges_gives_the_same_bytes(s3: S3Server, proxy: S3Proxy) -> None:
    """Where a store answers a range with the whole object, it is cut here; half an object is not believed."""
    bucket = behind(proxy, s3)
    bucket.put("k", b"0123456789")
    told = (("ETag", '"x"'), ("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT"))
    proxy.judge = lambda request: Say(b"0123456789", told) if request.method == "GET" else None
    assert bucket.get_range("k", 2, 3) == b"234"
    proxy.judge = Nth(Say(b"0123", told[:1]), lambda request: request.method == "GET")
    assert bucket.get_range("k", 2, 3) == b"234"
    assert proxy.count(lambda request: request.method == "GET") == 3


# --- parts ---


def test_parts_are_taken_back_when_one_cannot_be_sent(s3: S3Server, proxy: S3Proxy, tmp_path: Path) -> None:
    """If a part fails for good, no object and no part is left, and the attempts are bounded."""
    bucket = behind(proxy, s3)
    path = file_of(tmp_path, 3 * SINGLE_BYTES)
    proxy.judge = lambda request: Refuse(500, "InternalError") if request.query.get("partNumber") == "2" else None
    with pytest.raises(BucketError, match="upload part 2 of 'k'"):
        bucket.upload("k", path)
    assert proxy.count(lambda request: request.query.get("partNumber") == "2") == 5
    assert open_uploads(direct(bucket, s3)) == []
    with pytest.raises(ObjectMissingError):
        direct(bucket, s3).head("k")


def test_parts_that_cannot_be_taken_back_are_told_of(s3: S3Server, proxy: S3Proxy, tmp_path: Path) -> None:
    """If even giving up fails, the error is still the first one, with a note that says what must end the parts."""
    bucket = behind(proxy, s3)
    proxy.judge = lambda request: (
        Refuse(500, "InternalError") if is_part(request) or request.method == "DELETE" else None
    )
    with pytest.raises(BucketError, match="upload part") as caught:
        bucket.upload("k", file_of(tmp_path, SINGLE_BYTES + 1))
    assert "lifecycle rule" in caught.value.__notes__[0]


def test_a_lost_completion_is_read_back(s3: S3Server, proxy: S3Proxy, tmp_path: Path) -> None:
    """If the answer to the last request is lost, the object proves to be ours."""
    bucket = behind(proxy, s3)
    path = file_of(tmp_path, SINGLE_BYTES + 1)
    proxy.judge = Nth(Lose(), is_completion)
    bucket.upload("k", path)
    assert direct(bucket, s3).get("k") == path.read_bytes()


def test_a_large_object_that_is_seen_late_is_waited_for(s3: S3Server, proxy: S3Proxy, tmp_path: Path) -> None:
    """After the last request the object is looked at: what is not seen yet is waited for, what never is fails."""
    bucket = behind(proxy, s3)
    path = file_of(tmp_path, SINGLE_BYTES + 1)
    proxy.judge = Nth(Refuse(404, "NoSuchKey"), is_head, frozenset({0, 1}))
    bucket.upload("k", path)
    assert proxy.count(is_head) == 3
    proxy.judge = lambda request: Refuse(404, "NoSuchKey") if is_head(request) else None
    with pytest.raises(BucketError, match="was put together, and is not there"):
        bucket.upload("l", path)


def test_a_key_that_is_taken_before_the_last_part_is_a_conflict(s3: S3Server, proxy: S3Proxy, tmp_path: Path) -> None:
    """Whoever takes the key while the parts are sent keeps it; our parts are taken back."""
    bucket = behind(proxy, s3)
    rival = direct(bucket, s3)

    def judge(request: Request) -> Fault | None:
        if is_completion(request):
            rival.create("k", b"theirs")
        return None

    proxy.judge = judge
    with pytest.raises(ObjectExistsError):
        bucket.upload("k", file_of(tmp_path, SINGLE_BYTES + 1))
    assert rival.get("k") == b"theirs"
    assert open_uploads(rival) == []


# --- batches that fail in part ---

BLOCK = ["s/A/meta.json", "s/A/chunks/1", "s/A/chunks/2", "s/A/deletion-mark.json"]


def partly(bucket: S3Bucket, code: str, *, silent: bool = False) -> Say:
    """Return an answer that the second chunk could not be deleted, or that tells nothing of it, and the first was."""
    root = bucket._address.root
    error = "" if silent else f"<Error><Key>{root}{BLOCK[2]}</Key><Code>{code}</Code></Error>"
    done = f"<Deleted><Key>{root}{BLOCK[1]}</Key></Deleted>"
    return Say(f"<DeleteResult>{done}{error}</DeleteResult>".encode())


def is_batch(request: Request) -> bool:
    """Tell whether a request deletes several objects."""
    return request.method == "POST" and "delete" in request.query


@pytest.mark.parametrize("silent", [False, True])
def test_what_a_batch_did_not_delete_is_asked_for_again(s3: S3Server, proxy: S3Proxy, *, silent: bool) -> None:
    """A key that failed inside a batch, or that the answer does not tell of, is deleted by the next attempt."""
    bucket = behind(proxy, s3)
    for key in BLOCK:
        bucket.put(key, b"")
    direct(bucket, s3).delete([BLOCK[1]])
    proxy.judge = Nth(partly(bucket, "InternalError", silent=silent), is_batch)
    bucket.delete(BLOCK)
    assert list(direct(bucket, s3).list("")) == []
    assert proxy.count(is_batch) == 2


@pytest.mark.parametrize(
    ("code", "kind", "attempts"), [("InternalError", BucketError, 5), ("AccessDenied", BucketAccessError, 1)]
)
def test_a_batch_that_fails_in_part_is_an_error_and_the_mark_stays(
    s3: S3Server, proxy: S3Proxy, code: str, kind: type[DrystoneError], attempts: int
) -> None:
    """The error names what is left, after bounded attempts; what comes later in order is not touched."""
    bucket = behind(proxy, s3)
    for key in BLOCK:
        bucket.put(key, b"")
    direct(bucket, s3).delete([BLOCK[1]])
    proxy.judge = lambda request: partly(bucket, code) if is_batch(request) else None
    with pytest.raises(kind, match=rf"'s/A/chunks/2' \({code}\)"):
        bucket.delete(BLOCK)
    assert proxy.count(is_batch) == attempts
    assert [found.key for found in direct(bucket, s3).list("")] == [BLOCK[2], BLOCK[3]]


def test_data_stays_while_meta_json_cannot_be_deleted(s3: S3Server, proxy: S3Proxy) -> None:
    """If meta.json resists, nothing after it is deleted."""
    bucket = behind(proxy, s3)
    for key in BLOCK:
        bucket.put(key, b"")
    proxy.judge = lambda request: Refuse(500, "InternalError") if request.method == "DELETE" else None
    with pytest.raises(BucketError, match=r"meta\.json"):
        bucket.delete(BLOCK)
    assert [found.key for found in direct(bucket, s3).list("")] == sorted(BLOCK)


# --- weather ---

KEYS = 20
SHARES: dict[Fault, float] = {
    Refuse(500, "InternalError"): 0.08,
    Refuse(503, "SlowDown"): 0.08,
    Reset(): 0.1,
    Lose(): 0.2,
    Cut("status"): 0.05,
    Cut("headers"): 0.05,
    Cut("body"): 0.05,
}


def storm(server: S3Server, proxy: S3Proxy, seed: int) -> dict[str, int]:
    """Let two rivals create the same keys in bad weather, check what each was told, and return how often what."""
    bucket = behind(proxy, server, Waits().retries(4))
    proxy.judge = Weather(seed, SHARES)
    told: dict[tuple[str, str], str] = {}

    def write(name: str, keys: list[str]) -> None:
        for key in keys:
            try:
                bucket.create(key, name.encode())
                told[name, key] = "created"
            except ObjectExistsError:
                told[name, key] = "conflict"
            except BucketError:
                told[name, key] = "unknown"

    keys = [f"k{number}" for number in range(KEYS)]
    dice = random.Random(seed)
    orders = {name: dice.sample(keys, len(keys)) for name in ("one", "two")}
    writers = [threading.Thread(target=write, args=each) for each in orders.items()]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    there = {found.key for found in direct(bucket, server).list("")}
    for (name, key), outcome in told.items():
        owner = direct(bucket, server).get(key).decode() if key in there else "nobody"
        assert outcome != "created" or owner == name, (key, name, owner)
        assert outcome != "conflict" or owner not in {name, "nobody"}, (key, name, owner)
    outcomes = list(told.values())
    return {outcome: outcomes.count(outcome) for outcome in ("created", "conflict", "unknown")}


@pytest.mark.parametrize("seed", [1])
def test_in_bad_weather_everybody_knows_what_is_theirs(s3: S3Server, proxy: S3Proxy, seed: int) -> None:
    """Whoever is told "created" owns the object, whoever is told of a conflict does not; every fault took part."""
    found = storm(s3, proxy, seed)
    assert found["created"] > KEYS / 2
    assert found["conflict"] > KEYS / 2
    assert all(any(each.fault == fault for each in proxy.passed) for fault in SHARES)


@pytest.mark.parametrize("always", [Owner.THEIRS, Owner.OURS])
def test_planted_bad_weather_finds_wrong_rules(
    s3: S3Server, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch, always: Owner
) -> None:
    """Planted: either wrong rule about 412 is caught by the storm too."""
    monkeypatch.setattr(s3_write, "owner_of", lambda *_: always)
    with pytest.raises(AssertionError):
        storm(s3, proxy, 1)
