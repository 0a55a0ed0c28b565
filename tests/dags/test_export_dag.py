"""`<stream>__export`: there where an export is configured, started as it is configured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG

from drystone.airflow import export
from drystone.airflow.common import Stream
from drystone.config.load import load
from drystone.jobs import ExportRequest


def build(folder: Path, exported: dict[str, Any] | None) -> DAG | None:
    """Return the DAG of a backup stream with this export."""
    kafka = {"kind": "kafka", "group": "backup", "bootstrap_servers": "127.0.0.1:1", "topics": "a"}
    more = {} if exported is None else {"export": {"prefix": "logs", **exported}}
    streams = {"raw": {"labels": {"a": "b"}, "ingest": kafka | more}}
    file = folder / "drystone.yaml"
    file.write_text(yaml.safe_dump({"version": 1, "bucket": "file:bucket", "streams": streams}))
    return export.build(Stream("raw", load(file)))


def test_only_an_export_has_a_dag(tmp_path: Path) -> None:
    """A stream without one has none; with one, a Spark job and the report that tells other workflows."""
    assert build(tmp_path, None) is None
    dag = build(tmp_path, {})
    assert dag is not None
    assert dag.dag_id == "raw__export"
    assert {task.task_id: task.downstream_task_ids for task in dag.tasks} == {"export": {"report"}, "report": set()}
    assert dag.get_task("export").verb == "export"
    assert [asset.name for asset in dag.get_task("report").outlets] == ["raw.exported"]
    form = {name: param["value"] if isinstance(param, dict) else param for name, param in dag.params.dump().items()}
    assert ExportRequest.model_validate(export.export_request({"params": form})) == ExportRequest()


@pytest.mark.parametrize(("configured", "starts"), [("@hourly", "hourly"), (None, None), ("asset", "raw.ingested")])
def test_it_starts_as_configured(tmp_path: Path, configured: str | None, starts: str | None) -> None:
    """After every ingest, by cron, or by hand."""
    dag = build(tmp_path, {"schedule": configured})
    assert dag is not None
    shown = repr(dag.schedule)
    assert (starts or "None") in shown
