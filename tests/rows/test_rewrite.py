"""A rewrite keeps every row that is to be kept, counts every other, and proves both before it returns."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from drystone import ulids
from drystone.errors import InputError, InvariantError
from drystone.rows import merge, rewrite
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.checksum import ContentChecksum
from drystone.rows.drops import Drops
from drystone.rows.index import read_index
from drystone.rows.keys import Key
from drystone.rows.reading import describe
from drystone.rows.rewrite import RewriteInput, RewriteOutput, Rewritten
from drystone.rows.split import in_range, split_keys
from drystone.rows.writer import Built, ChunkWriter
from drystone.testing.tables import SOURCES

SCHEMA = pa.schema(
    [("time", pa.timestamp("us", "UTC")), ("city", pa.string()), ("count", pa.int32()), (SOURCE_COLUMN, pa.binary())]
)
SORT_KEY = ("time", "city")
MEMORY = 256 << 20


def rows(numbers: Sequence[int], source: str) -> pa.Table:
    """Return rows that know their number, at one second each."""
    return pa.table(
        {
            "time": pa.array([n * 1_000_000 for n in numbers], pa.int64()).cast(SCHEMA.field("time").type),
            "city": [f"city {n % 5}" for n in numbers],
            "count": pa.array(numbers, pa.int32()),
            SOURCE_COLUMN: pa.array([ulids.to_bytes(source)] * len(numbers), pa.binary()),
        }
    )


def block(folder: Path, table: pa.Table, drops: Drops = Drops()) -> tuple[Built, RewriteInput]:  # noqa: B008 - frozen
    """Build a block of sorted rows, and return it as a rewrite's input with all that its meta.json would say."""
    writer = ChunkWriter(folder, table.schema, SORT_KEY, "time", row_group_rows=100)
    writer.write(table)
    built = writer.close()
    path = folder / "chunks/000001.parquet"
    file = describe(f"{folder.name}/chunks/000001.parquet", lambda: path)
    return built, RewriteInput(
        folder.name, (file,), drops, rows=built.rows, checksum=built.checksum, sources=built.sources
    )


def output(folder: Path, low: Key | None = None, high: Key | None = None) -> RewriteOutput:
    """Return an output in `folder`."""
    return RewriteOutput(folder, folder / "temp", SCHEMA, SORT_KEY, "time", row_group_rows=256, low=low, high=high)


def counts(result: Rewritten) -> list[int]:
    """Return the numbers of the rows that are in the output, in its order."""
    path = result.built.folder / "chunks/000001.parquet"
    return [int(n) for n in pq.read_table(path).column("count").to_pylist()]


@pytest.fixture
def three(tmp_path: Path) -> list[RewriteInput]:
    """Three interleaving blocks of 500 rows, one source each."""
    parts = [rows(range(n, 1500, 3), SOURCES[n]) for n in range(3)]
    return [block(tmp_path / f"block-{n}", part)[1] for n, part in enumerate(parts)]


@pytest.mark.parametrize("threads", [1, 2])
def test_all_rows_come_out_in_order(tmp_path: Path, three: list[RewriteInput], threads: int) -> None:
    """Rows, sources and checksum of the output are those of the inputs together."""
    before = threading.active_count()
    result = rewrite.rewrite(three, output(tmp_path / "out"), memory=MEMORY, threads=threads)
    assert counts(result) == list(range(1500))
    assert result.rows_in == result.built.rows == 1500
    assert result.built.sources == set(SOURCES[:3])
    total = ContentChecksum()
    for each in three:
        total += ContentChecksum.from_hex(each.checksum or "")
    assert result.checksum_in == result.built.checksum == total.hex
    assert threading.active_count() == before


def test_dropped_rows_are_counted_once_each(tmp_path: Path) -> None:
    """A row that several rules drop counts under the first: deduplicated, retired, erased."""
    table = pa.concat_tables(
        [rows(range(10), SOURCES[0]), rows(range(10, 30), SOURCES[1]), rows(range(30, 100), SOURCES[2])]
    )
    drops = Drops(
        owned_elsewhere={SOURCES[0]},
        retired={SOURCES[0], SOURCES[1]},
        erased=[pc.field("count") < 35, (pc.field("city") == "city 1") & (pc.field("count") > 90)],
    )
    _, each = block(tmp_path / "a", table, drops)
    result = rewrite.rewrite([each], output(tmp_path / "out"), memory=MEMORY)
    assert (result.rows_in, result.rows_deduplicated, result.rows_retired, result.rows_erased) == (100, 10, 20, 7)
    assert counts(result) == [n for n in range(35, 100) if n not in (91, 96)]
    assert result.built.sources == {SOURCES[2]}


def test_a_row_is_erased_only_where_the_expression_is_true(tmp_path: Path) -> None:
    """A comparison with null erases nothing."""
    table = rows(range(4), SOURCES[0]).set_column(2, "count", [pa.array([None, 1, 2, None], pa.int32())])
    _, each = block(tmp_path / "a", table, Drops(erased=[pc.field("count") == 1]))
    result = rewrite.rewrite([each], output(tmp_path / "out"), memory=MEMORY)
    assert (result.rows_erased, result.built.rows) == (1, 3)


def test_the_same_source_in_two_blocks_comes_out_once(tmp_path: Path) -> None:
    """Of two blocks that share a source, the one that does not own it gives its other rows only."""
    shared, own = rows(range(0, 200, 2), SOURCES[0]), rows(range(1, 200, 2), SOURCES[1])
    both = pa.concat_tables([shared, own]).sort_by("time")
    _, first = block(tmp_path / "a", both)
    _, second = block(tmp_path / "b", shared, Drops(owned_elsewhere={SOURCES[0]}))
    result = rewrite.rewrite([first, second], output(tmp_path / "out"), memory=MEMORY)
    assert counts(result) == list(range(200))
    assert (result.rows_in, result.rows_deduplicated) == (300, 100)


def test_outputs_of_a_group_hold_every_row_once(tmp_path: Path, three: list[RewriteInput]) -> None:
    """Cut by split keys, the outputs share the rows about equally, and their checksums add up to the inputs'."""
    entries = [read_index(tmp_path / each.name / "index") for each in three]
    cuts = split_keys([entry for each in entries for entry in each], 3)
    bounds: list[Key | None] = [None, *cuts, None]
    found, total, recorded = [], ContentChecksum(), ContentChecksum()
    for number, (low, high) in enumerate(pairwise(bounds)):
        chosen = [
            RewriteInput(
                each.name,
                each.files,
                row_groups=(tuple(entry.ordinal for entry in index if in_range(entry, low, high)),),
                rows=each.rows,
                checksum=each.checksum,
                sources=each.sources,
            )
            for each, index in zip(three, entries, strict=True)
        ]
        result = rewrite.rewrite(chosen, output(tmp_path / f"out-{number}", low, high), memory=MEMORY)
        assert 400 < result.built.rows < 600
        found += counts(result)
        total += ContentChecksum.from_hex(result.checksum_in, result.rows_in)
    for each in three:
        recorded += ContentChecksum.from_hex(each.checksum or "", each.rows or 0)
    assert found == list(range(1500))
    assert total == recorded


def test_nothing_left_is_a_block_without_rows(tmp_path: Path, three: list[RewriteInput]) -> None:
    """An output that turns out empty is still built."""
    gone = [RewriteInput(each.name, each.files, Drops(retired=set(SOURCES))) for each in three]
    result = rewrite.rewrite(gone, output(tmp_path / "out"), memory=MEMORY)
    assert (result.built.rows, result.rows_retired) == (0, 1500)


def test_blocks_of_an_older_schema_are_united(tmp_path: Path) -> None:
    """A block without a column gives nulls, narrower numbers widen, and the checksums still agree."""
    old = rows(range(0, 10, 2), SOURCES[0]).drop_columns("city")
    old = old.set_column(1, "count", [old.column("count").cast(pa.int8())])
    writer = ChunkWriter(tmp_path / "old", old.schema, ("time",), "time")
    writer.write(old)
    built = writer.close()
    file = describe("old", lambda: tmp_path / "old/chunks/000001.parquet")
    first = RewriteInput("old", (file,), checksum=built.checksum, rows=5)
    _, second = block(tmp_path / "new", rows(range(1, 10, 2), SOURCES[1]))
    result = rewrite.rewrite([first, second], output(tmp_path / "out"), memory=MEMORY)
    assert counts(result) == list(range(10))


def test_an_incompatible_block_is_named(tmp_path: Path) -> None:
    """A column of another type is an InputError with names, not a broken output."""
    table = rows(range(5), SOURCES[0])
    table = table.set_column(2, "count", [table.column("count").cast(pa.string())])
    _, each = block(tmp_path / "odd", table)
    with pytest.raises(InputError, match=r"column count is string in odd/chunks/000001\.parquet"):
        rewrite.rewrite([each], output(tmp_path / "out"), memory=MEMORY)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_unsorted_block_is_named(tmp_path: Path, threads: int) -> None:
    """Rows out of order in an input end the rewrite, and no thread is left behind."""
    before = threading.active_count()
    table = rows([1, 2, 5, 4, 6], SOURCES[0])
    pq.write_table(table, tmp_path / "x.parquet")
    each = RewriteInput("block X", (describe("x", lambda: tmp_path / "x.parquet"),))
    with pytest.raises(InvariantError, match="block X is not sorted by time, city"):
        rewrite.rewrite([each], output(tmp_path / "out"), memory=MEMORY, threads=threads)
    assert threading.active_count() == before


def test_recorded_rows_and_checksum_are_compared(tmp_path: Path, three: list[RewriteInput]) -> None:
    """A block whose rows are not what its meta.json says is found out: a count, or a changed value."""
    wrong = RewriteInput(three[0].name, three[0].files, rows=499, checksum=three[0].checksum, sources=three[0].sources)
    with pytest.raises(InvariantError, match=r"block-0 has 500 rows, and its meta.json says 499"):
        rewrite.rewrite([wrong, *three[1:]], output(tmp_path / "one"), memory=MEMORY)
    wrong = RewriteInput(three[0].name, three[0].files, rows=500, checksum="0" * 16, sources=three[0].sources)
    with pytest.raises(InvariantError, match="content checksum is"):
        rewrite.rewrite([wrong, *three[1:]], output(tmp_path / "two"), memory=MEMORY)


def test_a_strange_source_is_found(tmp_path: Path, three: list[RewriteInput]) -> None:
    """Rows of a source that no input is said to have end the rewrite."""
    wrong = RewriteInput(three[0].name, three[0].files, sources=frozenset({SOURCES[3]}))
    with pytest.raises(InvariantError, match=f"source {SOURCES[0]}"):
        rewrite.rewrite([wrong, *three[1:]], output(tmp_path / "out"), memory=MEMORY)


def _lose(table: pa.Table) -> pa.Table:
    return table.slice(1)


def _double(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 1), table])


def _change(table: pa.Table) -> pa.Table:
    count = table.column("count").combine_chunks()
    changed = pa.concat_arrays([pa.array([count[0].as_py() + 1], pa.int32()), count.slice(1)])
    return table.set_column(2, "count", [changed])


def _swap(table: pa.Table) -> pa.Table:
    count = table.column("count").combine_chunks()
    return table.set_column(2, "count", [pc.take(count, pa.array([1, 0, *range(2, len(count))]))])


def _lose_and_double(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 1), table.slice(0, 1), table.slice(2)])


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "as-read"])
@pytest.mark.parametrize(
    ("bug", "complaint"),
    [
        (_lose, "1500 rows in, 1499 out"),
        (_double, "1500 rows in, 1501 out"),
        (_lose_and_double, "content checksum"),
        (_change, "content checksum"),
        (_swap, "content checksum"),
    ],
)
def test_a_bug_in_the_merge_is_found(
    tmp_path: Path,
    three: list[RewriteInput],
    monkeypatch: pytest.MonkeyPatch,
    bug: object,
    complaint: str,
    recorded: bool,  # noqa: FBT001 - a case
) -> None:
    """A row lost, doubled or changed between reading and writing ends the rewrite, whatever it is compared with."""
    inputs = three if recorded else [RewriteInput(each.name, each.files) for each in three]

    def broken(*args: object, **options: object) -> Iterator[pa.Table]:
        tables = merge.merge_sorted(*args, **options)  # type: ignore[arg-type]
        yield bug(next(tables))  # type: ignore[operator]
        yield from tables

    monkeypatch.setattr(rewrite, "merge_sorted", broken)
    with pytest.raises(InvariantError, match=complaint):
        rewrite.rewrite(inputs, output(tmp_path / "out"), memory=MEMORY)


def test_more_inputs_than_fit_are_merged_in_passes(tmp_path: Path) -> None:
    """With little memory, many blocks are merged through temporary files, to the same rows."""
    inputs = [block(tmp_path / f"block-{n}", rows(range(n, 1200, 60), SOURCES[n % 4]))[1] for n in range(60)]
    result = rewrite.rewrite(inputs, output(tmp_path / "out"), memory=4_000_000)
    assert result.plan.passes > 1
    assert counts(result) == list(range(1200))
    assert not list((tmp_path / "out/temp").glob("*"))
