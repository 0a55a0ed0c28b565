"""The endpoints of the block page: they say what the terminal says, to whoever may look, and write nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from block_page import Page
from fastapi.routing import APIRoute
from lakes import DAY, STREAM

from drystone.block import keys
from drystone.bucket import Bucket, LocalBucket
from drystone.config.load import load
from drystone.engine import audit
from drystone.engine.audit import Entry
from drystone.errors import BucketAccessError
from drystone.verbs.overview import Numbers, Overview
from drystone.viewer.figures import size_bins
from drystone.viewer.shelf import KEPT_MS

API = f"/api/streams/{STREAM}"


def asked(page: Page, path: str) -> Any:
    """Return the answer's document."""
    answer = page.browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def without(plan: dict[str, Any]) -> dict[str, Any]:
    """Return a plan without what differs from one moment to the next."""
    return {name: value for name, value in plan.items() if name not in {"id", "created", "expires"}}


def test_the_table_is_what_the_terminal_lists(page: Page) -> None:
    """Every block is there, in every column as `drystone ls` has it."""
    table = asked(page, f"{API}/blocks")
    lines = page.lake.drystone("ls", STREAM, "--json").json["blocks"]
    assert len(lines) == 10
    names = {"start": "min_time", "end": "max_time"}
    for column in set(table) - {"stream", "at"}:
        assert table[column] == [line[names.get(column, column)] for line in lines], column


def test_a_block_is_what_the_terminal_shows(page: Page) -> None:
    """A block's details are those of `drystone inspect`: state, meta, sources, lineage, mark, files."""
    ulid = page.lake.ulid("a")
    found = asked(page, f"{API}/blocks/{ulid}")["details"]
    shown = page.lake.drystone("inspect", STREAM, ulid, "--json").json
    assert {**found, "at": 0, "why": ""} == {**shown, "at": 0, "why": ""}
    merged = {page.lake.ulid("f"), page.lake.ulid("f1")}
    assert {each["ulid"] for each in found["covered_by"]} == {each["ulid"] for each in found["children"]} == merged
    assert found["mark"]["details"] == "covered"


def test_a_blocks_run_is_found_in_the_log(page: Page) -> None:
    """The run that uploaded a block is the one that the audit log names, with the address of its page."""
    lake = page.lake
    ulid, at = lake.ulid("f"), lake.clock.now
    for number in range(3):
        audit.append(lake.bucket, STREAM, [Entry("upload", lake.ulid("a"), "source x", f"older{number}", at)], at)
    entries = [Entry("mark", ulid, "", "not this", at), Entry("upload", ulid, "merge k", "dag.run.task", at)]
    audit.append(lake.bucket, STREAM, entries, at)
    run = asked(page, f"{API}/blocks/{ulid}")["run"]
    assert run == {"name": "dag.run.task", "why": "merge k", "when": at, "href": "dags/x/runs/dag.run.task"}
    assert asked(page, f"{API}/blocks/{lake.ulid('b')}")["run"] is None


@pytest.mark.parametrize("kind", ["minor", "major", "mark", "sweep"])
def test_the_plan_is_that_of_a_dry_run(page: Page, kind: str) -> None:
    """The next run's plan is, but for its name and its time, the one that `drystone plan` prints."""
    shown = page.lake.drystone("plan", STREAM, "--kind", kind, "--json").json
    assert without(asked(page, f"{API}/plan?kind={kind}")) == without(shown)


def test_the_plans_here_do_something(page: Page) -> None:
    """The stream of these tests has something to merge and something to mark, so that plans can differ."""
    assert asked(page, f"{API}/plan?kind=minor")["merges"]
    assert asked(page, f"{API}/plan?kind=mark")["marks"]


def test_the_summary_counts_what_is_there(page: Page) -> None:
    """States, sizes, waiting rows, lag and bytes to delete are those of the blocks."""
    lake = page.lake
    lines = {line["ulid"]: line for line in lake.drystone("ls", STREAM, "--json").json["blocks"]}
    summary = asked(page, API)
    shown = lake.drystone("ls", "--json").json["streams"][0]
    numbers = summary["numbers"]
    assert (numbers["blocks_visible"], numbers["blocks_total"]) == (shown["visible"], shown["blocks"])
    assert (numbers["rows"], numbers["bytes"]) == (shown["rows"], shown["bytes"])
    by_state = Counter(line["state"] for line in lines.values())
    assert {state: n for state, n in numbers["states"].items() if n} == by_state
    assert summary["waiting"] == 30
    assert summary["edits"] == 1
    size = {
        state: sum(line["bytes"] for line in lines.values() if line["state"] == state)
        for state in ("Marked", "Deletable", "HealthyOverlapped", "Partial")
    }
    assert summary["to_delete"]["marked"] == size["Marked"] + size["Deletable"] > 0
    assert summary["to_delete"]["superseded"] == size["HealthyOverlapped"] > 0
    assert summary["to_delete"]["partial"] == size["Partial"] == 4
    assert numbers["bytes_to_reclaim"] == sum(summary["to_delete"].values())
    assert sum(each["blocks"] for each in summary["sizes"]) == numbers["blocks_visible"]
    assert sum(each["bytes"] for each in summary["sizes"]) == numbers["bytes"]
    assert 0 < summary["ingest_lag"] < 2 * DAY
    assert summary["wrong"] == ""


def test_sizes_fall_into_bins_of_powers_of_four() -> None:
    """Each size is in the bin that holds it, the bins follow each other, and small ones are under half the target."""
    bins = size_bins([0, 4095, 4096, 16384, 1 << 18], 1 << 15)
    assert [(each.low, each.high, each.blocks, each.small) for each in bins] == [
        (0, 4096, 2, True),
        (4096, 16384, 1, True),
        (16384, 65536, 1, False),
        (65536, 262144, 0, False),
        (262144, 1048576, 1, False),
    ]
    assert size_bins([], 1 << 15) == ()


def test_streams_are_those_of_the_configuration(page: Page) -> None:
    """The list of streams comes from the file, and opens no bucket."""
    found = asked(page, "/api/streams")
    loaded = load(page.lake.config_file)
    assert found["streams"] == [{"stream": STREAM, "bucket": loaded.bucket_url(STREAM), "kind": "files"}]
    assert page.opened == []


def test_the_list_of_streams_looks_at_none(page: Page) -> None:
    """What is kept of a stream is shown with the lag of now and what is wrong, and its bucket is not opened."""
    numbers = Numbers.model_validate(asked(page, API)["numbers"])
    page.opened.clear()
    planned = numbers.newest_ingest
    assert planned is not None
    page.kept = [
        Overview(stream=STREAM, bucket="b", at=5, numbers=numbers, lag_limit=1),
        Overview(stream="later", bucket="b", at=0, error="nobody has looked yet."),
    ]
    known, unknown = asked(page, "/api/fleet")["streams"]
    assert known["numbers"] == numbers.model_dump(mode="json")
    assert known["at"] == 5
    assert abs(page.shelf._clock() - planned - known["ingest_lag"]) < DAY
    assert "older than lag_limit allows" in known["wrong"]
    assert (unknown["numbers"], unknown["wrong"]) == (None, "nobody has looked yet.")
    assert page.opened == []


def paths(page: Page) -> list[str]:
    """Return an address for each route of the app."""
    named = {"{stream}": STREAM, "{ulid}": page.lake.ulid("a"), "{name}": "page.js", "{run}": "d.r"}
    found = []
    for route in page.app.routes:
        assert isinstance(route, APIRoute)
        path = route.path
        for name, value in named.items():
            path = path.replace(name, value)
        found.append(path)
    return found


def test_nobody_looks_without_a_login(page: Page) -> None:
    """Every route, the page's own files included, answers 401 to a stranger and 200 to who is logged in."""
    assert len(paths(page)) == 8
    for path in paths(page):
        assert page.stranger.get(path).status_code == 401, path
        assert page.browser.get(path).status_code == 200, path


def test_no_route_writes(page: Page) -> None:
    """Every route is a GET and nothing else, and asking all of them leaves the bucket byte for byte as it was."""

    def everything() -> dict[Path, tuple[bytes, float]]:
        files = (file for file in page.lake.folder.rglob("*") if file.is_file())
        return {file: (file.read_bytes(), file.stat().st_mtime) for file in files}

    before = everything()
    for route in page.app.routes:
        assert isinstance(route, APIRoute)
        assert route.methods == {"GET"}
    for path in paths(page):
        assert page.browser.get(path).status_code == 200
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert page.browser.request(method, path).status_code == 405
    assert everything() == before


def test_the_page_asks_nobody_else(page: Page) -> None:
    """The page and its files come with a policy that forbids every other origin, and name none."""
    html = page.browser.get("/")
    policy = html.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for name in ("page.html", "page.css", "page.js", "chart.js", "panels.js", "forms.js", "lanes.js", "format.js"):
        text = page.browser.get(f"/assets/{name}").text
        assert "://" not in text, name
    assert page.browser.get("/assets/__init__.py").status_code == 404
    assert page.browser.get("/assets/..%2Fapp.py").status_code == 404


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/api/streams/nothing", 404, "no stream 'nothing'"),
        (f"{API}/blocks/01JZZZZZZZZZZZZZZZZZZZZZZZ", 404, "has no block 01JZZZZZZZZZZZZZZZZZZZZZZZ"),
        (f"{API}/blocks/nothing", 422, ""),
        ("/api/streams/No", 422, ""),
        (f"{API}/plan?kind=rewrite", 422, ""),
    ],
)
def test_what_is_not_there_is_one_line(page: Page, path: str, status: int, told: str) -> None:
    """What does not exist is 404 with one line that says so; what cannot be a name is refused."""
    answer = page.browser.get(path)
    assert answer.status_code == status
    if told:
        assert told in answer.json()["detail"]


def test_a_bad_configuration_is_one_line(page: Page) -> None:
    """A configuration that cannot be read is 500 with what is wrong in it, and no stack trace."""
    page.lake.config_file.write_text("version: 1\nbucket: nowhere\nstreams: {}\n")
    answer = page.browser.get("/api/streams")
    assert answer.status_code == 500
    assert "drystone.yaml" in answer.json()["detail"]
    assert "Traceback" not in answer.text


def test_a_bucket_without_the_stream_is_one_line(page: Page) -> None:
    """A stream that has no data yet is 404, and says so; so is one whose bucket is no folder."""
    text = page.lake.config_file.read_text()
    (page.lake.folder / "a file").write_text("")
    for folder in ("file:elsewhere", '"file:a file/bucket"'):
        page.lake.config_file.write_text(text.replace("bucket: file:bucket", f"bucket: {folder}"))
        answer = page.browser.get(API)
        assert answer.status_code == 404
        assert "has no stream 'events'" in answer.json()["detail"]
        assert "\n" not in answer.json()["detail"]


class Counted(LocalBucket):
    """A bucket that counts GETs and listings, and refuses everything once its key has expired."""

    gets = 0
    lists = 0
    expired = False

    def get(self, key: str) -> bytes:
        """See Bucket."""
        type(self).gets += 1
        return super().get(key)

    def list(self, prefix: str, start_after: str = "") -> Any:
        """See Bucket."""
        if self.expired:
            raise BucketAccessError("the token has expired.")
        type(self).lists += 1
        return super().list(prefix, start_after)


def test_a_stream_is_not_looked_at_anew_for_each_request(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests share one look; the next one lists, and reads of the blocks only what is new, or nothing."""
    opened: list[Counted] = []

    def enter(*_: object) -> Bucket:
        opened.append(Counted(page.lake.folder / "bucket"))
        return opened[-1]

    monkeypatch.setattr(page.shelf, "_enter", enter)
    for _ in range(3):
        asked(page, f"{API}/blocks")
        asked(page, API)
    lists, gets = Counted.lists, Counted.gets
    assert (lists, len(opened)) == (5, 1)
    later = page.shelf._clock() + KEPT_MS
    monkeypatch.setattr(page.shelf, "_clock", lambda: later)
    asked(page, API)
    assert Counted.lists == 2 * lists
    metas = sum("meta.json" in str(file) for file in (page.lake.folder / "bucket").rglob("meta.json"))
    assert Counted.gets - gets < metas
    # Credentials that have run out are fetched anew, and what was read is still known.
    opened[0].expired = True
    gets = Counted.gets
    monkeypatch.setattr(page.shelf, "_clock", lambda: later + KEPT_MS)
    asked(page, API)
    assert len(opened) == 2
    assert Counted.gets - gets < metas


def test_a_bucket_that_lets_nobody_in_is_one_line(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where other credentials do not help either, the answer is 503 with the store's reason."""

    class Closed(Counted):
        expired = True

    monkeypatch.setattr(page.shelf, "_enter", lambda *_: Closed(page.lake.folder / "bucket"))
    for _ in range(2):
        answer = page.browser.get(API)
        assert (answer.status_code, answer.json()["detail"]) == (503, "the token has expired.")


def test_a_new_block_is_seen_by_who_asks_for_it(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refreshing looks again at once, but not more than once a second, however many ask."""
    now = page.shelf._clock()
    monkeypatch.setattr(page.shelf, "_clock", lambda: now)
    assert len(asked(page, f"{API}/blocks")["ulid"]) == 10
    page.lake.bucket.create(keys.block(STREAM, "01JZZZZZZZZZZZZZZZZZZZZZZZ", "chunks/1"), b"x")
    asked(page, f"{API}?anew=true")
    assert len(asked(page, f"{API}/blocks")["ulid"]) == 10
    monkeypatch.setattr(page.shelf, "_clock", lambda: now + 1_000)
    asked(page, f"{API}?anew=true")
    assert len(asked(page, f"{API}/blocks")["ulid"]) == 11
