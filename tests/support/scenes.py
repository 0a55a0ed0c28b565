"""Streams caught in the middle of their lives, each with the rows that every reader must see in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lakes import DAY, FIRST_DAY, HOUR, STREAM, Lake, make_busy_lake, make_lake, rows, values, without_time

from drystone import ulids
from drystone.block import edits, keys
from drystone.block.edits import Edit
from drystone.block.meta import Group, Replacement
from drystone.block.predicates import All, Comparison, OneOf, Predicate
from drystone.block.predicates import Any as Either
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.testing.streams import Lineage, source_id, with_source

Seen = list[dict[str, Any]]


@dataclass(frozen=True)
class Scene:
    """A stream, and its rows."""

    lake: Lake
    truth: Seen


def seen(table: pa.Table | Iterable[pa.RecordBatch]) -> Seen:
    """Return rows in an order that does not depend on how they were read."""
    if not isinstance(table, pa.Table):
        batches = list(table)
        table = pa.Table.from_batches(batches) if batches else pa.table({})
    return sorted(table.to_pylist(), key=lambda row: repr(sorted(row.items())))


def edit(lake: Lake, kind: type[Edit], **fields: Any) -> Edit:
    """Write an edit that no block has applied."""
    name = ulids.new(lake.clock.now)
    made = kind(id=name, reason="asked", author="test", time=fields.pop("time", lake.clock.now), **fields)
    lake.bucket.create(keys.edit(STREAM, name), made.to_json())
    return made


def erase(lake: Lake, predicate: Predicate, **fields: Any) -> Edit:
    """Erase what matches."""
    return edit(lake, edits.Erase, predicate=predicate, **fields)


def four(folder: Path) -> Lake:
    """Return a stream of four blocks `a` to `d` of one day."""
    lake = make_lake(folder)
    for number, name in enumerate("abcd"):
        lake.ingest(name, rows(number))
    return lake


def tables(*numbers: int) -> pa.Table:
    """Return the rows of some of the four blocks."""
    return pa.concat_tables([rows(number) for number in numbers])


def _simple(folder: Path) -> Scene:
    return Scene(four(folder), seen(tables(0, 1, 2, 3)))


def _uploaded_twice(folder: Path) -> Scene:
    lake = four(folder)
    lake.ingest("zombie's a", rows(0), source="a")
    return Scene(lake, seen(tables(0, 1, 2, 3)))


def _merged(folder: Path) -> Scene:
    lake = four(folder)
    lake.merge("f", "a", "b", "c", "d", cut="Lund")
    return Scene(lake, seen(tables(0, 1, 2, 3)))


def _zombie_merge(folder: Path) -> Scene:
    lake = four(folder)
    lake.ingest("e", rows(4))
    lake.merge("f", "a", "b", "c", "d")
    lake.merge("x", "d", "e")
    return Scene(lake, seen(tables(0, 1, 2, 3, 4)))


def _twins(folder: Path) -> Scene:
    lake = four(folder)
    first, _ = lake.merge("f", "a", "b", "c", "d", cut="Lund")
    assert first.drystone is not None
    part = lake.given["f"].filter(pc.less(lake.given["f"]["city"], "Lund"))
    lineage = Lineage(level=2, group=first.drystone.group)
    lake.upload("twin", part, lineage, first.compaction.sources)
    return Scene(lake, seen(tables(0, 1, 2, 3)))


def _unfinished_group(folder: Path) -> Scene:
    lake = four(folder)
    part = lake.given["a"].slice(0, 10)
    group = Group(id=ulids.new(lake.clock.now), size=2, index=0)
    lake.upload("half", part, Lineage(level=2, group=group), [lake.source("a")])
    return Scene(lake, seen(tables(0, 1, 2, 3)))


def _erased(folder: Path) -> Scene:
    lake = four(folder)
    lake.merge("f", "a", "b")
    oslo = OneOf.model_validate({"column": "city", "in": ["Oslo", "Rome"]})
    erase(lake, All(all=(oslo, Comparison(column="count", op=">=", value=1000))))
    erase(
        lake, Either(any=(Comparison(column="ratio", op=">", value=8.0), Comparison(column="nothing", op="=", value=1)))
    )
    kept = [
        row
        for row in seen(tables(0, 1, 2, 3))
        if not (row["city"] == "Oslo" and row["count"] >= 1000) and not (row["ratio"] is not None and row["ratio"] > 8)
    ]
    return Scene(lake, kept)


def _erased_in_old_sources(folder: Path) -> Scene:
    lake = four(folder)
    now = lake.clock.now
    for name, planned in (("new", now + 10 * 60_000), ("skewed", now + 30_000)):
        table = with_source(rows(7 if name == "new" else 8), source_id(planned, name))
        lake.given[name] = table
        lake.upload(name, table, Lineage(), ())
    lake.merge("f", "a", "new")
    erase(lake, Comparison(column="city", op="=", value="Oslo"), time=now)
    kept = [row for row in seen(pa.concat_tables([tables(0, 1, 2, 3), rows(8)])) if row["city"] != "Oslo"]
    return Scene(lake, sorted([*kept, *seen(rows(7))], key=lambda row: repr(sorted(row.items()))))


def _retired(folder: Path) -> Scene:
    lake = four(folder)
    lake.merge("f", "a", "b")
    edit(lake, edits.Retire, sources=(lake.source("b"), lake.source("c")))
    return Scene(lake, seen(tables(0, 3)))


def _expired(folder: Path) -> Scene:
    lake = four(folder)
    lake.ingest("e", rows(4, day=1))
    limit = FIRST_DAY + DAY // 2
    edit(lake, edits.Expire, before=limit)
    every = pa.concat_tables([tables(0, 1, 2, 3), rows(4, day=1)])
    return Scene(lake, [row for row in seen(every) if row["time"].timestamp() * 1000 >= limit])


def replace(lake: Lake, root: str, name: str, table: pa.Table) -> None:
    """Upload the replacement of a source."""
    source = source_id(lake.clock.now, name)
    lake.given[name] = with_source(table, source)
    lake.upload(name, lake.given[name], Lineage(retires=(Replacement(root=lake.source(root), by=source),)), ())


def _replaced(folder: Path) -> Scene:
    lake = four(folder)
    lake.merge("f", "a", "b")
    replace(lake, "b", "b2", rows(9, day=2))
    return Scene(lake, seen(pa.concat_tables([tables(0, 2, 3), rows(9, day=2)])))


def _another_schema(folder: Path) -> Scene:
    lake = make_lake(folder)
    narrow = rows(0).drop_columns(["ratio"])
    wide = rows(1).set_column(2, "count", pc.add(rows(1)["count"].cast(pa.int64()), 1 << 40))
    wide = wide.append_column("more", pa.array([f"m{n}" for n in range(wide.num_rows)]))
    lake.ingest("a", narrow)
    lake.ingest("b", wide)
    erase(lake, Comparison(column="more", op="=", value="m7"))
    both = pa.concat_tables([narrow, wide], promote_options="permissive")
    return Scene(lake, [row for row in seen(both) if row["more"] != "m7"])


def _busy(folder: Path) -> Scene:
    lake, truth = make_busy_lake(folder)
    every = pa.concat_tables([lake.given[name].drop_columns([SOURCE_COLUMN]) for name in "abcde"])
    found = [row for row in seen(every) if row["city"] != "Oslo"]
    assert len(found) == len(truth) == len(values(every)) - sum(row[1] == "Oslo" for row in values(every))
    return Scene(lake, found)


def _unknown_times(folder: Path) -> Scene:
    lake = make_lake(folder)
    given = [rows(0), without_time(rows(1)), without_time(rows(2), "Lund"), without_time(rows(3), "Oslo")]
    for name, table in zip("abcd", given, strict=True):
        lake.ingest(name, table)
    lake.merge("f", "c", "d", cut="Lund")
    limit = FIRST_DAY + 3 * HOUR
    edit(lake, edits.Expire, before=limit)
    erase(lake, Comparison(column="city", op="=", value="Bergen"))
    kept = [row for row in seen(pa.concat_tables(given)) if row["city"] != "Bergen"]
    return Scene(lake, [row for row in kept if row["time"] is None or row["time"].timestamp() * 1000 >= limit])


def _empty(folder: Path) -> Scene:
    return Scene(make_lake(folder), [])


SCENES: dict[str, Callable[[Path], Scene]] = {
    "four blocks": _simple,
    "a source uploaded twice": _uploaded_twice,
    "a merge and its inputs": _merged,
    "a zombie's merge across another": _zombie_merge,
    "a member uploaded twice": _twins,
    "half a merge": _unfinished_group,
    "erased rows": _erased,
    "rows erased in old sources only": _erased_in_old_sources,
    "retired sources": _retired,
    "expired rows": _expired,
    "a replaced source": _replaced,
    "blocks of two schemas": _another_schema,
    "rows without a time": _unknown_times,
    "everything at once": _busy,
    "no block at all": _empty,
}
"""By what has happened to the stream."""
