"""The command line as a whole: which verbs there are, and what an error looks like."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from drystone.cli import exits
from drystone.errors import DrystoneError

VERBS = {
    "ls": ("drystone.cli.ls", "List the streams, or the blocks of a stream."),
    "fleet": ("drystone.cli.fleet", "Show every stream in one row, and what is wrong with it."),
    "inspect": ("drystone.cli.inspection", "Show everything about a stream, or about one block."),
    "plan": ("drystone.cli.plan", "Show what the next run would do."),
    "verify": ("drystone.cli.verify", "Check that everything is there, and is what was written."),
    "repair": ("drystone.cli.repair", "Remove what is broken, rewrite blocks, drop or replace rows."),
    "lag": ("drystone.cli.lag", "Show how far a stream is behind Kafka."),
    "trace": ("drystone.cli.trace", "Find the row of a message, or the messages of a block."),
    "backfill": ("drystone.cli.backfill", "Parse messages anew, in place of wrong rows."),
    "replay": ("drystone.cli.replay", "Send messages of a backup, or dead letters, into a topic again."),
    "adopt": ("drystone.cli.adopt", "Give late, restored or foreign blocks a place in a stream."),
    "read": ("drystone.cli.read", "Read the rows of a stream, each exactly once."),
    "files": ("drystone.cli.files", "List the files to read, for DuckDB and the like."),
    "export": ("drystone.cli.export", "Copy a backup stream's messages to files in Secor's layout."),
    "parse": ("drystone.cli.parse", "Show how a stream's parser sees messages in files."),
    "bucket": ("drystone.cli.bucket", "Try out whether a store does what Drystone relies on."),
    "retain": ("drystone.cli.retain", "Expire what is older than the stream's retention."),
    "retire": ("drystone.cli.retire", "Take the rows of sources or blocks away."),
    "erase": ("drystone.cli.erase", "Take the rows away that match, and see what is left of them."),
    "hold": ("drystone.cli.hold", "Keep removers and compactors off blocks, for a repair."),
    "unmark": ("drystone.cli.unmark", "Take a block's deletion mark away."),
    "audit": ("drystone.cli.audit", "Show what was done to a stream, by whom and why."),
    "config": ("drystone.cli.config", "Check the configuration file, or export its JSON Schema."),
    "airflow": ("drystone.cli.airflow", "Prepare Airflow for the streams of the configuration."),
}
"""Of each verb its module, imported when it is asked for, and one line for the list of them."""


class Verbs(TyperGroup):
    """The verbs. Every error raised on purpose becomes one line on stderr and an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the base class has it
        """Return the verbs in the order in which people meet them."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the base class has it
        """Return what the list of verbs shows of one, or None."""
        return TyperCommand(cmd_name, help=VERBS[cmd_name][1]) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a verb's name, the verb itself, and the arguments that are left for it."""
        name, _, rest = super().resolve_command(ctx, args)
        assert name is not None  # noqa: S101 - for the type checker: an unknown one was refused
        return name, get_command(import_module(VERBS[name][0]).app), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except DrystoneError as error:
            print(f"drystone: {exits.lines_of(error)}", file=sys.stderr)  # noqa: T201 - this is a command
            raise typer.Exit(exits.code_of(error)) from None
        except BrokenPipeError:
            # Whoever read our output has enough. Python would complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None


app = typer.Typer(
    cls=Verbs,
    help="Look at streams of blocks, check them, repair them and read them.",
    epilog=exits.MEANING,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - Typer calls it
    if wanted:
        typer.echo(f"drystone {version('drystone')}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line, and exit."""
    app(prog_name="drystone")
