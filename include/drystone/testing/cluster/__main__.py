"""`python -m drystone.testing.cluster up | down | status`: in a checkout, see `make cluster`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from drystone.errors import DrystoneError
from drystone.testing.airflow_home import USER
from drystone.testing.airflow_rest import AirflowError
from drystone.testing.cluster.cluster import Cluster

_console = Console(highlight=False, width=None if sys.stdout.isatty() else 130)


def main() -> int:
    """Do what the command line says; return the exit code: of `status`, 1 if something does not run."""
    options = _parse()
    cluster = Cluster(*(path.resolve() for path in (options.folder, options.config, options.dags, options.plugins)))
    begun = time.monotonic()

    def tell(text: str) -> None:
        _console.print(f"[dim]{time.monotonic() - begun:4.0f} s[/]  {text}")

    if options.command == "down":
        ended = cluster.down(tell)
        _console.print(f"The cluster is down; its data stays in {options.folder}." if ended else "Nothing runs.")
        return 0
    if options.command == "up":
        started = cluster.up(tell)
        all_ = started and len(started) == len(cluster.status())
        _console.print("The cluster is up." if all_ else _already(started))
    return show(cluster)


def show(cluster: Cluster) -> int:
    """Print what runs where, and the login; return 1 if something does not run."""
    status = cluster.status()
    table = Table("service", "address", "pid", "log")
    for service, known in status:
        pid = str(known.pid) if known else "[red]does not run[/]"
        table.add_row(service.name, service.address, pid, _short(service.log(cluster.folder)))
    _console.print(table)
    if not all(known for _, known in status):
        return 1
    home, store = cluster.home, cluster.store
    _console.print(f"Airflow: {home.url}, user {USER}, password {home.password}")
    _console.print(
        f"Bucket: {store.url()}, access key {store.access_key}, its secret in {_short(cluster.folder)}/state.json"
    )
    return 0


def _already(started: list[str]) -> str:
    if not started:
        return "The cluster was up already: nothing was started."
    return f"The cluster was up, but for {', '.join(started)}: started again."


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="drystone.testing.cluster", description="A real cluster on this machine.")
    parser.add_argument("command", choices=["up", "down", "status"])
    parser.add_argument("--folder", type=Path, default=Path(".cluster"), help="what it keeps (default: .cluster)")
    parser.add_argument("--config", type=Path, default=Path("demo/drystone.yaml"), help="Drystone's configuration")
    parser.add_argument("--dags", type=Path, default=Path("dags"))
    parser.add_argument("--plugins", type=Path, default=Path("plugins"))
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (AirflowError, DrystoneError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped: what was started runs on; `make cluster` goes on with it, `make cluster-down` ends it")
