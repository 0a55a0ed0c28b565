"""Which sources stand for one another: a root, and all that ever replaced it. Source: the design, "Replacing data"."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Families:
    """What replaces what, as the plans of a life say it. Of a root's replacements the newest plan's counts."""

    _roots: dict[str, str] = field(default_factory=dict)
    _members: dict[str, set[str]] = field(default_factory=dict)

    def learn(self, root: str, by: str) -> None:
        """Note that one source is to replace another, which may be a replacement itself."""
        self._roots[by] = root
        self._members.setdefault(self.first(root), set()).add(by)

    def lineage(self, source: str) -> list[str]:
        """Return the source, what it replaces, what that one replaced, and so on."""
        found = [source]
        while found[-1] in self._roots:
            found.append(self._roots[found[-1]])
        return found

    def first(self, source: str) -> str:
        """Return the source of first generation that this one stands for."""
        return self.lineage(source)[-1]

    def of(self, source: str) -> list[str]:
        """Return the whole family of a source, whoever counts last: the root, then its replacements by their plans."""
        first = self.first(source)
        return [first, *sorted(self._members.get(first, ()))]

    def after(self, source: str) -> list[str]:
        """Return those that count before this source, once they are ready."""
        family = self.of(source)
        return family[family.index(source) + 1 :]

    @property
    def replacements(self) -> frozenset[str]:
        """Every source that replaces another."""
        return frozenset(self._roots)
