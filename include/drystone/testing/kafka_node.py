"""How the broker of the tests is set up: one KRaft node, small and quick to begin, with one user of few rights."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from drystone.errors import UsageError
from drystone.testing.processes import free_port

USER = "reader"
"""The one user with a password."""
JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN")
"""What the broker and its tools run with; its log goes to stdout."""
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secured}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}
auto.create.topics.enable=false
# Who comes without a password may do everything; a user, who has one, only what a test lets it do.
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  user_{user}="{password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
# One broker has no replicas.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# It begins faster with less of what only a big one needs.
offsets.topic.num.partitions=2
transaction.state.log.num.partitions=2
log.cleaner.dedupe.buffer.size=2000000
group.initial.rebalance.delay.ms=0
# Messages have the times of their events, past or absurd; those that shall go are deleted by a test.
log.retention.ms=-1
log.message.timestamp.after.max.ms=9223372036854775807
"""


class Ports(NamedTuple):
    """Where it listens."""

    plain: int
    secured: int
    controller: int


def draw_ports() -> Ports:
    """Return free ports."""
    return Ports(free_port(), free_port(), free_port())


def properties(ports: Ports, data: Path, password: str) -> str:
    """Return the text of server.properties. `data`: the folder for its topics."""
    return _PROPERTIES.format(**ports._asdict(), folder=data, user=USER, password=password)


def java() -> str:
    """Return the path of Java. Raises UsageError if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None:
        raise UsageError("a broker needs Java, and there is no 'java' on the PATH.", "Install Java 17.")
    return found
