"""What there is in a simulated stream: rows, blocks, groups, and reads that go on. Times are ms, and true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from drystone.block.meta import META_FILE
from drystone.block.predicates import Comparison, Predicate

ACCIDENT = "accident"
"""The client that loses objects without being asked to."""


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A row: a number that no other has, its event time (ms), and the column that an erase looks at."""

    number: int
    time: int
    kind: str


@dataclass(slots=True)
class TrueBlock:
    """A block's folder as it is. `wanted`: the files that its meta.json lists; None while there was none.

    `listed`: when meta.json was written. `at_once`: it does not wait to be read.
    `given_up`: it is marked no-compact. `struck`: when an accident hit it.
    """

    ulid: str
    by: str
    files: dict[str, int] = field(default_factory=dict)
    active: int = 0
    marked: int | None = None
    wanted: Mapping[str, int] | None = None
    sources: frozenset[str] = frozenset()
    group: str = ""
    size: int = 1
    index: int = 0
    touched: int = 0
    listed: int = 0
    at_once: bool = False
    given_up: bool = False
    struck: int | None = None

    @property
    def whole(self) -> bool:
        """Whether meta.json and all that it lists is there."""
        return self.wanted is not None and META_FILE in self.files and self.wanted.items() <= self.files.items()


@dataclass(frozen=True, slots=True)
class Ready:
    """A complete group, one block for each index: from when somebody perhaps, and everybody surely, may rely on it."""

    perhaps: int
    surely: int
    blocks: list[TrueBlock]

    @property
    def sources(self) -> frozenset[str]:
        """Its whole source set."""
        return self.blocks[0].sources

    @property
    def id(self) -> str:
        """Its name."""
        return self.blocks[0].group


@dataclass(slots=True)
class Read:
    """A read that goes on: since when (true time), by which clock's time it looked first and last, at which blocks."""

    name: str
    began: int
    pinned: bool
    looked: list[int] = field(default_factory=list)
    blocks: set[str] = field(default_factory=set)


def selects(predicate: Predicate, row: Row) -> bool:
    """Tell whether a predicate, one of those that are asked for here, is true for a row."""
    if not isinstance(predicate, Comparison) or predicate.op != "=":
        raise NotImplementedError(predicate)
    return bool(getattr(row, predicate.column) == predicate.value)
