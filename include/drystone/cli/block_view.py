"""How `drystone inspect STREAM ULID` looks for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drystone import ulids
from drystone.cli import output
from drystone.engine.report import size
from drystone.reader.details import BlockDetails, Relative

_SHOWN = 10


def show_block(details: BlockDetails) -> None:
    """Print the facts, then the files, then damage and problems if there are any."""
    output.write_fields(_facts(details), title=f"block {details.ulid} of stream {details.stream}")
    output.write_line()
    rows = (
        (f.name, size(f.size), output.moment(f.modified), "" if f.known else "no part of it") for f in details.files
    )
    output.write_table(("file", ">size", "modified", ""), rows)
    for title, lines in (("damage", details.damage), ("problems", details.problems)):
        if lines:
            output.write_line()
            output.write_table(("what",), ((line.text,) for line in lines), title=title)


def _facts(details: BlockDetails) -> Iterator[tuple[str, object]]:
    yield "state", details.state
    yield "why", details.why
    yield "upload began", output.moment(ulids.time_of(details.ulid))
    if details.meta is not None:
        yield from _meta(details.meta)
    if len(details.group_members) > 1 or details.group not in {"", details.ulid}:
        yield "group", f"{details.group}: {_some(details.group_members)}"
    yield "sources", _some(details.sources)
    if details.excluded:
        yield "of these not read here", _some(details.excluded)
    relatives = (
        ("parents", details.parents),
        ("made into", details.children),
        ("covered by", details.covered_by),
        ("covers", details.covers),
    )
    for name, blocks in relatives:
        if blocks:
            yield name, _some([_relative(block) for block in blocks])
    if details.mark is not None:
        when = output.moment(details.mark["deletion_time"] * 1000)
        yield "deletion mark", f"{when}: {details.mark['details'] or 'no reason given'}"
    if details.no_compact:
        yield "no-compact mark", True


def _meta(meta: dict[str, object]) -> Iterator[tuple[str, object]]:
    stats, compaction, thanos = (_section(meta, name) for name in ("stats", "compaction", "thanos"))
    yield "rows", stats["numSamples"]
    yield "row groups", stats["numChunks"]
    yield "times", f"{_moment(meta, 'minTime')} to {_moment(meta, 'maxTime')}"
    yield "level", compaction["level"]
    yield "made by", thanos["source"]
    yield "labels", ", ".join(f"{name}={value}" for name, value in _section(thanos, "labels").items())
    own = _section(thanos, "extensions").get("drystone")
    if not isinstance(own, dict):
        return
    chunk = own["time_chunk"]
    yield "time chunk", f"{chunk['granularity']} from {output.moment(chunk['start'])}"
    if own.get("unknown_times"):
        yield "without time", own["unknown_times"]
    yield "sort key", ", ".join(own["sort_key"])
    yield "checksum", own["checksum"]
    yield "schema", own["schema_fingerprint"]
    yield "operation", own["operation"]
    if own.get("edits"):
        yield "applied edits", _some(own["edits"])
    if own.get("retires"):
        yield "replaces", _some([pair["root"] for pair in own["retires"]])
    if own.get("rewritten"):
        yield "rewritten", ", ".join(f"{name} {number:,}" for name, number in own["rewritten"].items())


def _section(document: dict[str, object], name: str) -> dict[str, object]:
    found = document[name]
    assert isinstance(found, dict)  # noqa: S101 - meta.json was validated when it was read
    return found


def _moment(meta: dict[str, object], name: str) -> str:
    return output.moment(int(str(meta[name])))


def _relative(block: Relative) -> str:
    return block.ulid if block.there else f"{block.ulid} (gone)"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
