"""What the checks of the probe work on: a folder of the bucket, several clients, and all that they wrote."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from drystone.bucket.probed import Result
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.errors import BucketError, ObjectExistsError, UnfitBucketError

WRITERS = 16
"""How many race, and how many write at once when there is much to write."""
CLIENTS = 4
"""How many clients the writers share: each writer has a connection of its own all the same."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found, in words. `advice`: what to do about it, where the capability's own text does not fit."""

    result: Result
    text: str
    advice: str = ""


@dataclass
class Bench:
    """The bucket under `prefix`. `another` returns a client of its own for the same bucket.

    `window`: ms until a change that is not seen counts as lost. `seen_lag`, `seen_skew`: what checks measured, in ms.
    """

    bucket: Bucket
    another: Callable[[], Bucket]
    prefix: str
    number_of_keys: int
    window: int
    now: Clock
    pause: Callable[[float], None]
    seen_lag: int = 0
    seen_skew: int = 0
    written: set[str] = field(default_factory=set)

    @cached_property
    def other(self) -> Bucket:
        """A second client, which has seen nothing of what the first one did."""
        return self.another()

    @cached_property
    def writers(self) -> list[Bucket]:
        """The client of each writer of a race."""
        clients = [self.another() for _ in range(CLIENTS)]
        return [clients[number % CLIENTS] for number in range(WRITERS)]

    def key(self, name: str) -> str:
        """Return the key of an object of this probe, which `clean` will remove."""
        key = f"{self.prefix}{name}"
        self.written.add(key)
        return key

    def put(self, name: str, data: bytes) -> str:
        """Write an object; return its key."""
        key = self.key(name)
        self.bucket.put(key, data)
        return key

    def put_all(self, names: Iterable[str]) -> list[str]:
        """Write an object for each name, many at once, each with its own key for its content; return the keys."""
        keys = [self.key(name) for name in names]
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(lambda key: self.bucket.put(key, key.encode()), keys))
        return keys

    def settle(self) -> None:
        """Wait as long as a change may take until it is seen."""
        if self.seen_lag:
            self.pause(2 * self.seen_lag / 1000)

    def names(self, folder: str, start_after: str = "") -> list[str]:
        """List a folder of the probe, by the second client; return the keys in the order of the listing."""
        return [info.key for info in self.other.list(f"{self.prefix}{folder}", start_after)]

    def race(self, name: str, writers: Sequence[Bucket], write: Callable[[Bucket, str, int], None]) -> list[int]:
        """Let all writers write one key at the same moment; return those that were told that they had made it.

        A writer whose request failed was told nothing. If nobody has won for that, raises what was raised.
        """
        key = self.key(name)
        barrier = threading.Barrier(len(writers))
        failures: list[BucketError] = []

        def run(number: int) -> bool:
            barrier.wait()
            try:
                write(writers[number], key, number)
            except ObjectExistsError:
                return False
            except BucketError as error:
                # On a store that lags, a loser cannot see yet to whom it has lost.
                failures.append(error)
                return False
            return True

        with ThreadPoolExecutor(len(writers)) as pool:
            won = list(pool.map(run, range(len(writers))))
        if failures and not any(won):
            raise failures[0]
        return [number for number, each in enumerate(won) if each]

    def clean(self) -> None:
        """Remove everything that the probe wrote: what it knows of, then what a listing still shows."""
        self.bucket.delete(sorted(self.written))
        with suppress(UnfitBucketError):  # A store that lags and sorts badly: what there was is deleted already.
            self.bucket.delete([info.key for info in self.bucket.list(self.prefix)])


def write_file(path: Path, size: int, number: int) -> None:
    """Write a file of this size whose every page tells which writer it is of."""
    page = number.to_bytes(2, "big") * 2048
    with path.open("wb") as file:
        for _ in range(size // len(page)):
            file.write(page)
        file.write(page[: size % len(page)])
