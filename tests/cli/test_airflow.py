"""`drystone airflow`. What it sets up is tested with Airflow's own tests, in tests/dags."""

from __future__ import annotations

import os
import subprocess
import sys

from lakes import Lake


def drystone(lake: Lake, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run the set-up in a process of its own, with an Airflow that has no database, after a line of Python."""
    home = lake.folder / "airflow"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    code = f"import sys; {before}; from drystone.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "airflow", "setup", "--config", lake.config_file],
        env=environment | {"AIRFLOW_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_airflow_that_is_not_ready(lake: Lake) -> None:
    """Without Airflow's tables it says which database it looked at and how to make them, with exit code 2."""
    found = drystone(lake)
    assert found.returncode == 2, found.stderr
    assert "airflow.db) is not ready. Run: airflow db migrate" in found.stderr
    assert "Traceback" not in found.stderr


def test_no_airflow(lake: Lake) -> None:
    """Where Airflow is not installed it says how to install it, with exit code 2."""
    found = drystone(lake, "sys.modules['airflow'] = None")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "drystone: Airflow is not installed here. Install it with: pip install 'drystone[airflow]'\n"
