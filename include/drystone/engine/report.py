"""Plans as lines of Markdown for a person."""

from __future__ import annotations

from drystone.plan.model import Plan

_SHOWN = 20


def plan_lines(plan: Plan) -> list[str]:
    """Return what the plan would do, the first actions of each kind by name."""
    lines = [f"Plan `{plan.id}` ({plan.kind}) of stream `{plan.stream}`: {len(plan.actions)} actions."]
    lines += [
        f"* merge {merge.label}: {len(merge.blocks)} blocks, {merge.rows:,} rows, {size(merge.bytes)} "
        f"→ {merge.outputs} ({merge.kind}: {merge.reason})"
        for merge in plan.merges[:_SHOWN]
    ]
    lines += [f"* unmark {unmark.ulid}: {unmark.reason}" for unmark in plan.unmarks[:_SHOWN]]
    lines += [f"* mark {mark.ulid}: {mark.reason}" for mark in plan.marks[:_SHOWN]]
    lines += [f"* delete {each.ulid} ({size(each.bytes)}): {each.reason}" for each in plan.deletes[:_SHOWN]]
    hidden = sum(max(0, len(some) - _SHOWN) for some in (plan.merges, plan.unmarks, plan.marks, plan.deletes))
    if hidden:
        lines.append(f"* … and {hidden} more")
    lines += [f"* left alone: {skip.name}: {skip.reason}" for skip in plan.skipped[:_SHOWN]]
    if len(plan.skipped) > _SHOWN:
        lines.append(f"* … and {len(plan.skipped) - _SHOWN} more left alone")
    return lines


def size(count: int) -> str:
    """Return bytes as a person reads them: `1.5 MiB`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:  # noqa: PLR2004 - the units' base
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
