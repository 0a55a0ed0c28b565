"""Where the demo's bucket is: a folder of the checkout, or a real S3 server that is started for it and stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from home import BUILD, CONFIG, STREAM, airflow_home

from drystone.bucket import Bucket, open_bucket
from drystone.bucket.s3 import S3Bucket
from drystone.config.load import load
from drystone.testing.airflow_home import AirflowHome
from drystone.testing.airflow_rest import AirflowClient
from drystone.testing.s3_server import S3Server, s3_server

KINDS = ("local", "s3")
CONNECTION = "aws_default"
_LOCAL = "bucket: file:../build/demo/bucket"
_OF_S3 = BUILD.parent / "demo-s3.yaml"
"""As deep in the checkout as the configuration that it is made from: relative paths in it stay right."""


@dataclass(frozen=True)
class Place:
    """The configuration that names the bucket, and the server if it is in S3."""

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


@contextlib.contextmanager
def place(kind: str) -> Iterator[Place]:
    """Yield the bucket's place; an S3 server runs as long, and serves what an earlier one left in build/demo/s3."""
    if kind not in KINDS:
        message = f"BUCKET={kind}: no such kind of bucket; known: {', '.join(KINDS)}"
        raise SystemExit(message)
    if kind == "local":
        yield Place(CONFIG)
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    _OF_S3.parent.mkdir(parents=True, exist_ok=True)
    with s3_server(BUILD / "s3") as server:
        text = CONFIG.read_text()
        assert _LOCAL in text  # noqa: S101 - both files are ours
        _OF_S3.write_text(text.replace(_LOCAL, f"bucket: {server.url()}"))
        yield Place(_OF_S3, server)
