"""A run of a workflow of the demo: told while it goes on, with the logs of what failed."""

from __future__ import annotations

from collections.abc import Callable

from show import Progress

from drystone.testing.airflow_rest import AirflowClient, AirflowError, Task

RUN_SECONDS = 1200.0
_LOG_TAIL = 3000


def follow(
    client: AirflowClient, dag_id: str, run_id: str, name: str, seen: Callable[[list[Task]], None] | None = None
) -> list[Task]:
    """Wait for the end of a run, and return its tasks; `seen` gets them again and again meanwhile.

    `name`: how it is called in what is told. Raises AirflowError with the logs of its failed tasks.
    """
    progress, tasks = Progress(name), []
    for tasks in client.follow(dag_id, run_id, RUN_SECONDS):
        progress.tell(tasks)
        if seen:
            seen(tasks)
    if client.run(dag_id, run_id)["state"] != "success":
        bad = [task for task in tasks if task.state == "failed"]
        logs = [f"--- {task.name}\n{client.log(dag_id, run_id, task)[-_LOG_TAIL:]}" for task in bad]
        raise AirflowError("\n".join([f"{name} failed", *logs]))
    return tasks
