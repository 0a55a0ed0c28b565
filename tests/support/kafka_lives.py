"""Lives of an ingest from Kafka in virtual time: runs that crash, sleep and race, on a bucket that lags and fails.

The driver, its chains and plans are the real ones; Kafka is a model, a task is a few lines, a block is one object that
says which messages it holds. So a life takes milliseconds, and everything that happened can be seen through.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from kafka_model import Message, ModelLog

from drystone import ulids
from drystone.block import edits, keys
from drystone.block.folder import Folder
from drystone.block.record import StreamRecord
from drystone.bucket import Bucket, MemoryBucket
from drystone.config.model import StreamConfig
from drystone.coordination import NoCoordination
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.errors import BucketError, DrystoneError, InvariantError, LostMessagesError
from drystone.ingest.kafka.build import BuiltPlan, BuiltSlice
from drystone.ingest.kafka.chain import create
from drystone.ingest.kafka.log import Partition
from drystone.ingest.kafka.plans import Done, Plan, Slice, Slices
from drystone.jobs import UploadRequest
from drystone.testing.folders import folder_of
from drystone.testing.simulation.choices import Choices
from drystone.testing.simulation.faulty import CALM, FaultyBucket, Surroundings, Weather
from drystone.testing.simulation.lagging import Lag, LaggingBucket
from drystone.testing.simulation.scheduler import Life, Scheduler
from drystone.timeline.blocks import Block
from drystone.tracker import Tracker
from drystone.verbs.kafka import DeadStream, KafkaUpload

BEGIN = 1_700_000_000_000
MINUTE = 60_000
MAIN, DEAD = "flights", "dead"
TOPIC = "flights.a"
_KAFKA = {"kind": "kafka", "bootstrap_servers": "model", "topics": r"flights\..*", "group": "partition"}
_CONFIG: dict[str, Any] = {
    "labels": {"a": "b"},
    "time_column": "time",
    "sort_key": ["time"],
    "schema": {"time": "timestamp"},
}
WEATHERS = (
    CALM,
    Weather(crash=40),
    Weather(sleep=30, naps=(10 * MINUTE, 20 * MINUTE, 40 * MINUTE)),
    Weather(crash=60, sleep=40, lose=40, refuse=40, naps=(10 * MINUTE, 30 * MINUTE)),
    Weather(lose=15),
)


class LivesError(AssertionError):
    """Something that must hold does not: messages are lost or doubled, or ingest does not go on by itself."""


def configs(start: str = "earliest") -> tuple[StreamConfig, StreamConfig]:
    """Return the configuration of the stream and of its dead letters."""
    ingest = {**_KAFKA, "dead_letters": DEAD, "parser": {"format": "json"}, "max_bytes": "700B", "start": start}
    main = StreamConfig.model_validate({**_CONFIG, "ingest": ingest})
    dead = StreamConfig.model_validate({"labels": {"a": "b"}, "ingest": {"kind": "dead_letters"}})
    return main, dead


@dataclass(frozen=True)
class ModelTracker:
    """Knows blocks by listing, as a client sees it."""

    bucket: Bucket
    stream: str

    def observe(self, now: int) -> Any:
        """Return something with folders."""
        del now
        found = {}
        for item in self.bucket.list(f"{self.stream}/{keys.FIRST_BLOCK}"):
            block = json.loads(self.bucket.get(item.key))
            facts = Block(block["ulid"], 0, 1, frozenset({block["source"]}), touched=0, group=block["ulid"])
            found[block["ulid"]] = folder_of(facts)
        return cast("Any", _Seen(found))


@dataclass(frozen=True)
class _Seen:
    folders: dict[str, Folder]


def parse(digest: str, message: Message) -> tuple[str, int]:
    """Return which stream and chunk a message goes to; another parser sends it to another place."""
    _, _, offset = message
    number = int(digest[1:])
    return (DEAD, 0) if number and offset % (5 + number) == 0 else (MAIN, offset % (1 + number))


@dataclass
class Task:
    """What builds a plan, for one client."""

    bucket: Bucket
    log: ModelLog
    clock: Callable[[], int]

    def build(self, plan: Plan, present: frozenset[str]) -> BuiltPlan | None:
        """Read all, settle the slices, upload what is not there: as the real builder does."""
        messages = self.log.read(Partition(plan.topic, plan.partition), plan.start, plan.end)
        self.confirm(plan)
        if not messages:
            return None
        contents: dict[tuple[str, int], list[Message]] = {}
        for message in messages:
            contents.setdefault(parse(plan.parser, message), []).append(message)
        slices = {place: _slice(plan, place, content) for place, content in sorted(contents.items())}
        bad = len(contents.get((DEAD, 0), ()))
        mine = Slices(attempt=plan.attempt, slices=tuple(slices.values()), messages=len(messages), bad=bad)
        if create(self.bucket, plan.slices_key, mine) != mine:
            raise InvariantError(f"plan {plan} came to other slices before.")
        built = [self._upload(each, contents[place], present) for place, each in slices.items()]
        where = {"topic": plan.topic, "partition": plan.partition, "start": plan.start, "attempt": plan.attempt}
        return BuiltPlan(**where, messages=len(messages), bad=bad, slices=built)

    def confirm(self, plan: Plan) -> None:
        """Make sure that it was the plan's topic that was read, and not one that was made in its place."""
        if self.log.ids[plan.topic] != plan.topic_id:
            raise BucketError(f"{plan.topic} was made again.")

    def _upload(self, each: Slice, content: list[Message], present: frozenset[str]) -> BuiltSlice:
        ulid = ""
        if each.source not in present:
            ulid = ulids.new(self.clock(), os.urandom)
            raw = json.dumps({"ulid": ulid, "source": each.source, "messages": content}).encode()
            self.bucket.create(keys.block(each.stream, ulid, "meta.json"), raw)
        return BuiltSlice(stream=each.stream, source=each.source, ulid=ulid, rows=each.rows)


def _slice(plan: Plan, place: tuple[str, int], content: list[Message]) -> Slice:
    stream, chunk = place
    offsets = [offset for _, _, offset in content]
    return Slice(
        stream=stream,
        chunk_start=chunk,
        granularity="day",
        source=plan.source(stream, "day", chunk, ""),
        rows=len(content),
        first_offset=offsets[0],
        last_offset=offsets[-1],
    )


@dataclass
class World:
    """What all runs of one life share."""

    choices: Choices
    weather: Weather = CALM
    max_lag: int = 0
    start: str = "earliest"
    retention: bool = False
    tally: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Begin with an empty stream and one topic."""
        self.scheduler = Scheduler(BEGIN)
        self.around = Surroundings(self.scheduler, self.choices, self.weather, self.tally)
        self.truth = MemoryBucket(f"kafka-lives-{os.getpid()}", lambda: self.scheduler.now)
        self.truth.delete([item.key for item in self.truth.list("")])
        self.lag = Lag(self.choices.seed, lambda: self.scheduler.now, self.max_lag, lambda _: None)
        self.log = ModelLog(lambda: self.scheduler.now, self._pause)
        self.log.create(TOPIC, 2)
        self.parser = "p0"
        self.clients = 0

    def _pause(self) -> None:
        self.scheduler.pause(self.choices.pick((5, 50, 1000)))

    def upload(self, name: str, *, force: bool = True, accept_gap: bool = False) -> KafkaUpload:
        """Return a run that goes its own way to the bucket, as configured at this moment."""
        self.clients += 1
        bucket = FaultyBucket(LaggingBucket(self.truth, self.lag, f"{name}/{self.clients}"), self.around)
        return make_upload(
            bucket, self.log, lambda: self.scheduler.now, self.parser, self._run_plans, name, self.start,
            UploadRequest(force=force, accept_gap=accept_gap),
        )  # fmt: skip

    def _run_plans(self, bucket: Bucket, plans: Sequence[Plan], present: frozenset[str]) -> Sequence[BuiltPlan]:
        task = Task(bucket, self.log, lambda: self.scheduler.now)
        found = []
        for plan in plans:
            if self.weather is not CALM and self.choices.happens(8):
                self.tally["tasks that ran twice"] += 1
                self.scheduler.start("twin", lambda plan=plan: self._twin(task, plan, present), Life())
            found.append(task.build(plan, present))
        return [each for each in found if each is not None]

    def _twin(self, task: Task, plan: Plan, present: frozenset[str]) -> None:
        """The same task once more, on a machine that may stand still for long; what it answers reaches nobody."""
        try:
            self.scheduler.pause(self.choices.pick((0, 1000, MINUTE, 30 * MINUTE)))
            task.build(plan, present)
        except (DrystoneError, KeyError):
            self.tally["twins that failed"] += 1

    def run(self, name: str, **asked: bool) -> Outcome | None:
        """Do a run now, None if it failed."""
        try:
            outcome = self.upload(name, **asked).run()
        except DrystoneError:
            self.tally["runs that failed"] += 1
            return None
        if outcome.verdict is not None:
            self.tally[type(outcome.verdict).__name__] += 1
        return outcome


def make_upload(
    bucket: Bucket,
    log: ModelLog,
    clock: Callable[[], int],
    parser: str,
    run_plans: Callable[[Bucket, Sequence[Plan], frozenset[str]], Sequence[BuiltPlan]],
    name: str,
    start: str,
    request: UploadRequest,
) -> KafkaUpload:
    """Return a run of the driver over models of all else."""
    main, dead = configs(start)
    job = Job(
        stream=MAIN,
        config=main,
        run=name,
        dry_run=False,
        bucket=bucket,
        record=cast("StreamRecord", None),
        tracker=cast("Tracker", ModelTracker(bucket, MAIN)),
        coordination=NoCoordination(),
        workers=cast("Any", None),
        clock=clock,
        pacer=cast("Any", None),
    )
    trackers = DeadStream(DEAD, dead, cast("Tracker", ModelTracker(bucket, DEAD)))
    return KafkaUpload(job, request, log, parser, trackers, lambda plans, present: run_plans(bucket, plans, present))


def live(seed: int, **settings: Any) -> World:
    """Live a life of some hours from a seed, bring it to rest, and check it; raise LivesError if something is wrong."""
    choices = Choices(seed)
    weather = choices.pick(WEATHERS)
    max_lag = choices.pick((0, 5_000, MINUTE))
    start = choices.pick(("earliest", "latest"))
    world = World(choices, **({"weather": weather, "max_lag": max_lag, "start": start} | settings))
    world.log.produce(TOPIC, 0, 3, gap=1)
    for number in range(choices.pick((3, 5, 8))):
        wait = number * 7 * MINUTE + choices.pick((0, 100, 2000, 3 * MINUTE))
        world.scheduler.start(f"run-{number}", lambda number=number: _run(world, number), wait=wait)
    world.scheduler.start("people", lambda: _people(world))
    try:
        world.scheduler.run()
        _rest(world)
        world.scheduler.run()
    finally:
        world.scheduler.close()
    check(world.truth, world.log, before=_before(world))
    return world


def _run(world: World, number: int) -> None:
    world.run(f"run-{number}", force=world.choices.pick((True, True, False)))


def _people(world: World) -> None:
    """Produce, and do to the topic and the stream what people do."""
    for _ in range(world.choices.pick((6, 12, 20))):
        world.scheduler.pause(world.choices.pick((200, 5_000, MINUTE, 4 * MINUTE)))
        number = world.choices.pick(range(len(world.log.kept[world.log.ids[TOPIC]])))
        what = world.choices.pick(
            ("produce", "produce", "produce", "produce", "parser", "partition", "again", "delete")
        )
        world.tally[what] += 1
        if what == "produce":
            world.log.produce(TOPIC, number, world.choices.pick((1, 4, 12)), gap=world.choices.pick((0, 1, 5)))
        elif what == "parser":
            world.parser = f"p{1 - int(world.parser[1:])}"
        elif what == "partition":
            world.log.add_partition(TOPIC)
        elif what == "again" and world.retention:
            world.log.create(TOPIC, 2)
        elif what == "delete" and world.retention:
            partition = world.log.kept[world.log.ids[TOPIC]][number]
            world.log.delete_before(TOPIC, number, max(partition.first, partition.end - world.choices.pick((0, 3, 9))))


def _rest(world: World) -> None:
    """Let all be seen by everybody, then let one run finish everything: with a person only if Kafka lost messages."""
    world.around.weather = CALM
    world.scheduler.start("rest", lambda: _finish(world), wait=48 * 60 * MINUTE)


def _finish(world: World) -> None:
    outcome = world.run("last")
    if outcome is not None and isinstance(outcome.verdict, LostMessagesError) and world.retention:
        outcome = world.run("accepting", accept_gap=True)
    if outcome is None or outcome.verdict is not None:
        msg = f"ingest does not go on: {outcome and outcome.verdict}"
        raise LivesError(msg)


def _before(world: World) -> dict[tuple[str, int], int]:
    """Return where the chains begin: what lies before is not asked for (`start: latest`)."""
    found = {}
    for item in world.truth.list(f"{MAIN}/.ingest/"):
        if item.key.endswith("/root.json"):
            root = json.loads(world.truth.get(item.key))
            found |= {(root["topic_id"], int(number)): start for number, start in root["starts"].items()}
    return found


def check(bucket: Bucket, log: ModelLog, before: dict[tuple[str, int], int]) -> None:
    """Raise LivesError unless each committed message is in exactly one live source, or its loss is recorded.

    And unless it is known of every plan what became of it.
    """
    found = {item.key for item in bucket.list(f"{MAIN}/.ingest/")}
    plans = {key.removesuffix(".json") for key in found if re.search(r"/\d{20}(\.\d+)?\.json$", key)}
    if left := sorted(key for key in plans if f"{key}.done" not in found):
        msg = f"left unfinished: {left}"
        raise LivesError(msg)
    retired = _retired(bucket)
    sources: dict[str, frozenset[Message]] = {}
    for stream in (MAIN, DEAD):
        for item in bucket.list(f"{stream}/{keys.FIRST_BLOCK}"):
            block = json.loads(bucket.get(item.key))
            content = frozenset((topic, number, offset) for topic, number, offset in block["messages"])
            if sources.setdefault(block["source"], content) != content:
                msg = f"two blocks of source {block['source']} differ"
                raise LivesError(msg)
    held = Counter(message for source, content in sources.items() if source not in retired for message in content)
    if doubled := sorted(message for message, times in held.items() if times > 1):
        msg = f"doubled: {doubled}"
        raise LivesError(msg)
    asked = {each for each in log.produced if each[2] >= before.get(each[:2], 0)}
    if invented := held.keys() - asked:
        msg = f"never committed, or not asked for: {sorted(invented)}"
        raise LivesError(msg)
    excused = log.deleted & (_gaps(bucket) | {each for each in log.deleted if each[0] not in log.ids.values()})
    if lost := sorted(asked - held.keys() - excused):
        msg = f"lost: {lost}"
        raise LivesError(msg)


def _retired(bucket: Bucket) -> frozenset[str]:
    found: set[str] = set()
    for stream in (MAIN, DEAD):
        for item in bucket.list(keys.edits(stream)):
            edit = edits.parse(bucket.get(item.key), item.key)
            found.update(getattr(edit, "sources", ()))
    return frozenset(found)


def _gaps(bucket: Bucket) -> set[Message]:
    """Return every message whose loss was accepted and recorded."""
    found: set[Message] = set()
    for plan, done in finished(bucket):
        if plan.gap and done.outcome == "committed":
            found |= {(plan.topic_id, plan.partition, offset) for offset in range(plan.start, plan.end)}
    return found


def finished(bucket: Bucket) -> Iterator[tuple[Plan, Done]]:
    """Yield every plan of which it is decided what became of it."""
    for item in bucket.list(f"{MAIN}/.ingest/"):
        if item.key.endswith(".done"):
            plan = Plan.model_validate_json(bucket.get(f"{item.key.removesuffix('.done')}.json"))
            yield plan, Done.model_validate_json(bucket.get(item.key))
