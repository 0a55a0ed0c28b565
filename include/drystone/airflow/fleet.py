"""The workflow `drystone__fleet`: a look at every stream, for the overview, the metrics and whoever is to be alerted.

Source: the design, "Airflow: DAGs".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException
from pydantic import JsonValue

from drystone import clock
from drystone.airflow.access import Access, access
from drystone.airflow.common import configuration, default_args
from drystone.airflow.failures import as_task_failure
from drystone.airflow.metrics import emit
from drystone.bucket import Bucket
from drystone.config.load import Loaded, load
from drystone.errors import DrystoneError
from drystone.verbs.metrics import stream_samples
from drystone.verbs.overview import Numbers, Overview

DAG_ID = "drystone__fleet"
_TIMEOUT = timedelta(hours=1)
"""A look at a stream costs a listing, and a GET of every meta.json."""
DOC = """\
Looks at every stream of the configuration file, once an hour.

**look** keeps what it sees of each stream in its bucket, for the overview in the UI and the page for Prometheus, and
emits it as metrics. It fails, and names the streams, if one cannot be read, misses rows, or is later than its
`lag_limit`; a stream that cannot be read keeps it from looking at no other. Nothing else is changed.
"""


class FleetOperator(BaseOperator):
    """Looks at all streams, keeps and emits what it sees, and fails if something is wrong with one of them."""

    ui_color = "#f0ead6"

    def __init__(self, *, config_file: str, **kwargs: Any) -> None:
        """`config_file`: names the streams."""
        super().__init__(**kwargs)
        self.config_file = config_file

    def execute(self, context: Context) -> dict[str, JsonValue]:  # noqa: ARG002 - Airflow's interface
        """Look; return how many streams there are, and those with which something is wrong."""
        with as_task_failure():
            loaded = load(Path(self.config_file))
        # It loads Arrow, which the parsing of DAG files must not wait for.
        overviews = import_module("drystone.airflow.overviews")
        seen: list[Overview] = overviews.look_at_all(loaded, opener(loaded), keep=True)
        now = clock.system()
        for each in seen:
            emit(stream_samples(each, now))
        self.log.info("%s", table(seen, now))
        wrong = {each.stream: text for each in seen if (text := each.wrong(now))}
        if wrong:
            raise AirflowFailException("\n".join(f"{stream}: {text}" for stream, text in wrong.items()))
        return {"streams": len(seen)}


def opener(loaded: Loaded) -> Callable[[str], Bucket]:
    """Return what opens the bucket of a stream; connections are asked for here, and not in the threads that open."""
    found: dict[str, Access | DrystoneError] = {}
    for stream in loaded.config.streams:
        try:
            found[stream] = access(loaded, stream)
        except DrystoneError as error:
            found[stream] = error

    def opened(stream: str) -> Bucket:
        allowed = found[stream]
        if isinstance(allowed, DrystoneError):
            raise allowed
        return allowed.open()

    return opened


def table(seen: Sequence[Overview], now: int) -> str:
    """Return the overview as a table in Markdown."""
    lines = ["| stream | ingested | blocks | marked | rows | small files | bytes to reclaim | wrong |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---|")
    for each in seen:
        lag = each.numbers.ingest_lag(now) if each.numbers is not None else None
        when = "" if lag is None else f"{lag // 60_000:,} min ago"
        counts = _counts(each.numbers) if each.numbers is not None else [""] * 5
        wrong = each.wrong(now).replace("|", "\\|")
        lines.append(f"| {each.stream} | {when} | {' | '.join(counts)} | {wrong} |")
    return "\n".join(lines)


def _counts(of: Numbers) -> list[str]:
    found = (of.blocks_total, of.blocks_marked, of.rows, of.small_files, of.bytes_to_reclaim)
    return [f"{count:,}" for count in found]


def dags() -> dict[str, DAG]:
    """Return the one DAG, by its id."""
    config_file = str(configuration().path)
    dag = DAG(
        dag_id=DAG_ID,
        doc_md=DOC,
        tags={"drystone", "fleet"},
        default_args=default_args("drystone"),
        schedule="@hourly",
        start_date=datetime(2024, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
    )
    with dag:
        FleetOperator(task_id="look", config_file=config_file, execution_timeout=_TIMEOUT)
    return {DAG_ID: dag}
