"""`drystone fleet`: every stream in one row."""

from __future__ import annotations

import typer

from drystone import clock
from drystone.airflow.overviews import look_at_all
from drystone.bucket.open import open_bucket
from drystone.cli import exits, options, output
from drystone.config.load import load
from drystone.engine.report import size
from drystone.verbs.overview import Overview

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
_COLUMNS = (
    *("stream", "ingested", "newest row", "last success", ">visible", ">blocks", ">marked", ">rows", ">size"),
    *(">small files", ">to reclaim", ">problems", ">damage", ""),
)


@app.command(epilog=exits.MEANING)
def fleet(*, config: options.Config = None, as_json: options.AsJson = False) -> None:
    """Show how late each stream is, what waits to be merged or deleted, and when a run succeeded last.

    Fails if a stream cannot be read, misses rows, or is later than its `lag_limit`. Nothing is changed.
    """
    loaded = load(config)
    found = look_at_all(loaded, lambda stream: open_bucket(loaded.bucket_url(stream)), keep=False)
    now = clock.system()
    if as_json:
        output.write_json({"at": now, "streams": [each.model_dump(mode="json") for each in found]})
    else:
        output.write_table(_COLUMNS, (_cells(each, now) for each in found))
    raise typer.Exit(exits.PROBLEMS if any(each.wrong(now) for each in found) else 0)


def _cells(row: Overview, now: int) -> tuple[object, ...]:
    numbers, wrong = row.numbers, row.wrong(now)
    if numbers is None:
        return (row.stream, *[None] * (len(_COLUMNS) - 2), wrong or "no data yet")
    success = row.last_success()
    ages = (numbers.ingest_lag(now), numbers.event_lag(now), None if success is None else max(0, now - success))
    sizes = (numbers.rows, size(numbers.bytes), numbers.small_files, size(numbers.bytes_to_reclaim))
    counts = (numbers.blocks_visible, numbers.blocks_total, numbers.blocks_marked)
    return (row.stream, *map(_ago, ages), *counts, *sizes, numbers.problems, numbers.damage, wrong)


def _ago(length: int | None) -> str | None:
    return None if length is None else f"{output.length(length)} ago"
