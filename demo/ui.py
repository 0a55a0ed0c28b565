"""`make ui`: the demo's Airflow, with what the last demo left in it, until Ctrl-C."""

from __future__ import annotations

import signal
import sys

import flights
from home import DATA, stop_on_signals, unpause
from place import Place, place
from show import say

from drystone.errors import DrystoneError
from drystone.testing.airflow_home import USER
from drystone.testing.airflow_rest import AirflowError


def main(kind: str = "local") -> int:
    """Start on a bucket of this kind, say where it is, wait, stop."""
    if kind == "cluster":
        raise SystemExit("The cluster has its UI already: `make cluster` says where.")
    with place(kind) as where:
        return show(where)


def show(where: Place) -> int:
    """Start, say where it is, wait, stop."""
    home = where.home()
    if not DATA.is_dir():
        say("The flights of 2013 are fetched, so that there is something to ingest.")
        flights.split_by_origin(flights.load(), DATA)
    where.prepare()
    with where.running() as client:
        home.drystone("airflow", "setup")
        unpause(client)
        say(f"[bold]{client.url}[/]   user [bold]{USER}[/]   password [bold]{home.password}[/]")
        say("Trigger flights__ingest, then flights__lifecycle, each by its form. Ctrl-C stops everything.")
        signal.pause()
    return 0


if __name__ == "__main__":
    stop_on_signals()
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        say("Everything is stopped.")
        sys.exit(0)
    except (AirflowError, DrystoneError) as error:
        say(str(error))
        sys.exit(1)
