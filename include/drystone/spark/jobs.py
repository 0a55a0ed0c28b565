"""The jobs: arguments in, one verb done, a result object out. See drystone.jobs for the contract with the caller."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError
from pyspark.sql import SparkSession

from drystone import clock
from drystone.bucket import Bucket, open_bucket
from drystone.config.load import Loaded, load
from drystone.coordination import NoCoordination
from drystone.engine.outcome import Outcome
from drystone.engine.pacer import ThreadPacer
from drystone.engine.record import apply_config
from drystone.errors import DrystoneError
from drystone.jobs import REQUESTS, JobResult, Verb, result_key
from drystone.spark import export, repair, session, upload
from drystone.spark.context import JobContext
from drystone.spark.failures import translate
from drystone.spark.workers import SparkWorkers
from drystone.tracker import ListingTracker
from drystone.verbs import backfill, compact, detect, removal, replay, verify
from drystone.verbs.results import result_of

_HANDLERS: dict[Verb, Callable[[JobContext, Any], Outcome]] = {
    "upload": upload.run,
    "detect": detect.run,
    "compact": compact.run,
    "mark": removal.run_mark,
    "sweep": removal.run_sweep,
    "repair": repair.run,
    "verify": verify.run,
    "export": export.run,
    "backfill": lambda job, request: backfill.run(job, request, job.loaded),
    "replay": lambda job, request: replay.run(job, request, job.loaded),
}


def main(verb: Verb, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the job that the command line describes, and exit: 0 if and only if it succeeded.

    What is wrong with the arguments or the configuration is one line on stderr and exit code 2: without them there is
    no bucket to write a result to.
    """
    options = _parse(verb, arguments)
    try:
        key = result_key(options.stream, options.run)
        loaded = load(Path(options.config) if options.config else None)
        bucket = open_bucket(loaded.bucket_url(options.stream))
        request = REQUESTS[verb].model_validate_json(options.request)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}: " for part in first["loc"])
        sys.exit(_usage(f"--request: {where}{first['msg'].removeprefix('Value error, ')}"))
    except DrystoneError as error:
        sys.exit(_usage(str(error)))
    spark, started_in = session.start(f"drystone {verb} {options.stream}")
    try:
        result = run(verb, loaded, options.stream, options.run, request, spark, dry_run=options.dry_run)
    finally:
        spark.stop()
    result = result.model_copy(update={"spark_start_ms": started_in})
    bucket.put(key, result.to_json())
    print(result.report)  # noqa: T201 - the report is the job's output
    if not result.ok:
        print(f"{result.error} {result.next_step}".strip(), file=sys.stderr)  # noqa: T201 - the job's error
    sys.exit(0 if result.ok else 1)


def run(
    verb: Verb,
    loaded: Loaded,
    stream: str,
    run_id: str,
    request: object,
    spark: SparkSession,
    *,
    dry_run: bool = False,
) -> JobResult:
    """Do one verb in this process, and return its result; never raises what the verb raises, but reports it."""
    bucket = open_bucket(loaded.bucket_url(stream))

    def act() -> Outcome:
        return _HANDLERS[verb](_job(loaded, stream, run_id, bucket, spark, dry_run=dry_run), request)

    return result_of(verb, stream, run_id, act, dry_run=dry_run, now=clock.system, translate=translate)


def _job(loaded: Loaded, stream: str, run_id: str, bucket: Bucket, spark: SparkSession, *, dry_run: bool) -> JobContext:
    return JobContext(
        stream=stream,
        config=loaded.stream(stream),
        run=run_id,
        dry_run=dry_run,
        bucket=bucket,
        record=apply_config(bucket, stream, loaded.stream(stream), dry_run=dry_run),
        tracker=ListingTracker(bucket, stream),
        coordination=NoCoordination(),
        workers=SparkWorkers(spark),
        clock=clock.system,
        pacer=ThreadPacer(),
        loaded=loaded,
        spark=spark,
    )


def _parse(verb: Verb, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"drystone_{verb}.py", description=f"The {verb} job of Drystone.")
    parser.add_argument("--config", help="configuration file (default: $DRYSTONE_CONFIG, else drystone.yaml)")
    parser.add_argument("--stream", required=True)
    parser.add_argument("--run", required=True, help="id of this run; a retry gives the same one")
    parser.add_argument("--request", default="{}", help="JSON; see docs/reference/jobs.md")
    parser.add_argument("--dry-run", action="store_true", help="plan and print, and change nothing")
    return parser.parse_args(arguments)


def _usage(line: str) -> int:
    print(line, file=sys.stderr)  # noqa: T201 - the job's error
    return 2
