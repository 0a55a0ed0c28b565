"""The schema that new blocks of a stream get, beside those that its blocks have."""

from __future__ import annotations

from collections.abc import Iterable

from drystone.block.folder import Folder
from drystone.block.schema import Column, Schema
from drystone.bucket.protocol import Bucket
from drystone.config.model import StreamConfig
from drystone.engine.record import read_schema
from drystone.errors import InputError, StreamChangeError
from drystone.rows.arrow_schema import unify


def known_schema(bucket: Bucket, stream: str, folders: Iterable[Folder], generation: int) -> Schema:
    """Return the schema that holds the rows of all blocks of this generation."""
    extensions = (folder.meta.drystone for folder in folders if folder.meta is not None)
    ours = (each for each in extensions if each is not None and each.generation == generation)
    fingerprints = dict.fromkeys(each.schema_fingerprint for each in ours)
    return unify(read_schema(bucket, stream, each) for each in fingerprints)


def fitting_schema(config: StreamConfig, known: Schema) -> Schema:
    """Return the configured schema; raise StreamChangeError if readers could not put it beside the known one."""
    columns = {} if config.columns == "infer" else config.columns
    own = Schema(columns=tuple(Column(name=name, type=kind) for name, kind in columns.items()))
    try:
        unify([known, own])
    except InputError as error:
        way_out = "Put the old type back, or raise `generation`, which keeps old and new blocks apart."
        raise StreamChangeError(f"the schema has changed: {error.message}", way_out) from None
    return own
