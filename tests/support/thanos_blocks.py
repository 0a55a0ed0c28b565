"""Blocks as other tools leave them: Thanos' own meta.json and marks, around its series or around plain Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from drystone.block import keys
from drystone.bucket import Bucket


def thanos_meta(ulid: str, sources: Iterable[str], times: tuple[int, int], files: dict[str, bytes]) -> bytes:
    """Return a meta.json as Thanos' sidecar or compactor writes it."""
    document = {
        "ulid": ulid,
        "minTime": times[0],
        "maxTime": times[1],
        "stats": {"numSamples": 120, "numSeries": 2, "numChunks": 2},
        "compaction": {"level": 1, "sources": list(sources)},
        "version": 1,
        "thanos": {
            "version": 1,
            "labels": {"replica": "a"},
            "downsample": {"resolution": 0},
            "source": "sidecar",
            "segment_files": [name.removeprefix("chunks/") for name in files if name.startswith("chunks/")],
            "files": [{"rel_path": name, "size_bytes": len(data)} for name, data in files.items()]
            + [{"rel_path": "meta.json"}],
            "index_stats": {"series_max_size": 64},
        },
    }
    return json.dumps(document, indent=1).encode()


def series_block(bucket: Bucket, stream: str, ulid: str, sources: Iterable[str] = ()) -> None:
    """Write a block of Prometheus' series: Drystone can list it, and not read it."""
    files = {"chunks/000001": bytes.fromhex("85bd40dd01000000") + b"\0" * 40, "index": bytes.fromhex("baaad70002") * 8}
    _write(bucket, stream, ulid, files, thanos_meta(ulid, [*sources] or [ulid], (0, 7_200_000), files))


def parquet_block(
    bucket: Bucket, stream: str, ulid: str, rows: pa.Table, sources: Iterable[str] = (), *, row_group_rows: int = 7
) -> None:
    """Write a block in Thanos' layout whose chunks are Parquet files, in no order."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=row_group_rows)
    files = {"chunks/000001.parquet": sink.getvalue(), "index": b"of another kind"}
    moments = [int(value.timestamp() * 1000) for value in rows["time"].to_pylist()]
    times = (min(moments), max(moments) + 1)
    _write(bucket, stream, ulid, files, thanos_meta(ulid, [*sources] or [ulid], times, files))


def _write(bucket: Bucket, stream: str, ulid: str, files: dict[str, bytes], meta: bytes) -> None:
    for name, data in files.items():
        bucket.put(keys.block(stream, ulid, name), data)
    bucket.put(keys.block(stream, ulid, "meta.json"), meta)
