"""The two waits of a block's life, as deferrable sensors: until blocks can be read, and until marks are known to all.

Both return at once when there is nothing to wait for. Otherwise they defer, for ten seconds at the least: a trigger
that fires within a few seconds of the deferral can make Airflow 3.3 fail the task (apache/airflow#67287).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from drystone import clock
from drystone.airflow.access import access
from drystone.airflow.failures import as_task_failure
from drystone.airflow.operator import is_true
from drystone.airflow.readiness import BlockWatch, marks_until
from drystone.airflow.triggers import BlocksReadyTrigger
from drystone.block.states import Times
from drystone.bucket import Bucket
from drystone.config.load import load

SHORTEST_DEFERRAL = 10_000
PATIENCE = 10 * 60_000
"""How long (ms) a wait may go on after the moment at which it should have been over."""
OUTAGE = timedelta(hours=1)
"""How long the triggerer may be away before Airflow fails the task: what it finds when it comes back still counts."""


def ready_timeout(times: Times) -> timedelta:
    """Return how long blocks may take until they are ready or known to be gone."""
    longest = times.sync_delay + times.delete_delay + times.max_lag + times.clock_skew
    return timedelta(milliseconds=longest + PATIENCE)


def marks_timeout(times: Times) -> timedelta:
    """Return how long marks may take until they have been seen for deleteDelay."""
    return timedelta(milliseconds=times.delete_delay + times.clock_skew + PATIENCE)


class _StreamSensor(BaseSensorOperator):
    """What both sensors share: a stream of a configuration file, and its bucket."""

    def __init__(self, *, stream: str, config_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.config_file = config_file

    def _open(self) -> tuple[Bucket, Times]:
        loaded = load(Path(self.config_file))
        return access(loaded, self.stream).open(), loaded.stream(self.stream).times.times()


class BlocksReadySensor(_StreamSensor):
    """Waits until every block that some jobs uploaded is whole and past syncDelay, as polled from the bucket.

    `results`: the XComs of those jobs' tasks, one or many. Jobs that uploaded nothing are ready at once. Fails, naming
    the blocks that never became whole, when `timeout` is over.
    """

    template_fields: Sequence[str] = ("results",)
    ui_color = "#e6f1f2"

    def __init__(self, *, results: Any, **kwargs: Any) -> None:
        """`results`: an XComArg of `DrystoneSparkOperator` tasks, or their summaries, or None."""
        super().__init__(**kwargs)
        self.results = results

    def execute(self, context: Context) -> None:  # noqa: ARG002 -- Airflow's signature
        """Look once; defer if something is not ready yet."""
        with as_task_failure():
            bucket, times = self._open()
            wanted = result_keys(self.results)
            watch = BlockWatch.of_results(bucket, self.stream, wanted, times)
            total = len(watch.pending)
            now = clock.system()
            waiting = watch.look(now)
        self.log.info("%d of %d blocks can be read now.", total - len(waiting.reasons), total)
        if not waiting.reasons:
            return
        until = max(waiting.until, now + SHORTEST_DEFERRAL)
        self.log.info("Looking again at %s. Waiting for %s", _iso(until), waiting)
        trigger = BlocksReadyTrigger(
            bucket_url=bucket.url,
            connection=load(Path(self.config_file)).bucket_connection(self.stream),
            stream=self.stream,
            results=wanted,
            times=asdict(times),
            not_before=until,
            deadline=max(now + int(self.timeout * 1000), until),
        )
        self.defer(trigger=trigger, method_name="conclude", timeout=_until(trigger.deadline) + OUTAGE)

    def conclude(self, context: Context, event: Mapping[str, Any]) -> None:  # noqa: ARG002 -- as execute
        """End as the trigger found: ready, or not in time."""
        if not event["ready"]:
            step = "Look at them with `drystone inspect`; what they hold is in their job's report."
            raise AirflowFailException(f"{self.stream}: not ready in time: {event['waiting']}. {step}")
        self.log.info("All blocks can be read.")


class DeleteDelaySensor(_StreamSensor):
    """Waits until every deletion mark that is there when it begins is past deleteDelay; without marks, not at all.

    Fails at once if that would take longer than `timeout`: then a mark's time lies in the future.
    `skip`: a template that is true in a dry run, which has nothing to wait for.
    """

    template_fields: Sequence[str] = ("skip",)
    ui_color = "#e6f1f2"

    def __init__(self, *, skip: bool | str = False, **kwargs: Any) -> None:
        """`skip` may be a template."""
        super().__init__(**kwargs)
        self.skip = skip

    def execute(self, context: Context) -> None:  # noqa: ARG002 -- Airflow's signature
        """Look once; defer until the youngest mark is old enough."""
        if is_true(self.skip):
            self.log.info("A dry run marks nothing, so there is nothing to wait for.")
            return
        with as_task_failure():
            bucket, times = self._open()
            until = marks_until(bucket, self.stream, times)
        now = clock.system()
        if until <= now:
            self.log.info("No deletion mark is younger than deleteDelay.")
            return
        if until > now + self.timeout * 1000:
            step = "Compare the clock of the store with this machine's; the mark can be removed by hand."
            raise AirflowFailException(f"{self.stream}: a deletion mark is from the future, by {_iso(until)}. {step}")
        until = max(until, now + SHORTEST_DEFERRAL)
        self.log.info("Marks are past deleteDelay at %s.", _iso(until))
        trigger = DateTimeTrigger(moment=datetime.fromtimestamp(until / 1000, UTC))
        self.defer(trigger=trigger, method_name="conclude", timeout=_until(until) + OUTAGE)

    def conclude(self, context: Context, event: object) -> None:  # noqa: ARG002 -- as execute
        """End: the moment has come."""
        self.log.info("All marks are past deleteDelay.")


def result_keys(results: Any) -> list[str]:
    """Return the keys of the result objects in XComs of job tasks: one summary, many, or None."""
    if results is None:
        return []
    if isinstance(results, Mapping):
        return [str(results["result_key"])]
    if not isinstance(results, Iterable) or isinstance(results, str):
        msg = f"results must be the XComs of Drystone's job tasks, not {results!r}"
        raise TypeError(msg)
    return [str(summary["result_key"]) for summary in results if summary is not None]


def _until(moment: int) -> timedelta:
    return timedelta(milliseconds=moment - clock.system())


def _iso(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
