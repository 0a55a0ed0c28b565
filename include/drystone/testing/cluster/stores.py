"""The S3 server and the Kafka broker, each with what it keeps."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from drystone.testing import kafka, s3_server
from drystone.testing.cluster.service import Service, ask, environment
from drystone.testing.cluster.state import State
from drystone.testing.kafka_node import Ports
from drystone.testing.s3_server import S3Server


def s3(folder: Path, state: State) -> Service:
    """Return the S3 server, whose one bucket is `s3_server.BUCKET`."""
    server = s3_account(folder, state)
    data = server.folder

    def make() -> None:
        # A folder of its data is a bucket.
        for each in (data / s3_server.BUCKET, folder / "users"):
            each.mkdir(parents=True, exist_ok=True)

    return Service(
        name="s3",
        address=server.endpoint,
        command=s3_server.command(folder, state.port("s3")),
        environment=environment(ROOT_ACCESS_KEY_ID=server.access_key, ROOT_SECRET_ACCESS_KEY=server.secret_key),
        healthy=lambda _: ask(f"{server.endpoint}/health") is not None,
        before=make,
    )


def s3_account(folder: Path, state: State) -> S3Server:
    """Return where the S3 server is, and who may do everything there."""
    return S3Server(f"http://127.0.0.1:{state.port('s3')}", "drystone", state.secret("s3"), folder / "data")


def broker(folder: Path, state: State) -> Service:
    """Return the Kafka broker."""
    ports = Ports(state.port("kafka"), state.port("kafka secured"), state.port("kafka controller"))
    command, variables = kafka.command(folder)
    address = f"127.0.0.1:{ports.plain}"
    return Service(
        name="kafka",
        address=address,
        command=command,
        environment=environment(**variables),
        healthy=lambda _: kafka.answers(address),
        before=partial(kafka.prepare, folder, ports, state.secret("kafka")),
    )
