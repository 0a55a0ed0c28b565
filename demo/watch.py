"""The proof: the stream read through the public reader, in the background and after each stage, against the truth."""

from __future__ import annotations

import threading
import time
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from flights import Truth
from home import STREAM

import drystone
from drystone.bucket import Bucket
from drystone.rows.checksum import ContentChecksum

REST = 5


def read(bucket: Bucket, stream: str = STREAM, without: AbstractSet[str] = frozenset()) -> Truth:
    """Read every row of a stream, and return how many there are and their checksum, computed from the rows.

    `without`: columns that the checksum leaves out.
    """
    checksum = ContentChecksum()
    for batch in drystone.scan(bucket, stream):
        checksum.update(batch.drop_columns([name for name in batch.schema.names if name in without]))
    return Truth(checksum.rows, checksum.hex)


class Watch(AbstractContextManager["Watch"]):
    """Reads again and again until it is closed. `reads`: how many; `wrong`: what was not as it should be, each time.

    It rests between two reads for `REST` times as long as a read takes: the machine is also there for the demo's work.
    """

    def __init__(
        self, bucket: Bucket, truth: Truth, stream: str = STREAM, without: AbstractSet[str] = frozenset()
    ) -> None:
        """`truth`: what each read must find, but for the columns `without`."""
        self.reads = 0
        self.wrong: list[str] = []
        self._bucket = bucket
        self._stream = stream
        self._truth = truth
        self._without = without
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)

    def __enter__(self) -> Self:
        """Begin to read."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the read that is going on, and stop."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            begun = time.monotonic()
            try:
                found = read(self._bucket, self._stream, self._without)
            except Exception as error:  # noqa: BLE001 -- whatever it is, the demo has failed and says so
                self.wrong.append(f"{type(error).__name__}: {error}")
            else:
                self.reads += 1
                if found != self._truth:
                    self.wrong.append(f"read {found} of {self._stream}, not {self._truth}")
            self._stop.wait(REST * (time.monotonic() - begun))
