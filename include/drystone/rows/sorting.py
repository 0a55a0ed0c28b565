"""Rows of files in any order, sorted, as rows of one source: row group by row group, and then merged.

For Parquet files that other tools wrote. Arrow only: no bucket, no Spark. Memory: what a merge may take, and the
largest row group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from drystone import ulids
from drystone.rows import keys
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.checksum import ContentChecksum
from drystone.rows.conform import conform
from drystone.rows.fan_in import plan_fan_in
from drystone.rows.merge import merge_sorted
from drystone.rows.reading import describe


def sort_files(
    files: Sequence[Path],
    schema: pa.Schema,
    sort_key: Sequence[str],
    source: str,
    read: ContentChecksum,
    *,
    memory: int,
    row_group_rows: int,
    temp: Path,
) -> Iterator[pa.Table]:
    """Yield the rows of all files in the order of the sort key, in the schema's columns, with `__source`.

    `read` adds up what was read. Raises InputError, naming the file, for one that is no Parquet or does not fit.
    """
    described = [(path, describe(path.name, partial(Path, path))) for path in files]
    row_bytes = max((file.row_bytes for _, file in described), default=1)
    groups = [(path, number) for path, file in described for number in range(file.metadata.num_row_groups)]
    largest = max(
        (
            file.metadata.row_group(each).num_rows
            for _, file in described
            for each in range(file.metadata.num_row_groups)
        ),
        default=0,
    )
    plan = plan_fan_in(len(groups), row_bytes, largest * row_bytes, memory, row_group_rows)
    return merge_sorted(
        [_sorted(path, number, schema, sort_key, source, read) for path, number in groups],
        sort_key,
        names=[f"{path.name}, row group {number}" for path, number in groups],
        batch_rows=plan.batch_rows,
        out_rows=plan.out_rows,
        fan_in=plan.fan_in,
        temp=temp,
    )


def _sorted(
    path: Path, number: int, schema: pa.Schema, sort_key: Sequence[str], source: str, read: ContentChecksum
) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as parquet:
        table = parquet.read_row_group(number, use_threads=False)
    batches = [conform(batch, schema, path.name) for batch in table.to_batches()]
    rows = pa.Table.from_batches(batches, schema=schema if not batches else None)
    read.update(rows)
    codes = pa.array(np.zeros(rows.num_rows, np.int32))
    own = pa.DictionaryArray.from_arrays(codes, pa.array([ulids.to_bytes(source)], pa.binary()))
    yield keys.sort_table(rows, sort_key).append_column(SOURCE_COLUMN, own)
