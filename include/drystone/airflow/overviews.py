"""Looking at streams for the fleet's overview, and keeping what was seen beside the reports in each one's bucket.

It needs no Airflow: the terminal looks the same way. Source: the design, "Airflow: DAGs" (`drystone__fleet`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pydantic import ValidationError

from drystone import clock, jobs
from drystone.airflow.run_report import RunReport, read_report, report_run
from drystone.bucket import Bucket
from drystone.bucket.protocol import ObjectInfo
from drystone.clock import Clock
from drystone.config.load import Loaded
from drystone.config.model import StreamConfig
from drystone.engine.record import find_record
from drystone.errors import BucketError, DrystoneError, ObjectMissingError
from drystone.reader.view import look
from drystone.verbs.fleet import numbers_of
from drystone.verbs.overview import LastRuns, Overview

_AT_ONCE = 8
_LOOKED_AT = 20
"""Reports of a workflow, newest first, in which its last success is sought."""
UNREADABLE = "(its report cannot be read)"

Opener = Callable[[str], Bucket]
"""Opens the bucket of a stream; it may raise DrystoneError."""


def look_at_all(loaded: Loaded, opener: Opener, *, keep: bool, now: Clock = clock.system) -> list[Overview]:
    """Look at every stream of the configuration, in its order, several at once, and keep what was seen if `keep`.

    Never raises for a stream: one that cannot be read has its error in its own row, and harms no other.
    """

    def one(stream: str) -> Overview:
        try:
            bucket = opener(stream)
            return (look_and_keep if keep else observe)(bucket, stream, loaded.stream(stream), now)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever is wrong with one stream is that one's row
            return failed(loaded, stream, error, now())

    return _each(one, tuple(loaded.config.streams))


def kept_of_all(loaded: Loaded, opener: Opener) -> list[Overview]:
    """Return what was last kept of every stream of the configuration: one GET each, and no look at a block.

    The row of a stream of which nothing can be had says why, and is of the moment 0.
    """

    def one(stream: str) -> Overview:
        try:
            return kept(opener(stream), stream)
        except Exception as error:  # noqa: BLE001 - as above
            return failed(loaded, stream, error, 0)

    return _each(one, tuple(loaded.config.streams))


def observe(bucket: Bucket, stream: str, config: StreamConfig, now: Clock = clock.system) -> Overview:
    """Look at one stream, and at the newest reports of its workflows. Raises DrystoneError if it cannot be read."""
    found = Overview(stream=stream, bucket=bucket.url, at=now(), lag_limit=config.lag_limit)
    if find_record(bucket, stream) is None:
        return found
    numbers = numbers_of(look(bucket, stream, now), config.compaction.target_block_bytes)
    return found.model_copy(update={"numbers": numbers, "runs": last_runs(bucket, stream)})


def look_and_keep(bucket: Bucket, stream: str, config: StreamConfig, now: Clock = clock.system) -> Overview:
    """Look at one stream and keep what was seen, also that it could not be read; raises what the store raises then."""
    try:
        found = observe(bucket, stream, config, now)
    except BucketError:
        raise
    except DrystoneError as error:
        found = Overview(stream=stream, bucket=bucket.url, at=now(), lag_limit=config.lag_limit, error=_line(error))
    bucket.put(_key(stream), found.model_dump_json(indent=1).encode())
    return found


def kept(bucket: Bucket, stream: str) -> Overview:
    """Return what was last kept of a stream; raise DrystoneError if that is nothing, or cannot be read."""
    key = _key(stream)
    try:
        return Overview.model_validate_json(bucket.get(key))
    except ObjectMissingError:
        raise DrystoneError("nobody has looked yet.", "The next run of drystone__fleet does.") from None
    except ValidationError as error:
        raise DrystoneError(f"{key} is no overview: {error.errors()[0]['msg']}.", "Run drystone__fleet.") from None


def failed(loaded: Loaded, stream: str, error: Exception, now: int) -> Overview:
    """Return the row of a stream that could not be looked at."""
    known = isinstance(error, DrystoneError)
    text = _line(error) if known else f"this should not happen: {type(error).__name__}: {_line(error)}"
    return Overview(stream=stream, bucket=loaded.bucket_url(stream), at=now, error=text)


def last_runs(bucket: Bucket, stream: str) -> dict[str, LastRuns]:
    """Return the newest runs of each workflow of a stream, by the reports that are in the bucket (30 days)."""
    found: dict[str, list[tuple[ObjectInfo, str]]] = {}
    for info in bucket.list(jobs.result_key(stream, f"{stream}__").removesuffix(".json")):
        run = report_run(stream, info.key)
        if run is not None:
            found.setdefault(run.partition(".")[0].removeprefix(f"{stream}__"), []).append((info, run))
    return {workflow: _last(bucket, stream, runs) for workflow, runs in sorted(found.items())}


def _last(bucket: Bucket, stream: str, runs: list[tuple[ObjectInfo, str]]) -> LastRuns:
    runs.sort(key=lambda each: (each[0].modified, each[1]), reverse=True)
    newest = runs[0][0].modified
    problems: tuple[str, ...] | None = None
    for info, run in runs[:_LOOKED_AT]:
        report = _report(bucket, stream, run)
        bad = report.failed if report is not None else (UNREADABLE,)
        problems = bad if problems is None else problems
        if report is not None and not bad and not report.dry_run:
            return LastRuns(ended=newest, succeeded=info.modified, failed=problems)
    return LastRuns(ended=newest, succeeded=None, failed=problems or ())


def _report(bucket: Bucket, stream: str, run: str) -> RunReport | None:
    try:
        return read_report(bucket, stream, run)
    except ValidationError:
        return None


def _key(stream: str) -> str:
    return jobs.result_key(stream, "overview")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _each(one: Callable[[str], Overview], streams: Sequence[str]) -> list[Overview]:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(one, streams))
