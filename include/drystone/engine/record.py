"""Reading and writing the stream record and schemas."""

from __future__ import annotations

import contextlib

from pydantic import ValidationError

from drystone.block import keys
from drystone.block.record import StreamRecord
from drystone.block.schema import Schema
from drystone.bucket.probed import refuse_unfit
from drystone.bucket.protocol import Bucket
from drystone.config.changes import check_change, record_of
from drystone.config.model import StreamConfig
from drystone.errors import ObjectExistsError, ObjectMissingError, UnreadableBlockError, UsageError


def read_record(bucket: Bucket, stream: str) -> StreamRecord:
    """Return the stream's record; raise UsageError if the bucket has no such stream."""
    record = find_record(bucket, stream)
    if record is None:
        msg = f"bucket {bucket.url} has no stream {stream!r} ({keys.record(stream)} is missing)."
        raise UsageError(msg, "The first ingest makes it; check the name and the bucket.")
    return record


def find_record(bucket: Bucket, stream: str) -> StreamRecord | None:
    """Return the stream's record, None if the bucket has no such stream; raise UnreadableBlockError if it is broken."""
    key = keys.record(keys.check_stream(stream))
    try:
        record = StreamRecord.model_validate_json(bucket.get(key))
    except ObjectMissingError:
        return None
    except ValidationError as error:
        raise UnreadableBlockError(f"{key} cannot be read: {error.errors()[0]['msg']}.") from None
    if record.stream != stream:
        msg = f"{key} is the record of another stream, {record.stream}."
        raise UnreadableBlockError(msg, "A stream keeps its name: move the folder back, or ingest into a new stream.")
    return record


def apply_config(bucket: Bucket, stream: str, config: StreamConfig, *, dry_run: bool = False) -> StreamRecord:
    """Make the bucket's record of the stream say what the configuration says, and return it; a dry run only checks.

    The bucket's keeps the highest generation of all: an older one may go on beside it, and who names none reads the
    newest. Raises StreamChangeError, and writes nothing, if a stream with data cannot take the change; ConfigError if
    the last probe of the bucket failed.
    """
    refuse_unfit(bucket, config.times.max_lag)
    new = record_of(stream, config)
    old = find_record(bucket, stream)
    kept = new
    if old is not None:
        check_change(old, new)
        kept = new.model_copy(update={"generation": max(old.generation, new.generation)})
    if old != kept and not dry_run:
        bucket.put(keys.record(stream), kept.to_json())
    return new


def keep_schema(bucket: Bucket, stream: str, schema: Schema) -> str:
    """Keep the schema under its fingerprint, and return that. Keeping it again is harmless."""
    # The key is the content's digest: what is there is this schema.
    with contextlib.suppress(ObjectExistsError):
        bucket.create(keys.schema(stream, schema.fingerprint), schema.to_json())
    return schema.fingerprint


def read_schema(bucket: Bucket, stream: str, fingerprint: str) -> Schema:
    """Return a schema by its fingerprint; raise UnreadableBlockError if it is missing or another."""
    key = keys.schema(stream, fingerprint)
    try:
        schema = Schema.model_validate_json(bucket.get(key))
    except (ObjectMissingError, ValidationError) as error:
        raise UnreadableBlockError(f"schema {key} cannot be read: {error}") from None
    if schema.fingerprint != fingerprint:
        raise UnreadableBlockError(f"schema {key} has another fingerprint, {schema.fingerprint}.")
    return schema
