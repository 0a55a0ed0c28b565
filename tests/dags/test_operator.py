"""The operator, with a job that does what the test says."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from drystone import jobs
from drystone.airflow import hook
from drystone.airflow.ingest import upload_request
from drystone.airflow.operator import DrystoneSparkOperator
from drystone.bucket import LocalBucket


class Instance:
    """What the operator asks of the running task instance."""

    dag_id, run_id, task_id, map_index = "events__ingest", "manual__1", "upload", -1

    def __init__(self) -> None:
        """Nothing is pushed yet."""
        self.xcoms: dict[str, Any] = {}

    def xcom_push(self, key: str, value: object) -> None:
        """Keep what is pushed."""
        self.xcoms[key] = value


def run(
    config_file: Path, monkeypatch: pytest.MonkeyPatch, todo: dict[str, Any], verb: jobs.Verb = "upload", **kwargs: Any
) -> tuple[Any, Instance]:
    """Execute the operator as a task; return its XCom and the instance with the others."""
    monkeypatch.setenv("STANDIN", json.dumps({"upload": todo}))
    operator = DrystoneSparkOperator(
        task_id="upload", verb=verb, stream="events", config_file=str(config_file), **kwargs
    )
    instance = Instance()
    return operator.execute({"ti": instance}), instance


@pytest.mark.spark
@pytest.mark.usefixtures("job_standins")
def test_a_job_that_succeeds_leaves_a_small_xcom(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real spark-submit, not on PATH: XCom holds ids, keys and numbers, no list of blocks."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    todo = {"result": {"blocks": ["A", "B"], "report": "Two blocks."}}
    returned, instance = run(config_file, monkeypatch, todo, request={"path": "in/a.csv"}, plan_only="True")
    assert instance.xcoms == {"result": returned}
    assert returned["block_count"] == 2
    assert returned["rows"] == 5
    assert returned["dry_run"] is True
    assert returned["result_key"] == "events/.reports/events__ingest.manual__1.upload.json"
    assert "blocks" not in returned
    stored = LocalBucket(config_file.parent / "bucket").get(returned["result_key"])
    summary = jobs.JobResult.model_validate_json(stored).summary
    assert json.loads(str(summary["request"])) == {
        "interval": None, "path": "in/a.csv", "force": False, "accept_gap": False
    }  # fmt: skip


@pytest.mark.usefixtures("submit_standin")
def test_a_plan_becomes_arguments_of_mapped_tasks(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan's batches come back as the arguments that the compaction is mapped over, with their labels."""
    request = {"kind": "minor", "batches": 2}
    returned, _ = run(config_file, monkeypatch, {"batches": 2}, "detect", request=request)
    assert returned == [
        {"request": {"plan_key": "the-plan", "batch": number}, "batch_label": f"batch {number}"} for number in (0, 1)
    ]


@pytest.mark.usefixtures("submit_standin")
def test_a_job_that_dies_is_tried_again(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No result object is a transient failure, and an earlier try's result is not taken for this one's."""
    key = "events/.reports/events__ingest.manual__1.upload.json"
    stale = jobs.JobResult(verb="upload", stream="events", run="r", ok=True, started=0, ended=0)
    LocalBucket(config_file.parent / "bucket").put(key, stale.to_json())
    with pytest.raises(AirflowException, match=r"left no result: it died.*code is: 3") as caught:
        run(config_file, monkeypatch, {"silent": True, "exit": 3})
    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.usefixtures("submit_standin")
@pytest.mark.parametrize("retryable", [True, False])
def test_a_job_that_fails_says_if_trying_again_helps(
    config_file: Path, monkeypatch: pytest.MonkeyPatch, *, retryable: bool
) -> None:
    """The job's own result decides: transient failures are retried, others fail at once with what to do next."""
    result = {"error": "It is full.", "next_step": "Empty it.", "retryable": retryable}
    with pytest.raises(AirflowException, match=r"upload of events failed: It is full\. Empty it\.") as caught:
        run(config_file, monkeypatch, {"exit": 1, "result": result})
    assert isinstance(caught.value, AirflowFailException) is not retryable


@pytest.mark.usefixtures("submit_standin")
def test_a_missing_connection_is_refused(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the connection nothing is submitted, least of all to YARN; the message says how to get it."""
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    with pytest.raises(AirflowFailException, match=r"no connection 'spark_default'.*drystone airflow setup"):
        run(config_file, monkeypatch, {})


@pytest.mark.usefixtures("submit_standin")
@pytest.mark.parametrize("shared", [True, False])
def test_a_local_bucket_is_refused_on_a_cluster(
    config_file: Path, monkeypatch: pytest.MonkeyPatch, *, shared: bool
) -> None:
    """A folder of this machine is no bucket for a cluster, unless the configuration says that it is shared."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "spark://127.0.0.1:1"}))
    text = config_file.read_text().replace("max_parallel_jobs: 3", f"shared_filesystem: {str(shared).lower()}")
    config_file.write_text(text)
    submitted = []
    monkeypatch.setattr(hook.SubmitHook, "submit", lambda _, application: submitted.append(application))
    with pytest.raises(AirflowException, match="left no result" if shared else "local folder.*shared_filesystem"):
        run(config_file, monkeypatch, {})
    assert bool(submitted) is shared


@pytest.mark.usefixtures("submit_standin")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"request": {"file": "x"}}, "The request of upload is wrong: file"),
        ({"stream": "nobody"}, "no stream 'nobody'"),
        ({"config_file": "/nowhere.yaml"}, "/nowhere.yaml"),
    ],
)
def test_mistakes_fail_at_once(config_file: Path, change: dict[str, Any], message: str) -> None:
    """A wrong request, stream or file is not tried again."""
    arguments = {"verb": "upload", "stream": "events", "config_file": str(config_file)} | change
    with pytest.raises(AirflowFailException, match=message):
        DrystoneSparkOperator(task_id="upload", **arguments).execute({"ti": Instance()})


def test_a_retry_never_reconnects() -> None:
    """The provider's resumption of another try's job is off, whatever the DAG's default arguments say."""
    operator = DrystoneSparkOperator(
        task_id="upload", verb="upload", stream="events", config_file="c", default_args={"durable": True}
    )
    assert operator.durable is False


def test_killing_before_the_start_does_nothing() -> None:
    """A task that is killed before it submitted anything asks for no connection."""
    DrystoneSparkOperator(task_id="upload", verb="upload", stream="events", config_file="c").on_kill()


@pytest.mark.usefixtures("submit_standin")
def test_killing_the_task_ends_its_job(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is killed takes spark-submit with it: the job ends at once, without a result."""
    monkeypatch.setenv("STANDIN", json.dumps({"upload": {"sleep": 60}}))
    operator = DrystoneSparkOperator(task_id="upload", verb="upload", stream="events", config_file=str(config_file))

    def kill_when_started() -> None:
        while operator._hook is None or operator._hook._submit_sp is None:
            time.sleep(0.05)
        operator.on_kill()

    begun = time.monotonic()
    killer = threading.Thread(target=kill_when_started)
    killer.start()
    with pytest.raises(AirflowException, match=r"left no result.*code is: -9"):
        operator.execute({"ti": Instance()})
    killer.join()
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("context", "interval"),
    [
        ({}, None),
        ({"data_interval_start": None, "data_interval_end": None}, None),
        (
            {
                "data_interval_start": datetime(2013, 1, 4, tzinfo=UTC),
                "data_interval_end": datetime(2013, 1, 4, tzinfo=UTC),
            },
            None,
        ),
        (
            {
                "data_interval_start": datetime(2013, 1, 4, tzinfo=UTC),
                "data_interval_end": datetime(2013, 1, 5, tzinfo=UTC),
            },
            ("2013-01-04T00:00:00+00:00", "2013-01-05T00:00:00+00:00"),
        ),
    ],
)
def test_an_upload_is_asked_for_the_run_s_interval(context: dict[str, Any], interval: tuple[str, str] | None) -> None:
    """A scheduled or backfilled run reads its data interval; a run by hand has none, or an empty one."""
    request = upload_request(context | {"params": {"path": "in/a.csv"}}, jinja_env=None)
    assert jobs.UploadRequest.model_validate(request) == jobs.UploadRequest(interval=interval, path="in/a.csv")


def test_the_child_finds_the_programs_of_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-submit is looked for beside this Python first, which drives; workers of a cluster keep their own."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    local, cluster = hook.child_environment("local[2]"), hook.child_environment("spark://there:7077")
    assert local["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert local["PYSPARK_PYTHON"] == local["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert "PYSPARK_PYTHON" not in cluster


def test_spark_logs_warnings_only() -> None:
    """Spark's own logging is at WARN, beside the options that the configuration gives, unless it configures its own."""
    given = hook.quiet({hook.JAVA_OPTIONS: "-XX:+UseSerialGC", "a": "b"})
    options = given[hook.JAVA_OPTIONS].split()
    assert options[0] == "-XX:+UseSerialGC"
    file = Path(options[1].removeprefix("-Dlog4j2.configurationFile=file://"))
    assert "rootLogger.level = warn" in file.read_text()
    assert given["a"] == "b"
    own = {hook.JAVA_OPTIONS: "-Dlog4j2.configurationFile=mine"}
    assert hook.quiet(own) == own
