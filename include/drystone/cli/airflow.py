"""`drystone airflow`: what Airflow has to be told once."""

from __future__ import annotations

from importlib import import_module

import typer

from drystone.cli import exits, options, output
from drystone.config.load import load
from drystone.errors import UsageError

app = typer.Typer(
    add_completion=False, rich_markup_mode="markdown", help="Prepare Airflow for the streams of the configuration."
)


@app.callback()
def _airflow() -> None:
    """Make this a group of commands, though it has one."""


@app.command(epilog=exits.MEANING)
def setup(*, config: options.Config = None, as_json: options.AsJson = False) -> None:
    """Create or correct the pools, and create the Spark connection; doing it again is harmless."""
    loaded = load(config)
    try:
        # Airflow takes seconds to import, and is not needed for anything else here.
        module = import_module("drystone.airflow.setup")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "airflow":
            raise
        raise UsageError("Airflow is not installed here.", "Install it with: pip install 'drystone[airflow]'") from None
    lines: list[str] = module.setup(loaded)
    if as_json:
        output.write_json({"done": lines})
    else:
        for line in lines:
            output.write_line(line)
