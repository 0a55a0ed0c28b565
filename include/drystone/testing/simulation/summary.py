"""What many simulated lives went through, and whether that was enough to prove anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from drystone.testing.simulation.life import Lived

EXERCISED = (
    "crashes",
    "zombies",
    "refusals",
    "lost answers",
    "torn listings",
    "half deletions",
    "lags seen",
    "overlaps",
    "twins",
    "late uploads",
    "uploads out of time",
    "lease conflicts",
    "wrong marks",
    "accidents",
    "erase edits",
    "retire edits",
    "expire edits",
    "uploads",
    "compactions",
    "repairs: rewrite",
    "repairs: drop-rows",
    "repairs: reupload",
    "repairs: partial",
    "repairs: malformed",
    "repairs: adopt",
    "replacements",
    "marks",
    "sweeps",
    "reads",
    "reads told of damage",
)
"""What a long simulation must have gone through at least once."""


@dataclass
class Summary:
    """The sum of lives: how many, how long, what happened how often, which of them failed."""

    lives: int = 0
    hours: int = 0
    tally: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    failed: list[Lived] = field(default_factory=list)

    def add(self, lived: Lived) -> None:
        """Add a life."""
        self.lives += 1
        self.hours += lived.hours
        self.tally.update(lived.tally)
        self.points.update(lived.points)
        if lived.failure:
            self.failed.append(lived)

    @property
    def missing(self) -> list[str]:
        """What has never happened, and should have."""
        return [name for name in EXERCISED if not self.tally[name]]

    def lines(self) -> Iterable[str]:
        """Yield the summary for a person."""
        crashed = sum(1 for times in self.points.values() if times)
        yield f"{self.lives:,} lives, {self.hours:,} simulated hours, {len(self.failed)} failed."
        yield f"{crashed} of {len(self.points)} named crash points were crash sites."
        for name in EXERCISED:
            yield f"{self.tally[name]:>12,}  {name}"
        for name in sorted(self.tally.keys() - EXERCISED):
            yield f"{self.tally[name]:>12,}  ({name})"
        if self.missing:
            yield f"Never happened: {', '.join(self.missing)}. More seeds are needed to prove anything."
