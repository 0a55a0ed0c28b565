"""What may happen to a stream, at random: whatever writers and operators do, in any order.

First-generation blocks, doubled uploads of one source, compactions of any groups at any time by runs that looked at the
stream long ago, twins, members that never came, groups of several blocks, partial overlaps, replacements (several of
one root, and of each other), edits of all three kinds, fresh blocks among ready ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from drystone.block.edits import Erase, Expire, Retire
from drystone.block.predicates import Comparison
from drystone.testing.history import BEGIN, DAY, KINDS, History
from drystone.testing.writers import FIVE_MINUTES, Output, compact, plan_source, replace_source, upload

_HOUR = 3_600_000
_Action = Callable[[Random, History], None]


def random_history(dice: Random, actions: Sequence[str] = (), most: int = 12) -> History:
    """Return a history of one to five uploads and at most `most` actions, seen at its `now`; the same for equal dice.

    `actions`: what may happen, by its name in `ACTIONS`; by default a mixture of all.
    """
    history = History()
    for _ in range(dice.randint(1, 5)):
        upload(history, plan_source(history, *_range(dice)))
    for _ in range(dice.randint(0, most)):
        # Time goes by: only what was ready for somebody can be compacted or replaced.
        history.now += dice.choice([1_000, history.times.sync_delay, 60_000, history.times.group_timeout])
        ACTIONS[dice.choice(actions or USUAL)](dice, history)
    history.now += dice.choice([0, history.times.sync_delay, history.times.group_timeout])
    return history


def _upload(dice: Random, history: History) -> None:
    generation = 1 if dice.randint(0, 7) == 1 else 0
    source = plan_source(history, *_range(dice), generation)
    upload(history, source, output=_output(dice, 1))


def _upload_again(dice: Random, history: History) -> None:
    """A retry, or a zombie's late upload; its time range may be wider than that of the first."""
    replacing = {pair.by for block in history.blocks for pair in block.retires}
    source = dice.choice([source for source in history.ranges if source not in replacing])
    upload(history, source, wider=dice.choice([0, 0, _HOUR]), output=_output(dice, 1))


def _compact(dice: Random, history: History) -> None:
    known_at = _some_time_ago(dice, history)
    ready = history.ready_at(known_at)
    if ready:
        first = dice.choice(sorted(ready))
        realm = _realm(history, first)
        kin = [name for name in sorted(ready) if _realm(history, name) == realm]
        inputs = {first, *(dice.choice(kin) for _ in range(dice.randint(0, 3)))}
        output, rewrite = _output(dice, 3), dice.randint(0, 1)
        compact(history, inputs, known_at, output=output, rewrite=rewrite, resolution=realm[1])


def _downsample(dice: Random, history: History) -> None:
    if any(isinstance(edit, Expire) and edit.resolution == 0 for edit in history.edits):
        return  # Raw rows are kept until they are downsampled: what has expired would be missing there.
    known_at = _some_time_ago(dice, history)
    raw = [name for name in sorted(history.ready_at(known_at)) if _realm(history, name) == (0, 0)]
    if raw:
        inputs = {dice.choice(raw) for _ in range(3)}
        compact(history, inputs, known_at, output=_output(dice, 2), resolution=FIVE_MINUTES)


def _replace(dice: Random, history: History) -> None:
    known_at = _some_time_ago(dice, history)
    held = {source for blocks in history.ready_at(known_at).values() for source in blocks[0].sources}
    if held:
        replace_source(history, dice.choice(sorted(held)), known_at, *_range(dice), _output(dice, 2))


def _retire(dice: Random, history: History) -> None:
    source = dice.choice(sorted(history.ranges))
    history.edits.append(
        Retire(id=history.new_ulid(history.now), reason="", author="", time=history.now, sources=(source,))
    )


def _erase(dice: Random, history: History) -> None:
    predicate = Comparison(column="kind", op="=", value=dice.choice(KINDS))
    history.edits.append(
        Erase(id=history.new_ulid(history.now), reason="", author="", time=history.now, predicate=predicate)
    )


def _expire(dice: Random, history: History) -> None:
    before, name = BEGIN + dice.choice([0, 2, 4, 12]) * _HOUR, history.new_ulid(history.now)
    resolution = dice.choice([None, None, 0, FIVE_MINUTES])
    edit = Expire(id=name, reason="", author="", time=history.now, before=before, resolution=resolution)
    history.edits.append(edit)


ACTIONS: dict[str, _Action] = {
    "compact": _compact,
    "replace": _replace,
    "upload": _upload,
    "upload again": _upload_again,
    "retire": _retire,
    "erase": _erase,
    "expire": _expire,
    "downsample": _downsample,
}
"""All that may happen to a stream."""
USUAL = (*["compact"] * 5, "replace", *ACTIONS)
"""A mixture in which most of the interesting things happen."""


def _some_time_ago(dice: Random, history: History) -> int:
    """Return when a run looked at the stream that acts only now."""
    return history.now - dice.choice([0, history.times.sync_delay, history.times.group_timeout, 2 * DAY])


def _range(dice: Random) -> tuple[int, int]:
    """Return the time range of a source: some hours within one day of two."""
    low = dice.randint(0, 20)
    day = BEGIN + dice.randint(0, 1) * DAY
    return day + low * _HOUR, day + dice.randint(low + 1, 24) * _HOUR


def _output(dice: Random, max_size: int) -> Output:
    """Return how an upload goes: mostly well."""
    size = dice.randint(1, max_size)
    nothing, one = frozenset[int](), frozenset({dice.randint(0, size - 1)})
    event = dice.choice(["", "", "", "", "twin", "late twin", "again", "lost", "broken"])
    return Output(
        size=size,
        twins=one if event in {"twin", "late twin", "again"} else nothing,
        lost=one if event == "lost" and size > 1 else nothing,
        broken=one if event in {"again", "broken"} else nothing,
        lag=2 * _HOUR if event == "late twin" else 0,
        ignore_delay=dice.randint(0, 7) == 1,
    )


def _realm(history: History, group: str) -> tuple[int, int]:
    block = next(block for block in history.blocks if block.group == group)
    return block.generation, block.resolution
