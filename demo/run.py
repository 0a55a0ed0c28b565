"""`make demo`: the whole life of blocks on real data, through Airflow's scheduler and Spark, watched by a reader.

It starts clean each time, and leaves build/demo/report.json, the bucket, and Airflow's home for `make ui`.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import flights
from follow import Run, follow
from home import BUILD, DATA, STREAM, airflow_home, stop_on_signals, unpause
from place import Place, place
from show import proof, say, table, tell_stage
from stages import Expected, Stage, take
from watch import Watch

from drystone.bucket import Bucket
from drystone.errors import DrystoneError
from drystone.testing.airflow_rest import AirflowClient, AirflowError, Task
from drystone.testing.wall_time import results_in, split

BOUNDARIES = {"minor_ready": "minor", "major_ready": "major", "mark": "mark", "sweep": "sweep"}
"""The lifecycle's tasks that end a stage."""


class Demo:
    """One run of the demo, stage by stage."""

    def __init__(self, client: AirflowClient, bucket: Bucket, truth: flights.Truth, expected: Expected) -> None:
        """`client`: of an Airflow that is up."""
        self.bucket = bucket
        self.stages: list[Stage] = []
        self.sensors: list[Task] = []
        self._client = client
        self._truth = truth
        self._expected = expected
        self._last = time.monotonic()

    def begin(self) -> None:
        """Begin the first stage: its time counts from now on."""
        self._last = time.monotonic()

    def ingest(self) -> None:
        """Start three runs at once, one per airport, that know nothing of each other, and wait for all."""
        runs, dag_id = [], f"{STREAM}__ingest"
        for origin in flights.ORIGINS:
            conf = {"path": str(DATA / f"flights_{origin}.csv")}
            runs.append(Run(dag_id, self._client.trigger(dag_id, conf, f"demo_{origin}"), f"ingest {origin}"))
        self._follow(*runs)
        self._end("ingest")

    def lifecycle(self) -> None:
        """Start one run of the lifecycle, and look at the stream whenever a stage of it is over."""
        waiting = dict(BOUNDARIES)

        def seen(tasks: list[Task]) -> None:
            done = {task.task_id for task in tasks if task.state == "success"}
            for task_id in [name for name in waiting if name in done]:
                self._end(waiting.pop(task_id))

        dag_id = f"{STREAM}__lifecycle"
        self._follow(Run(dag_id, self._client.trigger(dag_id, {}, "demo"), "lifecycle", seen))

    def _follow(self, *runs: Run) -> None:
        tasks = follow(self._client, *runs)
        self.sensors += [task for task in tasks if task.task_id.endswith(("ready", "delay"))]

    def _end(self, name: str) -> None:
        now = time.monotonic()
        stage = take(name, self.bucket, now - self._last, self._expected, self._truth)
        self._last = now
        self.stages.append(stage)
        tell_stage(stage)


def main(kind: str = "local") -> int:
    """Run everything on a bucket of this kind; return 0 only if all of it holds."""
    begun = time.monotonic()
    shutil.rmtree(BUILD, ignore_errors=True)
    if kind != "cluster":
        shutil.rmtree(airflow_home().folder, ignore_errors=True)
    with place(kind) as where:
        return 0 if on(where, begun) else 1


def on(where: Place, begun: float) -> bool:
    """Prepare everything, start Airflow, and run the demo; return whether everything holds."""
    with ThreadPoolExecutor(1) as pool:
        say("Airflow's home is made, and the flights of 2013 are fetched.")
        prepared = pool.submit(where.prepare)
        table_of_flights = flights.load()
        flights.split_by_origin(table_of_flights, DATA)
        truth, expected = flights.truth(table_of_flights), Expected.of(table_of_flights)
        say(f"{truth.rows:,} flights in three files, checksum {truth.checksum}.")
        prepared.result()
    with where.running() as client:
        demo = Demo(client, where.bucket(), truth, expected)
        return run(where, client, demo, truth, begun)


def run(where: Place, client: AirflowClient, demo: Demo, truth: flights.Truth, begun: float) -> bool:
    """Run the demo on an Airflow that is up, and report; return whether everything holds."""
    home = where.home()
    for line in home.drystone("airflow", "setup").splitlines():
        if line.startswith(("pool", "connection")):
            say(line)
    unpause(client)
    say(f"Airflow is up: {client.url}, user admin, password {home.password}")
    wall = time.time()
    demo.begin()
    demo.ingest()
    with Watch(demo.bucket, truth) as watch:
        demo.lifecycle()
    shares = split(wall, time.time(), results_in(demo.bucket, STREAM), demo.sensors)
    table(demo.stages, shares)
    wrong = [*watch.wrong, *(f"after {stage.name}: not as it should be" for stage in demo.stages if not stage.ok)]
    if len(demo.stages) != len(BOUNDARIES) + 1 or not watch.reads:
        wrong.append("a stage or the background reads are missing")
    proof(truth, watch.reads, wrong)
    report = {
        "rows_in": truth.rows,
        "checksum_in": truth.checksum,
        "seconds": round(time.monotonic() - begun, 1),
        "ok": not wrong,
        "reads": watch.reads,
        "stages": [asdict(stage) for stage in demo.stages],
        "wall": {name: round(seconds, 1) for name, seconds in asdict(shares).items()},
        "wrong": wrong,
    }
    (BUILD / "report.json").write_text(json.dumps(report, indent=1))
    say(f"Written: {(BUILD / 'report.json').relative_to(BUILD.parents[1])}. Look around with {where.again}.")
    return not wrong


if __name__ == "__main__":
    stop_on_signals()
    try:
        sys.exit(main(*sys.argv[1:]))
    except (AirflowError, DrystoneError, KeyboardInterrupt) as error:
        say(str(error) or "stopped")
        sys.exit(1)
