"""PostgreSQL: Debian's programs on a data folder of the cluster's own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

from drystone.errors import DrystoneError, UsageError
from drystone.testing.cluster.service import Service, environment
from drystone.testing.cluster.state import State

NAME = "airflow"
"""Of the user and of the database."""
_DEBIAN = Path("/usr/lib/postgresql")
_SYSTEM_USER = "postgres"
_TAIL = 800


def service(folder: Path, state: State) -> Service:
    """Return the server, whose data is kept in `folder`."""
    port = str(state.port("postgres"))
    where = ["--host", "127.0.0.1", "--port", port, "--username", NAME]
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return Service(
        name="postgres",
        address=f"127.0.0.1:{port}",
        command=[str(program("postgres")), "-D", str(folder / "data"), *options],
        environment=environment(),
        healthy=lambda _: subprocess.run([program("pg_isready"), "--quiet", *where], check=False).returncode == 0,  # noqa: S603
        before=partial(_make, folder, state.secret("postgres")),
        user=_user(),
        # "Fast": with SIGTERM it would wait for its clients.
        stop_signal=signal.SIGINT,
    )


def url(state: State) -> str:
    """Return the address of the database for SQLAlchemy, without its scheme."""
    return f"{NAME}:{state.secret('postgres')}@127.0.0.1:{state.port('postgres')}/{NAME}"


def program(name: str) -> Path:
    """Return the path of one of PostgreSQL's programs, which Debian keeps off the PATH; the name if it is nowhere."""
    newest = sorted(_DEBIAN.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]), reverse=True)
    return newest[0] if newest else Path(shutil.which(name) or name)


def _user() -> str | None:
    """It refuses to run as root."""
    return _SYSTEM_USER if os.geteuid() == 0 else None


def _make(folder: Path, password: str) -> None:
    """Make the data folder with the user and the database, unless they are there."""
    if not program("initdb").is_absolute():
        raise UsageError("a cluster needs PostgreSQL, and there is no 'initdb'.", "Run: apt-get install postgresql")
    data, user = folder / "data", _user()
    if (folder / "made").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    secret = folder / "password"
    secret.touch(0o600)
    secret.write_text(password)
    if user is not None:
        for path in (folder, secret):
            shutil.chown(path, user, user)
        _check_reachable(folder, user)
    who = ["--username", NAME, "--auth", "scram-sha-256", "--pwfile", str(secret)]
    _run([program("initdb"), "-D", data, *who, "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-instructions"], user)
    _run([program("postgres"), "--single", "-D", data, "postgres"], user, f"CREATE DATABASE {NAME}\n")
    secret.unlink()
    (folder / "made").touch()


def _check_reachable(folder: Path, user: str) -> None:
    done = subprocess.run(["test", "-w", folder], user=user, group=user, extra_groups=[], check=False)  # noqa: S603, S607
    if done.returncode:
        step = f"Give it the right to go through the folders above: chmod o+x on those that lack it, or move {folder}."
        raise UsageError(f"PostgreSQL runs as user {user}, who cannot reach {folder}.", step)


def _run(command: list[str | Path], user: str | None, text: str = "") -> None:
    done = subprocess.run(  # noqa: S603 -- PostgreSQL's own
        command,
        input=text,
        env=environment(),
        cwd="/",
        capture_output=True,
        text=True,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        check=False,
    )
    if done.returncode:
        raise DrystoneError(f"{Path(command[0]).name} fails: {' '.join((done.stdout + done.stderr).split())[-_TAIL:]}")
