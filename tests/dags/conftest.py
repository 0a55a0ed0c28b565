"""An Airflow of its own for these tests: home, configuration file and connection in a temporary folder."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drystone import jobs

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
version: 1
bucket: file:bucket
spark:
  max_parallel_jobs: 3
  local_bytes: 0B
  conf: {{spark.ui.enabled: "false", spark.driver.extraJavaOptions: "-XX:+UseSerialGC"}}
streams:
  events:
    labels: {{dataset: events}}
    time_column: at
    sort_key: [who, at]
    schema: {{who: string, at: timestamp}}
    owner: team-events
    times: {{sync_delay: {sync}, upload_timeout: 100ms, clock_skew: 50ms, delete_delay: {delete}, read_timeout: 50ms,
            allow_short_delays: true}}
    ingest: {{path: "in/*.csv", format: csv}}
  daily:
    labels: {{dataset: daily}}
    time_column: at
    sort_key: [at]
    ingest: {{path: "in/%Y-%m-%d/*.csv", format: csv, schedule: "@daily", start_date: "2013-01-01"}}
    lifecycle: {{schedule: null}}
    retention: {{raw: 90d}}
"""

SUBMIT = """#!/bin/sh
# Everything from the script's name on is the job's.
while ! expr "$1" : '.*drystone_.*[.]py$' > /dev/null; do shift; done
exec {python} "$@"
"""

# Airflow reads its environment when it is first imported, which test modules do: a fixture would come too late.
HOME = Path(tempfile.mkdtemp(prefix="drystone-airflow-"))
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(bytes(range(32))).decode(),
    "AIRFLOW__DAG_PROCESSOR__DISABLE_BUNDLE_VERSIONING": "True",
    "DRYSTONE_CONFIG": str(HOME / "drystone.yaml"),
}
(HOME / "drystone.yaml").write_text(CONFIG.format(sync="10s", delete="12s"))


@pytest.fixture(scope="session", autouse=True)
def airflow_home() -> Iterator[Path]:
    """Airflow's home, removed when all is over."""
    yield HOME
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def database(airflow_home: Path) -> Path:
    """Airflow's database, migrated; the home that it is in."""
    from airflow.utils.db import initdb  # noqa: PLC0415 -- after the environment is set

    initdb()
    return airflow_home


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    """A configuration file of its own, with delays of some hundred milliseconds."""
    file = tmp_path / "drystone.yaml"
    file.write_text(CONFIG.format(sync="400ms", delete="500ms"))
    return file


@pytest.fixture
def job_standins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for the jobs (standin.py), and the connection that `drystone airflow setup` makes; their folder."""
    shutil.copy(jobs.script("upload").with_name("log4j2.properties"), tmp_path)
    for verb in jobs.VERBS:
        shutil.copy(Path(__file__).with_name("standin.py"), tmp_path / f"drystone_{verb}.py")
    monkeypatch.setattr(jobs, "script", lambda verb: tmp_path / f"drystone_{verb}.py")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[*]"}))
    return tmp_path


@pytest.fixture
def submit_standin(job_standins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for the jobs and for spark-submit, which runs them without a JVM."""
    from drystone.airflow import hook  # noqa: PLC0415 -- as above

    submit = job_standins / "spark-submit"
    submit.write_text(SUBMIT.format(python=sys.executable))
    submit.chmod(0o755)
    path = f"{job_standins}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setattr(hook, "child_environment", lambda _: os.environ | {"PATH": path})


@pytest.fixture(autouse=True)
def fresh_imports() -> Iterator[None]:
    """DAG files are modules of the name of their file: forget them after each test."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("drystone_"):
            del sys.modules[name]
