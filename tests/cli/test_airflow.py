"""`drystone airflow` where there is no Airflow. What it sets up is tested with Airflow's own tests, in tests/dags."""

from __future__ import annotations

import subprocess
import sys

from lakes import Lake


def test_no_airflow(lake: Lake) -> None:
    """Where Airflow is not installed it says how to install it, with exit code 2."""
    code = "import sys; sys.modules['airflow'] = None; from drystone.cli import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", code, "airflow", "setup", "--config", lake.config_file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "drystone: Airflow is not installed here. Install it with: pip install 'drystone[airflow]'\n"
