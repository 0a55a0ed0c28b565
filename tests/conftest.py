"""What holds for all tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from drystone.testing.kafka import KafkaBroker
    from drystone.testing.s3_server import S3Server

# Airflow, once a test has loaded it, logs whatever is at INFO. Spark's bridge says good-bye at that level when the
# interpreter ends, after pytest has closed the stream: a traceback below the line that sums up the tests.
logging.getLogger("py4j").setLevel(logging.WARNING)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what mostly waits: a file that takes minutes must not be the last of one worker."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A real S3 server, one for all tests of a process."""
    from drystone.testing.s3_server import s3_server  # noqa: PLC0415 -- boto3 takes its time

    with s3_server() as server:
        yield server


@pytest.fixture
def s3_account(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The S3 server, whose account is the one of the environment."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A real Kafka broker, one for all tests of a process: each test has topics of its own, and leaves it running."""
    from drystone.testing.kafka import kafka_broker  # noqa: PLC0415 -- only some tests have any use for it

    with kafka_broker() as broker:
        yield broker
