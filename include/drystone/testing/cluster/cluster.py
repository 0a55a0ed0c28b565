"""The cluster: what runs in it, in an order in which it can start; all of it up, and all of it down."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from drystone.errors import DrystoneError
from drystone.testing.airflow_home import AirflowHome
from drystone.testing.cluster import airflow, config, postgres, spark, stores
from drystone.testing.cluster.processes import Known
from drystone.testing.cluster.service import Service, Step
from drystone.testing.cluster.state import State, locked, read
from drystone.testing.s3_server import S3Server

HEALTH_SECONDS = 400.0
"""How long a service may take until it is healthy: on a busy machine Airflow needs minutes."""
_STARTS = 3
_POLL = 0.3
_TAIL = 1500

Told = Callable[[str], None]


@dataclass(frozen=True)
class Cluster:
    """A cluster that keeps everything in one folder. It may be up, down, or half of it dead.

    `template`: Drystone's configuration, see `config.write`. `dags` and `plugins`: the folders that Airflow loads.
    """

    folder: Path
    template: Path
    dags: Path
    plugins: Path

    def up(self, tell: Told) -> list[str]:
        """Start what does not run, and return its names once everything is healthy; steps that are due are done first.

        `tell` gets a line for each thing that is begun. Raises DrystoneError, with the end of its log, if a service
        does not become healthy; what was started stays, for `down` or for another try.
        """
        with locked(self.folder) as state:
            return _Start(self, state, tell).run()

    def down(self, tell: Told) -> list[str]:
        """End everything that was started here, whatever has become of it since; return the names of what ran.

        Data, ports and secrets stay for the next start.
        """
        if not self.folder.exists():
            return []
        with locked(self.folder) as state:
            ended = []
            for service in reversed(self.services(state)):
                if service.stop(self.folder, state.running.get(service.name)):
                    ended.append(service.name)
                    tell(f"{service.name} is stopped")
                state.running.pop(service.name, None)
                state.save()
            return ended

    def status(self) -> list[tuple[Service, Known | None]]:
        """Return each service with its process, if that runs."""
        state = read(self.folder / "state.json")
        found = [(service, state.running.get(service.name)) for service in self.services(state)]
        return [(service, known if known and known.alive else None) for service, known in found]

    def units(self, state: State) -> list[Service | Step]:
        """Return services and steps; each comes after what it needs."""
        home = self._home(state)
        return [
            postgres.service(self.folder / "postgres", state),
            stores.s3(self.folder / "s3", state),
            stores.broker(self.folder / "kafka", state),
            *spark.services(self.folder / "spark", state),
            self._first(airflow.initial_step(home), state),
            *airflow.services(home),
        ]

    def services(self, state: State) -> list[Service]:
        """Return the services alone."""
        return [unit for unit in self.units(state) if isinstance(unit, Service)]

    @property
    def home(self) -> AirflowHome:
        """The cluster's Airflow."""
        return self._home(read(self.folder / "state.json"))

    @property
    def store(self) -> S3Server:
        """The cluster's S3 server."""
        return stores.s3_account(self.folder / "s3", read(self.folder / "state.json"))

    @property
    def config(self) -> Path:
        """Drystone's configuration, once the cluster has been up."""
        return self.folder / "drystone.yaml"

    def _home(self, state: State) -> AirflowHome:
        return AirflowHome(
            self.folder / "airflow",
            self.dags,
            self.plugins,
            self.config,
            airflow.connections(state, stores.s3_account(self.folder / "s3", state)),
            database=postgres.url(state),
            port=state.port("api-server"),
        )

    def _first(self, step: Step, state: State) -> Step:
        """Return a step that also writes Drystone's configuration, which Airflow's programs load."""

        def act() -> None:
            config.write(self.template, self.folder, stores.s3_account(self.folder / "s3", state).url())
            step.act()

        return Step(name=step.name, act=act, needs=step.needs)


class _Start:
    """One start of a cluster."""

    def __init__(self, cluster: Cluster, state: State, tell: Told) -> None:
        self._folder = cluster.folder
        self._state = state
        self._tell = tell
        if not any(known.alive for known in state.running.values()):
            state.redraw()
        self._units = cluster.units(state)
        self._services = {unit.name: unit for unit in self._units if isinstance(unit, Service)}
        self._starts: dict[str, int] = {}

    def run(self) -> list[str]:
        (self._folder / "logs").mkdir(exist_ok=True)
        self._state.save()
        due = [unit for unit in self._units if self._is_due(unit)]
        for unit in due:
            for name in unit.needs:
                self._await(name)
            if isinstance(unit, Service):
                self._begin(unit)
            else:
                self._tell(f"{unit.name} runs")
                unit.act()
        for name in self._services:
            self._await(name)
        return [unit.name for unit in due if isinstance(unit, Service)]

    def _is_due(self, unit: Service | Step) -> bool:
        """A service that does not run; a step if nothing runs yet that needs it."""
        if isinstance(unit, Service):
            return not self._runs(unit)
        return not any(self._runs(service) for service in self._services.values() if unit.name in service.needs)

    def _runs(self, service: Service) -> bool:
        known = self._state.running.get(service.name)
        return known is not None and known.alive

    def _begin(self, service: Service) -> None:
        # What a service that died has left behind would be in the way of the new one.
        service.stop(self._folder, None)
        self._starts[service.name] = self._starts.get(service.name, 0) + 1
        self._state.running[service.name] = service.start(self._folder)
        self._state.save()
        self._tell(f"{service.name} starts")

    def _await(self, name: str) -> None:
        """Wait until a service is healthy; one that ends before is started again, a few times."""
        service = self._services.get(name)
        if service is None:  # A step, which is done.
            return
        deadline = time.monotonic() + HEALTH_SECONDS
        while not (self._runs(service) and service.healthy(self._state.running[name].at)):
            if not self._runs(service):
                if self._starts.get(name, 0) >= _STARTS:
                    raise self._failed(service, f"has ended by itself {_STARTS} times")
                time.sleep(1)
                self._begin(service)
            if time.monotonic() > deadline:
                raise self._failed(service, f"is not healthy after {HEALTH_SECONDS:.0f} s")
            time.sleep(_POLL)

    def _failed(self, service: Service, what: str) -> DrystoneError:
        log = service.log(self._folder)
        return DrystoneError(f"{service.name} {what}; the end of {log}:\n{log.read_text(errors='replace')[-_TAIL:]}")
