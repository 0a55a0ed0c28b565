"""Requests of people and of retention: observed, planned, and carried out without Spark.

An edit, a hold or an unmarking is one small object written or deleted; each is logged before and after. Source: the
design, "Blocks: lifecycle verbs", "How it works inside".
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationError

from drystone import ulids
from drystone.block import keys
from drystone.block.edits import Edit
from drystone.block.guards import FOREVER, Hold
from drystone.block.predicates import Predicate
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.model import StreamConfig
from drystone.engine import audit, remove
from drystone.engine.audit import Entry, Outcome
from drystone.engine.lease import kept_lease
from drystone.engine.pacer import Pacer, ThreadPacer
from drystone.engine.record import apply_config, read_schema
from drystone.errors import DrystoneError, HeldError, ObjectExistsError, ObjectMissingError, UsageError
from drystone.jobs import (
    EraseRequest,
    HoldRequest,
    ReleaseRequest,
    RetainRequest,
    RetireRequest,
    UnmarkRequest,
)
from drystone.plan.edits import Asked, Seen, plan_erase, plan_retain, plan_retire
from drystone.plan.guards import plan_hold, plan_release, plan_unmark
from drystone.plan.model import PlaceHold, Plan, ReleaseHold, Unmark, WriteEdit
from drystone.rows.arrow_schema import to_arrow, unify
from drystone.rows.expressions import typed
from drystone.timeline.timeline import resolve
from drystone.tracker import ListingTracker

_Act = WriteEdit | PlaceHold | ReleaseHold | Unmark


@dataclass(frozen=True, slots=True)
class Desk:
    """Where a stream's requests are answered."""

    bucket: Bucket
    stream: str
    config: StreamConfig
    clock: Clock
    pacer: Pacer = field(default_factory=ThreadPacer)

    def look(self) -> Seen:
        """Observe the stream; raise StreamChangeError if it cannot take the configuration."""
        apply_config(self.bucket, self.stream, self.config, dry_run=True)
        times = self.config.times.times()
        snapshot = ListingTracker(self.bucket, self.stream).observe(self.clock())
        return Seen(snapshot, resolve(snapshot, times), times, ulids.new(snapshot.taken_at))

    def plan(self, request: BaseModel, seen: Seen) -> Plan:
        """Return the plan that answers the request; the rows that an edit takes are not counted, but bounded.

        Raises UsageError for what the stream does not have, InputError for a predicate that does not fit its columns.
        """
        asked = Asked(getattr(request, "reason", ""), getattr(request, "author", ""), getattr(request, "key", ""))
        match request:
            case RetainRequest():
                return plan_retain(
                    seen, self.config.retention.by_resolution(), self.config.granularity.ingest, asked.author
                )
            case RetireRequest():
                return plan_retire(seen, request.sources, request.blocks, asked)
            case EraseRequest():
                return plan_erase(seen, self._typed(request.predicate, seen), asked)
            case HoldRequest():
                return plan_hold(seen, self.holds(), request.name, request.blocks, asked, request.length)
            case ReleaseRequest():
                return plan_release(seen, self.holds(), request.name, asked)
            case UnmarkRequest():
                return plan_unmark(seen, self.holds(), request.block, asked, request.length)
        raise UsageError(f"{type(request).__name__} asks for nothing that is planned here.")

    def _typed(self, predicate: Predicate, seen: Seen) -> Predicate:
        # Of every block that is whole, ready or not: who asks need not wait until the first one is read.
        metas = (folder.meta for folder in seen.snapshot.folders.values() if folder.meta is not None)
        extensions = [meta.drystone for meta in metas if meta.drystone is not None]
        own = {each.schema_fingerprint for each in extensions if each.generation == self.config.generation}
        if not own:
            raise UsageError(f"stream {self.stream} has no rows yet.", "There is nothing to erase.")
        return typed(predicate, to_arrow(unify(read_schema(self.bucket, self.stream, each) for each in sorted(own))))

    def holds(self) -> Mapping[str, Hold]:
        """Return the stream's holds by name; one that cannot be read holds everything, as removers take it."""
        prefix = keys.holds(self.stream)
        found: dict[str, Hold] = {}
        for item in self.bucket.list(prefix):
            name = item.key.removeprefix(prefix).removesuffix(".json")
            try:
                found[name] = Hold.model_validate_json(self.bucket.get(item.key))
            except ObjectMissingError:
                continue
            except ValidationError:
                found[name] = Hold(owner="unknown", reason="it cannot be read", created=0, expires=FOREVER)
        return found

    def carry_out(self, plan: Plan, run: str, author: str) -> tuple[str, ...]:
        """Do all that the plan says, in its order; return the names of what was done, for the second time or the first.

        The log has a line for each action before the first is done. One that fails stops those after it. Raises
        PlanExpiredError, HeldError (another remover has the lease, or a block's deletion has begun), BucketError.
        """
        now = self.clock()
        plan.check(now)
        acts = [each for each in plan.actions if isinstance(each, _Act)]
        intended = [Entry(*_line(each), run, now, outcome="intended", by=author) for each in acts]
        audit.append(self.bucket, self.stream, intended, now)
        done: list[str] = []
        with ExitStack() as stack:
            if plan.unmarks:
                stack.enter_context(kept_lease(self.bucket, self.stream, run, self.clock, self.pacer))
            for act, line in zip(acts, intended, strict=True):
                self._act_and_log(act, line)
                done.append(line.block)
        return tuple(done)

    def _act_and_log(self, act: _Act, line: Entry) -> None:
        outcome: tuple[Outcome, str] = ("done", "")
        try:
            self._act(act)
        except DrystoneError as error:
            outcome = ("left" if isinstance(error, HeldError) else "failed", str(error))
            raise
        finally:
            audit.conclude(self.bucket, self.stream, [line], {line.block: outcome}, self.clock())

    def _act(self, act: _Act) -> None:
        match act:
            case WriteEdit(edit=edit):
                write_edit(self.bucket, self.stream, edit)
            case PlaceHold(name=name, hold=hold):
                self._place(name, hold)
            case ReleaseHold(name=name):
                self.bucket.delete([keys.hold(self.stream, name)])
            case Unmark():
                refusal = remove.unmark(self.bucket, self.stream, act)
                if refusal:
                    raise HeldError(f"block {act.ulid} was not unmarked: {refusal}.")

    def _place(self, name: str, hold: Hold) -> None:
        key = keys.hold(self.stream, name)
        try:
            self.bucket.create(key, hold.to_json())
        except ObjectExistsError:
            there = self.holds().get(name)
            if there is not None and there.expires > self.clock():
                if there.model_copy(update={"created": hold.created, "expires": hold.expires}) == hold:
                    return
                msg = f"stream {self.stream}: hold {name} was placed by {there.owner} a moment ago: {there.reason}."
                raise HeldError(msg, "Take another name.") from None
            self.bucket.put(key, hold.to_json())


def write_edit(bucket: Bucket, stream: str, edit: Edit) -> None:
    """Write the edit; one of the same id is the answer to the same request, and stays as it is."""
    try:
        bucket.create(keys.edit(stream, edit.id), edit.to_json())
    except ObjectExistsError:
        return


def _line(act: _Act) -> tuple[str, str, str]:
    """Return what the log says of an act: what, which, why."""
    match act:
        case WriteEdit(edit=edit):
            return edit.kind, edit.id, edit.reason
        case PlaceHold(name=name, hold=hold):
            return "hold", name, hold.reason
        case ReleaseHold(name=name, reason=reason):
            return "release", name, reason
        case Unmark(ulid=ulid, reason=reason):
            return "unmark", ulid, reason
