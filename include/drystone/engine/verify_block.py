"""Verifying one block: what its listing, its meta.json and its index say of each other. Nothing else is opened.

Source: the design, "Blocks: lifecycle verbs" (verify).
"""

from __future__ import annotations

from collections.abc import Iterator

from drystone.block import keys
from drystone.block.folder import Folder
from drystone.block.meta import INDEX_FILE, META_FILE, Extension, Meta
from drystone.bucket.protocol import Bucket
from drystone.engine.decoding import decoding
from drystone.engine.findings import Finding, damage, problem
from drystone.engine.verify_chunks import verify_contents
from drystone.errors import DamagedStreamError, UnreadableBlockError
from drystone.rows.index import IndexEntry, read_index


def verify_block(bucket: Bucket, stream: str, folder: Folder, *, deep: bool = False) -> list[Finding]:
    """Return what is wrong with a block; nothing if all is right.

    Checks the files' sizes, the index against meta.json, and the counts of its rewrite. `deep` reads every file: hash,
    row groups against the index, schema, sort order, sources and content checksum. A block of another tool has neither
    an index nor contents that are ours to judge. Raises ObjectMissingError if the block vanishes meanwhile, and
    BucketError.
    """
    meta = folder.meta
    if not folder.has_meta:
        what = "there is no meta.json: an upload that runs or died, or a deletion that began."
        return [problem("partial", folder.ulid, META_FILE, what)]
    if meta is None:
        return [damage("unreadable-meta", folder.ulid, META_FILE, folder.meta_error)]
    missing = [
        damage("missing-file", folder.ulid, text.partition(" ")[0], f"{text}.") for text in folder.missing_files()
    ]
    extension = meta.drystone
    if extension is None:
        return missing
    found = [*missing, *_check_counts(meta, extension)]
    absent = {finding.file for finding in missing}
    entries: list[IndexEntry] | None = None
    if INDEX_FILE not in absent:
        try:
            entries = _read_index(bucket, stream, folder.ulid)
        except (UnreadableBlockError, DamagedStreamError) as error:
            found.append(damage("index", folder.ulid, INDEX_FILE, error.message))
    if entries is not None:
        found += [damage("index", folder.ulid, INDEX_FILE, text) for text in _check_index(entries, meta)]
    if deep:
        found += verify_contents(bucket, stream, folder, meta, extension, entries)
    return found


def _read_index(bucket: Bucket, stream: str, ulid: str) -> list[IndexEntry]:
    raw = bucket.get(keys.block(stream, ulid, INDEX_FILE))
    with decoding(f"the index of block {ulid}"):
        return read_index(raw)


def _check_counts(meta: Meta, extension: Extension) -> Iterator[Finding]:
    chunk = extension.time_chunk
    if meta.min_time < chunk.start or meta.max_time > chunk.end:
        what = f"the block's times, [{meta.min_time}, {meta.max_time}), leave its chunk, [{chunk.start}, {chunk.end})."
        yield damage("meta", meta.ulid, META_FILE, what)
    done = extension.rewritten
    if done is not None:
        out = meta.stats.num_samples + done.rows_erased + done.rows_retired + done.rows_deduplicated
        if done.rows_in != out:
            what = f"its rewrite took in {done.rows_in:,} rows, and accounts for {out:,}."
            yield damage("meta", meta.ulid, META_FILE, what)


def _check_index(entries: list[IndexEntry], meta: Meta) -> Iterator[str]:
    """Yield where the index and meta.json contradict each other."""
    sizes = {file.rel_path: file.size_bytes for file in meta.thanos.files if file.rel_path.startswith("chunks/")}
    rows = sum(entry.rows for entry in entries)
    if rows != meta.stats.num_samples:
        yield f"the index counts {rows:,} rows, and meta.json {meta.stats.num_samples:,}."
    if len(entries) != meta.stats.num_chunks:
        yield f"the index lists {len(entries)} row groups, and meta.json counts {meta.stats.num_chunks}."
    ordinals: dict[str, list[int]] = {}
    for entry in entries:
        ordinals.setdefault(entry.file, []).append(entry.ordinal)
        if entry.file not in sizes:
            yield f"the index names {entry.file}, which meta.json does not list."
        elif entry.offset + entry.length > (sizes[entry.file] or 0):
            yield f"the index puts row group {entry.ordinal} of {entry.file} behind the end of the file."
        if entry.min_time is None or entry.max_time is None:
            continue
        if entry.min_time < meta.min_time or entry.max_time > meta.max_time:
            yield f"row group {entry.ordinal} of {entry.file} leaves the block's time range."
    for file, found in ordinals.items():
        if found != list(range(len(found))):
            yield f"the index lists the row groups of {file} as {found}."
