"""The remover's turn on one action: guards first, then the act. It can run in any process of the run.

Source: the design, "Guards: one remover", "the remover asks again", plans that expire.
"""

from __future__ import annotations

from dataclasses import dataclass

from drystone.bucket.protocol import Bucket
from drystone.engine import audit, remove
from drystone.engine.audit import Outcome
from drystone.engine.lease import Held
from drystone.engine.second_look import SecondLook
from drystone.errors import DrystoneError
from drystone.plan.model import Delete, Mark, Plan, Skip, Unmark


@dataclass(frozen=True, slots=True)
class Acted:
    """What became of an action: done, left alone (`refusal` says why), or failed (`error` says how)."""

    ulid: str
    refusal: str = ""
    error: str = ""

    @property
    def done(self) -> bool:
        """Whether the action is done."""
        return not (self.refusal or self.error)

    @property
    def outcome(self) -> Outcome:
        """What the log says of it."""
        return "failed" if self.error else "left" if self.refusal else "done"


@dataclass(frozen=True, slots=True)
class Remover:
    """What an act needs besides its action; can be sent to other processes."""

    look: SecondLook
    lease: Held
    plan: Plan
    delete_delay: int

    def act(self, action: Mark | Unmark | Delete) -> Acted:
        """Do one action, unless a guard speaks against it; never raises for what is wrong with one block or the store.

        So the others go on, and what was done is logged, whatever happens to one. A run that may not act any more (its
        plan has expired, its lease is gone) fails every action from then on.
        """
        try:
            return Acted(action.ulid, refusal=self._act(action))
        except DrystoneError as error:
            return Acted(action.ulid, error=str(error))

    def _act(self, action: Mark | Unmark | Delete) -> str:
        now = self.look.clock()
        self.plan.check(now)
        self.lease.check(now)
        match action:
            case Mark():
                return remove.mark(self.look, action)
            case Unmark():
                return remove.unmark(self.look.bucket, self.look.stream, action)
            case Delete():
                return remove.delete(self.look, action, self.delete_delay)


def spare_once_whole(bucket: Bucket, plan: Plan) -> Plan:
    """Return the plan without partial folders that the audit log knows as once whole: that is damage, for a person."""
    if not any(delete.kind == "partial" for delete in plan.deletes):
        return plan
    known = audit.uploaded(bucket, plan.stream)
    kept, spared = [], []
    for delete in plan.deletes:
        if delete.kind == "partial" and delete.ulid in known:
            reason = "its meta.json is gone, and it was whole once: this is damage, for a person"
            spared.append(Skip(name=delete.ulid, reason=reason))
        else:
            kept.append(delete)
    return plan.model_copy(update={"deletes": tuple(kept), "skipped": (*plan.skipped, *spared)})
