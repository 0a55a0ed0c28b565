"""A job without Spark: the verbs that a small stream needs again and again, done by whoever asks for them.

A Spark application takes longer to start than little work takes. The verb is the same, and so is what it decides and
writes; only its workers are this process. Source: the design, "Airflow: how people use it" (the cost of a run).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from drystone import clock
from drystone.bucket.protocol import Bucket
from drystone.config.load import Loaded
from drystone.coordination import NoCoordination
from drystone.engine.job import Job
from drystone.engine.local import LocalWorkers, TooMuchError
from drystone.engine.outcome import Outcome
from drystone.engine.pacer import ThreadPacer
from drystone.engine.record import apply_config
from drystone.jobs import REQUESTS, JobResult, Verb
from drystone.tracker import ListingTracker
from drystone.verbs import compact, detect, removal
from drystone.verbs.results import result_of

MOST_TASKS = 100
"""One after the other, and each some requests to the store: more of them are quicker on Spark's workers."""

_VERBS: dict[Verb, Callable[[Job, Any], Outcome]] = {
    "detect": detect.run,
    "compact": compact.run,
    "mark": removal.run_mark,
    "sweep": removal.run_sweep,
}


def run_here(
    verb: Verb,
    loaded: Loaded,
    stream: str,
    run: str,
    request: Mapping[str, Any],
    bucket: Bucket,
    *,
    dry_run: bool = False,
) -> JobResult | None:
    """Do a verb in this process, and return its result; None if it is for Spark to do, and then nothing was changed.

    That is so for verbs that need Spark, for what reads more than the configuration's `spark.local_bytes`, and for more
    than MOST_TASKS blocks at a time. Never raises what the verb raises, but reports it. The result is not written.
    """
    most = loaded.config.spark.local_bytes
    if verb not in _VERBS or not most:
        return None

    def act() -> Outcome:
        config = loaded.stream(stream)
        job = Job(
            stream=stream,
            config=config,
            run=run,
            dry_run=dry_run,
            bucket=bucket,
            record=apply_config(bucket, stream, config, dry_run=dry_run),
            tracker=ListingTracker(bucket, stream),
            coordination=NoCoordination(),
            workers=LocalWorkers(clock.system, MOST_TASKS, most),
            clock=clock.system,
            pacer=ThreadPacer(),
        )
        return _VERBS[verb](job, REQUESTS[verb].model_validate(request))

    try:
        return result_of(verb, stream, run, act, dry_run=dry_run, now=clock.system)
    except TooMuchError:
        return None
