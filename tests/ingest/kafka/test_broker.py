"""What a run asks of a Kafka cluster, asked of a real one: offsets with gaps, samples, the group, errors."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from drystone.config.ingest import KafkaIngest
from drystone.errors import DrystoneError, KafkaAccessError, KafkaError, UsageError
from drystone.ingest.kafka.broker import Broker
from drystone.ingest.kafka.log import Offsets, Partition, Sample
from drystone.ingest.kafka.sampling import MESSAGES
from drystone.ingest.kafka.settings import filled
from drystone.testing.kafka import KafkaBroker, send
from drystone.testing.kafka_node import USER
from drystone.testing.processes import free_port

pytestmark = pytest.mark.kafka


@pytest.fixture
def prefix(kafka: KafkaBroker) -> Iterator[str]:
    """What the names of a test's topics begin with; they are deleted at its end."""
    name = f"broker-{uuid.uuid4().hex[:8]}."
    yield name
    for topic in [each for each in kafka.admin().list_topics(timeout=20).topics if each.startswith(name)]:
        kafka.delete_topic(topic)


def broker(servers: str, timeout: float = 20, **client: str) -> Broker:
    """A connection for the group `testing`; `client`: its settings, with `_` for `.`."""
    settings = {name.replace("_", "."): value for name, value in client.items()}
    config = KafkaIngest(kind="kafka", group="backup", bootstrap_servers=servers, topics=".*", client=settings)
    return Broker(config, "testing", timeout)


def transaction(producer: Producer, topic: str, count: int, *, good: bool, size: int = 10) -> None:
    """Send messages to partition 0 in a transaction, and commit or abort it."""
    producer.begin_transaction()
    send(producer, topic, [{"value": b"x" * size, "partition": 0, "timestamp": 1_000_000 + i} for i in range(count)])
    producer.commit_transaction() if good else producer.abort_transaction()


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it holds within twenty seconds."""
    deadline = time.monotonic() + 20
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


def test_topics_are_found_by_their_whole_name(kafka: KafkaBroker, prefix: str) -> None:
    """With partitions and UUID; Kafka's own topics are never among them; one that is made again has another UUID."""
    kafka.create_topic(f"{prefix}one", 2)
    kafka.create_topic(f"{prefix}one.more", 1)
    kafka.producer("makes-an-internal-topic")
    with broker(kafka.bootstrap_servers) as found:
        assert [each.name for each in found.topics(f"{prefix}one")] == [f"{prefix}one"]
        both = found.topics(f"{prefix}.*")
        assert [(each.name, each.partitions) for each in both] == [
            (f"{prefix}one", (0, 1)),
            (f"{prefix}one.more", (0,)),
        ]
        # 16 bytes in the alphabet of addresses and keys of objects.
        assert all(len(each.id) == 22 and each.id.replace("-", "").replace("_", "").isalnum() for each in both)
        assert not [each.name for each in found.topics(".*") if each.name.startswith("__")]
        kafka.add_partitions(f"{prefix}one", 3)
        assert found.topics(f"{prefix}one")[0].partitions == (0, 1, 2)
        kafka.delete_topic(f"{prefix}one")
        kafka.create_topic(f"{prefix}one", 1)
        again = found.topics(f"{prefix}one")[0]
        assert again.id != both[0].id
        assert again.partitions == (0,)


def test_ids_are_those_that_kafka_shows(kafka: KafkaBroker, prefix: str) -> None:
    """The UUID, put together again from its text, is the one that Kafka has; with many, some have `-` and `_`."""
    for number in range(20):
        kafka.create_topic(f"{prefix}{number}", 1)
    folders = {path.name: path for path in (kafka.folder / "data").iterdir()}
    with broker(kafka.bootstrap_servers) as found:
        topics = found.topics(f"{prefix}.*")
    shown = {
        each.name: (folders[f"{each.name}-0"] / "partition.metadata").read_text().split("topic_id: ")[1].strip()
        for each in topics
    }
    assert {each.name: each.id for each in topics} == shown
    assert any("-" in each.id or "_" in each.id for each in topics)


def test_offsets_of_committed_messages_have_gaps_and_an_end(kafka: KafkaBroker, prefix: str) -> None:
    """Committed, aborted, committed, committed: the end is behind the last marker; an open transaction is not in it."""
    topic, part = f"{prefix}gaps", Partition(f"{prefix}gaps", 0)
    kafka.create_topic(topic, 2)
    producer = kafka.producer(topic)
    for good in (True, False, True, True):
        transaction(producer, topic, 3, good=good)
    with broker(kafka.bootstrap_servers) as found:
        assert found.offsets([part, Partition(topic, 1)]) == {part: Offsets(0, 16), Partition(topic, 1): Offsets(0, 0)}
        # Nine messages of ten bytes at offsets 0 to 14.
        assert found.samples({part: Offsets(0, 16)})[part] == Sample(9, 90 / 15, 1_000_000)
        producer.begin_transaction()
        send(producer, topic, [{"value": b"open", "partition": 0}])
        assert found.offsets([part])[part] == Offsets(0, 16)
        producer.abort_transaction()
        # The broker writes the marker after it has answered.
        assert eventually(lambda: found.offsets([part])[part] == Offsets(0, 18))
        # What is left is aborted, and of a range that ends before it the rest does not count.
        assert found.samples({part: Offsets(16, 18)})[part] == Sample()
        assert found.samples({part: Offsets(1, 9)})[part] == Sample(3, 30 / 8, 1_000_000)
        kafka.delete_records(topic, 0, 9)
        assert found.offsets([part])[part] == Offsets(9, 18)


def test_a_sample_is_bounded_and_counts_all_of_a_message(kafka: KafkaBroker, prefix: str) -> None:
    """Keys, values and headers; nulls have no size; the oldest is not the first; all partitions at once."""
    topic = f"{prefix}sample"
    kafka.create_topic(topic, 3)
    first = {"key": b"kk", "value": b"v" * 5, "headers": [("h", b"12"), ("n", None)], "timestamp": 9_000}
    some = [first, {"value": None, "timestamp": 8_000}, {"value": b"later", "timestamp": 7_000}]
    send(kafka.producer(), topic, [{**each, "partition": 0} for each in some])
    send(kafka.producer(), topic, [{"value": b"y" * 1000, "partition": 1}] * 1000)
    with broker(kafka.bootstrap_servers) as found:
        zero, one, two = (Partition(topic, number) for number in range(3))
        samples = found.samples({zero: Offsets(0, 2), one: Offsets(500, 1000), two: Offsets(0, 0)})
        assert samples[zero] == Sample(2, (2 + 5 + 1 + 2 + 1) / 2, 8_000)
        assert (samples[one].messages, samples[one].mean_bytes) == (MESSAGES, 1000)
        assert samples[two] == Sample()


def test_a_message_larger_than_a_fetch_is_seen(kafka: KafkaBroker, prefix: str) -> None:
    """A sample asks for little at a time, and still gets a message of 900 kB."""
    kafka.create_topic(f"{prefix}big", 1)
    send(kafka.producer(), f"{prefix}big", [{"value": b"z" * 900_000}])
    with broker(kafka.bootstrap_servers) as found:
        part = Partition(f"{prefix}big", 0)
        assert found.samples({part: Offsets(0, 1)})[part].mean_bytes == 900_000


def test_the_groups_offsets_are_moved_and_read(kafka: KafkaBroker, prefix: str) -> None:
    """Forward and back: they are for others' sight, and nothing rests on them."""
    kafka.create_topic(f"{prefix}group", 3)
    parts = [Partition(f"{prefix}group", number) for number in range(3)]
    with broker(kafka.bootstrap_servers) as found:
        assert found.committed(parts) == {}
        found.commit({parts[0]: 7, parts[2]: 3})
        assert found.committed(parts) == {parts[0]: 7, parts[2]: 3}
        found.commit({parts[0]: 5})
        assert found.committed(parts[:2]) == {parts[0]: 5}
        found.commit({})


def test_a_broker_that_is_not_there(kafka: KafkaBroker) -> None:
    """One line says which, what was asked, and why; another attempt may help."""
    nobody = f"127.0.0.1:{free_port()}"
    with broker(nobody, timeout=2) as found:
        for asked in (lambda: found.topics(".*"), lambda: found.offsets([Partition("a", 0)])):
            with pytest.raises(KafkaError, match=rf"{nobody} does not answer when asked to .*refused") as raised:
                asked()
            assert raised.value.retryable
            assert "\n" not in str(raised.value)
        with pytest.raises(KafkaError, match="does not answer when asked to read messages"):
            found.samples({Partition("a", 0): Offsets(0, 1)})


def test_no_topic_matches(kafka: KafkaBroker, prefix: str) -> None:
    """The message has the pattern; a part of a name is not enough; an internal topic is none."""
    kafka.create_topic(f"{prefix}there", 1)
    with broker(kafka.bootstrap_servers) as found:
        for pattern in (f"{prefix}ther", "__.*"):
            with pytest.raises(UsageError, match=r"no topic of .* matches") as raised:
                found.topics(pattern)
            assert repr(pattern) in str(raised.value)


def test_a_topic_that_was_deleted_meanwhile(kafka: KafkaBroker, prefix: str) -> None:
    """Offsets and samples of a topic that is gone say so, and the next run may find another."""
    kafka.create_topic(f"{prefix}gone", 1)
    part = Partition(f"{prefix}gone", 0)
    with broker(kafka.bootstrap_servers) as found:
        assert found.offsets([part])
        kafka.delete_topic(part.topic)
        with pytest.raises(KafkaError, match="deleted meanwhile") as raised:
            found.offsets([part])
        assert raised.value.retryable
        with pytest.raises(KafkaError, match="deleted meanwhile"):
            found.samples({part: Offsets(0, 1)})
        with pytest.raises(KafkaError, match="deleted meanwhile"):
            found.commit({part: 1})


def test_rights_are_needed_and_secrets_come_from_the_environment(
    kafka: KafkaBroker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user without rights sees no topic; with some it sees them, and is refused what else it asks."""
    topic = f"{prefix}secret"
    kafka.create_topic(topic, 1)
    login = {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
        "sasl_username": USER, "sasl_password": "${TESTS_KAFKA_PASSWORD}",
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"ingest.client.sasl.password takes \${TESTS_KAFKA_PASSWORD}"):
        broker(kafka.secured_servers, **login)
    monkeypatch.setenv("TESTS_KAFKA_PASSWORD", "wrong")
    with (
        broker(kafka.secured_servers, timeout=3, **login) as found,
        pytest.raises(KafkaAccessError, match=r"does not let us in: .*Authentication failed") as raised,
    ):
        found.topics(".*")
    assert not raised.value.retryable
    assert "wrong" not in str(raised.value)
    monkeypatch.setenv("TESTS_KAFKA_PASSWORD", kafka.password)
    with broker(kafka.secured_servers, **login) as found:
        with pytest.raises(UsageError, match=r"no topic .* of 0 that its client may see"):
            found.topics(f"{prefix}.*")
        right = AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.DESCRIBE,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        admin = kafka.admin()
        admin.create_acls([right])[right].result(20)
        part = Partition(topic, 0)
        assert [each.name for each in found.topics(f"{prefix}.*")] == [topic]
        send(kafka.producer(), topic, [{"value": b"x"}])
        assert found.offsets([part]) == {part: Offsets(0, 1)}
        with pytest.raises(KafkaAccessError, match=r"refuses to read messages: .*[Aa]uthorization failed"):
            found.samples({part: Offsets(0, 1)})
        with pytest.raises(KafkaAccessError, match="refuses to move the offsets of group testing"):
            found.commit({part: 1})


def test_settings_that_no_client_has(kafka: KafkaBroker) -> None:
    """A wrong name is told at once; what must hold for every client cannot be set otherwise."""
    with pytest.raises(UsageError, match=r'ingest.client: No such configuration property: "no.such"'):
        broker(kafka.bootstrap_servers, no_such="1")
    with broker(kafka.bootstrap_servers, bootstrap_servers="127.0.0.1:1") as found:
        assert found.servers == kafka.bootstrap_servers
        assert found.committed([]) == {}


def test_values_are_filled_in_once() -> None:
    """A variable's own text is taken as it is; several fit into one value; names alone are in the error."""
    environment = {"A": "1", "B": "${A}"}
    assert filled({"x": "${A}-${B}", "y": "$A {A}"}, "ingest.spark", environment) == {"x": "1-${A}", "y": "$A {A}"}
    with pytest.raises(DrystoneError, match=r"ingest.spark.x takes \${C} from the environment") as raised:
        filled({"x": "secret-${C}"}, "ingest.spark", environment)
    assert "secret" not in str(raised.value)
