"""A whole Airflow of one's own, on this machine: for the demo, for its UI, and for tests that need a scheduler.

SQLite or PostgreSQL, LocalExecutor, one user. Nothing here imports Airflow: it writes its configuration, starts its
programs and talks to its REST API. (`airflow standalone` under a script leaves orphans, and prints its password only
once.)
"""

from __future__ import annotations

import base64
import configparser
import io
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from drystone.config.load import ENVIRONMENT
from drystone.testing.airflow_rest import AirflowClient, AirflowError, wait_until

USER = "admin"
COMPONENTS = {
    # Their log servers would listen on every interface; on one machine the api-server reads the files.
    "scheduler": ["--skip-serve-logs"],
    "triggerer": ["--skip-serve-logs"],
    "dag-processor": [],
    "api-server": [],
}
START_SECONDS = 300.0
_PASSWORDS = "passwords.json"
_LOCK_SECONDS = 60


@dataclass(frozen=True)
class AirflowHome:
    """A folder that holds one Airflow: configuration, database, logs. May be used again; `prepare` keeps the password.

    `dags` and `plugins`: the folders that it loads. `config_file`: Drystone's, for all of its tasks. `environment`:
    more variables for them. `database`: the rest of a PostgreSQL address (`user:password@host:port/name`) in place of
    SQLite. `port`: the api-server's; 0: a free one, and the same again if it can be had.
    """

    folder: Path
    dags: Path
    plugins: Path
    config_file: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    database: str = field(default="", repr=False)
    port: int = 0

    @property
    def password(self) -> str:
        """The user's password."""
        return str(json.loads((self.folder / _PASSWORDS).read_text())[USER])

    @property
    def url(self) -> str:
        """The address of the UI and of the REST API."""
        written = configparser.RawConfigParser()
        written.read(self.folder / "airflow.cfg")
        return f"http://127.0.0.1:{written['api']['port']}"

    def client(self) -> AirflowClient:
        """Return a client that is logged in as the user."""
        return AirflowClient(self.url, USER, self.password)

    def prepare(self) -> None:
        """Write the configuration and bring the database up to date; keep what is there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "logs").mkdir(exist_ok=True)
        if not (self.folder / _PASSWORDS).exists():
            _write_private(self.folder / _PASSWORDS, json.dumps({USER: secrets.token_urlsafe(12)}))
        self._write_configuration()
        self.airflow("db", "migrate")

    def airflow(self, *arguments: str) -> str:
        """Run one `airflow …` command to its end and return what it printed; raise AirflowError if it fails."""
        return self._run([sys.executable, "-m", "airflow", *arguments])

    def drystone(self, *arguments: str) -> str:
        """Run one `drystone …` command, as `airflow` does."""
        return self._run([str(Path(sys.executable).with_name("drystone")), *arguments])

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=self.variables(), check=False)  # noqa: S603
        if done.returncode != 0:
            shown = (done.stdout + done.stderr)[-4000:]
            raise AirflowError(f"{' '.join(command)}: exit code {done.returncode}\n{shown}")
        return done.stdout

    def variables(self) -> dict[str, str]:
        """Return the environment of its programs: this process's, without what concerns another Airflow."""
        found = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
        own = {"AIRFLOW_HOME": str(self.folder), ENVIRONMENT: str(self.config_file)}
        programs = f"{Path(sys.executable).parent}{os.pathsep}{found.get('PATH', os.defpath)}"
        return found | own | {"PATH": programs, "PYTHONUNBUFFERED": "1"} | dict(self.environment)

    @contextmanager
    def running(self) -> Iterator[AirflowClient]:
        """Start scheduler, triggerer, dag-processor and api-server, and stop them all at the end, whatever happens.

        They are up when this enters. Raises AirflowError, with the end of its log, if one of them does not start.
        """
        client = self.client()
        with self._kept(tuple(COMPONENTS), client.healthy):
            yield client

    @contextmanager
    def serving(self) -> Iterator[AirflowClient]:
        """Start the api-server alone, as `running` does: its pages and its REST API are there, and no task runs."""
        client = self.client()
        with self._kept(("api-server",), client.answers):
            yield client

    @contextmanager
    def _kept(self, names: tuple[str, ...], up: Callable[[], bool]) -> Iterator[None]:
        programs = {name: [sys.executable, "-m", "airflow", name, *COMPONENTS[name]] for name in names}
        keeper = subprocess.Popen(  # noqa: S603 -- our own program
            [sys.executable, "-m", "drystone.testing.airflow_keeper", json.dumps(programs), str(self.folder / "logs")],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.variables(),
            start_new_session=True,
        )
        try:
            wait_until(lambda: keeper.poll() is not None or up(), START_SECONDS, "Airflow is up")
            if keeper.poll() is not None:
                logs = [(self.folder / "logs" / f"{name}.log").read_text()[-2000:] for name in names]
                raise AirflowError("Airflow did not start:\n" + "\n".join(logs))
            yield
        finally:
            keeper.communicate()

    def _write_configuration(self) -> None:
        file = self.folder / "airflow.cfg"
        written = configparser.RawConfigParser()
        written.read(file)
        port = self.port or _port(written.get("api", "port", fallback=""))
        kept = {section: dict(written[section]) for section in written.sections()}
        settings = self._settings(f"http://127.0.0.1:{port}", port)
        for section, values in (_drawn() | settings).items():
            written[section] = _drawn().get(section, {}) | kept.get(section, {}) | values
        text = io.StringIO()
        written.write(text)
        _write_private(file, text.getvalue())

    def _settings(self, url: str, port: int) -> dict[str, dict[str, str]]:
        """What this Airflow is; everything else is Airflow's default."""
        return {
            "core": {
                "dags_folder": str(self.dags),
                "plugins_folder": str(self.plugins),
                "executor": "LocalExecutor",
                "parallelism": "8",
                "load_examples": "False",
                "simple_auth_manager_users": f"{USER}:admin",
                "simple_auth_manager_passwords_file": str(self.folder / _PASSWORDS),
                "execution_api_server_url": f"{url}/execution/",
            },
            "database": self._database(),
            "logging": {"base_log_folder": str(self.folder / "logs" / "tasks")},
            "api": {"host": "127.0.0.1", "port": str(port), "base_url": url, "workers": "1"},
            # A task starts as soon as the one before it is over: the defaults are made for bigger houses.
            # The one scheduler looks soon for what ran under the one before it, should that have been killed.
            "scheduler": {"scheduler_idle_sleep_time": "0.25", "orphaned_tasks_check_interval": "30"},
            "dag_processor": {"min_file_process_interval": "120", "refresh_interval": "30", "parsing_processes": "1"},
            "usage_data_collection": {"enabled": "False"},
        }

    def _database(self) -> dict[str, str]:
        if self.database:
            drivers = {"sql_alchemy_conn": "psycopg", "sql_alchemy_conn_async": "psycopg_async"}
            return {name: f"postgresql+{driver}://{self.database}" for name, driver in drivers.items()}
        # Four programs and their tasks write to it: whoever finds it locked waits.
        return {"sql_alchemy_conn": f"sqlite:///{self.folder / 'airflow.db'}?timeout={_LOCK_SECONDS}"}


def _drawn() -> dict[str, dict[str, str]]:
    """Return new keys for the database and for the programs' talk with each other; those that are there stay."""
    return {
        "core": {"fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()},
        "api": {"secret_key": secrets.token_urlsafe(32)},
        "api_auth": {"jwt_secret": secrets.token_urlsafe(64)},
    }


def _port(wanted: str) -> int:
    """Return a free port of the loopback interface: the wanted one, if it is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(wanted or "0")))
        except OSError:
            return _port("")
        return int(probe.getsockname()[1])


def _write_private(file: Path, text: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(text)
