"""A whole run of the lifecycle on a small stream, through Airflow: little work done by its tasks, or all by Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import yaml

from benchmarks import data
from benchmarks.bench import Bench
from benchmarks.lake import STREAM, JobFailedError, Lake, fill, make_lake
from benchmarks.race import Contender, race, versus_first
from benchmarks.table import Table
from drystone.reader import observe_stats
from drystone.testing.airflow_home import AirflowHome
from drystone.testing.airflow_rest import AirflowClient, wait_until
from drystone.testing.wall_time import Shares, results_in, split

FILES = 6
DAYS = 4
ROWS = 100_000
GOAL = 2.0
"""What is asked for: at most half of the time."""
_DAG = f"{STREAM}__lifecycle"
_ROOT = Path(__file__).parents[1]
_SECONDS = 900.0


@dataclass
class Runs:
    """Runs of the lifecycle of a configuration's stream. `shares`: where the time of each went, by contender."""

    client: AirflowClient
    config: Path
    made: Lake
    number: int = 0
    shares: dict[str, list[Shares]] = field(default_factory=dict)

    def contender(self, name: str, local_bytes: str, goal: float | None = None) -> Contender:
        """Return what runs the lifecycle with this much of local work."""

        def prepare(folder: Path) -> None:
            self.made.linked(folder / "lake")
            configure(self.config, self.made, folder / "lake", local_bytes)

        return Contender(name, lambda folder: self._run(name, folder), _answer, prepare, goal)

    def _run(self, name: str, folder: Path) -> None:
        self.number += 1
        run = self.client.trigger(_DAG, {}, f"round_{self.number}")
        state = self.client.wait(_DAG, run, _SECONDS)
        if state != "success":
            raise JobFailedError(f"{_DAG} {run}: {state}")
        tasks = self.client.tasks(_DAG, run)
        begun = min(task.start for task in tasks if task.start is not None)
        ended = max(task.end for task in tasks if task.end is not None)
        sensors = [task for task in tasks if task.task_id.endswith(("ready", "delay"))]
        self.shares.setdefault(name, []).append(
            split(begun, ended, results_in(Lake(folder / "lake").bucket, STREAM), sensors)
        )


def configure(config: Path, made: Lake, lake: Path, local_bytes: str) -> None:
    """Write the configuration that Airflow's tasks read: the stream as it was made, in the lake of this folder."""
    document = yaml.safe_load((made.folder / "drystone.yaml").read_text())
    document |= {"bucket": f"file:{lake / 'bucket'}", "spark": _spark(local_bytes)}
    fresh = config.with_suffix(".new")
    fresh.write_text(yaml.safe_dump(document, sort_keys=False))
    fresh.replace(config)


def measure(bench: Bench) -> list[Table]:
    """Return a table of the runs, and one of where their time went."""
    made = _made(bench)
    config = bench.folder / "drystone.yaml"
    configure(config, made, bench.folder / "none", "0B")
    home = AirflowHome(bench.folder / "airflow", _ROOT / "dags", _ROOT / "plugins", config)
    home.prepare()
    home.drystone("airflow", "setup")
    with home.running() as client:
        wait_until(lambda: client.has_dag(_DAG), 120, f"{_DAG} is there")
        client.unpause(_DAG)
        runs = Runs(client, config, made)
        contenders = [
            runs.contender("Drystone, little work done by Airflow's tasks", "64MB"),
            runs.contender("all of it by Spark (`local_bytes: 0B`)", "0B", GOAL),
        ]
        race(contenders, 1, bench.folder / "race")
        runs.shares.clear()
        results = race(contenders, bench.repeat, bench.folder / "race")
    blocks = FILES * DAYS
    table = versus_first(f"Lifecycle: one run on a stream of {blocks} blocks, {bench.rows(ROWS):,} rows", results)
    table.notes += [
        "From the trigger to the end of the run, by Airflow's scheduler, SQLite and LocalExecutor; delays included.",
        "One round before the measured ones warms both of them up.",
    ]
    return [table, _where(runs.shares)]


def _where(shares: dict[str, list[Shares]]) -> Table:
    table = Table("Lifecycle: where the time went, median s", ("", "work", "Spark's start", "delays", "Airflow"))
    for name, found in shares.items():
        middle = sorted(found, key=lambda each: sum(asdict(each).values()))[len(found) // 2]
        table.rows.append((name, *(f"{seconds:.1f}" for seconds in asdict(middle).values())))
    table.notes += ["What happens at once counts once, as the first of these. Delays: what the sensors waited for."]
    return table


def _made(bench: Bench) -> Lake:
    lake = make_lake(bench.folder / "made", "day", "month")
    rows = max(10, bench.rows(ROWS) // (FILES * DAYS))
    fill(lake, data.of_day, [(day, rows) for day in range(DAYS) for _ in range(FILES)], bench.cores)
    path = lake.folder / "drystone.yaml"
    document = yaml.safe_load(path.read_text())
    stream = document["streams"][STREAM]
    stream["lifecycle"] = {"schedule": None}
    stream["times"] |= {"sync_delay": "2s", "upload_timeout": "1900ms", "clock_skew": "100ms"}
    stream["times"] |= {"delete_delay": "5s", "read_timeout": "4s"}
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return lake


def _spark(local_bytes: str) -> dict[str, object]:
    options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    conf = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.driver.extraJavaOptions": options}
    return {"max_parallel_jobs": 2, "local_bytes": local_bytes, "conf": conf}


def _answer(folder: Path, _: object) -> tuple[int, int, int]:
    """Return what is left: one block, and every row."""
    stats = observe_stats(Lake(folder / "lake").bucket, STREAM)
    return stats.blocks_visible, stats.blocks_total, stats.rows
