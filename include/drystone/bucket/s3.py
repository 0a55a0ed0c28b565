"""A bucket in S3, or in any store that speaks its protocol and passes `drystone bucket probe`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from drystone.bucket.names import check_key, check_range
from drystone.bucket.protocol import ObjectInfo
from drystone.bucket.s3_address import S3Address, parse
from drystone.bucket.s3_credentials import Credentials
from drystone.bucket.s3_delete import batches, delete_batch
from drystone.bucket.s3_failures import CAUGHT, TornAnswerError, code_of, is_missing, status_of
from drystone.bucket.s3_list import PAGE_KEYS, listing, modified
from drystone.bucket.s3_multipart import SINGLE_BYTES, upload_parts
from drystone.bucket.s3_store import Retries, Store, check_whole
from drystone.bucket.s3_write import ID_NAME, create_only, new_id
from drystone.bucket.sources import open_source
from drystone.errors import BucketAccessError, ObjectMissingError

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_WHOLE = ("ETag", "ContentLength", "LastModified")
"""What every answer to GET and HEAD has, if it was not cut off."""


class S3Bucket:
    """The objects of an S3 bucket, or of a part of it under a prefix. Strongly consistent stores only need no waiting.

    Every request is tried a bounded number of times (`Retries`), and every answer is checked for having been cut off.
    Times are those of the store's clock, rounded up to the end of their second. See the errors' next steps for what a
    person can do: BucketAccessError needs somebody, any other BucketError another attempt.

    A pickled bucket carries the credentials that this one signs with (see `s3_credentials`): keep it in memory.
    """

    def __init__(
        self,
        address: S3Address | str,
        *,
        credentials: Credentials | None = None,
        retries: Retries | None = None,
        page_keys: int = PAGE_KEYS,
    ) -> None:
        """Without `credentials`, boto3's own chain is asked at the first request. `page_keys`: keys of a LIST page."""
        self._address = parse(address) if isinstance(address, str) else address
        self._retries = retries or Retries()
        self._page_keys = page_keys
        self._store = Store(self._address, credentials, self._retries)

    def __repr__(self) -> str:
        """Name the address, which holds no secret."""
        return f"S3Bucket({self.url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the address, and the credentials for whoever opens it elsewhere."""
        return _reopen, (self._address, self._store.credentials(), self._retries, self._page_keys)

    @property
    def url(self) -> str:
        """`s3://`, the bucket, the prefix, and the settings of the store; no credentials."""
        return self._address.url

    def uri(self, key: str) -> str:
        """`s3a://`, the bucket and the full key, as Hadoop writes it."""
        return f"s3a://{self._address.bucket}/{self._address.root}{check_key(key)}"

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """See `Bucket.list`."""
        yield from listing(self._store, prefix, start_after, self._page_keys)

    def head(self, key: str) -> ObjectInfo:
        """See `Bucket.head`."""
        target = self._target(key)
        answer = self._read(key, lambda client: client.head_object(**target), _WHOLE)
        return ObjectInfo(key, int(answer["ContentLength"]), modified(answer["LastModified"]))

    def write_id(self, key: str) -> str:
        """Return the id of the write that created an object, "" if the store has kept none; raises as `head`."""
        target = self._target(key)
        answer = self._read(key, lambda client: client.head_object(**target), _WHOLE)
        return str(answer.get("Metadata", {}).get(ID_NAME, ""))

    def get(self, key: str) -> bytes:
        """See `Bucket.get`."""
        target = self._target(key)
        data: bytes = self._read(key, lambda client: _fetch(client, target), ("Data",))["Data"]
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See `Bucket.get_range`."""
        check_range(start, length)
        if not length:
            self.head(key)
            return b""
        target = self._target(key)
        data: bytes = self._read(key, lambda client: _fetch_range(client, target, start, length), ("Data",))["Data"]
        return data

    def put(self, key: str, data: bytes) -> None:
        """See `Bucket.put`. An answer that got lost is made up for by writing the same bytes again."""
        target = self._target(key) | self._store.encryption()
        self._store.ask(f"write {key!r}", lambda client: client.put_object(**target, Body=data), ("ETag",))

    def create(self, key: str, data: bytes) -> None:
        """See `Bucket.create`. Raises BucketError, "inconclusive", if it cannot be told whether it was created."""
        write_id = new_id()
        target = self._target(key) | self._store.encryption()

        def send(client: Any) -> Any:
            return client.put_object(**target, Body=data, IfNoneMatch="*", Metadata={ID_NAME: write_id})

        create_only(self._store, key, len(data), write_id, send)

    def upload(self, key: str, path: Path) -> None:
        """See `Bucket.upload`, and `create`. A large file goes in parts, see `s3_multipart`."""
        self._address.full(key)
        with open_source(path) as source:
            size = os.fstat(source.fileno()).st_size
            if size > SINGLE_BYTES:
                upload_parts(self._store, key, source.fileno(), size)
            else:
                self.create(key, source.read())

    def delete(self, keys: Iterable[str]) -> None:
        """See `Bucket.delete`, and `s3_delete` for the order. It stops where something cannot be deleted."""
        for batch in batches(check_key(key) for key in keys):
            delete_batch(self._store, batch)

    def keeps_versions(self) -> bool | None:
        """See `Versioned`. Needs the right to GetBucketVersioning, which nothing else does; without it: None."""
        wanted = {"Bucket": self._address.bucket}
        try:
            answer = self._store.ask("ask for versions", lambda client: client.get_bucket_versioning(**wanted), ())
        except BucketAccessError:
            return None
        # Where versions were suspended, the old ones are still there.
        return "Status" in answer

    def _target(self, key: str) -> dict[str, Any]:
        return {"Bucket": self._address.bucket, "Key": self._address.full(key)}

    def _read(self, key: str, call: Callable[[Any], Any], needs: tuple[str, ...]) -> Any:
        try:
            return self._store.ask(f"read {key!r}", call, needs, (is_missing,))
        except CAUGHT:
            self._store.check_bucket()
            raise ObjectMissingError(key) from None


def _reopen(address: S3Address, credentials: Credentials | None, retries: Retries, page_keys: int) -> S3Bucket:
    return S3Bucket(address, credentials=credentials, retries=retries, page_keys=page_keys)


def _fetch(client: Any, target: dict[str, Any]) -> dict[str, bytes]:
    """Return the object's bytes: all that were announced, of an answer that is whole."""
    answer = client.get_object(**target)
    check_whole(answer, _WHOLE)
    data = answer["Body"].read()
    if len(data) != answer["ContentLength"]:
        raise TornAnswerError("the object was cut off")
    return {"Data": data}


def _fetch_range(client: Any, target: dict[str, Any], start: int, length: int) -> dict[str, bytes]:
    """Return the bytes of a range; none if it begins where the object has ended."""
    try:
        answer = client.get_object(**target, Range=f"bytes={start}-{start + length - 1}")
    except CAUGHT as error:
        if code_of(error) == "InvalidRange" or status_of(error) == 416:  # noqa: PLR2004
            return {"Data": b""}
        raise
    data = answer["Body"].read()
    if answer["ResponseMetadata"]["HTTPStatusCode"] == 200:  # noqa: PLR2004 -- a store that knows no ranges
        check_whole(answer, _WHOLE)
        if len(data) != answer["ContentLength"]:
            raise TornAnswerError("the object was cut off")
        return {"Data": data[start : start + length]}
    found = _RANGE.fullmatch(answer.get("ContentRange") or "")
    if found is None or int(found[1]) != start or int(found[2]) + 1 - start != len(data):
        raise TornAnswerError("the range was cut off")
    if len(data) != min(length, int(found[3]) - start):
        raise TornAnswerError("the range is not the one that was asked for")
    return {"Data": data}
