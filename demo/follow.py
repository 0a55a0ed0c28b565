"""Runs of the demo's workflows: told while they go on, with the logs of what failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from show import Progress

from drystone.testing.airflow_rest import AirflowClient, AirflowError, Task

RUN_SECONDS = 1200.0
_LOG_TAIL = 3000


@dataclass(frozen=True)
class Run:
    """A run of a workflow. `name`: how it is called in what is told; `seen` gets its tasks again and again."""

    dag_id: str
    run_id: str
    name: str
    seen: Callable[[list[Task]], None] = lambda _: None


def follow(client: AirflowClient, *runs: Run) -> list[Task]:
    """Wait for the end of runs that go on at the same time, telling what they do; return all their tasks.

    Raises AirflowError with the logs of failed tasks, once all of them are over.
    """
    told = {run: (client.follow(run.dag_id, run.run_id, RUN_SECONDS), Progress(run.name)) for run in runs}
    ended: dict[Run, list[Task]] = {run: [] for run in runs}
    while told:
        for run, (states, progress) in list(told.items()):
            tasks = next(states, None)
            if tasks is None:
                del told[run]
                continue
            ended[run] = tasks
            progress.tell(tasks)
            run.seen(tasks)
    failed = [line for run, tasks in ended.items() for line in _failure(client, run, tasks)]
    if failed:
        raise AirflowError("\n".join(failed))
    return [task for tasks in ended.values() for task in tasks]


def _failure(client: AirflowClient, run: Run, tasks: list[Task]) -> list[str]:
    if client.run(run.dag_id, run.run_id)["state"] == "success":
        return []
    bad = [task for task in tasks if task.state == "failed"]
    logs = [f"--- {task.name}\n{client.log(run.dag_id, run.run_id, task)[-_LOG_TAIL:]}" for task in bad]
    return [f"{run.name} failed", *logs]
