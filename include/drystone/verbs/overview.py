"""A stream in one row of the fleet: how late it is, what waits to be merged or deleted, which runs succeeded.

Everything that shows the fleet (terminal, page, DAG, metrics) shows these numbers, so that they cannot disagree.
Source: the design, "Airflow: DAGs" (`drystone__fleet`), "The block page".
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from drystone.block.states import State
from drystone.config.durations import format_about


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Numbers(_Model):
    """What one look at a stream counts. Sizes are bytes, times ms since the epoch; blocks are folders.

    `rows`, `bytes`, `files`: of the visible blocks. `small_files`: their chunk files below half of
    `compaction.target_block_bytes`. `bytes_to_reclaim`: of covered, marked and abandoned blocks. `newest_event`: the
    end of the visible blocks' time range. `newest_ingest`: when the newest of their sources was planned. None: the
    stream has no visible block.
    """

    states: dict[State, int]
    blocks_visible: int
    blocks_total: int
    blocks_marked: int
    rows: int
    bytes: int
    files: int
    small_files: int
    bytes_to_reclaim: int
    newest_event: int | None
    newest_ingest: int | None
    problems: int
    damage: int

    def event_lag(self, now: int) -> int | None:
        """How far (ms) the newest readable rows' time lies back at `now`; None: there are none."""
        return None if self.newest_event is None else max(0, now - self.newest_event)

    def ingest_lag(self, now: int) -> int | None:
        """How long ago (ms) the newest readable rows were planned to be ingested at `now`; None: there are none."""
        return None if self.newest_ingest is None else max(0, now - self.newest_ingest)


class LastRuns(_Model):
    """The newest runs of one workflow that left a report, by when that was written (ms since the epoch).

    `succeeded`: the newest in which every task succeeded; None: none of those that are kept and were looked at.
    `failed`: the tasks of the newest run that did not.
    """

    ended: int
    succeeded: int | None
    failed: tuple[str, ...] = ()


class Overview(_Model):
    """A stream at the moment `at` (ms since the epoch).

    `numbers` is None where the stream has no data yet, or where `error` says why it could not be read. `lag_limit`: its
    own bound on its ingest lag (ms). `runs`: by workflow.
    """

    version: Literal[1] = 1
    stream: str
    bucket: str
    at: int
    numbers: Numbers | None = None
    runs: dict[str, LastRuns] = {}
    lag_limit: int | None = None
    error: str = ""

    def late(self, now: int) -> int | None:
        """By how much (ms) the stream is later than its `lag_limit` at `now`; None: it is not, or has no limit."""
        lag = self.numbers.ingest_lag(now) if self.numbers is not None else None
        if lag is None or self.lag_limit is None or lag <= self.lag_limit:
            return None
        return lag - self.lag_limit

    def wrong(self, now: int) -> str:
        """Say what is wrong with the stream at `now`, in one line; "": nothing that needs a person."""
        if self.error:
            return self.error
        found = []
        if self.numbers is not None and self.numbers.damage:
            found.append(f"rows are missing in {self.numbers.damage} places: see `drystone verify {self.stream}`")
        late = self.late(now)
        if late is not None:
            found.append(f"the newest ingest is {format_about(late)} older than lag_limit allows")
        return "; ".join(found)

    def last_success(self) -> int | None:
        """When any workflow of the stream succeeded last."""
        return max((run.succeeded for run in self.runs.values() if run.succeeded is not None), default=None)
