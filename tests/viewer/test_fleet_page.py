"""The page of all streams."""

from __future__ import annotations

import re

from fastapi import FastAPI
from fastapi.testclient import TestClient

from drystone.block.states import State
from drystone.verbs.overview import LastRuns, Numbers, Overview
from drystone.viewer.fleet import Fleet, page, routes

HOUR = 3_600_000
NOW = 1_000 * HOUR
NUMBERS = Numbers(
    states=dict.fromkeys(State, 0) | {State.HEALTHY: 7, State.MARKED: 2},
    blocks_visible=7, blocks_total=9, blocks_marked=2, rows=7_000, bytes=700, files=14, small_files=6,
    bytes_to_reclaim=2048, newest_event=NOW - 5 * HOUR, newest_ingest=NOW - 3 * HOUR, problems=1, damage=0,
)  # fmt: skip
RUNS = {
    "ingest": LastRuns(ended=NOW, succeeded=NOW - 4 * HOUR, failed=("upload",)),
    "verify": LastRuns(ended=NOW, succeeded=NOW - 9 * HOUR),
}
WELL = Overview(stream="well", bucket="b", at=NOW - 2 * HOUR, numbers=NUMBERS, runs=RUNS)
LATE = WELL.model_copy(update={"stream": "zoo", "lag_limit": HOUR})
BROKEN = Overview(stream="broken", bucket="b", at=0, error="meta.json is <no> JSON")
NEW = Overview(stream="new", bucket="b", at=NOW)


def rows(html: str) -> list[list[str]]:
    """The cells of the table's rows, without their tags."""
    found = re.findall(r"<tr>(<td.*?)</tr>", html)
    return [[re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in found]


def test_a_row_for_each_stream_and_what_is_wrong_first() -> None:
    """Streams that need a person come first, each with its own error; the others are in the order of their names."""
    found = {row[0]: row for row in rows(page(Fleet(NOW, [WELL, NEW, LATE, BROKEN])))}
    assert list(found) == ["broken", "zoo", "new", "well"]
    assert found["well"] == [
        "well", "", "3 h ago", "5 h ago", "4 h ago", "ingest", "7", "9", "2 Marked", "7,000", "700 B", "6", "2.0 KiB",
        "2 h ago",
    ]  # fmt: skip
    assert "older than lag_limit allows" in found["zoo"][1]
    assert found["broken"][1:] == ["meta.json is &lt;no&gt; JSON", *[""] * 12]
    assert found["new"][2] == "no data yet"
    assert "4 streams, 2 with something wrong" in page(Fleet(NOW, [WELL, NEW, LATE, BROKEN]))


def test_what_airflow_lacks_is_told() -> None:
    """A missing pool or connection stands above the table, with what happens without it; its name does no harm."""
    html = page(Fleet(NOW, [WELL], [("pool", "drystone_<spark>"), ("connection", "spark_default")]))
    assert "Airflow has no pool drystone_&lt;spark&gt;: its tasks stay scheduled for ever." in html
    assert "Airflow has no connection spark_default: its tasks fail." in html
    assert "Airflow has no" not in page(Fleet(NOW, [WELL]))


def test_the_page_runs_no_script() -> None:
    """GET /fleet answers with a page that may load nothing and run nothing, and that nobody stores."""
    app = FastAPI()
    app.include_router(routes(lambda: Fleet(NOW, [WELL])))
    answer = TestClient(app).get("/fleet")
    assert rows(answer.text)[0][0] == "well"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cache-control"] == "no-store"
