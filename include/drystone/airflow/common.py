"""What every DAG of a stream has: its id, owner, tags, retries and limits, and how its tasks name stream and file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, Param, TriggerRule

from drystone.airflow.operator import DrystoneSparkOperator
from drystone.airflow.params import DRY_RUN
from drystone.airflow.pools import SPARK_POOL, remover_pool
from drystone.airflow.report import ReportOperator
from drystone.airflow.step import DrystoneStepOperator
from drystone.block.states import Times
from drystone.config.load import Loaded, find, load
from drystone.config.model import StreamConfig
from drystone.jobs import Verb

SPARK_TIMEOUT = timedelta(hours=6)
TASK_TIMEOUT = timedelta(minutes=10)
_REMOVERS: frozenset[Verb] = frozenset({"mark", "sweep", "repair"})
_FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream of the configuration file, as DAG builders take it."""

    name: str
    loaded: Loaded

    @property
    def config(self) -> StreamConfig:
        """The stream's configuration."""
        return self.loaded.stream(self.name)

    @property
    def times(self) -> Times:
        """The stream's times."""
        return self.config.times.times()

    @property
    def batches(self) -> int:
        """How many mapped tasks a compaction is cut into at most."""
        return self.loaded.config.spark.max_parallel_jobs

    @property
    def where(self) -> dict[str, str]:
        """The arguments by which every task finds its stream."""
        return {"stream": self.name, "config_file": str(self.loaded.path)}

    def spark(self, task_id: str, verb: Verb, **kwargs: Any) -> DrystoneSparkOperator:
        """Return the task of one job."""
        return DrystoneSparkOperator(task_id=task_id, **self.spark_arguments(verb), **kwargs)

    def step(self, task_id: str, step: str, **kwargs: Any) -> DrystoneStepOperator:
        """Return the task of one step."""
        where: dict[str, Any] = dict(self.where)
        return DrystoneStepOperator(task_id=task_id, step=step, plan_only=DRY_RUN, **where, **kwargs)

    def report(self, asset: Asset, *, skip_event: bool | str = DRY_RUN, task_id: str = "report") -> ReportOperator:
        """Return the last task: it reports and tells others, however those before it ended."""
        ending = TriggerRule.ALL_DONE
        return ReportOperator(task_id=task_id, asset=asset, skip_event=skip_event, trigger_rule=ending, **self.where)

    def spark_arguments(self, verb: Verb) -> dict[str, Any]:
        """Return the arguments of a job's task, mapped or not: the remover has a pool of its own."""
        return {
            **self.where,
            "verb": verb,
            "conn_id": self.loaded.config.spark.connection,
            "plan_only": DRY_RUN,
            "pool": remover_pool(self.name) if verb in _REMOVERS else SPARK_POOL,
            "execution_timeout": SPARK_TIMEOUT,
        }

    def dag(self, workflow: str, doc: str, params: Mapping[str, Param], *, schedule: Any, **kwargs: Any) -> DAG:
        """Return the empty DAG `<stream>__<workflow>`."""
        return DAG(
            dag_id=f"{self.name}__{workflow}",
            doc_md=f"{doc}\n\n{self._facts()}",
            tags={"drystone", self.name, workflow},
            default_args=default_args(self.config.owner),
            params=dict(params),
            schedule=schedule,
            catchup=False,
            **({"start_date": _FIRST_DAY} | kwargs),
        )

    def _facts(self) -> str:
        config, times = self.config, self.config.times
        rows = {
            "bucket": f"`{self.loaded.bucket_url(self.name)}`",
            "sorted by": ", ".join(config.sort_key),
            "time chunks": f"{config.granularity.ingest}, compacted into {config.granularity.major}",
            "syncDelay": f"{times.sync_delay / 1000:g} s",
            "deleteDelay": f"{times.delete_delay / 1000:g} s",
        }
        lines = [f"| {name} | {value} |" for name, value in rows.items()]
        return "\n".join([f"| stream | `{self.name}` |", "|---|---|", *lines])


def default_args(owner: str) -> dict[str, Any]:
    """Return the arguments of every task: transient failures are tried again, ever more slowly, and not for ever."""
    return {
        "owner": owner,
        "retries": 4,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": timedelta(minutes=10),
        "execution_timeout": TASK_TIMEOUT,
    }


def streams() -> Iterable[Stream]:
    """Return the streams of the configuration file ($DRYSTONE_CONFIG, else ./drystone.yaml).

    Raises ConfigError; Airflow shows it as the import error of the DAG file.
    """
    loaded = configuration()
    return [Stream(name, loaded) for name in loaded.config.streams]


def configuration() -> Loaded:
    """Return the configuration file's content, read once for all DAG files of a process that find it unchanged."""
    file = find()
    try:
        stat = file.stat()
    except OSError:
        return load(file)  # which says what is wrong with it
    return _loaded(file.absolute(), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1)
def _loaded(file: Path, _modified: int, _size: int) -> Loaded:
    return load(file)
