"""A bucket that fails as stores do, for a client that may crash or fall asleep at any request.

Every request passes two named points, such as `before create meta` and `after delete block`. At either the client's
program may die; before it the store may refuse (and nothing happens), after it the answer may get lost (and it
happened). A listing may tear, a batch of deletions may stop half-way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from drystone import ulids
from drystone.bucket import Bucket, ObjectInfo
from drystone.errors import BucketError, DrystoneError
from drystone.testing.simulation.choices import Choices
from drystone.testing.simulation.scheduler import DeadProcessError, Scheduler

T = TypeVar("T")
HOUR = 3_600_000
_LATENCIES = (20, 20, 50, 200, 1_000, 5_000)
_ERRORS = (
    "503 SlowDown: please reduce your request rate.",
    "500 InternalError: we encountered an internal error.",
    "the connection timed out.",
)


@dataclass(frozen=True, slots=True)
class Weather:
    """How often things go wrong: once in so many requests; 0: never. `naps`: how long a program may stand still, ms."""

    crash: float = 0
    refuse: float = 0
    lose: float = 0
    tear: float = 0
    sleep: float = 0
    naps: tuple[int, ...] = (10 * 60_000, 30 * 60_000, HOUR // 2 * 3, 4 * HOUR, 26 * HOUR)


CALM = Weather()
STORMY = Weather(crash=250, refuse=80, lose=80, tear=40, sleep=250)


@dataclass
class Surroundings:
    """What all clients share: time, chance, the weather, and the count of what happened."""

    scheduler: Scheduler
    choices: Choices
    weather: Weather
    tally: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)


class FaultyBucket:
    """A client's way to its bucket. See `Bucket`. `faults` counts what the client could not know to be its fault."""

    def __init__(self, inner: Bucket, around: Surroundings, *, sleeps: bool = True) -> None:
        """`sleeps`: the client may fall asleep for hours."""
        self._inner = inner
        self._around = around
        self._sleeps = sleeps
        self.faults = 0

    @property
    def url(self) -> str:
        """See `Bucket.url`."""
        return self._inner.url

    def uri(self, key: str) -> str:
        """See `Bucket.uri`."""
        return self._inner.uri(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """See `Bucket.list`."""
        point = f"list {what(prefix)}"
        self._before(point)
        found = list(self._inner.list(prefix, start_after))
        if self._around.choices.happens(self._around.weather.tear):
            yield from found[: self._around.choices.pick(range(len(found) + 1))]
            self._fail("torn listings", f"the listing of {prefix} broke off.")
        self._after(point, wrote=False)
        yield from found

    def head(self, key: str) -> ObjectInfo:
        """See `Bucket.head`."""
        return self._ask("head", key, lambda: self._inner.head(key))

    def get(self, key: str) -> bytes:
        """See `Bucket.get`."""
        return self._ask("get", key, lambda: self._inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See `Bucket.get_range`."""
        return self._ask("get", key, lambda: self._inner.get_range(key, start, length))

    def put(self, key: str, data: bytes) -> None:
        """See `Bucket.put`."""
        self._ask("put", key, lambda: self._inner.put(key, data), wrote=True)

    def create(self, key: str, data: bytes) -> None:
        """See `Bucket.create`."""
        self._ask("create", key, lambda: self._inner.create(key, data), wrote=True)

    def upload(self, key: str, path: Path) -> None:
        """See `Bucket.upload`."""
        self._ask("create", key, lambda: self._inner.upload(key, path), wrote=True)

    def delete(self, keys: Iterable[str]) -> None:
        """See `Bucket.delete`. One request for all of them."""
        todo = list(keys)
        if not todo:
            return
        point = f"delete {what(todo[0])}"
        self._before(point)
        if len(todo) > 1 and self._around.choices.happens(self._around.weather.tear):
            self._inner.delete(todo[: self._around.choices.pick(range(len(todo)))])
            self._die_perhaps("in the middle of", point)
            self._fail("half deletions", f"some of {len(todo)} objects could not be deleted.")
        self._inner.delete(todo)
        self._after(point, wrote=True)

    def _ask(self, verb: str, key: str, act: Callable[[], T], *, wrote: bool = False) -> T:
        point = f"{verb} {what(key)}"
        self._before(point)
        try:
            answer = act()
        except DrystoneError:
            self._after(point, wrote=False)
            raise
        self._after(point, wrote=wrote)
        return answer

    def _before(self, point: str) -> None:
        around = self._around
        life = around.scheduler.current.life
        # A deletion follows at once what its sender looked at last: the one thing that no store can make sure of.
        may_sleep = self._sleeps and not point.startswith("delete")
        if may_sleep and around.choices.happens(around.weather.sleep):
            life.asleep_until = around.scheduler.now + around.choices.pick(around.weather.naps)
            around.tally["zombies"] += 1
        around.scheduler.pause(around.choices.pick(_LATENCIES))
        self._die_perhaps("before", point)
        if around.choices.happens(around.weather.refuse):
            self._fail("refusals", around.choices.pick(_ERRORS))

    def _after(self, point: str, *, wrote: bool) -> None:
        around = self._around
        self._die_perhaps("after", point)
        if around.choices.happens(around.weather.lose):
            self._fail("lost answers" if wrote else "refusals", "the connection was reset before the answer came.")

    def _die_perhaps(self, when: str, point: str) -> None:
        around = self._around
        around.points[f"{when} {point}"] += 0
        if around.choices.happens(around.weather.crash):
            around.scheduler.current.life.dead = True
            around.tally["crashes"] += 1
            around.points[f"{when} {point}"] += 1
            raise DeadProcessError

    def _fail(self, counted: str, why: str) -> None:
        self.faults += 1
        self._around.tally[counted] += 1
        raise BucketError(why)


def what(key: str) -> str:
    """Return what kind of object has this key, for the names of points."""
    _, _, rest = key.partition("/")
    folder, _, name = rest.partition("/")
    if ulids.is_canonical(folder):
        return name.partition("/")[0].removesuffix(".json") or "block"
    return folder.strip(".").removesuffix(".json") if folder.startswith(".") else "blocks"
