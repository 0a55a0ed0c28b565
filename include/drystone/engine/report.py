"""Plans as lines of Markdown for a person."""

from __future__ import annotations

from drystone.block.edits import Retire
from drystone.block.receipt import Receipt
from drystone.plan.model import Plan, WriteEdit

_SHOWN = 20


def plan_lines(plan: Plan) -> list[str]:
    """Return what the plan would do, the first actions of each kind by name."""
    lines = [f"Plan `{plan.id}` ({plan.kind}) of stream `{plan.stream}`: {len(plan.actions)} actions."]
    lines += [
        f"* merge {merge.label}: {len(merge.blocks)} blocks, {merge.rows:,} rows, {size(merge.bytes)} "
        f"→ {merge.outputs} ({merge.kind}: {merge.reason})"
        for merge in plan.merges[:_SHOWN]
    ]
    lines += [line for each in plan.edits for line in _edit_lines(each)]
    lines += [f"* hold {each.name}: {', '.join(each.hold.blocks) or 'the whole stream'}" for each in plan.holds]
    lines += [f"* release hold {each.name}: {each.reason}" for each in plan.releases]
    lines += [f"* unmark {unmark.ulid}: {unmark.reason}" for unmark in plan.unmarks[:_SHOWN]]
    lines += [f"* mark {mark.ulid}: {mark.reason}" for mark in plan.marks[:_SHOWN]]
    lines += [f"* delete {each.ulid} ({size(each.bytes)}): {each.reason}" for each in plan.deletes[:_SHOWN]]
    lines += [f"* replace {each.label}: {each.reason}" for each in plan.replaces[:_SHOWN]]
    lines += [
        f"* upload {each.path} ({size(each.bytes)}) in place of source {each.root}" for each in plan.reuploads[:_SHOWN]
    ]
    lines += [
        f"* adopt {', '.join(each.blocks)} from {each.origin}/{each.origin_stream}" for each in plan.adopts[:_SHOWN]
    ]
    lines += [
        f"* parse {each.label} anew: {each.rows:,} messages, from {each.read_from}" for each in plan.refills[:_SHOWN]
    ]
    kinds = (
        plan.refills,
        plan.adopts,
        plan.merges,
        plan.unmarks,
        plan.marks,
        plan.deletes,
        plan.replaces,
        plan.reuploads,
    )
    hidden = sum(max(0, len(some) - _SHOWN) for some in kinds)
    if hidden:
        lines.append(f"* … and {hidden} more")
    lines += [f"* left alone: {skip.name}: {skip.reason}" for skip in plan.skipped[:_SHOWN]]
    if len(plan.skipped) > _SHOWN:
        lines.append(f"* … and {len(plan.skipped) - _SHOWN} more left alone")
    return lines


def _edit_lines(action: WriteEdit) -> list[str]:
    """Return what an edit would take: its sources, if it names some, and of which groups and blocks."""
    edit, how = action.edit, "" if action.counted else "at most "
    lines = [f"* {edit.kind} {edit.id}: {how}{action.rows:,} rows in {len(action.taken)} groups ({edit.reason})"]
    if isinstance(edit, Retire):
        more = len(edit.sources) - _SHOWN
        lines.append(f"  * sources: {', '.join(edit.sources[:_SHOWN])}{f' and {more} more' if more > 0 else ''}")
    lines += [
        f"  * {how}{each.rows:,} rows of group {each.group}{', which is all of it' if each.whole else ''}: "
        f"blocks {', '.join(each.blocks)}"
        for each in action.taken[:_SHOWN]
    ]
    if len(action.taken) > _SHOWN:
        lines.append(f"  * … and {len(action.taken) - _SHOWN} more groups")
    return lines


def receipt_lines(receipt: Receipt) -> list[str]:
    """Return what a receipt says: its state, what is left and where, and what was checked."""
    counts = f"{receipt.applied:,} blocks were written without such rows, {len(receipt.clear):,} were looked through"
    lines = [f"Erasure `{receipt.edit}` is {receipt.state}: {counts}, {receipt.later:,} hold later rows only."]
    lines += [f"* {left.block}: {left.why}" for left in receipt.left[:_SHOWN]]
    if len(receipt.left) > _SHOWN:
        lines.append(f"* … and {len(receipt.left) - _SHOWN} more blocks")
    if receipt.uploading:
        lines.append(f"* {len(receipt.uploading)} uploads are running: they are checked when they are whole")
    return lines + [f"* {place.what}: {place.state} ({place.note})" for place in receipt.elsewhere]


def size(count: int) -> str:
    """Return bytes as a person reads them: `1.5 MiB`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:  # noqa: PLR2004 - the units' base
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
