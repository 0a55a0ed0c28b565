"""How the numbers of a chunk file are encoded: what makes a sample of them smallest, or what is faster and nearly so.

Which encoding suits a column depends on the order of the rows: after a merge, times that grow slowly take a fiftieth as
differences, and repeated values are best found by zstd in plain numbers. Only encodings that Spark's vectorised reader
knows are tried: plain, dictionary and differences. Strings always have dictionaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from drystone.rows import columns

CODEC = {"compression": "zstd", "compression_level": 1}
"""Higher levels take several times as long, for a few percent."""

_SAMPLE_ROWS = 16_384
_CLOSE = 1.1
"""Times the smallest size: up to there the faster encoding is taken."""
_NEGLIGIBLE = 0.1
"""Bytes a row: less is not worth a slower encoding."""
_DIFFERENCES = "DELTA_BINARY_PACKED"


@dataclass(frozen=True, slots=True)
class Encodings:
    """Columns with dictionaries, and columns with another encoding than plain, as Arrow's writer takes them."""

    dictionary: tuple[str, ...]
    others: Mapping[str, str]


def choose_encodings(group: pa.RecordBatch) -> Encodings:
    """Return the encodings for a file that begins with this row group."""
    kinds = {field.name: columns.plain_type(field.type) for field in group.schema}
    coded = [name for name, kind in kinds.items() if columns.is_text(kind)]
    numbers = [name for name, kind in kinds.items() if name not in coded and not pa.types.is_boolean(kind)]
    sample = group.select(numbers).slice(max(0, (group.num_rows - _SAMPLE_ROWS) // 2), _SAMPLE_ROWS)
    if not numbers or not sample.num_rows:
        return Encodings(tuple(coded), {})
    whole = [name for name in numbers if _has_differences(kinds[name])]
    share = sample.num_rows / group.num_rows
    sizes = [
        _sizes(sample, Encodings((), {}), share),
        _sizes(sample.select(whole), Encodings((), dict.fromkeys(whole, _DIFFERENCES)), share),
        _sizes(sample, Encodings(tuple(numbers), {}), share),
    ]
    best = {name: _best([found.get(name) for found in sizes], sample.num_rows) for name in numbers}
    return Encodings(
        (*coded, *(name for name in numbers if best[name] == 2)),  # noqa: PLR2004 - the third of the sizes
        {name: _DIFFERENCES for name in numbers if best[name] == 1},
    )


def _has_differences(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _best(sizes: list[float | None], rows: int) -> int:
    """Return the first, that is the fastest, whose size is close to the smallest."""
    limit = max(_CLOSE * min(size for size in sizes if size is not None), 0.0)
    limit = max(limit, min(size for size in sizes if size is not None) + _NEGLIGIBLE * rows)
    return next(number for number, size in enumerate(sizes) if size is not None and size <= limit)


def _sizes(sample: pa.RecordBatch, encodings: Encodings, share: float) -> dict[str, float]:
    """Return the bytes of each column. `share`: the sample's of the row group, which a dictionary serves as a whole."""
    if not sample.num_columns:
        return {}
    sink = pa.BufferOutputStream()
    writer = pq.ParquetWriter(
        sink,
        sample.schema,
        use_dictionary=list(encodings.dictionary),
        column_encoding=dict(encodings.others) or None,
        write_statistics=False,
        store_schema=False,
        **CODEC,
    )
    writer.write_batch(sample)
    writer.close()
    group = pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0)
    found = {}
    for position, name in enumerate(sample.schema.names):
        chunk = group.column(position)
        found[name] = float(chunk.total_compressed_size)
        if chunk.has_dictionary_page:
            # Values that return need no second place in the dictionary; of those that were seen once, more will come.
            returning = 1 - pc.count_distinct(sample.column(position)).as_py() / sample.num_rows
            size = chunk.data_page_offset - chunk.dictionary_page_offset
            found[name] -= returning * (1 - share) * size
    return found
