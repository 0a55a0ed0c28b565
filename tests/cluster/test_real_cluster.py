"""A real cluster whose programs are killed, one after the other, in the middle of a lifecycle: the stream ends as ever.

PostgreSQL, Airflow with its scheduler, Spark's workers and the S3 server are the real ones; what was killed is started
again by the command that `make cluster` is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import compose_file
import flights
import place
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from clusters import Real, real_cluster
from compose_file import is_healthy

from drystone import scan
from drystone.block.states import State
from drystone.bucket.s3 import S3Bucket
from drystone.reader import look
from drystone.rows.checksum import ContentChecksum
from drystone.testing.airflow_rest import AirflowError, Task, wait_until
from drystone.testing.cluster.service import ask
from drystone.timeline.timeline import states

pytestmark = [pytest.mark.slow, pytest.mark.scheduler, pytest.mark.spark, pytest.mark.timeout(5400)]
DAYS = 4
DOWN_SECONDS = 6.0
"""Between a kill and the new start."""
RUN_SECONDS = 3600.0
RUNS = 3
"""A run may fail, or leave what is too young for it: so many have to do."""
TIMES = {
    "allow_short_delays": True, "sync_delay": "12s", "upload_timeout": "8s", "clock_skew": "1s", "delete_delay": "14s",
    "read_timeout": "10s",
}  # fmt: skip
CALM, HARMED = "calm", "harmed"
"""Two streams of the same rows."""
Middle = Callable[[Real, list[Task]], str]
"""Tells that the moment for a kill has come, in words; "" while it has not."""


@dataclass(frozen=True)
class End:
    """How a stream ended: its rows, and of each block that is left its time range, number of sources and of rows."""

    rows: int
    checksum: str
    blocks: tuple[tuple[int, int, int, int], ...]


@dataclass
class Kill:
    """A kill: of which service, when, and how long it took until everything was healthy again."""

    victim: str
    middle: Middle
    during: str = ""
    seconds: float = 0.0


def in_state(task_id: str, state: str) -> Middle:
    """Return what waits for a task to be in a state."""

    def found(_: Real, tasks: list[Task]) -> str:
        there = any(task.task_id == task_id and task.state == state for task in tasks)
        return f"`{task_id}` is {state}" if there else ""

    return found


def computes(real: Real, _: list[Task]) -> str:
    """Wait until a compaction has an executor on the first worker."""
    page = next(service.address for service, _ in real.cluster.status() if service.name == "spark-worker-1")
    names = [each["appdesc"]["name"] for each in (ask(f"{page}/json/") or {}).get("executors", [])]
    return "an executor of `compact_minor` works there" if any(f"compact {HARMED}" in name for name in names) else ""


class Uploads:
    """Waits until a major compaction writes a block."""

    def __init__(self) -> None:
        """Nothing is known of the blocks that were there before."""
        self._before = 0

    def __call__(self, real: Real, tasks: list[Task]) -> str:
        """See `Middle`."""
        if not in_state("compact_major", "running")(real, tasks):
            return ""
        blocks = len({info.key.split("/")[1] for info in real.bucket().list(f"{HARMED}/0")})
        self._before = self._before or blocks
        return "`compact_major` uploads" if blocks > self._before else ""


def kills() -> list[Kill]:
    """What is killed, in the order of the lifecycle's tasks."""
    return [
        Kill("spark-worker-1", computes),
        Kill("triggerer", in_state("minor_ready", "deferred")),
        Kill("scheduler", in_state("plan_major", "running")),
        Kill("s3", Uploads()),
        Kill("postgres", in_state("sweep", "running")),
    ]


def config() -> str:
    """The demo's configuration, with two streams of the same input."""
    demo = yaml.safe_load((Path(flights.__file__).parent / "drystone.yaml").read_text())
    stream = demo["streams"]["flights"] | {"times": TIMES}
    stream["ingest"] |= {"path": "../in/flights_*.csv"}
    # Little as it is: Spark has to do it all.
    demo["spark"]["local_bytes"] = "0B"
    return yaml.safe_dump(demo | {"streams": dict.fromkeys((CALM, HARMED), stream)}, sort_keys=False)


@pytest.fixture(scope="module")
def few_days() -> pa.Table:
    """The flights of the first days of January."""
    january = flights.month(flights.load(), 1)
    day = pc.day(flights.with_event_time(january)["event_time"])
    return january.filter(pc.less_equal(day, DAYS))


@pytest.fixture(scope="module")
def real(few_days: pa.Table) -> Iterator[Real]:
    """A cluster that is up, with the input of its streams."""
    with real_cluster(config()) as found:
        flights.split_by_origin(few_days, found.cluster.template.parents[1] / "in")
        assert "The cluster is up." in found.command("up")
        yield found


def test_the_health_checks_of_the_compose_file_pass(real: Real) -> None:
    """What Docker would run to learn whether a service is healthy says so of each one that runs here."""
    found = compose_file.services()
    checks = {name: each["healthcheck"]["test"] for name, each in found.items() if "healthcheck" in each}
    healthy = {service.name: is_healthy(service, checks[service.name]) for service, _ in real.cluster.status()}
    assert healthy.keys() == checks.keys()
    assert healthy == dict.fromkeys(healthy, True)


def test_a_second_start_says_that_all_is_up(real: Real) -> None:
    """`make cluster` on a cluster that is up starts nothing, says so, and shows where everything is."""
    before = {service.name: known for service, known in real.cluster.status()}
    printed = real.command("up")
    assert "The cluster was up already: nothing was started." in printed
    assert all(known is not None and f" {known.pid} " in printed for known in before.values())
    assert real.cluster.home.password in printed
    assert {service.name: known for service, known in real.cluster.status()} == before


def test_whatever_is_killed_the_stream_ends_the_same(
    real: Real, few_days: pa.Table, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker, the triggerer, the scheduler, the store, the database die: same rows, same blocks, nothing marked."""
    client = real.client()
    dags = {name: [f"{stream}__{name}" for stream in (CALM, HARMED)] for name in ("ingest", "lifecycle")}
    for dag in [*dags["ingest"], *dags["lifecycle"]]:
        wait_until(lambda dag=dag: client.has_dag(dag), 120, f"{dag} is there")  # type: ignore[misc]
        client.unpause(dag)
    runs = {dag: client.trigger(dag, {}) for dag in dags["ingest"]}
    assert {client.wait(dag, run, RUN_SECONDS) for dag, run in runs.items()} == {"success"}
    calm, harmed, planned = live(real, CALM, []), live(real, HARMED, done := kills()), len(kills())
    text = table(done, calm, harmed)
    with capsys.disabled():
        print("\n" + text)  # noqa: T201 -- for the page
    assert sum(bool(kill.during) for kill in done) == planned, text
    truth = flights.truth(few_days)
    assert (calm.end.rows, calm.end.checksum) == (truth.rows, truth.checksum)
    assert harmed.end == calm.end
    assert len(calm.end.blocks) == 1


def test_the_demo_begins_anew(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier runs have left, in Airflow and in the bucket, is gone when the demo begins on a cluster."""
    dag = f"{CALM}__lifecycle"
    monkeypatch.setattr(place, "CLUSTER", real.cluster)
    monkeypatch.setattr(place, "DAGS", [dag, "no_such_dag"])
    real.bucket().put("left/by-an-earlier-demo", b"rows")
    client = real.client()
    wait_until(lambda: client.has_dag(dag), 120, f"{dag} is there")
    client.trigger(dag, {}, "earlier")
    with place.place("cluster") as where, where.running() as same:
        assert same.runs(dag) == []
        assert list(where.bucket().list("")) == []
        same.trigger(dag, {}, "earlier")


@dataclass(frozen=True)
class Life:
    """A lifecycle to its end: its runs and their states, the tasks that were tried more than once, and how long."""

    end: End
    states: tuple[str, ...]
    again: tuple[str, ...]
    seconds: float


def live(real: Real, stream: str, planned: list[Kill]) -> Life:
    """Run the lifecycle of a stream until all is done, and kill what is planned in the middle of it.

    What a killed job left half done may be too young for the end of its own run: then it is the next run's.
    """
    begun, found, again = time.monotonic(), [], []
    while not found or found[-1] != "success" or not is_clean(real.bucket(), stream):
        assert len(found) < RUNS, f"{stream}: after the runs {found} it is not as it should be"
        state, tasks = one_run(real, f"{stream}__lifecycle", planned)
        found.append(state)
        again += [f"`{task.name}` {task.try_number} times" for task in tasks if task.try_number > 1]
    return Life(end_of(real.bucket(), stream), tuple(found), tuple(again), time.monotonic() - begun)


def one_run(real: Real, dag: str, planned: list[Kill]) -> tuple[str, list[Task]]:
    """Follow a run to its end, kill, and start again what is dead; return its state and tasks."""
    client = real.client()
    run_id = client.trigger(dag, {})
    deadline = time.monotonic() + RUN_SECONDS
    while True:
        assert time.monotonic() < deadline, f"{dag} is not over"
        if real.dead():
            real.command("up")
        try:
            tasks, state = client.tasks(dag, run_id), str(client.run(dag, run_id)["state"])
        except AirflowError:  # The api-server ends with its database.
            time.sleep(1)
            continue
        if state in {"success", "failed"}:
            return state, tasks
        for kill in [each for each in planned if not each.during]:
            kill.during = kill.middle(real, tasks)
            if kill.during:
                kill_and_mend(real, kill)
        time.sleep(0.2)


def kill_and_mend(real: Real, kill: Kill) -> None:
    """Kill a service, leave it dead for a while, and have everything started again."""
    begun = time.monotonic()
    real.kill(kill.victim)
    time.sleep(DOWN_SECONDS)
    assert kill.victim in real.dead()
    real.command("up")
    kill.seconds = time.monotonic() - begun


def end_of(bucket: S3Bucket, stream: str) -> End:
    """Look at a stream at its end, when nothing is marked any more."""
    view = look(bucket, stream)
    assert not view.timeline.problems
    assert not [info.key for info in bucket.list(f"{stream}/") if info.key.endswith("deletion-mark.json")]
    checksum = ContentChecksum()
    for batch in scan(bucket, stream):
        checksum.update(batch)
    blocks = sorted(
        (folder.meta.min_time, folder.meta.max_time, len(folder.sources), folder.meta.stats.num_samples)
        for folder in view.snapshot.folders.values()
        if folder.meta is not None
    )
    return End(checksum.rows, checksum.hex, tuple(blocks))


def is_clean(bucket: S3Bucket, stream: str) -> bool:
    """Tell whether everything that is left of a stream is healthy and visible: nothing partial, covered or marked."""
    view = look(bucket, stream)
    return set(states(view.snapshot, view.timeline, view.record.rules).values()) == {State.HEALTHY}


def table(done: list[Kill], calm: Life, harmed: Life) -> str:
    """Two tables for a page: the kills, and how both streams ended."""
    lines = ["| killed | while | all healthy again after |", "| --- | --- | ---: |"]
    lines += [f"| `{kill.victim}` | {kill.during} | {kill.seconds:.0f} s |" for kill in done]
    lines += ["", "| stream | runs | tried again | seconds | rows | checksum | blocks | marked |"]
    lines += ["| --- | --- | --- | ---: | ---: | --- | ---: | ---: |"]
    for name, life in (("undisturbed", calm), ("with all these kills", harmed)):
        cells = [name, ", ".join(life.states), ", ".join(life.again) or "nothing", f"{life.seconds:.0f}"]
        cells += [f"{life.end.rows:,}", f"`{life.end.checksum}`", str(len(life.end.blocks)), "0"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
