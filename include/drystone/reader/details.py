"""Everything that one look tells of a stream, and of a block: for people, and for whatever shows it to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from drystone import ulids
from drystone.block.folder import Folder
from drystone.block.states import State
from drystone.errors import UsageError
from drystone.reader.stats import StageStats, count
from drystone.reader.view import View
from drystone.timeline.damage import Damage, Problem
from drystone.timeline.explain import explain
from drystone.timeline.timeline import states


@dataclass(frozen=True, slots=True)
class StreamDetails:
    """A stream at the moment `at` (ms since the epoch). `record`, `edits`, `holds`, `pins`: the objects as they are."""

    stream: str
    bucket: str
    at: int
    record: dict[str, Any]
    stats: StageStats
    """Of all generations together."""
    rows_by_generation: dict[int, int]
    """The visible blocks' rows; readers see those of one generation."""
    states: dict[State, int]
    groups_visible: int
    groups_pending: tuple[str, ...]
    groups_incomplete: tuple[str, ...]
    groups_sharing: tuple[str, ...]
    """Visible groups that are read less some sources, because another group has those too."""
    edits: tuple[dict[str, Any], ...]
    holds: tuple[dict[str, Any], ...]
    pins: tuple[dict[str, Any], ...]
    damage: tuple[Damage, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Relative:
    """A block that has to do with another one. `there`: whether the bucket has its folder."""

    ulid: str
    there: bool


@dataclass(frozen=True, slots=True)
class FileDetails:
    """A file of the folder: bytes, last modified (ms), and whether it belongs there: a mark, or listed by meta.json."""

    name: str
    size: int
    modified: int
    known: bool


@dataclass(frozen=True, slots=True)
class BlockDetails:
    """A block at the moment `at` (ms). `group`: its id; `excluded`: sources that are read elsewhere or nowhere.

    `parents` are the blocks that it was made of, `children` those that say they were made of it, ready or not.
    `covered_by` are the blocks of the visible group that covers its group, `covers` those of the groups that its group
    covers. `mark` is the deletion mark as it is.
    """

    stream: str
    ulid: str
    at: int
    state: State
    why: str
    meta: dict[str, Any] | None
    group: str
    group_members: tuple[str, ...]
    sources: tuple[str, ...]
    excluded: tuple[str, ...]
    parents: tuple[Relative, ...]
    children: tuple[Relative, ...]
    covered_by: tuple[Relative, ...]
    covers: tuple[Relative, ...]
    mark: dict[str, Any] | None
    no_compact: bool
    files: tuple[FileDetails, ...]
    damage: tuple[Damage, ...]
    problems: tuple[Problem, ...]


def stream_details(view: View) -> StreamDetails:
    """Return what one look tells of a stream."""
    snapshot, timeline = view.snapshot, view.timeline
    found = states(snapshot, timeline, view.record.rules)
    counted = Counter(found.values())
    sharing = (name for name, each in timeline.visible.items() if each.excluded - each.gone)
    return StreamDetails(
        stream=view.record.stream,
        bucket=view.bucket.url,
        at=timeline.at,
        record=view.record.model_dump(mode="json"),
        stats=count(view),
        rows_by_generation=_rows_by_generation(view),
        states={state: counted[state] for state in State if counted[state]},
        groups_visible=len(timeline.visible),
        groups_pending=tuple(timeline.pending),
        groups_incomplete=tuple(timeline.incomplete),
        groups_sharing=tuple(sharing),
        edits=tuple(edit.model_dump(mode="json") for edit in snapshot.edits),
        holds=tuple(hold.model_dump(mode="json") for hold in snapshot.holds),
        pins=tuple(pin.model_dump(mode="json") for pin in snapshot.pins),
        damage=timeline.damage,
        problems=timeline.problems,
    )


def _rows_by_generation(view: View) -> dict[int, int]:
    found: Counter[int] = Counter()
    for each in view.timeline.visible.values():
        found[each.group.pattern.generation] += sum(block.rows for block in each.group.members)
    return dict(sorted(found.items()))


def block_details(view: View, ulid: str) -> BlockDetails:
    """Return what one look tells of a block; raise UsageError if the stream has none of this name."""
    snapshot, timeline = view.snapshot, view.timeline
    folder = _folder(view, ulid)
    found = states(snapshot, timeline, view.record.rules)
    own = {name: group for name, group in timeline.groups.items() if any(b.ulid == ulid for b in group.blocks)}
    group = next(iter(own), "")
    visible = timeline.visible.get(group)
    parents = folder.meta.compaction.parents if folder.meta is not None else ()
    named = {ulid, group} - {""}
    return BlockDetails(
        stream=view.record.stream,
        ulid=ulid,
        at=timeline.at,
        state=found[ulid],
        why=explain(snapshot, timeline, found, view.record.rules)[ulid],
        meta=folder.meta.model_dump(mode="json", by_alias=True, exclude_none=True) if folder.meta is not None else None,
        group=group,
        group_members=_members(view, (group,)),
        sources=tuple(sorted(folder.sources)),
        excluded=tuple(sorted(visible.excluded)) if visible is not None else (),
        parents=_relatives(view, (parent.ulid for parent in parents)),
        children=_relatives(view, _children(view, ulid)),
        covered_by=_relatives(view, _members(view, (timeline.covered[group],) if group in timeline.covered else ())),
        covers=_relatives(view, _members(view, (name for name, by in timeline.covered.items() if by == group))),
        mark=folder.mark.model_dump(mode="json") if folder.mark is not None else None,
        no_compact=folder.no_compact,
        files=_files(folder),
        damage=tuple(each for each in timeline.damage if each.name in named),
        problems=tuple(each for each in timeline.problems if each.name.partition("/")[0] in named),
    )


def _folder(view: View, ulid: str) -> Folder:
    folder = view.snapshot.folders.get(ulid)
    if folder is not None:
        return folder
    stream = view.record.stream
    if f"{stream}/{ulid}" in view.snapshot.strays:
        msg = f"{stream}/{ulid} is no block: its name is no ULID in upper case."
        raise UsageError(msg, "Drystone leaves it alone; `drystone inspect STREAM` lists such names.")
    hint = "" if ulids.is_canonical(ulid) else "A ULID has 26 upper-case characters. "
    raise UsageError(f"stream {stream} has no block {ulid}.", f"{hint}`drystone ls {stream}` lists them.")


def _members(view: View, groups: Iterable[str]) -> tuple[str, ...]:
    found = (view.timeline.groups[name] for name in groups if name in view.timeline.groups)
    return tuple(block.ulid for group in found for block in group.members)


def _children(view: View, ulid: str) -> Iterator[str]:
    for name, folder in sorted(view.snapshot.folders.items()):
        if folder.meta is not None and any(parent.ulid == ulid for parent in folder.meta.compaction.parents):
            yield name


def _relatives(view: View, names: Iterable[str]) -> tuple[Relative, ...]:
    return tuple(Relative(name, name in view.snapshot.folders) for name in names)


def _files(folder: Folder) -> tuple[FileDetails, ...]:
    strays = set(folder.stray_files())
    return tuple(
        FileDetails(name, facts.size, facts.modified, name not in strays)
        for name, facts in sorted(folder.files.items())
    )
