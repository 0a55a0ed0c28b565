"""Names of runs: what ties an Airflow task to the result object of its job.

The same task instance has the same name on every try, so a retry overwrites the result of the try before. Names of one
DAG run share a prefix, so that its report finds every result in one listing.
"""

from __future__ import annotations

import hashlib
import re

from drystone import jobs

_UNSAFE = re.compile(r"[^A-Za-z0-9_+:-]")
_DAG, _RUN, _TASK = 120, 80, 40
_DIGEST = 10


def run_name(dag_id: str, run_id: str) -> str:
    """Return the name of a DAG run: made of `A-Za-z0-9_+:-` and one dot, at most 201 characters, one per run."""
    return f"{_part(dag_id, _DAG)}.{_part(run_id, _RUN)}"


def job_name(dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str:
    """Return the name of a task instance's job; `map_index` is -1 for a task that is not mapped."""
    name = f"{run_name(dag_id, run_id)}.{_part(task_id, _TASK)}"
    return name if map_index < 0 else f"{name}.{map_index}"


def results_prefix(stream: str, dag_id: str, run_id: str) -> str:
    """Return the prefix of the keys of all results and reports of a DAG run."""
    return jobs.result_key(stream, run_name(dag_id, run_id)).removesuffix(".json") + "."


def _part(text: str, longest: int) -> str:
    # A digest of the original keeps two names apart that look the same once they are made safe.
    safe = _UNSAFE.sub("_", text)
    if safe == text and len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    return f"{safe[: longest - _DIGEST - 1]}-{digest}"
