"""Files of every kind become blocks; a file that does not fit stops its run before anything is uploaded."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_streams import HEADER, Small

from drystone.ingest import files as ingest
from drystone.ingest.planning import FilePlanner
from drystone.jobs import JobResult
from drystone.spark import upload
from drystone.verbs import upload as verb

pytestmark = pytest.mark.spark

NINE = datetime(2013, 1, 1, 9, tzinfo=UTC)
NEXT_DAY = datetime(2013, 1, 2, 9, tzinfo=UTC)
OSLO = {"time": NINE, "city": "Oslo", "count": 1, "ratio": 0.5}
LUND = {"time": NEXT_DAY, "city": "Lund", "count": -2, "ratio": None}


def csv(*rows: str) -> str:
    """Return a CSV file."""
    return HEADER + "".join(f"{row}\n" for row in rows)


TWO_ROWS = csv("2013-01-01T09:00:00Z,Oslo,1,0.5", "2013-01-02T09:00:00Z,Lund,-2,")


def lines(*rows: dict[str, object]) -> str:
    """Return a file of JSON lines."""
    return "".join(f"{json.dumps(row, default=lambda time: time.isoformat())}\n" for row in rows)


def parquet(table: pa.Table) -> bytes:
    """Return a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def table(*rows: dict[str, object]) -> pa.Table:
    """Return rows with the types that Arrow finds by itself."""
    return pa.Table.from_pylist(list(rows))


FORMS = {
    "csv": ("csv", "a.csv", TWO_ROWS.encode()),
    "gzipped csv": ("csv", "a.csv.gz", gzip.compress(TWO_ROWS.encode())),
    "csv with another order of columns": (
        "csv",
        "a.csv",
        b"ratio,more,city,time,count\n0.5,x,Oslo,2013-01-01T10:00:00+01:00,1\n,y,Lund,2013-01-02T09:00:00Z,-2\n",
    ),
    "json lines": ("json", "a.json", lines(OSLO, {key: LUND[key] for key in ("time", "city", "count")}).encode()),
    "gzipped json lines": ("json", "a.json.gz", gzip.compress(lines(OSLO, LUND).encode())),
    "parquet": ("parquet", "a.parquet", parquet(table(OSLO, LUND))),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_file_gives_the_same_rows(small: Small, form: str) -> None:
    """CSV, JSON lines and Parquet, gzipped or not, with columns in any order, in the types of the stream."""
    kind, name, content = FORMS[form]
    small.configure(ingest={"format": kind})
    small.put(name, content)
    result = small.job("upload")
    assert result.ok, result.error
    assert result.summary["rows"] == 2
    assert result.summary["blocks"] == len(result.blocks) == len(small.blocks()) == 2
    assert small.rows() == [OSLO, LUND]


def test_names_of_files_are_only_names(small: Small) -> None:
    """Blanks, percent signs and letters of any script: each file is its own, and is read once."""
    names = ["a b.csv", "a%20b.csv", "ärger.csv", "a+b.csv", "sub/a#b.csv"]
    for number, name in enumerate(names):
        small.put(name, csv(f"2013-01-01T09:00:00Z,Oslo,{number},0.5"))
    small.configure(ingest={"path": "in/**/*.csv"})
    result = small.job("upload")
    assert result.ok, result.error
    assert sorted(row["count"] for row in small.rows()) == list(range(len(names)))
    small.put("a [1].csv", TWO_ROWS)
    refused = small.job("upload", "brackets")
    assert (refused.ok, refused.retryable) == (False, False)
    assert "takes '[' in a name for a pattern" in refused.error
    (small.folder / "in/a [1].csv").unlink()
    found = (key for key in small.names() if key.endswith(".json") and "/files/" in key)
    plans = [ingest.read(small.bucket, key, ingest.FilePlan) for key in found]
    assert sorted(plan.path for plan in plans if plan is not None) == sorted(
        f"in/{name}" for name in [*names, "a [1].csv"]
    )


WRONG = {
    "a bad number": ("csv", csv("2013-01-01T09:00:00Z,Oslo,many,0.5"), "'many'"),
    "a number too big for its type": ("csv", csv("2013-01-01T09:00:00Z,Oslo,3000000000,0.5"), "3000000000"),
    "no column of this name": ("csv", "time,town,count,ratio\n", "no column city; it has time, town, count, ratio"),
    "an empty file": ("csv", "", "no column"),
    "a row without a time": ("csv", csv("2013-01-01T09:00:00Z,Oslo,1,0.5", ",Lund,1,0.5"), "has no time. Nothing was"),
    "no time at all": ("json", lines({"city": "Oslo"}), "has no time"),
    "a bad time": ("csv", csv("yesterday,Oslo,1,0.5"), "'yesterday'"),
    "a row with too few fields": ("csv", csv("2013-01-01T09:00:00Z,Oslo"), "MALFORMED_RECORD"),
    "no json": ("json", '{"time": "2013-01-01T09:00:00Z", "city"\n', "MALFORMED_RECORD"),
    "json of another type": ("json", '{"time": "2013-01-01T09:00:00Z", "count": "many"}\n', "MALFORMED_RECORD"),
    "no parquet": ("parquet", "PAR1 or not", "FOOTER"),
    "parquet of another type": ("parquet", parquet(table(OSLO | {"count": "many"})), "'many'"),
    "parquet with too big a number": ("parquet", parquet(table(OSLO | {"count": 1 << 40})), "OVERFLOW"),
    "a cut-off gzip file": (
        "csv.gz",
        gzip.compress(csv(*(f"2013-01-01T09:00:00Z,Oslo,{n * 7919 % 100_003},0.5" for n in range(20_000))).encode())[
            :-2000
        ],
        "Unexpected end",
    ),
}


def assert_nothing_happened(small: Small, result: JobResult, reason: str) -> None:
    """The run failed for good, with one line that says why, and no block is there."""
    assert not result.ok
    assert not result.retryable, result.error
    assert reason in result.error, result.error
    assert "\n" not in result.error
    assert small.blocks() == []
    assert not any(key.endswith(".done") for key in small.names())


@pytest.mark.parametrize("case", WRONG)
def test_input_that_does_not_fit_stops_the_run(small: Small, case: str) -> None:
    """Nothing is uploaded, not even of the files that fit; the error is one line, and trying again is no use."""
    ending, content, reason = WRONG[case]
    small.configure(ingest={"format": ending.split(".")[0]})
    small.put(f"a.{ending}", content)
    assert_nothing_happened(small, small.job("upload"), reason)


def test_one_wrong_file_among_good_ones_stops_the_run(small: Small) -> None:
    """Every row of every file is read before the first block is uploaded."""
    for number in range(4):
        small.put(f"good {number}.csv", TWO_ROWS)
    small.put("wrong.csv", csv(*["2013-01-01T09:00:00Z,Oslo,1,0.5"] * 2_000, "2013-01-01T09:00:00Z,Oslo,x,0.5"))
    assert_nothing_happened(small, small.job("upload"), "'x'")
    (small.folder / "in/wrong.csv").unlink()
    assert small.job("upload").ok
    assert len(small.rows()) == 8


def test_files_with_different_headers_are_read_together(small: Small) -> None:
    """CSV files of one run may have their columns in any order, and more than the stream wants, gzipped or not."""
    small.put("a.csv", TWO_ROWS)
    small.put("b.csv", "time,city,ratio,count\n2013-01-03T09:00:00Z,Oslo,1,2\n")
    small.put("c.csv.gz", gzip.compress(b"ratio,more,city,time,count\r\n3,x,Rome,2013-01-03T09:00:00Z,4\r\n"))
    small.put("d.csv", csv("2013-01-03T09:00:00Z,Bergen,6,5"))
    result = small.job("upload")
    assert result.ok, result.error
    time = datetime(2013, 1, 3, 9, tzinfo=UTC)
    more = [("Bergen", 6, 5.0), ("Oslo", 2, 1.0), ("Rome", 4, 3.0)]
    assert small.rows() == [
        OSLO,
        LUND,
        *({"time": time, "city": city, "count": count, "ratio": ratio} for city, count, ratio in more),
    ]


def test_of_files_with_different_headers_the_one_that_does_not_fit_is_named(small: Small) -> None:
    """A column that one of them lacks stops the run, as it does for one file; so do too few fields."""
    small.put("a.csv", TWO_ROWS)
    path = small.put("b.csv", "time,town,ratio,count\n2013-01-01T09:00:00Z,Oslo,1,2\n")
    assert_nothing_happened(small, small.job("upload"), "b.csv: the input has no column city; it has time, town,")
    path.unlink()
    small.put("c.csv", "city,time,ratio,count\nOslo,2013-01-01T09:00:00Z\n")
    assert_nothing_happened(small, small.job("upload"), "MALFORMED_RECORD")


def test_types_are_inferred_from_files_with_different_headers_together(small: Small) -> None:
    """What is a number in one file and text in another is text as it stands there; numbers are as wide as is needed."""
    small.configure(schema="infer", time_column="time", sort_key=["time"])
    small.put("a.csv", "time,code,count\n2013-01-01T09:00:00Z,007,1\n")
    path = small.put("b.csv", "count,time,code\n3000000000,2013-01-01T10:00:00Z,A7\n")
    result = small.job("upload")
    assert result.ok, result.error
    assert sorted((row["code"], row["count"]) for row in small.rows()) == [("007", 1), ("A7", 3_000_000_000)]
    path.write_text("count,time\n1,2013-01-01T10:00:00Z\n")
    small.put("c.csv", "time,code,count\n2013-01-01T09:00:00Z,8,1\n")
    path.rename(path.with_name("d.csv"))
    refused = small.job("upload", "again")
    assert not refused.ok
    assert "c.csv has columns time, code, count; " in refused.error


def test_parquet_files_with_different_columns_are_put_together_by_name(small: Small) -> None:
    """What one file lacks is null in its rows, and never dropped from the others'."""
    small.configure(ingest={"format": "parquet"})
    small.put("a.parquet", parquet(table(OSLO)))
    small.put("b.parquet", parquet(table({key: LUND[key] for key in ("time", "city", "count")})))
    result = small.job("upload")
    assert result.ok, result.error
    assert small.rows() == [OSLO, LUND]


def test_a_file_that_changes_later_is_refused(small: Small) -> None:
    """A file that was ingested and has other content now stops the run, and what is there stays as it is."""
    small.put("a.csv", TWO_ROWS)
    assert small.job("upload").ok
    before = small.blocks()
    small.put("a.csv", csv("2013-01-01T09:00:00Z,Oslo,7,0.5"))
    small.put("b.csv", TWO_ROWS)
    result = small.job("upload", "again")
    assert (result.ok, result.retryable) == (False, False)
    assert "in/a.csv was ingested with other content" in result.error
    assert "Give new content a new name" in result.next_step
    assert small.blocks() == before


def test_a_file_that_changes_while_it_is_read_is_refused(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written to after it was planned gives no block: its rows would not be those of its source."""
    path = small.put("a.csv", TWO_ROWS)
    plan = FilePlanner.plan

    def then_append(planner: FilePlanner, found: Path, now: int) -> ingest.PlannedFile:
        planned = plan(planner, found, now)
        with path.open("a") as file:
            file.write("2013-01-02T09:00:00Z,Oslo,7,0.5\n")
        return planned

    monkeypatch.setattr(FilePlanner, "plan", then_append)
    assert_nothing_happened(small, small.job("upload"), "changed while it was read")


def test_a_run_again_adds_nothing(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doing an upload twice, also after it died before its commit, leaves the blocks of the first time."""
    small.put("a.csv", TWO_ROWS)
    with monkeypatch.context() as patch:
        patch.setattr(verb, "_commit", lambda *_: None)
        assert small.job("upload").ok
    before = small.blocks()
    again = small.job("upload")
    assert (again.ok, again.summary["blocks"], again.summary["blocks_skipped"]) == (True, 0, 2)
    done = small.job("upload", "third")
    assert (done.summary["files"], done.summary["files_done_before"], done.summary["rows"]) == (1, 1, 0)
    assert small.blocks() == before
    assert small.rows() == [OSLO, LUND]


def test_a_dry_run_changes_nothing(small: Small) -> None:
    """It names the files, and writes neither a plan, nor a record, nor a block."""
    small.put("a.csv", TWO_ROWS)
    result = small.job("upload", dry_run=True)
    assert result.ok
    assert "a.csv" in result.report
    assert small.names() == set()


def test_a_path_that_names_nothing_is_an_error(small: Small) -> None:
    """Who names a path means a file; a scheduled interval without files is none."""
    result = small.job("upload", path="in/nothing*")
    assert (result.ok, result.retryable) == (False, False)
    assert "no file matches in/nothing*" in result.error
    assert small.job("upload", interval=("2013-01-01", "2013-01-02")).ok


def test_columns_are_inferred_once(small: Small) -> None:
    """The first ingest's types hold: later files are read in them, integers grow wider, and what does not fit stops."""
    small.configure(schema="infer")
    small.put("a.csv", TWO_ROWS)
    first = small.job("upload")
    assert first.ok, first.error
    small.put("b.csv", csv("2013-01-02T09:00:00Z,12,3000000000,7"))
    second = small.job("upload", "second")
    assert second.ok, second.error
    found = small.rows()
    assert found[:1] + found[2:] == [OSLO | {"count": 1}, LUND]
    assert found[1] == {"time": NEXT_DAY, "city": "12", "count": 3_000_000_000, "ratio": 7.0}
    small.put("c.csv", csv("2013-01-02T09:00:00Z,Bergen,many,7"))
    third = small.job("upload", "third")
    assert (third.ok, third.retryable) == (False, False)
    assert "'many'" in third.error
    assert small.rows() == found


def test_a_time_must_be_inferred_as_one(small: Small) -> None:
    """If Spark takes the time column for text, the run stops and says what to do."""
    small.configure(schema="infer")
    small.put("a.csv", csv("9 o'clock,Oslo,1,0.5"))
    result = small.job("upload")
    assert_nothing_happened(small, result, "time was not inferred as a time")
    assert "derive" in result.next_step


def test_types_that_readers_cannot_put_together_are_refused(small: Small) -> None:
    """A column that was a number stays one: the run stops, with two ways out, and the stream stays readable."""
    small.put("a.csv", TWO_ROWS)
    assert small.job("upload").ok
    text = {"time": "timestamp", "city": "string", "count": "string", "ratio": "float64"}
    small.configure(schema=text)
    small.put("b.csv", csv("2013-01-01T09:00:00Z,Oslo,many,0.5"))
    result = small.job("upload", "again")
    assert (result.ok, result.retryable) == (False, False)
    assert "column count is int32 in some blocks and string in others" in result.error
    assert "generation" in result.next_step
    assert small.rows() == [OSLO, LUND]

    small.configure(schema=text, generation=1)
    assert small.job("upload", "new generation").ok
    assert sorted(row["count"] for row in small.rows()) == ["-2", "1", "many"]


def test_derived_columns_are_computed(small: Small) -> None:
    """Spark SQL over the file's columns; an expression that names no column of the file is one line."""
    more = {"time": "timestamp", "city": "string", "count": "int32", "ratio": "float64", "twice": "int64"}
    small.configure(schema=more, ingest={"derive": {"twice": "count * 2"}})
    small.put("a.csv", TWO_ROWS)
    assert small.job("upload").ok
    assert [row["twice"] for row in small.rows()] == [2, -4]
    small.configure(schema=more, ingest={"derive": {"twice": "counts * 2"}})
    small.put("b.csv", TWO_ROWS)
    result = small.job("upload", "again")
    assert (result.ok, result.retryable) == (False, False)
    assert "`counts`" in result.error


def test_a_missing_file_is_named(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is gone when it is to be read stops the run."""
    small.put("a.csv", TWO_ROWS)
    monkeypatch.setattr(upload, "_find", lambda *_: [Path("/no/such/file.csv")])
    assert_nothing_happened(small, small.job("upload"), "/no/such/file.csv: No such file")
