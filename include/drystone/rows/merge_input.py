"""One input of a merge: its buffered batches, up to where they were taken, and the proof that they are sorted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass

import pyarrow as pa

from drystone.errors import InvariantError
from drystone.rows import keys
from drystone.rows.interning import Interned, Interner
from drystone.rows.keys import Key
from drystone.rows.sort_columns import KeyReader, SortColumns


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one input that belong to a window."""

    source: MergeInput
    rows: Interned


@dataclass(slots=True)
class _Buffered:
    rows: Interned
    sort_columns: SortColumns
    start: int
    last: Key
    last_rank: keys.Rank


class MergeInput:
    """Reads an input until `batch_rows` rows are buffered, and hands out rows up to a key.

    Raises InvariantError where a batch, or what is left of one, begins with a smaller key than the rows before it ended
    with; the order inside of what `take` hands out is for the caller to check.
    """

    def __init__(
        self,
        name: str,
        batches: Iterator[pa.RecordBatch] | Iterator[pa.Table],
        sort_key: tuple[str, ...],
        batch_rows: int,
        interner: Interner,
        pool: Executor | None,
    ) -> None:
        """`interner`: the merge's; `pool`: where to read ahead, or None."""
        self.name = name
        self.sort_key = sort_key
        self.exhausted = False
        self._batches = iter(batches)
        self._wanted = batch_rows
        self._interner = interner
        self._pool = pool
        self._reading: Future[None] | None = None
        self._buffered: deque[_Buffered] = deque()
        self._rows = 0
        self._taken: keys.Rank | None = None
        self._keys = KeyReader(sort_key)

    @property
    def last(self) -> tuple[keys.Rank, Key]:
        """The rank and the key of the last buffered row; there is one after `ready`."""
        return self._buffered[-1].last_rank, self._buffered[-1].last

    def ready(self) -> bool:
        """Read until enough rows are buffered or the input ends; return whether there is any row left."""
        if self._reading is not None:
            self._reading.result()
            self._reading = None
        self._fill()
        return bool(self._buffered)

    def read_ahead(self) -> None:
        """Begin, in the pool, what `ready` waits for. Until then nothing else may be asked of this input."""
        if self._pool is not None and self._rows < self._wanted and not self.exhausted:
            self._reading = self._pool.submit(self._fill)

    def take(self, cut: Key | None) -> list[Piece]:
        """Remove and return the buffered rows with keys up to `cut`, all of them for None."""
        taken: list[Piece] = []
        bound = () if cut is None else keys.rank(cut)
        while self._buffered:
            head = self._buffered[0]
            end = head.rows.rows
            if cut is not None and head.last_rank > bound:
                end = head.sort_columns.rows_below(cut, head.start, inclusive=True)
            if end > head.start:
                taken.append(self._piece(head, end))
            if end < head.rows.rows:
                break
            self._buffered.popleft()
        self._rows -= sum(piece.rows.rows for piece in taken)
        return taken

    def disorder(self) -> InvariantError:
        """Return the error that says that this input is not sorted."""
        key = ", ".join(self.sort_key)
        return InvariantError(f"{self.name} is not sorted by {key}.", "Verify the block, and repair it.")

    def _piece(self, head: _Buffered, end: int) -> Piece:
        """Take a batch's rows up to `end`."""
        start, head.start = head.start, end
        whole = end == head.rows.rows
        if self._taken is not None and keys.rank(head.sort_columns.key(start)) < self._taken:
            raise self.disorder()
        self._taken = head.last_rank if whole else keys.rank(head.sort_columns.key(end - 1))
        return Piece(self, head.rows if whole and start == 0 else head.rows.slice(start, end - start))

    def _fill(self) -> None:
        while self._rows < self._wanted and not self.exhausted:
            data = next(self._batches, None)
            if data is None:
                self.exhausted = True
                return
            for batch in data.to_batches() if isinstance(data, pa.Table) else [data]:
                if batch.num_rows:
                    self._append(batch)

    def _append(self, batch: pa.RecordBatch) -> None:
        found = self._keys.columns(batch)
        last = found.key(batch.num_rows - 1)
        self._buffered.append(_Buffered(self._interner.intern(self, batch), found, 0, last, keys.rank(last)))
        self._rows += batch.num_rows
