"""How `drystone inspect STREAM` looks for a person."""

from __future__ import annotations

from collections.abc import Iterator

from drystone.block.states import Times
from drystone.cli import output
from drystone.config.durations import format_duration
from drystone.engine.report import size
from drystone.reader.details import StreamDetails


def show_stream(details: StreamDetails) -> None:
    """Print the summary, then edits and guards if there are any, then all damage and all problems."""
    output.write_fields(_summary(details), title=f"stream {details.stream}")
    if details.edits:
        output.write_line()
        edits = ((e["id"], e["kind"], output.moment(e["time"]), e["author"], e["reason"]) for e in details.edits)
        output.write_table(("id", "kind", "time", "author", "reason"), edits, title="edits")
    guards = [("hold", each) for each in details.holds] + [("pin", each) for each in details.pins]
    if guards:
        output.write_line()
        rows = ((kind, g["owner"], _expiry(g["expires"], details.at), g["reason"]) for kind, g in guards)
        output.write_table(("kind", "owner", "expires", "reason"), rows, title="kept from removal")
    output.write_line()
    if details.damage:
        output.write_table(
            ("name", "what"), ((d.name, d.text) for d in details.damage), title="damage: rows are missing"
        )
    if details.problems:
        problems = ((p.kind, p.name, p.text) for p in details.problems)
        output.write_table(("kind", "name", "what"), problems, title="problems")
    if not details.damage and not details.problems:
        output.write_line("No damage, and no problems.")


def _summary(details: StreamDetails) -> Iterator[tuple[str, object]]:
    record, stats = details.record, details.stats
    yield "bucket", details.bucket
    yield "seen at", output.moment(details.at)
    yield "time column", record["time_column"]
    yield "sort key", ", ".join(record["sort_key"])
    yield "time chunks", f"{record['ingest_granularity']} → {record['major_granularity']}"
    yield "generation", record["generation"]
    known = ((name, ms) for name, ms in record["times"].items() if name in Times.__dataclass_fields__)
    yield "times", ", ".join(f"{name} {format_duration(ms)}" for name, ms in known)
    yield "blocks", ", ".join(f"{number:,} {state}" for state, number in details.states.items()) or "none"
    yield "visible", f"{stats.blocks_visible:,} blocks in {details.groups_visible:,} groups, {stats.files:,} files"
    yield "rows", f"{stats.rows:,} in {size(stats.bytes)}"
    if len(details.rows_by_generation) > 1:
        apart = (f"{rows:,} of generation {number}" for number, rows in details.rows_by_generation.items())
        yield "of which", f"{', '.join(apart)}: readers see one"
    if details.groups_sharing:
        yield "overlaps", f"{len(details.groups_sharing):,} groups share sources with another one: compacted first"
    if details.groups_pending:
        yield "not ready", f"{len(details.groups_pending):,} groups wait for sync_delay"
    if details.groups_incomplete:
        yield "incomplete", ", ".join(details.groups_incomplete)


def _expiry(expires: int, now: int) -> str:
    if expires <= now:
        return "over"
    # Beyond what a calendar holds: a guard that nobody can read keeps for ever.
    return "never" if expires - now > 100 * 365 * 86_400_000 else output.moment(expires)
