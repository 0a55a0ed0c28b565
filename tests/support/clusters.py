"""A real cluster for tests, started and mended by the command that `make cluster` is, with programs of it killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from drystone.bucket.s3 import S3Bucket
from drystone.testing.airflow_rest import AirflowClient
from drystone.testing.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Real:
    """A cluster in a folder, and the command that works on it."""

    cluster: Cluster

    def command(self, word: str) -> str:
        """Run `up`, `down` or `status` to its end; return what it printed. Fails with it."""
        where = self.cluster
        done = subprocess.run(
            [
                *(sys.executable, "-m", "drystone.testing.cluster", word, "--folder", where.folder),
                *("--config", where.template, "--dags", where.dags, "--plugins", where.plugins),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kill(self, name: str) -> None:
        """SIGKILL to the program of a service, and to nothing that it has started."""
        pid = {service.name: known for service, known in self.cluster.status()}[name]
        assert pid is not None, f"{name} does not run"
        os.kill(pid.pid, signal.SIGKILL)

    def dead(self) -> list[str]:
        """The services that do not run."""
        return [service.name for service, known in self.cluster.status() if known is None]

    def client(self) -> AirflowClient:
        """A client of its Airflow."""
        return self.cluster.home.client()

    def bucket(self) -> S3Bucket:
        """Its bucket."""
        return S3Bucket(self.cluster.store.url(), credentials=self.cluster.store.credentials)


@contextmanager
def real_cluster(config: str) -> Iterator[Real]:
    """Yield a cluster with this configuration, whose input is in `../in`; it is down, and gone, in the end."""
    # PostgreSQL's user must reach it, who cannot go through pytest's folders.
    folder = Path(tempfile.mkdtemp(prefix="drystone-cluster-"))
    folder.chmod(0o755)
    (folder / "template").mkdir()
    (folder / "template" / "drystone.yaml").write_text(config)
    found = Real(Cluster(folder / "cluster", folder / "template" / "drystone.yaml", ROOT / "dags", ROOT / "plugins"))
    try:
        yield found
    except BaseException:
        for log in sorted((folder / "cluster" / "logs").glob("*.log")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}")  # noqa: T201 -- pytest shows it
        raise
    finally:
        found.command("down")
        shutil.rmtree(folder)
