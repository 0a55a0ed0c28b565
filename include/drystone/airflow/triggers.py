"""Waiting without a worker slot: what the triggerer runs for `BlocksReadySensor`.

It lives in the package because the triggerer loads no DAG files. The bucket is asked in a thread of its own
(asyncio.to_thread), so that a slow store holds up no other trigger.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from drystone import clock
from drystone.airflow.access import access_to
from drystone.airflow.readiness import BlockWatch, Waiting
from drystone.block.states import Times
from drystone.bucket import Bucket
from drystone.config.model import DEFAULT_BUCKET_CONNECTION
from drystone.errors import BucketError

POLL_MS = 10_000
_SECOND = 1000


class BlocksReadyTrigger(BaseTrigger):
    """Fires once: `{"ready": True}` when every block of the results is ready, else at `deadline` with the reasons.

    All of its state is in its arguments, so a restarted triggerer goes on where the last one stopped. Times are ms
    since the epoch. `not_before` keeps it from firing too soon after the task was deferred. A store that fails is asked
    again until the deadline.
    """

    def __init__(
        self,
        *,
        bucket_url: str,
        stream: str,
        results: list[str],
        times: dict[str, int],
        not_before: int,
        deadline: int,
        connection: str = DEFAULT_BUCKET_CONNECTION,
    ) -> None:
        """`connection`: the bucket's. `results`: keys of the jobs' result objects. `times`: the fields of `Times`."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.bucket_url = bucket_url
        self.connection = connection
        self.stream = stream
        self.results = results
        self.times = times
        self.not_before = not_before
        self.deadline = deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer makes this trigger from."""
        names = ("bucket_url", "stream", "results", "times", "not_before", "deadline", "connection")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, look, and fire."""
        await _sleep_until(self.not_before)
        watch: BlockWatch | None = None
        while True:
            try:
                if watch is None:
                    watch = await asyncio.to_thread(self._watch)
                waiting = await asyncio.to_thread(watch.look, clock.system())
            except BucketError as error:
                self.log.warning("The bucket cannot be read now, asking again: %s", error)
                if not error.retryable:
                    watch = None  # Credentials may have expired: the next look asks the connection again.
                waiting = Waiting({"the bucket": error.message}, clock.system())
            if not waiting.reasons:
                yield TriggerEvent({"ready": True})  # type: ignore[no-untyped-call]
                return
            now = clock.system()
            if now >= self.deadline:
                yield TriggerEvent({"ready": False, "waiting": str(waiting)})  # type: ignore[no-untyped-call]
                return
            await _sleep_until(min(max(waiting.until, now + POLL_MS), self.deadline))

    def _watch(self) -> BlockWatch:
        return BlockWatch.of_results(self._open(), self.stream, self.results, Times(**self.times))

    def _open(self) -> Bucket:
        """Ask for the credentials here: a trigger's arguments are stored in Airflow's database, and shown."""
        return access_to(self.bucket_url, self.connection).open()


async def _sleep_until(moment: int) -> None:
    await asyncio.sleep(max(0, moment - clock.system()) / _SECOND)
