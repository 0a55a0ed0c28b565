"""Which sources a backfill of an ingest plan replaces, and by what. Pure.

Each source is replaced by itself, so that each shows as a whole: the messages that its rows were made of stay with it.
What goes over from the dead letters to the stream, or back, goes to a source of its own (see `late_root`), another one
for each backfill. That one only gets messages, so it can be uploaded before any other one loses some; from then on it
is a source like the others. Of several backfills of one source the newest one's rows count.

A backfill does this for every source of the plan, also where nothing comes of it: then an empty block says so. Only so
do all messages lie where the newest backfill has put them, whatever another one uploads that does not see it. See
docs/decisions/016-a-backfill-replaces-every-source.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drystone import ulids
from drystone.block.meta import Replacement
from drystone.errors import HeldError, InputError, UsageError
from drystone.ingest.kafka.plans import Plan as IngestPlan
from drystone.ingest.kafka.plans import Slice
from drystone.ingest.kafka.streams import late_root, late_roots
from drystone.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Root:
    """A source of a plan; `current`: what holds its rows now, `by`: what is to hold them, `retires`: what tells that.

    `late`: the source of what comes over; nothing has it yet, but what this very backfill has uploaded. `there`: a
    block has the source itself. `done`: so it is with `by`.
    """

    source: str
    current: str
    by: str
    retires: tuple[Replacement, ...]
    late: bool
    there: bool
    done: bool

    @property
    def known(self) -> bool:
        """Whether anything tells of the source: one that nobody has seen may be there all the same."""
        return self.there or self.current != self.source


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a stream: `whole`, of complete groups, ready or not; `told`, replacements that these speak of.

    `waiting`: those that are in no ready group yet.
    """

    timeline: Timeline
    whole: frozenset[str]
    told: frozenset[Replacement]
    waiting: frozenset[str]

    @classmethod
    def of(cls, timeline: Timeline) -> Sources:
        """Return those of a timeline."""
        complete = [group for group in timeline.groups.values() if group.complete]
        whole = frozenset[str]().union(*(group.sources for group in complete))
        told = frozenset[Replacement]().union(*(group.retires for group in complete))
        ready = (group.sources for group in complete if group.id not in timeline.pending)
        return cls(timeline, whole, told, whole.difference(*ready))

    def late(self, plan: IngestPlan, stream: str) -> list[str]:
        """Return the sources of the plan that came to the stream by backfills."""
        return late_roots(plan, stream, self.whole | {pair.root for pair in self.told})


def roots_of(
    plan: IngestPlan, slices: Iterable[Slice], stream: str, found: Sources, late: int, named: tuple[str, str]
) -> list[Root]:
    """Return the sources of a plan in a stream, less what was retired, the one of what comes over last.

    `late`: how many sources had come there by backfills when this one was planned. `named`: the id of the backfill's
    plan, by which the newest of several is told, and the action's key; the ids of the new sources follow from both.
    Raises UsageError if another backfill has been at the plan since, HeldError while rows of a source are not ready to
    be read, InputError for a newer source.
    """
    own = [part.source for part in slices if part.stream == stream]
    own += [late_root(plan, stream, number) for number in range(late)]
    fresh = _root(stream, late_root(plan, stream, late), found, named, late=True)
    if any(pair.root == fresh.source and pair.by != fresh.by for pair in found.told):
        raise UsageError(f"another backfill of {plan} was carried out since this one was planned.", "Plan again.")
    gone = found.timeline.gone
    kept = [source for source in own if gone.retired.isdisjoint(gone.family([source]))]
    return [*(_root(stream, source, found, named, late=False) for source in kept), fresh]


def _root(stream: str, source: str, found: Sources, named: tuple[str, str], *, late: bool) -> Root:
    gone = found.timeline.gone
    current = gone.replaced.get(source, source)
    by = ulids.derive_from(named[0], "backfill", named[1], stream, source)
    # Nothing is replaced by what comes over: of that source there are no rows.
    _check_ready(stream, (source,) if late else (source, current), by, found)
    if by < current:
        raise InputError(f"source {current} of stream {stream} is newer than this backfill.", "Plan again.")
    pairs = set(gone.evidence([source]))
    if by != current:
        pairs.add(Replacement(root=current, by=by))
    retires = tuple(sorted(pairs, key=lambda pair: (pair.root, pair.by)))
    return Root(source, current, by, retires, late, source in found.whole, by in found.whole)


def _check_ready(stream: str, sources: tuple[str, ...], by: str, found: Sources) -> None:
    """Make sure that the rows which a source has now can be seen: what nobody sees would be replaced by nothing."""
    coming = {pair.by for pair in found.told if pair.root in sources}
    waiting = ({*sources[1:], *coming} - {by}) & found.waiting
    if waiting:
        msg = f"source {min(waiting)} of stream {stream} is uploaded, and not ready to be read yet."
        raise HeldError(msg, "Try again after sync_delay.")
