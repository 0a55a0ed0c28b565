"""A real Kafka broker for tests, demos and benchmarks: one KRaft node on free ports of this machine.

Its jars are fetched once into the user's cache. It keeps its topics in a folder, and can be stopped, killed and started
again on it. Source: the design, "Real components without Docker".
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from drystone.errors import DrystoneError, UsageError
from drystone.testing import kafka_node
from drystone.testing.kafka_jars import broker_jars
from drystone.testing.kafka_node import JVM, Ports, draw_ports, java
from drystone.testing.processes import dying_wish, stop

_START_TIMEOUT = 60.0
_ASK_TIMEOUT = 20.0
_FLUSH_TIMEOUT = 120.0
_STARTS = 3
_POLL = 0.05
_TAIL = 800
_PROPERTIES = "server.properties"
_LOG_LEVEL = "2"
"""Clients that outlive their broker would fill the output with it."""


class KafkaBroker:
    """A broker, running or stopped: the address stays the same, and what it was given stays in its folder."""

    def __init__(self, folder: Path) -> None:
        """`folder`: of this broker alone; what an earlier one left there is served again, at another address."""
        self.folder = folder
        self.password = secrets.token_urlsafe(12)
        """Of the user `kafka_node.USER`, who has no rights but those that an ACL gives."""
        self._ports = draw_ports()
        self._known = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address, where everybody may do everything."""
        return f"127.0.0.1:{self._ports.plain}"

    @property
    def secured_servers(self) -> str:
        """The address of the same broker for those with a password: SASL_PLAINTEXT, mechanism PLAIN."""
        return f"127.0.0.1:{self._ports.secured}"

    @property
    def pid(self) -> int:
        """The process id. Raises UsageError while it is stopped."""
        if self._process is None:
            raise UsageError("the broker does not run.")
        return self._process.pid

    def start(self) -> Self:
        """Start it, and return when it answers: 3 to 8 s. It ends with the thread that calls this."""
        for _ in range(_STARTS):
            self._start()
            if self._answers():
                self._known = True
                return self
            self.stop()
            # Somebody else may have been faster to take a port; an address that was told stays.
            self._ports = self._ports if self._known else draw_ports()
        raise _failed(self.folder, "start")

    def stop(self) -> None:
        """End it in an orderly way; one that is stopped stays so."""
        if self._process is not None:
            stop(self._process)
            self._process = None

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> Self:
        """Stop it, and start it at the same address with what it has."""
        self.stop()
        return self.start()

    def admin(self) -> AdminClient:
        """Return a client for everything that the methods below do not do; keep it until its answers are there."""
        return _admin(self.bootstrap_servers)

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Make a topic; it is there when this returns. `config`: the topic's, with `_` for `.`."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin = self.admin()
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(_ASK_TIMEOUT)
        self._wait(lambda: _led(admin, name) == partitions, f"topic {name} has no leaders")

    def delete_topic(self, name: str) -> None:
        """Delete a topic; when this returns one of the same name can be made."""
        admin = self.admin()
        admin.delete_topics([name])[name].result(_ASK_TIMEOUT)
        self._wait(lambda: name not in admin.list_topics(timeout=_ASK_TIMEOUT).topics, f"topic {name} does not go")

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions: `total` of them."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(name, total)])[name].result(_ASK_TIMEOUT)
        self._wait(lambda: _led(admin, name) == total, f"a new partition of {name} has no leader")

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete a partition's messages before an offset, as retention would."""
        where = TopicPartition(topic, partition, before)
        admin = self.admin()
        next(iter(admin.delete_records([where]).values())).result(_ASK_TIMEOUT)

    def producer(self, transactional_id: str = "", **config: Any) -> Producer:
        """Return a producer that loses nothing; with an id it is transactional, and ready for its first transaction."""
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap_servers, "log_level": _LOG_LEVEL}
        settings |= {"acks": "all", "enable.idempotence": True}
        settings |= {key.replace("_", "."): value for key, value in config.items()}
        if not transactional_id:
            return Producer(settings)
        producer = Producer(settings | {"transactional.id": transactional_id})
        producer.init_transactions(_ASK_TIMEOUT)
        return producer

    @staticmethod
    def _wait(there: Callable[[], bool], otherwise: str) -> None:
        """A broker says yes before everybody sees it."""
        deadline = time.monotonic() + _ASK_TIMEOUT
        while not there():
            if time.monotonic() > deadline:
                raise DrystoneError(f"{otherwise} within {_ASK_TIMEOUT:.0f} s.")
            time.sleep(_POLL)

    def _start(self) -> None:
        prepare(self.folder, self._ports, self.password)
        program, variables = command(self.folder)
        with _log(self.folder).open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 -- Kafka's own program
                program,
                env=os.environ | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=dying_wish(),  # noqa: PLW1509 -- it only calls prctl
            )

    def _answers(self) -> bool:
        """Wait until the broker answers; return False if it has ended, or takes too long."""
        assert self._process is not None  # noqa: S101 -- start() has just made it
        deadline = time.monotonic() + _START_TIMEOUT
        while self._process.poll() is None and time.monotonic() < deadline:
            # A client would log each attempt that is refused.
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._ports.plain), timeout=5):
                break
            time.sleep(_POLL)
        while self._process.poll() is None and time.monotonic() < deadline:
            if answers(self.bootstrap_servers):
                return True
        return False


def answers(servers: str) -> bool:
    """Tell whether a broker answers within five seconds."""
    with contextlib.suppress(KafkaException):
        _admin(servers).list_topics(timeout=5)
        return True
    return False


def command(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command line of a broker on a folder that was prepared, and the variables that it needs."""
    return [java(), *JVM, "kafka.Kafka", str(folder / _PROPERTIES)], _class_path()


def prepare(folder: Path, ports: Ports, password: str) -> None:
    """Write the properties of a broker to its folder, and format that if it is new.

    `password`: of the user `kafka_node.USER`. Raises DrystoneError if it cannot be formatted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data, properties = folder / "data", folder / _PROPERTIES
    properties.write_text(kafka_node.properties(ports, data, password))
    if (data / "meta.properties").exists():
        return
    cluster = base64.urlsafe_b64encode(b"D" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
    format_ = [java(), *JVM, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
    with _log(folder).open("ab") as log:
        done = subprocess.run(format_, env=os.environ | _class_path(), stdout=log, stderr=log, check=False)  # noqa: S603 -- Kafka's own
    if done.returncode:
        raise _failed(folder, "format its folder")


@contextlib.contextmanager
def kafka_broker(folder: Path | None = None) -> Iterator[KafkaBroker]:
    """Run a broker; it ends, and a folder of its own with it, when the block is left.

    Call it in a thread that lives as long as the broker shall. Raises UsageError if its jars cannot be had.
    """
    with contextlib.ExitStack() as stack:
        root = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drystone-kafka-")))
        broker = KafkaBroker(root)
        stack.callback(broker.stop)
        yield broker.start()


def send(producer: Producer, topic: str, messages: Iterator[Mapping[str, Any]] | list[Mapping[str, Any]]) -> None:
    """Send messages (`value`, `key`, `partition`, `timestamp`, `headers` of `Producer.produce`), and wait for all.

    In a transaction they count once it is committed. Raises DrystoneError if one of them is refused.
    """
    refused: list[str] = []

    def told(error: Any, _message: Any) -> None:
        if error is not None:
            refused.append(str(error))

    for message in messages:
        while True:
            try:
                producer.produce(topic, on_delivery=told, **message)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        producer.poll(0)
    if producer.flush(_FLUSH_TIMEOUT) or refused:
        raise DrystoneError(f"Kafka did not take messages for {topic}: {refused[:1] or 'no answer'}")


def _admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, "log_level": _LOG_LEVEL})


def _class_path() -> dict[str, str]:
    return {"CLASSPATH": os.pathsep.join(map(str, broker_jars()))}


def _failed(folder: Path, what: str) -> DrystoneError:
    return DrystoneError(f"Kafka does not {what}: {_log(folder).read_text(errors='replace')[-_TAIL:]}")


def _log(folder: Path) -> Path:
    return folder / "broker.log"


def _led(admin: AdminClient, topic: str) -> int:
    """Return how many partitions of a topic have a leader."""
    found = admin.list_topics(timeout=_ASK_TIMEOUT).topics.get(topic)
    return 0 if found is None else sum(part.leader >= 0 for part in found.partitions.values())
