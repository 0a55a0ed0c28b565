"""Large files, part by part: a bounded piece of the file is in memory, and what fails is taken back."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from drystone.bucket.s3_failures import code_of
from drystone.bucket.s3_store import Store
from drystone.bucket.s3_write import ID_NAME, await_own, create_only, new_id
from drystone.errors import BucketError, DrystoneError, UsageError

PART_BYTES = 8 << 20
"""Bytes of a part; S3 asks for 5 MiB at least."""
PARTS_AT_ONCE = 4
SINGLE_BYTES = 2 * PART_BYTES
"""A file of at most so many bytes is sent at once."""
_MOST_PARTS = 10_000


def upload_parts(store: Store, key: str, descriptor: int, size: int, part_bytes: int = PART_BYTES) -> None:
    """Create the object from an open file of `size` bytes, see `Bucket.upload`.

    At most `PARTS_AT_ONCE` parts are in memory. The key is taken by the last request, under the condition that it is
    free; until then nobody sees anything. Whatever fails, the parts are taken back. Those of a writer that was killed
    cost money until a lifecycle rule of the bucket ends them (AbortIncompleteMultipartUpload).
    """
    write_id = new_id()
    upload = _begin(store, key, write_id)
    try:
        length = max(part_bytes, -(-size // _MOST_PARTS))
        parts = _send(store, key, upload, partial(_read, descriptor, size, length), -(-size // length))
        create_only(store, key, size, write_id, lambda client: _complete(client, store, key, upload, parts))
        _confirm(store, key, size, write_id)
    except BaseException as error:
        _abort(store, key, upload, error)
        raise


def _begin(store: Store, key: str, write_id: str) -> str:
    def call(client: Any) -> Any:
        return client.create_multipart_upload(
            **_target(store, key), Metadata={ID_NAME: write_id}, ChecksumAlgorithm="CRC32", **store.encryption()
        )

    return str(store.ask(f"begin the upload of {key!r}", call, ("UploadId",))["UploadId"])


def _send(store: Store, key: str, upload: str, read: Callable[[int], bytes], count: int) -> list[dict[str, object]]:
    """Send all parts, some at once, and return what completes the upload; the first that fails ends the others."""

    def send(number: int) -> dict[str, object]:
        data = read(number)
        answer = store.ask(
            f"upload part {number + 1} of {key!r}",
            lambda client: client.upload_part(
                **_target(store, key), UploadId=upload, PartNumber=number + 1, Body=data, ChecksumAlgorithm="CRC32"
            ),
            ("ETag",),
        )
        told = {name: answer[name] for name in ("ETag", "ChecksumCRC32") if answer.get(name)}
        return {"PartNumber": number + 1, **told}

    with ThreadPoolExecutor(PARTS_AT_ONCE, thread_name_prefix="drystone-upload") as pool:
        try:
            return list(pool.map(send, range(count)))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _read(descriptor: int, size: int, length: int, number: int) -> bytes:
    wanted = min(length, size - number * length)
    data = os.pread(descriptor, wanted, number * length)
    if len(data) != wanted:
        raise UsageError("the file that is uploaded became shorter meanwhile.", "Nobody may write to it.")
    return data


def _complete(client: Any, store: Store, key: str, upload: str, parts: list[dict[str, object]]) -> Any:
    return client.complete_multipart_upload(
        **_target(store, key), UploadId=upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
    )


def _confirm(store: Store, key: str, size: int, write_id: str) -> None:
    """Raise BucketError unless the object is there, ours and whole: a store's answer may be older than its work."""
    if not await_own(store, key, size, write_id):
        raise BucketError(f"{key!r} was put together, and is not there.", "Find out who deletes or replaces it.")


def _abort(store: Store, key: str, upload: str, error: BaseException) -> None:
    try:
        store.ask(
            f"take back the parts of {key!r}",
            lambda client: client.abort_multipart_upload(**_target(store, key), UploadId=upload),
            (),
            (_is_over,),
        )
    except DrystoneError as second:
        error.add_note(f"Taking back its parts failed too ({second}); the bucket's lifecycle rule must end them.")
    except Exception as second:
        if not _is_over(second):
            raise


def _is_over(error: Exception) -> bool:
    return code_of(error) == "NoSuchUpload"


def _target(store: Store, key: str) -> dict[str, str]:
    return {"Bucket": store.address.bucket, "Key": store.address.full(key)}
