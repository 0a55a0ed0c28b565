"""What the probe tries out, one function for each capability: each writes in the probe's own folder, looks, and tells.

Whoever looks is another client than the one that wrote: what a store tells the writer itself says little.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from drystone.bucket.bench import WRITERS, Bench, Found, write_file
from drystone.bucket.protocol import Bucket
from drystone.errors import ObjectExistsError

ROUNDS = 16
"""How often writers race. A store that looks first and then writes lets several win in most rounds."""
LARGE = 17 << 20
"""Bytes of a file that any client uploads in several parts."""
LARGE_ROUNDS = 2
LARGE_WRITERS = 4
CLOCK_SKEW = 60_000
"""The default of a stream's clock_skew, in ms."""
NAMES = (
    *("a!", "a+/x", "a-", "a.b/c.d", "a/x", "a/x-/1", "a/x.y", "a0", "ab", "b/.hidden", "b/a", "b/a-/1", "b/a0", "B/a"),
    *(".dot/a", "with space/and %41+&=?#*[x]", "~"),
)
"""In the order of bytes these sort otherwise than by words or by folders."""
FOREIGN_NAMES = ("z", "é/1", "e\u0301/1", "ö", "\uffee", "\U0001f600")
"""In the order of UTF-8's bytes the last two sort otherwise than by UTF-16."""


def create_only(bench: Bench) -> Found:
    """A taken key is refused and left as it is; of writers that race for a free one exactly one wins; gone is free."""

    def write(client: Bucket, key: str, number: int) -> None:
        client.create(key, f"writer {number}".encode())

    taken = bench.put("create/taken", b"first")
    bench.settle()
    if _created(bench.other, taken, b"second") or bench.bucket.get(taken) != b"first":
        return Found("fails", "a create-only write replaced an object that was there")
    names = [f"create/{number:02}" for number in range(ROUNDS)]
    if problem := _races(bench, names, bench.writers, write, lambda won: f"writer {won}".encode()):
        return Found("fails", problem)
    bench.bucket.delete([taken])
    bench.settle()
    if not _created(bench.other, taken, b"third"):
        return Found("fails", "the key of a deleted object stayed taken")
    return Found("ok", f"{ROUNDS} races of {WRITERS} writers, one winner in each")


def upload(bench: Bench) -> Found:
    """A large file arrives whole, never in place of an object, and of several that race one wins."""
    with tempfile.TemporaryDirectory(prefix="drystone-probe-") as folder:
        paths = [Path(folder) / str(number) for number in range(LARGE_WRITERS)]
        for number, path in enumerate(paths):
            write_file(path, LARGE, number)
        taken = bench.put("upload/taken", b"first")
        bench.settle()
        if _uploaded(bench.other, taken, paths[0]) or bench.bucket.get(taken) != b"first":
            return Found("fails", "an upload replaced an object that was there")

        def write(client: Bucket, key: str, number: int) -> None:
            client.upload(key, paths[number])

        names = [f"upload/{number}" for number in range(LARGE_ROUNDS)]
        writers = bench.writers[:LARGE_WRITERS]
        if problem := _races(bench, names, writers, write, lambda won: paths[won].read_bytes()):
            return Found("fails", problem)
    return Found("ok", f"{LARGE_ROUNDS} races of {LARGE_WRITERS} uploads of {LARGE >> 20} MiB, one winner in each")


def order(bench: Bench) -> Found:
    """A listing is in the order of the bytes of keys, and a prefix may end anywhere."""
    expected = _fill(bench, "order", NAMES)
    if problem := _disorder(bench, bench.names("order/"), expected):
        return Found("fails", problem)
    for prefix in ("order/a", "order/a/", "order/b/a", "order/with space/and %41+&=?#*["):
        wanted = [key for key in expected if key.startswith(f"{bench.prefix}{prefix}")]
        if bench.names(prefix) != wanted:
            return Found("fails", f"a listing of the prefix {prefix!r} shows other keys than those that begin with it")
    return Found("ok", f"{len(expected)} awkward names, in the order of their bytes")


def unicode_order(bench: Bench) -> Found:
    """The same holds for letters beyond ASCII, and no two keys are taken for one."""
    expected = _fill(bench, "unicode", FOREIGN_NAMES)
    problem = _disorder(bench, bench.names("unicode/"), expected)
    if not problem and any(bench.other.get(key) != key.encode() for key in expected):
        problem = "names that only look alike are taken for one"
    return Found("fails", problem) if problem else Found("ok", f"{len(expected)} names beyond ASCII, in UTF-8's order")


def start_after(bench: Bench) -> Found:
    """A listing can begin after any key, and after the beginning of one."""
    expected = _fill(bench, "order", NAMES)
    starts = [*expected, *(key[:-1] for key in expected), f"{bench.prefix}order/b/"]
    for start in starts:
        wanted = [key for key in expected if key.encode() > start.encode()]
        if (listed := bench.names("order/", start)) != wanted:
            what = _difference(listed, wanted, bench)
            return Found("fails", f"a listing from {_short(start, bench)!r} on shows {what}")
    return Found("ok", f"listings from {len(starts)} keys on, each exact")


def paging(bench: Bench) -> Found:
    """A listing of several pages has every key once, in order, also when it is taken up in the middle."""
    keys = _many(bench)
    for begin in ("", keys[len(keys) // 2]):
        wanted = [key for key in keys if key > begin]
        listed = bench.names("many/", begin)
        if listed != wanted:
            return Found("fails", f"a listing of {len(wanted):,} objects shows {_difference(listed, wanted, bench)}")
    return Found("ok", f"{len(keys):,} objects listed, each once and in order")


def batch_delete(bench: Bench) -> Found:
    """Many objects are deleted at once; a key that names nothing is no error; the others stay."""
    keys = _many(bench)
    staying = bench.put("many-others", b"")
    bench.bucket.delete([*keys, bench.key("many/nothing"), bench.key("many/nothing/below")])
    bench.settle()
    left = bench.names("many/")
    if left:
        return Found("fails", f"{len(left):,} of {len(keys):,} objects were still there after their deletion")
    if not bench.names("many-others") or bench.other.get(staying):
        return Found("fails", "a deletion removed an object that nobody named")
    return Found("ok", f"{len(keys):,} objects deleted, with keys that named nothing")


def ranges(bench: Bench) -> Found:
    """Ranges return just the bytes that were asked for, fewer at the end, none beyond it."""
    data = bytes(range(256)) * 40
    key = bench.put("ranges", data)
    empty = bench.put("empty", b"")
    bench.settle()
    asked = [
        (0, 1),
        (0, 100),
        (9_999, 300),
        (len(data) - 7, 7),
        (len(data) - 7, 100),
        (len(data), 5),
        (10**9, 5),
        (5, 0),
    ]
    for start, length in asked:
        found = bench.other.get_range(key, start, length)
        if found != data[start : start + length]:
            return Found("fails", f"{length} bytes from {start:,} of {len(data):,}: got {len(found):,} others")
    if bench.other.get_range(empty, 0, 10) or bench.other.head(key).size != len(data):
        return Found("fails", "an empty object or a size is not told as it is")
    return Found("ok", f"{len(asked)} ranges, each exact")


@runtime_checkable
class Signed(Protocol):
    """A client that marks what it creates, to know it again after a lost answer."""

    def write_id(self, key: str) -> str:
        """Return the mark of the write that created an object, "" if the store has lost it."""
        ...


def write_id(bench: Bench) -> Found:
    """The mark of the write that created an object comes back with it."""
    looking = bench.other
    if not isinstance(looking, Signed):
        return Found("ok", "not needed: no answer of this store gets lost on the way")
    keys = [bench.key(f"write-id/{number}") for number in range(3)]
    for key in keys:
        bench.bucket.create(key, b"x")
    bench.settle()
    ids = {looking.write_id(key) for key in keys}
    if "" in ids or len(ids) < len(keys):
        return Found("fails", "user metadata does not come back as it was sent")
    return Found("ok", "user metadata comes back as it was sent")


def skew(bench: Bench) -> Found:
    """How far the store's clock is from this machine's, by the time that it gives an object."""
    before = bench.now()
    key = bench.put("clock", b"")
    after = bench.now()
    bench.settle()
    modified = bench.other.head(key).modified
    # Some stores tell whole seconds, cut off or rounded up.
    early, late = before - modified - 999, modified - after - 999
    off = max(0, early, late)
    bench.seen_skew = -off if early > 0 else off
    which = f"{off:,} ms {'behind' if early > 0 else 'ahead'}" if off else "right, as far as a request shows"
    return Found("slow" if off > CLOCK_SKEW else "ok", f"the store's clock is {which}")


def _races(
    bench: Bench,
    names: Sequence[str],
    writers: Sequence[Bucket],
    write: Callable[[Bucket, str, int], None],
    content: Callable[[int], bytes],
) -> str:
    """Race for one key after the other; return what is wrong with the outcome of the first that went wrong, or ""."""
    winners: list[int] = []
    for name in names:
        where = f"race {len(winners) + 1} of {len(names)}:"
        won = bench.race(name, writers, write)
        if len(won) != 1:
            return f"{where} {len(won)} of {len(writers)} writers were told that the object was theirs"
        winners += won
    bench.settle()
    for number, (name, winner) in enumerate(zip(names, winners, strict=True), 1):
        if bench.other.get(bench.key(name)) != content(winner):
            return f"race {number} of {len(names)}: the object is not what its one winner wrote"
    return ""


def _created(client: Bucket, key: str, data: bytes) -> bool:
    try:
        client.create(key, data)
    except ObjectExistsError:
        return False
    return True


def _uploaded(client: Bucket, key: str, path: Path) -> bool:
    try:
        client.upload(key, path)
    except ObjectExistsError:
        return False
    return True


def _fill(bench: Bench, folder: str, names: Sequence[str]) -> list[str]:
    """Write objects of these names, if they are not there yet, in no order; return their keys as they are to be listed.

    The content of each is its key.
    """
    keys = sorted((f"{bench.prefix}{folder}/{name}" for name in names), key=str.encode)
    if not bench.written.issuperset(keys):
        shuffled = random.Random(1).sample(names, len(names))  # noqa: S311 - any order but theirs
        bench.put_all(f"{folder}/{name}" for name in shuffled)
        bench.settle()
    return keys


def _disorder(bench: Bench, listed: Sequence[str], expected: Sequence[str]) -> str:
    """Say what is wrong with a listing of everything, "" for nothing."""
    if sorted(listed) != sorted(expected):
        return f"a listing of {len(expected)} objects shows {_difference(listed, expected, bench)}"
    early = [key for key, wanted in zip(listed, expected, strict=True) if key != wanted]
    return f"a listing is not in the order of bytes: {_short(early[0], bench)!r} comes too early" if early else ""


def _many(bench: Bench) -> list[str]:
    """Write as many objects as were asked for, if they are not there yet; return their keys in order."""
    names = [f"many/{number:06}" for number in range(bench.number_of_keys)]
    keys = [f"{bench.prefix}{name}" for name in names]
    if not bench.written.issuperset(keys):
        bench.put_all(names)
        bench.settle()
    return keys


def _difference(listed: Sequence[str], wanted: Sequence[str], bench: Bench) -> str:
    """Say in which way a listing is not what it should be."""
    missing, more = sorted({*wanted} - {*listed}), sorted({*listed} - {*wanted})
    if missing:
        return f"{len(missing):,} too few, {_short(missing[0], bench)!r} for one"
    if more:
        return f"{len(more):,} too many, {_short(more[0], bench)!r} for one"
    return "some of them twice" if len(listed) > len(wanted) else "them in another order"


def _short(key: str, bench: Bench) -> str:
    return key.removeprefix(bench.prefix)
