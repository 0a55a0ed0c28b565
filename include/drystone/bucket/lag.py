"""How late a second client sees what the first one did: the probe's measurement of an eventually consistent store."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from drystone.bucket.bench import Bench, Found
from drystone.bucket.probed import needed_lag
from drystone.config.durations import format_duration
from drystone.errors import ObjectMissingError

OBJECTS = 12
"""How many objects are written, replaced and deleted."""
_POLL = 0.05
_STEPS: tuple[tuple[str, bytes | None], ...] = (("written", b"1"), ("replaced", b"22"), ("deleted", None))
"""What is done to each object, and what there is to see of it afterwards."""


def lag(bench: Bench) -> Found:
    """How late a new, a replaced and a deleted object is seen, by reading it and in a listing."""
    names = [f"lag/{number:02}" for number in range(OBJECTS)]
    late: dict[str, int] = {}
    for what, content in _STEPS:
        for how, ms in _watch(bench, names, content).items():
            if ms is None:
                bench.seen_lag = bench.window
                window = format_duration(bench.window)
                return Found("fails", f"an object that was {what} was not {how} as it is within {window}")
            late[f"{what} and {how}"] = ms
    bench.seen_lag = worst = max(late.values())
    if not worst:
        return Found("ok", f"{OBJECTS} objects written, replaced and deleted: seen at once, by reading and by listing")
    shown = ", ".join(f"{what} {ms:,} ms" for what, ms in late.items() if ms)
    advice = f"Drystone goes on if times.max_lag of the streams is {format_duration(needed_lag(worst))} at least."
    return Found("slow", f"changes were seen late: {shown}", advice)


def _watch(bench: Bench, names: Iterable[str], content: bytes | None) -> dict[str, int | None]:
    """Do one step to each object, and return for each way of looking the longest time (ms) until it was seen.

    0: at the first look, right after the act. None: not within the window.
    """
    since: dict[str, int] = {}
    pending: dict[str, set[str]] = {how: set() for how in _LOOKS}
    late: dict[str, int | None] = dict.fromkeys(_LOOKS, 0)
    for name in names:
        key = bench.key(name)
        if content is None:
            bench.bucket.delete([key])
        else:
            bench.bucket.put(key, content)
        since[key] = bench.now()
        for how, look in _LOOKS.items():
            pending[how] |= {key} - look(bench, {key}, content)
    while any(pending.values()):
        bench.pause(_POLL)
        for how, look in _LOOKS.items():
            seen = look(bench, pending[how], content)
            now = bench.now()
            pending[how] -= seen
            late[how] = max([late[how] or 0, *(now - since[key] for key in seen)])
            if any(now - since[key] > bench.window for key in pending[how]):
                return {**late, how: None}
    return late


def _read(bench: Bench, keys: set[str], content: bytes | None) -> set[str]:
    """Return those keys under which the second client reads this content, or nothing for None."""
    return {key for key in keys if _content(bench, key) == content}


def _listed(bench: Bench, keys: set[str], content: bytes | None) -> set[str]:
    """Return those keys that a listing shows with the size of this content, or not at all for None."""
    if not keys:
        return set()
    sizes = {info.key: info.size for info in bench.other.list(f"{bench.prefix}lag/")}
    wanted = None if content is None else len(content)
    return {key for key in keys if sizes.get(key) == wanted}


_LOOKS: dict[str, Callable[[Bench, set[str], bytes | None], set[str]]] = {"read": _read, "listed": _listed}


def _content(bench: Bench, key: str) -> bytes | None:
    try:
        return bench.other.get(key)
    except ObjectMissingError:
        return None
