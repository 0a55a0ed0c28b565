"""`drystone erase`: take the rows away that match, and see what is left of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from drystone import clock, ulids
from drystone.block.edits import Erase
from drystone.block.predicates import All, Comparison, Predicate
from drystone.block.receipt import Receipt
from drystone.bucket import open_bucket
from drystone.cli import exits, options, output
from drystone.cli.acting import Author, DryRun, Reason, act, author_or_user, request_of
from drystone.config.load import load
from drystone.engine.erasures import erasures, keep_receipt, last_receipt, receipt_of
from drystone.engine.report import receipt_lines
from drystone.errors import UsageError
from drystone.jobs import EraseRequest
from drystone.verbs.requests import Desk

app = typer.Typer(
    add_completion=False, rich_markup_mode="markdown", help="Take rows away that match, and see what is left of them."
)
_CONDITION = re.compile(r"(?P<column>[^=!<>]+?)\s*(?P<op><=|>=|!=|=|<|>)\s*(?P<value>.*)", re.DOTALL)
_PREDICATE: TypeAdapter[Predicate] = TypeAdapter(Predicate)
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="CONDITION", help="customer=17, or !=, <, <=, >, >=; all of several must hold."),
]
Json = Annotated[
    str | None, typer.Option("--predicate", metavar="JSON", help="Any condition, as in an erase edit's `predicate`.")
]
MaybeEdit = Annotated[
    str | None, typer.Argument(metavar="EDIT", help="One erasure, by the id of its edit.", show_default=False)
]
Write = Annotated[bool, typer.Option("--write", help="Keep what is shown as a receipt in the bucket.")]
Key = Annotated[
    str, typer.Option("--key", help="Tells the request from an equal one of before, for rows that came since then.")
]


@app.command(epilog=exits.MEANING)
def rows(
    stream: options.Stream,
    *,
    reason: Reason,
    where: Where = None,
    predicate: Json = None,
    key: Key = "",
    author: Author = None,
    dry_run: DryRun = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Write an erase edit: rows that match are gone for readers at once, and for good.

    It applies to every source that is planned by now, also to one that is uploaded later. A condition is not met by a
    null. The same request again makes no second edit: give another `--key` for rows that came since.
    """
    request = request_of(
        EraseRequest,
        predicate=parse_predicate(where or [], predicate),
        reason=reason,
        key=key,
        author=author_or_user(author),
    )
    note = f"Readers leave these rows out from now on; the DAG {stream}__erase rewrites the blocks that hold them."
    act(stream, request, config=config, dry_run=dry_run, as_json=as_json, notes=[note])


@app.command(epilog=exits.MEANING)
def status(
    stream: options.Stream,
    edit: MaybeEdit = None,
    *,
    write: Write = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Show of each erasure whether it is complete, and what is left if it is not.

    `open`: some block or place may still hold such rows. `complete`: none does. `reopened`: it was complete, and a
    block has come since that may hold some. Only metadata is read: what nobody has looked through yet counts as open.
    """
    loaded = load(config)
    desk = Desk(open_bucket(loaded.bucket_url(stream)), stream, loaded.stream(stream), clock.system)
    seen = desk.look()
    found = []
    for each in erasures(seen.snapshot, edit):
        receipt = receipt_of(desk.bucket, seen, each, f"terminal-{ulids.new(clock.system())}")
        before = last_receipt(desk.bucket, stream, each.id, complete=True)
        state = "reopened" if receipt.state == "open" and before is not None else receipt.state
        key = keep_receipt(desk.bucket, receipt) if write else None
        found.append(_Erasure(each, state, receipt, key))
    if as_json:
        output.write_json({"stream": stream, "at": seen.timeline.at, "erasures": [each.document() for each in found]})
        return
    _show(found)


@dataclass(frozen=True, slots=True)
class _Erasure:
    """An erasure as it stands; `key`: of the receipt that was kept."""

    edit: Erase
    state: str
    receipt: Receipt
    key: str | None

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        edit, receipt = self.edit.model_dump(mode="json"), self.receipt.model_dump(mode="json")
        return {"state": self.state, "edit": edit, "receipt": receipt, "key": self.key}


def _show(found: list[_Erasure]) -> None:
    lines = (
        (e.edit.id, e.state, len(e.receipt.left), output.moment(e.edit.time), e.edit.author, e.edit.reason)
        for e in found
    )
    output.write_table(("id", "state", ">left", "since", "author", "reason"), lines)
    for each in found:
        output.write_line()
        for line in receipt_lines(each.receipt):
            output.write_line(line.replace("`", ""))
        if each.key:
            output.write_line(f"Receipt: {each.key}")


def parse_predicate(where: list[str], predicate: str | None) -> Predicate:
    """Return the predicate that conditions or JSON stand for; raise UsageError unless it is exactly one of them."""
    if bool(where) == (predicate is not None):
        raise UsageError("what is to be erased is not clear.", "Give --where (once or more), or --predicate.")
    if predicate is not None:
        try:
            return _PREDICATE.validate_json(predicate)
        except ValidationError as error:
            raise UsageError(f"--predicate: {error.errors()[0]['msg']}.", "See the reference of erase edits.") from None
    parts = tuple(_condition(text) for text in where)
    return parts[0] if len(parts) == 1 else All(all=parts)


def _condition(text: str) -> Comparison:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError(f"--where: {text!r} is no condition.", "Write COLUMN=VALUE, or with !=, <, <=, > or >=.")
    return Comparison.model_validate(found.groupdict())
