"""How long Airflow takes to load every file of dags/, for a configuration of one stream and of fifty."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.table import Table

ROOT = Path(__file__).parents[1]
FEW, MANY = 1, 50
GOAL = 2.0
"""Seconds that parsing fifty streams may add to the imports. Source: the design, "Quality"."""
ROUNDS = 3
CONFIG = "version: 1\nbucket: file:bucket\nstreams:\n"
STREAM = """\
  stream_{number}:
    labels: {{dataset: "{number}"}}
    time_column: at
    sort_key: [who, at]
    schema: {{who: string, at: timestamp, amount: float64}}
    owner: team-{number}
    granularity: {{ingest: day, major: month}}
    times: {{sync_delay: 15min, delete_delay: 36h}}
    ingest: {{path: "in/%Y-%m-%d/*.csv", format: csv, schedule: "@daily", start_date: "2013-01-01"}}
    compaction: {{target_block_bytes: 256MiB}}
    retention: {{raw: 90d}}
    lag_limit: 30h
"""
PROGRAM = """
import json, sys, time
from pathlib import Path
started = time.perf_counter()
from airflow.dag_processing.dagbag import DagBag
import drystone.airflow.plugin
from drystone.airflow import (
    backfill, erase, export, fleet, hold, ingest, lifecycle, major, repair, replay, retention, retire, verify,
)
imported = time.perf_counter()
bag = DagBag(dag_folder=sys.argv[1])
parsed = time.perf_counter()
assert not bag.import_errors, bag.import_errors
slowest = max(bag.dagbag_stats, key=lambda each: each.duration)
print(json.dumps({
    "imports": imported - started, "parse": parsed - imported, "dags": len(bag.dags),
    "slowest": slowest.duration.total_seconds(), "file": Path(slowest.file).name,
}))
"""


def measure(run: Bench) -> list[Table]:
    """Load all of dags/ in a process of its own, several times for each number of streams, and compare."""
    table = Table(
        "Fleet: loading every file of dags/",
        ("streams", "DAGs", "imports", "parsing, all files", "slowest file", "goal"),
    )
    for streams in (FEW, MANY):
        found = [_load(run.folder, streams) for _ in range(max(1, min(ROUNDS, run.repeat)))]
        imports, parse, slowest = (statistics.median(each[name] for each in found) for name in _TIMES)
        goal = "" if streams == FEW else f"< {GOAL:g} s: {'met' if parse < GOAL else '**missed**'}"
        file = f"{slowest:.2f} s ({found[0]['file']})"
        table.rows.append((str(streams), str(found[0]["dags"]), f"{imports:.2f} s", f"{parse:.2f} s", file, goal))
    table.notes.append("a process of its own for each measurement; imports: of Airflow and all that dags/ imports")
    return [table]


_TIMES = ("imports", "parse", "slowest")


def _load(folder: Path, streams: int) -> dict[str, float]:
    config = folder / f"fleet-{streams}.yaml"
    config.write_text(CONFIG + "".join(STREAM.format(number=number) for number in range(streams)))
    environment = os.environ | {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "DRYSTONE_CONFIG": str(config),
    }
    command = [sys.executable, "-c", PROGRAM, str(ROOT / "dags")]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
