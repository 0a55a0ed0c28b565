"""Uploading one built block: every file first, meta.json last, or nothing.

Source: the design, "Blocks: the rules" 1 to 3 and "Guards: slow upload".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drystone import ulids
from drystone.block import keys
from drystone.block import sources as block_sources
from drystone.block.meta import (
    FORMAT_VERSION,
    MAX_META_BYTES,
    META_FILE,
    SOURCES_FILE,
    Compaction,
    Downsample,
    Extension,
    File,
    Hash,
    Meta,
    Parent,
    Stats,
    Thanos,
)
from drystone.bucket.protocol import Bucket
from drystone.errors import (
    BucketError,
    DrystoneError,
    ObjectExistsError,
    ObjectMissingError,
    UploadTimeoutError,
)

if TYPE_CHECKING:
    from drystone.clock import Clock
    from drystone.rows.writer import Built

_SOURCES_IN_META = 10_000
"""A ULID takes about 30 bytes of JSON, so this many leave room below MAX_META_BYTES for everything else."""
_PARENTS_IN_META = 2_000
"""A parent takes about 130. More are left out, all of them: they are for people, and decide nothing."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a block says of itself beyond what its files tell: where its rows came from and where it belongs."""

    stream: str
    verb: str
    labels: dict[str, str]
    extension: Extension
    sources: frozenset[str]
    level: int
    min_time: int
    max_time: int
    parents: tuple[Parent, ...] = ()


def upload_block(bucket: Bucket, built: Built, origin: Origin, deadline_ms: int, clock: Clock) -> Meta:
    """Upload a built block under a new ULID of this moment, and return its meta.json.

    Either the whole block is there, meta.json last, or what was written is removed again and an error is raised:
    UploadTimeoutError once `deadline_ms` have passed, BucketError if the store fails or an object arrived in another
    size, ObjectExistsError if a key was taken, and then what was there is left as it is. If even the removal fails, the
    error says so in a note; the remover takes the rest away later. If the answer to the last write, of meta.json, gets
    lost, it is looked up: what may count already is not removed.
    """
    began = clock()
    ulid = ulids.new(began)
    meta, sources = _describe(ulid, built, origin, began)
    written: dict[str, int] = {}

    def check_deadline() -> None:
        if clock() - began > deadline_ms:
            msg = f"upload of block {ulid} of stream {origin.stream} took longer than upload_timeout, {deadline_ms} ms."
            raise UploadTimeoutError(msg, "A slower store needs a longer upload_timeout and sync_delay.")

    try:
        for file in built.files:
            key = keys.block(origin.stream, ulid, file.rel_path)
            written[key] = file.size
            bucket.upload(key, built.folder / file.rel_path)
            _confirm(bucket, key, file.size)
            check_deadline()
        if sources is not None:
            key = keys.block(origin.stream, ulid, SOURCES_FILE)
            written[key] = len(sources)
            bucket.create(key, sources)
            _confirm(bucket, key, len(sources))
            check_deadline()
    except BaseException as error:
        # A key that was taken is somebody else's.
        taken = error.key if isinstance(error, ObjectExistsError) else ""
        _clean_up(bucket, [key for key in written if key != taken], error)
        raise
    _publish(bucket, keys.block(origin.stream, ulid, META_FILE), meta.to_json(), written)
    if clock() - began > deadline_ms:
        _check_whole(bucket, origin.stream, ulid, written)
    return meta


def _publish(bucket: Bucket, key: str, raw: bytes, written: Iterable[str]) -> None:
    """Write meta.json, which makes the block count. What may count already is never removed by its writer."""
    try:
        bucket.create(key, raw)
    except BaseException as error:
        try:
            there = bucket.get(key)
        except ObjectMissingError:
            _clean_up(bucket, list(written), error)
        except DrystoneError as second:
            error.add_note(f"Whether {key} was written is not known ({second}); the block is whole, or a sweep's.")
        else:
            if there == raw and isinstance(error, DrystoneError):
                return  # Only the answer was lost.
            if there != raw:
                _clean_up(bucket, list(written), error)
        raise


def _check_whole(bucket: Bucket, stream: str, ulid: str, written: Mapping[str, int]) -> None:
    """Make sure that a block whose meta.json came late is whole: a remover may have taken its files for abandoned."""
    try:
        for key, size in written.items():
            _confirm(bucket, key, size)
    except BucketError as error:
        if isinstance(error, ObjectMissingError):
            # Nobody can have read it.
            _clean_up(bucket, [*written, keys.block(stream, ulid, META_FILE)], error)
        msg = f"upload of block {ulid} of stream {stream} was interrupted, and its files were removed: {error}"
        raise UploadTimeoutError(msg, "It will be tried again.") from error


def _confirm(bucket: Bucket, key: str, size: int) -> None:
    found = bucket.head(key).size
    if found != size:
        raise BucketError(f"{key} has {found} bytes in the bucket, and {size} were sent.", "It will be tried again.")


def _clean_up(bucket: Bucket, written: list[str], error: BaseException) -> None:
    try:
        bucket.delete(reversed(written))
    except DrystoneError as second:
        error.add_note(f"Removing what was uploaded failed too ({second}); the next sweeps take it away.")


def _describe(ulid: str, built: Built, origin: Origin, now: int) -> tuple[Meta, bytes | None]:
    extension, sources_file = origin.extension.model_copy(update={"unknown_times": built.unknown}), None
    named = tuple(sorted(origin.sources))
    if len(named) > _SOURCES_IN_META:
        sources_file, description = block_sources.to_json(named)
        extension = extension.model_copy(update={"sources_file": description})
        # Thanos takes an empty list for a duplicate of anything, so one id stands for the whole set.
        named = (ulids.derive(now, description.sha256),)
    files = _listed(built)
    chunks = tuple(file.rel_path for file in files if file.rel_path.startswith("chunks/"))
    if sources_file is not None:
        files.append(File(rel_path=SOURCES_FILE, size_bytes=len(sources_file)))
    meta = Meta(
        version=1,
        ulid=ulid,
        min_time=origin.min_time,
        max_time=origin.max_time,
        stats=Stats(num_samples=built.rows, num_chunks=built.row_groups),
        compaction=Compaction(
            level=origin.level,
            sources=named,
            parents=origin.parents if len(origin.parents) <= _PARENTS_IN_META else (),
        ),
        thanos=Thanos(
            labels=origin.labels,
            downsample=Downsample(),
            source=f"drystone.{origin.verb}",
            upload_time=datetime.fromtimestamp(now / 1000, UTC).isoformat(),
            segment_files=tuple(path.removeprefix("chunks/") for path in chunks),
            files=(*files, File(rel_path=META_FILE)),
            extensions={"drystone": extension.model_dump(mode="json", exclude_none=True)},
        ),
    )
    if len(meta.to_json()) > MAX_META_BYTES:
        lists = f"{len(extension.edits)} edits, {len(extension.retires)} replacements, {len(files)} files"
        raise DrystoneError(f"meta.json of block {ulid} would exceed 1 MiB ({lists}).")
    return meta, sources_file


def _listed(built: Built) -> list[File]:
    return [
        File(rel_path=file.rel_path, size_bytes=file.size, hash=Hash(hash_func="SHA256", value=file.sha256))
        for file in built.files
    ]


def new_extension(**fields: object) -> Extension:
    """Return an Extension of today's format version."""
    return Extension.model_validate({"format_version": FORMAT_VERSION, **fields})
