"""`drystone repair`: what a person does about blocks that no lifecycle can put right. --dry-run shows the plan."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from drystone.cli import exits, options, output
from drystone.cli.acting import DryRun, local_job
from drystone.cli.erase import Json, Where, parse_predicate
from drystone.cli.plan import show_plan
from drystone.config.load import load
from drystone.engine.job import Job
from drystone.engine.repair import Repaired, carry_out, plan_repair
from drystone.engine.reupload import configured_schema, read_rows, upload_replacement
from drystone.jobs import RepairRequest
from drystone.plan.model import Plan, Reupload

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="Remove what is broken, rewrite a block, drop rows, put a corrected file in place of a source's rows.",
)
Blocks = Annotated[list[str] | None, typer.Argument(metavar="[ULID]...", help="These blocks only.", show_default=False)]
Named = Annotated[list[str], typer.Argument(metavar="ULID...", help="The blocks.", show_default=False)]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why: it is kept in the audit log.")]
Source = Annotated[str, typer.Option("--source", metavar="ULID", help="The source whose rows the file replaces.")]
File = Annotated[Path, typer.Option("--file", metavar="FILE", help="The corrected rows.", show_default=False)]


@app.command("partial", epilog=exits.MEANING)
def remove_partial(
    stream: options.Stream,
    blocks: Blocks = None,
    *,
    reason: Reason = "",
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove what died uploads left, once nobody can be at it any more: what the next sweep would remove.

    What was whole once, and lost its meta.json, is damage: it goes only if it is named, with a reason.
    """
    request = RepairRequest(kind="partial", blocks=tuple(blocks or ()), reason=reason)
    carry_out_request(stream, request, config, dry_run=dry_run, as_json=as_json)


@app.command("malformed", epilog=exits.MEANING)
def remove_malformed(
    stream: options.Stream,
    blocks: Blocks = None,
    *,
    reason: Reason = "",
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove Malformed blocks whose rows are all read from elsewhere, or gone by an edit.

    Where nobody can tell which sources a block has rows of, it goes only if it is named, with a reason.
    """
    request = RepairRequest(kind="malformed", blocks=tuple(blocks or ()), reason=reason)
    carry_out_request(stream, request, config, dry_run=dry_run, as_json=as_json)


@app.command(epilog=exits.MEANING)
def rewrite(
    stream: options.Stream,
    blocks: Named,
    *,
    reason: Reason = "",
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the groups of these blocks anew, with the same rows; once ready, the new ones take their place."""
    request = RepairRequest(kind="rewrite", blocks=tuple(blocks), reason=reason)
    carry_out_request(stream, request, config, dry_run=dry_run, as_json=as_json)


@app.command("drop-rows", epilog=exits.MEANING)
def drop_rows(
    stream: options.Stream,
    blocks: Blocks = None,
    *,
    where: Where = None,
    predicate: Json = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Replace every source that has such rows by itself without them; read so once the new blocks are ready.

    It is about the rows that are there now. What must never come back, from wherever, is erased instead.
    """
    request = RepairRequest(
        kind="drop-rows", blocks=tuple(blocks or ()), where=parse_predicate(where or [], predicate), reason=reason
    )
    carry_out_request(stream, request, config, dry_run=dry_run, as_json=as_json)


@app.command(epilog=exits.MEANING)
def reupload(
    stream: options.Stream,
    *,
    source: Source,
    file: File,
    reason: Reason = "",
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Upload a file's rows in place of those of one source: read at once, without waiting for sync_delay.

    The file is in the stream's own format, or Parquet with all columns. It may be empty, and its rows may lie in other
    time chunks.
    """
    request = RepairRequest(kind="reupload", source=source, path=str(file.resolve()), reason=reason)
    carry_out_request(stream, request, config, dry_run=dry_run, as_json=as_json)


def carry_out_request(
    stream: str, request: RepairRequest, config: Path | None, *, dry_run: bool, as_json: bool
) -> None:
    """Plan what the request asks for, show the plan, and carry it out unless it is a dry run; then exit."""
    loaded = load(config)
    job = local_job(loaded, stream, dry_run=dry_run)
    plan = plan_repair(job, request, loaded.path.parent)
    done: list[Repaired] = []
    if not as_json:
        show_plan(plan)
    if not dry_run:
        done = [carry_out(job, plan, number, partial(_upload, job)) for number in range(len(plan.batches))]
    failures = [failure for each in done for failure in each.failures]
    if as_json:
        blocks = [ulid for each in done for ulid in each.blocks]
        document = {"dry_run": dry_run, "plan": plan.model_dump(mode="json"), "blocks": blocks, "failures": failures}
        output.write_json(document)
    else:
        _tell(plan, done, dry_run=dry_run)
    raise typer.Exit(_code(plan, done))


def _code(plan: Plan, done: list[Repaired]) -> int:
    failed = [each for each in done if each.failures]
    if failed and all(each.transient for each in failed):
        return exits.TRY_AGAIN
    return exits.PROBLEMS if failed or any(skip.for_person for skip in plan.skipped) else 0


def _tell(plan: Plan, done: list[Repaired], *, dry_run: bool) -> None:
    for each in done:
        for line in [*each.lines, *each.failures]:
            output.write_line(line.removeprefix("* "))
    if not plan.actions:
        output.write_line("There is nothing to do.")
    elif dry_run:
        output.write_line("Dry run: nothing was changed.")


def _upload(job: Job, action: Reupload) -> list[str]:
    return upload_replacement(job, action, read_rows(job, Path(action.path)), configured_schema(job))
