"""A small client of Airflow's REST API: enough to start runs and to follow them."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

HANGS_AFTER = 120.0
"""Seconds without a heartbeat after which a program counts as hanging."""
_RUN_OVER = {"success", "failed"}


class AirflowError(RuntimeError):
    """Airflow refused a request, or did not do in time what was waited for."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task instance. Times are seconds since the epoch, None as long as they are not known."""

    task_id: str
    map_index: int
    label: str
    state: str | None
    try_number: int
    start: float | None
    end: float | None

    @property
    def name(self) -> str:
        """The task's id, with its label or index if it is mapped."""
        return self.task_id if self.map_index < 0 else f"{self.task_id} [{self.label or self.map_index}]"


class AirflowClient:
    """Talks to one api-server, as one user. The token is asked for when it is first needed."""

    def __init__(self, url: str, user: str, password: str) -> None:
        """`url`: without a trailing slash."""
        self.url = url
        self._login = {"username": user, "password": password}

    @cached_property
    def token(self) -> str:
        """The token of the login; it is valid for a day."""
        return str(self._send("POST", "/auth/token", self._login, {})["access_token"])

    def health(self) -> dict[str, Any]:
        """Return what every component says of itself; raises AirflowError while the server cannot be reached."""
        found: dict[str, Any] = self._send("GET", "/api/v2/monitor/health", None, {})
        return found

    def answers(self) -> bool:
        """Tell whether the server can be reached."""
        try:
            self.health()
        except AirflowError:
            return False
        return True

    def healthy(self) -> bool:
        """Tell whether all four components are up."""
        try:
            found = self.health()
        except AirflowError:
            return False
        names = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all((found.get(name) or {}).get("status") == "healthy" for name in names)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request to `/api/v2…` and return its answer; raises AirflowError, with the server's words."""
        return self._send(method, f"/api/v2{path}", body, {"Authorization": f"Bearer {self.token}"})

    def has_dag(self, dag_id: str) -> bool:
        """Tell whether the DAG has been parsed and can be started."""
        try:
            return not self.call("GET", f"/dags/{dag_id}")["is_stale"]
        except AirflowError:
            return False

    def unpause(self, dag_id: str) -> None:
        """Let the DAG's schedule and its runs begin; raises AirflowError if there is no such DAG."""
        self.call("PATCH", f"/dags/{dag_id}", {"is_paused": False})

    def set_connection(self, name: str, kind: str, **fields: Any) -> None:
        """Create a connection, or give the one that is there these values: `login`, `password`, `host`, `extra`, …."""
        body = {"connection_id": name, "conn_type": kind, **fields}
        known = self.call("GET", "/connections?limit=1000")["connections"]
        if any(each["connection_id"] == name for each in known):
            self.call("PATCH", f"/connections/{_quote(name)}", body)
        else:
            self.call("POST", "/connections", body)

    def import_errors(self) -> list[str]:
        """Return what is wrong with DAG files."""
        return [error["stack_trace"] for error in self.call("GET", "/importErrors")["import_errors"]]

    def trigger(self, dag_id: str, conf: Mapping[str, Any], run_id: str | None = None) -> str:
        """Start a run as the form does, now; return its id."""
        body = {"logical_date": None, "conf": dict(conf)} | ({"dag_run_id": run_id} if run_id else {})
        return str(self.call("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Return all that Airflow knows of a run."""
        found: dict[str, Any] = self.call("GET", f"/dags/{dag_id}/dagRuns/{_quote(run_id)}")
        return found

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the DAG's runs, oldest first, at most a hundred."""
        found: list[dict[str, Any]] = self.call("GET", f"/dags/{dag_id}/dagRuns?order_by=id&limit=100")["dag_runs"]
        return found

    def delete_run(self, dag_id: str, run_id: str) -> None:
        """Delete a run with its tasks; what they do is stopped."""
        self.call("DELETE", f"/dags/{dag_id}/dagRuns/{_quote(run_id)}")

    def tasks(self, dag_id: str, run_id: str) -> list[Task]:
        """Return the run's task instances."""
        path = f"/dags/{dag_id}/dagRuns/{_quote(run_id)}/taskInstances?limit=1000"
        return [_task(raw) for raw in self.call("GET", path)["task_instances"]]

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1) -> Any:
        """Return one XCom."""
        path = f"/dags/{dag_id}/dagRuns/{_quote(run_id)}/taskInstances/{task_id}/xcomEntries/{key}"
        return self.call("GET", f"{path}?map_index={map_index}&deserialize=true")["value"]

    def log(self, dag_id: str, run_id: str, task: Task) -> str:
        """Return the log of a task's last try, one line per event."""
        path = f"/dags/{dag_id}/dagRuns/{_quote(run_id)}/taskInstances/{task.task_id}/logs/{max(1, task.try_number)}"
        content = self.call("GET", f"{path}?map_index={task.map_index}&full_content=true")["content"]
        return "\n".join(line["event"] if isinstance(line, dict) else str(line) for line in content)

    def follow(self, dag_id: str, run_id: str, seconds: float) -> Iterator[list[Task]]:
        """Yield the run's tasks again and again until it is over; the last time as they ended.

        Raises AirflowError if it is not over after so many `seconds`, or if one of Airflow's programs hangs meanwhile.
        """
        deadline = time.monotonic() + seconds
        alive = time.monotonic()
        while True:
            over = self.run(dag_id, run_id)["state"] in _RUN_OVER
            yield self.tasks(dag_id, run_id)
            if over:
                return
            if time.monotonic() > deadline:
                raise AirflowError(f"{dag_id} {run_id} is not over after {seconds:.0f} s")
            if self.healthy():
                alive = time.monotonic()
            elif time.monotonic() - alive > HANGS_AFTER:
                raise AirflowError(f"{dag_id} {run_id}: Airflow is ill: {self.health()}")
            time.sleep(0.5)

    def wait(self, dag_id: str, run_id: str, seconds: float) -> str:
        """Wait for the end of a run; return its state, `success` or `failed`."""
        for _ in self.follow(dag_id, run_id, seconds):
            pass
        return str(self.run(dag_id, run_id)["state"])

    def _send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, dict(headers), method=method)  # noqa: S310 -- ours
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 -- as above
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AirflowError(f"{method} {path}: {error.code} {error.read().decode()[:2000]}") from None
        except OSError as error:
            raise AirflowError(f"{method} {path}: {error}") from None


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition, asking twice a second; raise AirflowError after so many `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AirflowError(f"{what}: not so after {seconds:.0f} s")
        time.sleep(0.25)


def _task(raw: Mapping[str, Any]) -> Task:
    return Task(
        task_id=raw["task_id"],
        map_index=raw["map_index"],
        label=raw.get("rendered_map_index") or "",
        state=raw["state"],
        try_number=raw["try_number"],
        start=_seconds(raw["start_date"]),
        end=_seconds(raw["end_date"]),
    )


def _seconds(moment: str | None) -> float | None:
    return None if moment is None else datetime.fromisoformat(moment).timestamp()


def _quote(run_id: str) -> str:
    return urllib.parse.quote(run_id, safe="")
