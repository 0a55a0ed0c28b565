"""What was last seen of each stream, kept for a while: a page asks often, and looking costs a listing.

A tracker stays with its stream, so that looking again reads only what is new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.load import Loaded
from drystone.config.model import StreamConfig
from drystone.errors import BucketAccessError
from drystone.reader.view import View, look
from drystone.tracker import ListingTracker

KEPT_MS = 15_000
"""For how long a look is shown again to whoever does not ask for a new one."""
_AT_MOST_EVERY_MS = 1_000
_STREAMS = 16
"""How many streams are remembered: those that were asked for last."""


@dataclass(frozen=True, slots=True)
class Look:
    """A stream as it was seen, and what its configuration asks for. `batches`: of a compaction."""

    config: StreamConfig
    batches: int
    view: View


@dataclass
class _Place:
    """A stream of a bucket. Whoever looks has the lock: those who come meanwhile get what was seen."""

    lock: Lock = field(default_factory=Lock)
    tracker: ListingTracker | None = None
    view: View | None = None


class Shelf:
    """Keeps looks. Safe to use from several threads."""

    def __init__(self, load: Callable[[], Loaded], enter: Callable[[Loaded, str], Bucket], clock: Clock) -> None:
        """`load`: returns the configuration as it is now. `enter`: opens the bucket of a stream."""
        self._load = load
        self._enter = enter
        self._clock = clock
        self._places: OrderedDict[tuple[str, str], _Place] = OrderedDict()
        self._lock = Lock()

    def loaded(self) -> Loaded:
        """Return the configuration as it is now; raise ConfigError."""
        return self._load()

    def look(self, stream: str, *, anew: bool = False) -> Look:
        """Return the stream as it was seen at most `KEPT_MS` ago, or, where that is asked for, now.

        Raises UsageError if there is no such stream, in the configuration or in the bucket, and what `look` raises.
        """
        loaded = self._load()
        config = loaded.stream(stream)
        place = self._place(stream, loaded.bucket_url(stream))
        with place.lock:
            oldest = self._clock() - (_AT_MOST_EVERY_MS if anew else KEPT_MS)
            view = place.view
            if view is None or view.snapshot.taken_at <= oldest:
                view = place.view = self._observe(loaded, stream, place)
        return Look(config, loaded.config.spark.max_parallel_jobs, view)

    def _place(self, stream: str, url: str) -> _Place:
        with self._lock:
            place = self._places.setdefault((stream, url), _Place())
            self._places.move_to_end((stream, url))
            if len(self._places) > _STREAMS:
                self._places.popitem(last=False)
        return place

    def _observe(self, loaded: Loaded, stream: str, place: _Place) -> View:
        if place.tracker is not None:
            try:
                return look(place.tracker.bucket, stream, self._clock, place.tracker)
            except BucketAccessError:
                # A role's credentials last an hour: the next ones are asked for, and what was read is not read again.
                place.tracker.bucket = self._enter(loaded, stream)
        else:
            place.tracker = ListingTracker(self._enter(loaded, stream), stream)
        return look(place.tracker.bucket, stream, self._clock, place.tracker)
