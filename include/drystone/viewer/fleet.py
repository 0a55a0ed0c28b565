"""The page of all streams: one row for each, as it was last seen, and what Airflow lacks. Plain HTML, no script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from drystone.block.states import State
from drystone.config.durations import format_about
from drystone.engine.report import size
from drystone.verbs.overview import Overview

_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Cache-Control": "no-store"}
_NORMAL = {State.FRESH, State.HEALTHY}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Drystone: all streams</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem; }} .scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }} caption {{ text-align: left; margin-bottom: .5rem; }}
th, td {{ padding: .3rem .7rem; border-bottom: 1px solid #8886; text-align: left; vertical-align: top; }}
.n {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.wrong {{ border-left: 5px solid #b3261e; padding-left: .7rem; overflow-wrap: anywhere; max-width: 40rem; }}
</style>
<h1>All streams</h1>
<p><a href="./">Blocks</a> · <a href="../dags/drystone__fleet">Look again (drystone__fleet)</a> ·
<a href="metrics">For Prometheus</a></p>
{missing}
<div class="scroll"><table><caption>{caption}</caption>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody></table></div></html>
"""
_COLUMNS = (
    *("stream", "wrong", "ingested", "newest row", "last success", "failed last", "visible", "blocks", "other states"),
    *("rows", "size", "small files", "to reclaim", "seen"),
)
_NUMBERS = frozenset({"visible", "blocks", "rows", "size", "small files", "to reclaim"})


@dataclass(frozen=True, slots=True)
class Fleet:
    """What the page shows at `now` (ms): the streams, and (kind, name) of what Airflow lacks."""

    now: int
    streams: Sequence[Overview]
    missing: Sequence[tuple[str, str]] = ()


def routes(read: Callable[[], Fleet]) -> APIRouter:
    """Return `GET /fleet`: what `read()` returns, as a page."""
    router = APIRouter()

    @router.get("/fleet", response_class=HTMLResponse)
    def fleet() -> HTMLResponse:
        return HTMLResponse(page(read()), headers=_HEADERS)

    return router


def page(fleet: Fleet) -> str:
    """Return the page: streams with which something is wrong first."""
    rows = sorted(fleet.streams, key=lambda each: (not each.wrong(fleet.now), each.stream))
    wrong = sum(bool(each.wrong(fleet.now)) for each in rows)
    return _PAGE.format(
        missing="\n".join(f'<p class="wrong">{escape(line)}</p>' for line in _lines(fleet.missing)),
        caption=f"{len(rows)} streams, {wrong} with something wrong.",
        head="".join(f'<th scope="col"{_class(name)}>{name}</th>' for name in _COLUMNS),
        rows="\n".join(_row(each, fleet.now) for each in rows),
    )


def _lines(missing: Iterable[tuple[str, str]]) -> Iterator[str]:
    for kind, name in missing:
        then = "its tasks stay scheduled for ever" if kind == "pool" else "its tasks fail"
        yield f"Airflow has no {kind} {name}: {then}. `drystone airflow setup` says or does what is needed."


def _row(each: Overview, now: int) -> str:
    name = escape(each.stream)
    wrong = escape(each.wrong(now))
    cells = [f'<a href="./#{name}">{name}</a>', f'<div class="wrong">{wrong}</div>' if wrong else ""]
    cells += [escape(text) for text in _texts(each, now)]
    return (
        f"<tr>{''.join(f'<td{_class(column)}>{cell}</td>' for column, cell in zip(_COLUMNS, cells, strict=True))}</tr>"
    )


def _texts(each: Overview, now: int) -> list[str]:
    numbers = each.numbers
    seen = _ago(max(0, now - each.at) if each.at else None)
    if numbers is None:
        return ["no data yet" if not each.error else "", *[""] * (len(_COLUMNS) - 4), seen]
    success = each.last_success()
    failed = ", ".join(workflow for workflow, runs in each.runs.items() if runs.failed)
    states = (f"{count:,} {state}" for state, count in numbers.states.items() if count and state not in _NORMAL)
    return [
        *(_ago(numbers.ingest_lag(now)), _ago(numbers.event_lag(now))),
        *(_ago(None if success is None else max(0, now - success)), failed),
        *(f"{numbers.blocks_visible:,}", f"{numbers.blocks_total:,}", ", ".join(states)),
        *(f"{numbers.rows:,}", size(numbers.bytes)),
        *(f"{numbers.small_files:,}", size(numbers.bytes_to_reclaim), seen),
    ]


def _ago(length: int | None) -> str:
    return "" if length is None else f"{format_about(length)} ago"


def _class(column: str) -> str:
    return ' class="n"' if column in _NUMBERS else ""
