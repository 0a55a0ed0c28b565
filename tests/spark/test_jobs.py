"""What a job does with wrong arguments, with merges that fail, and with merges of several outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from small_streams import HEADER, STREAM, Small

from drystone.block import keys
from drystone.block.guards import Hold
from drystone.block.marks import NO_COMPACT_MARK
from drystone.engine import merging
from drystone.errors import DrystoneError
from drystone.jobs import JobResult, Verb, result_key
from drystone.reader import look
from drystone.spark import jobs, upload

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("verb", "arguments", "said"),
    [
        ("detect", ["--request", "{}"], "--request: kind: Field required"),
        ("detect", ["--request", '{"kind": "huge"}'], "--request: kind: Input should be 'minor', 'major' or 'rewrite'"),
        ("detect", ["--request", '{"kind": "minor", "batches": 0}'], "--request: batches: "),
        ("detect", ["--request", "{"], "--request: Invalid JSON"),
        ("mark", ["--request", '{"force": true}'], "--request: force: Extra inputs are not permitted"),
        ("upload", ["--request", '{"interval": ["2013-01-02", "2013-01-01"]}'], "interval: it must start before it"),
        ("upload", ["--request", '{"interval": ["yesterday", "today"]}'], "'yesterday' is no moment in ISO-8601"),
        ("mark", ["--stream", "others"], "no stream 'others'. Known: events."),
        ("mark", ["--run", "../../x"], "'../../x' cannot name a run."),
        ("mark", ["--config", "nothing.yaml"], "nothing.yaml: No such file or directory."),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: Verb, arguments: list[str], said: str
) -> None:
    """Neither Spark is started nor anything written: the line on stderr names what is wrong."""
    Small(tmp_path, None).configure()  # type: ignore[arg-type]
    plain = ["--config", str(tmp_path / "drystone.yaml"), "--stream", STREAM, "--run", "r"]
    with pytest.raises(SystemExit) as caught:
        jobs.main(verb, [*plain, *arguments])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "bucket").exists()


def test_a_job_ends_with_its_result(small: Small, capsys: pytest.CaptureFixture[str], spark: SparkSession) -> None:
    """Failed or not, the result is in the bucket under the run's name, and the exit code says which."""
    small.put("a.csv", HEADER + "2013-01-01T09:00:00Z,Oslo,many,0.5\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSession, "stop", lambda _: None)
        for expected, content in ((1, "many"), (0, "1")):
            small.put("a.csv" if expected else "b.csv", HEADER + f"2013-01-01T09:00:00Z,Oslo,{content},0.5\n")
            with pytest.raises(SystemExit) as caught:
                jobs.main("upload", ["--config", str(small.loaded.path), "--stream", STREAM, "--run", "r"])
            assert caught.value.code == expected
            result = JobResult.model_validate_json(small.bucket.get(result_key(STREAM, "r")))
            assert result.ok == (expected == 0)
            (small.folder / "in/a.csv").unlink(missing_ok=True)
    assert "'many'" in capsys.readouterr().err


def test_a_bug_is_a_result_too(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody has thought of ends in a result that is not tried again; a failing machine's may be."""
    monkeypatch.setattr(upload, "_find", lambda *_: {}["no such key"])
    result = small.job("upload")
    assert (result.ok, result.retryable) == (False, False)
    assert "this should not happen: KeyError: 'no such key'" in result.error

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(upload, "_find", full)
    result = small.job("upload")
    assert (result.ok, result.retryable) == (False, True)
    assert "No space left on device" in result.error


def fill(small: Small, days: int = 2, files: int = 3, rows: int = 400) -> int:
    """Upload some files with rows of some days; return the number of rows."""
    for number in range(files):
        lines = [
            f"2013-01-{day + 1:02}T{row % 24:02}:00:00Z,city {row * 7 % 50},{number * rows + row},{row}\n"
            for day in range(days)
            for row in range(rows)
        ]
        small.put(f"{number}.csv", HEADER + "".join(lines))
    result = small.job("upload")
    assert result.ok, result.error
    small.wait()
    return days * files * rows


def merge(small: Small, run: str, kind: str = "minor") -> JobResult:
    """Plan a compaction and execute it in one batch."""
    plan = small.job("detect", f"detect {run}".replace(" ", "-"), kind=kind)
    assert plan.ok, plan.error
    assert len(plan.batches) == 1, plan.report
    return small.job("compact", run, plan_key=plan.plan_key, batch=0)


def test_a_merge_that_cannot_be_done_leaves_the_others_alone(small: Small) -> None:
    """A damaged chunk fails its day's merge, each time; the other day is merged; in the end it is marked no-compact."""
    small.configure(compaction={"max_attempts": 2})
    fill(small)
    view = look(small.bucket, STREAM)
    bad = min(view.timeline.groups.values(), key=lambda group: group.min_time)
    path = small.folder / "bucket" / STREAM / bad.id / "chunks/000001.parquet"
    raw = path.read_bytes()
    path.write_bytes(b"PAR1" + b"\xff" * (len(raw) - 12) + raw[-8:])
    day = {group.id for group in view.timeline.groups.values() if group.chunk == bad.chunk}

    first = merge(small, "first")
    assert (first.ok, first.retryable) == (False, False), first.error
    assert bad.id in first.error
    assert (first.summary["merges"], first.summary["merges_failed"], first.summary["blocks_out"]) == (1, 1, 1)
    marked = [name for name in small.names() if name.endswith(NO_COMPACT_MARK)]
    assert marked == []

    small.wait()
    again = merge(small, "again")
    assert (again.ok, again.summary["merges"], again.summary["merges_failed"]) == (False, 0, 1)
    assert "failed 2 times: its blocks are marked no-compact" in again.report
    assert {name.split("/")[1] for name in small.names() if name.endswith(NO_COMPACT_MARK)} == day
    retried = small.job("compact", "retry", plan_key=latest_plan(small), batch=0)
    assert retried.ok, retried.error
    assert "is held, or marked no-compact" in retried.report
    plan = small.job("detect", "third", kind="minor")
    assert (plan.ok, plan.batches) == (True, [])


def latest_plan(small: Small) -> str:
    """Return the key of the newest plan."""
    return max(name for name in small.names() if name.startswith(keys.plans(STREAM)))


def test_several_outputs_are_one_group(small: Small) -> None:
    """A merge beyond the target size gives several blocks, cut by the sort key, that hold every row once together."""
    small.configure(compaction={"target_block_bytes": "24KiB", "row_group_rows": 1024, "min_inputs": 2})
    count = fill(small, days=1, files=6, rows=1_000)
    done = merge(small, "merge")
    assert done.ok, done.error
    assert int(done.summary["blocks_out"]) == len(done.blocks) > 1
    assert (done.summary["rows_in"], done.summary["rows"]) == (count, count)
    small.wait()
    view = look(small.bucket, STREAM)
    (visible,) = view.timeline.visible.values()
    assert [block.group_index for block in visible.group.members] == list(range(len(done.blocks)))
    assert {block.ulid for block in visible.group.members} == set(done.blocks)
    assert sorted(row["count"] for row in small.rows()) == list(range(count))


def test_too_little_memory_is_said(small: Small) -> None:
    """A merge that cannot be done in memory_per_task fails for good, and the error names the setting."""
    fill(small, days=1)
    small.configure(compaction={"memory_per_task": "1KiB"})
    done = merge(small, "merge")
    assert (done.ok, done.retryable) == (False, False)
    assert "memory_per_task" in f"{done.error} {done.next_step}"
    assert done.blocks == []


def test_rows_that_do_not_add_up_are_taken_back(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the outputs did not take in every row of the inputs once, they are removed before anybody can read them."""
    fill(small, days=1)
    before = small.blocks()
    monkeypatch.setattr(merging, "check_whole", lambda *_: "two rows are one too many")
    done = merge(small, "merge")
    assert not done.ok
    assert "two rows are one too many" in done.error
    assert (done.blocks, done.summary["blocks_out"]) == ([], 0)
    assert small.blocks() == before


def test_a_plan_that_is_overtaken_does_nothing(small: Small) -> None:
    """A batch that was done, or whose blocks came to be held, is passed over; a wrong plan or batch is said."""
    fill(small, days=1)
    hold = Hold(owner="ann", reason="repair", created=0, expires=1 << 60)
    plan = small.job("detect", "detect", kind="minor")
    small.bucket.put(f"{keys.holds(STREAM)}a.json", hold.to_json())
    held = small.job("compact", "held", plan_key=plan.plan_key, batch=0)
    assert (held.ok, held.blocks) == (True, [])
    assert "is held" in held.report
    small.bucket.delete([f"{keys.holds(STREAM)}a.json"])
    assert len(small.job("compact", "one", plan_key=plan.plan_key, batch=0).blocks) == 1
    again = small.job("compact", "two", plan_key=plan.plan_key, batch=0)
    assert (again.ok, again.blocks) == (True, [])
    assert "passed over" in again.report
    wrong = small.job("compact", "three", plan_key=plan.plan_key, batch=7)
    assert (wrong.ok, wrong.retryable, "no number 7" in wrong.error) == (False, False, True)
    missing = small.job("compact", "four", plan_key="events/.plans/none.json", batch=0)
    assert (missing.retryable, "Plan again" in missing.next_step) == (False, True)
    small.wait()
    small.wait()
    assert small.job("compact", "five", plan_key=plan.plan_key, batch=0).retryable, "it has expired"
    assert json.loads(hold.to_json())["owner"] == "ann"
    assert not DrystoneError.retryable
