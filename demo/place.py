"""Where the demo is: its bucket in a folder, or on an S3 server that runs as long; or all of it on the cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from home import BUILD, CONFIG, DAGS, ROOT, STREAM, airflow_home
from show import say

from drystone.bucket import Bucket, open_bucket
from drystone.bucket.s3 import S3Bucket
from drystone.config.load import load
from drystone.testing.airflow_home import AirflowHome
from drystone.testing.airflow_rest import AirflowClient
from drystone.testing.cluster import Cluster
from drystone.testing.s3_server import S3Server, s3_server

CONNECTION = "aws_default"
CLUSTER = Cluster(ROOT / ".cluster", CONFIG, ROOT / "dags", ROOT / "plugins")
_LOCAL = "bucket: file:../build/demo/bucket"
_OF_S3 = BUILD.parent / "demo-s3.yaml"
"""As deep in the checkout as the configuration that it is made from: relative paths in it stay right."""


@dataclass(frozen=True)
class Place:
    """The configuration that names the bucket, and the server if it is in S3."""

    again: ClassVar[str] = "`make ui`"
    """How to look around afterwards."""

    config: Path
    server: S3Server | None = None

    def home(self) -> AirflowHome:
        """Return the demo's Airflow. Nothing but its connection tells it of the server."""
        return airflow_home(self.config)

    def bucket(self) -> Bucket:
        """Return the bucket for those who look from outside of Airflow."""
        url = load(self.config).bucket_url(STREAM)
        return open_bucket(url) if self.server is None else S3Bucket(url, credentials=self.server.credentials)

    def introduce(self, client: AirflowClient) -> None:
        """Tell Airflow the secret of the server, by a connection, as a person would on its page of connections."""
        if self.server is not None:
            client.set_connection(CONNECTION, "aws", login=self.server.access_key, password=self.server.secret_key)

    def prepare(self) -> None:
        """Make Airflow's home."""
        self.home().prepare()

    @contextlib.contextmanager
    def running(self) -> Iterator[AirflowClient]:
        """Start Airflow, tell it all that it has to know, and stop it in the end."""
        say("Airflow starts: scheduler, triggerer, dag-processor, api-server.")
        with self.home().running() as client:
            self.introduce(client)
            yield client


@dataclass(frozen=True)
class OnS3(Place):
    """The same on a real S3 server."""

    again: ClassVar[str] = "`make ui BUCKET=s3`"


@dataclass(frozen=True)
class OnCluster(Place):
    """Everything on the cluster of `make cluster`, which is started if it does not run, and stays."""

    again: ClassVar[str] = "Airflow's UI, until `make cluster-down`"

    def home(self) -> AirflowHome:
        """Return the cluster's Airflow."""
        return CLUSTER.home

    def bucket(self) -> Bucket:
        """Return the bucket on the cluster's server."""
        return S3Bucket(CLUSTER.store.url(), credentials=CLUSTER.store.credentials)

    def prepare(self) -> None:
        """Start what does not run."""
        CLUSTER.up(say)

    @contextlib.contextmanager
    def running(self) -> Iterator[AirflowClient]:
        """Take away what an earlier demo has left, in Airflow and in the bucket."""
        client = self.home().client()
        for dag in DAGS:
            while runs := client.runs(dag) if client.has_dag(dag) else []:
                for run in runs:
                    client.delete_run(dag, run["dag_run_id"])
        bucket = self.bucket()
        bucket.delete([info.key for info in bucket.list("")])
        yield client


@contextlib.contextmanager
def place(kind: str) -> Iterator[Place]:
    """Yield the demo's place; an S3 server runs as long, and serves what an earlier one left in build/demo/s3."""
    if kind not in {"local", "s3", "cluster"}:
        message = f"{kind}: no such place for the demo; known: BUCKET=local, BUCKET=s3, ON=cluster"
        raise SystemExit(message)
    if kind != "s3":
        yield Place(CONFIG) if kind == "local" else OnCluster(CLUSTER.config)
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    _OF_S3.parent.mkdir(parents=True, exist_ok=True)
    with s3_server(BUILD / "s3") as server:
        text = CONFIG.read_text()
        assert _LOCAL in text  # noqa: S101 - both files are ours
        _OF_S3.write_text(text.replace(_LOCAL, f"bucket: {server.url()}"))
        yield OnS3(_OF_S3, server)
