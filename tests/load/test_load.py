"""Thousands of blocks by many appenders, with the lifecycle beside them: nothing is lost, nothing is asked for twice.

`python -m benchmarks load` does the same with 100,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

import load
import pytest

from drystone.block.folder import FileFacts
from drystone.block.keys import blocks
from drystone.bucket import MemoryBucket
from drystone.plan import removal
from drystone.testing.folders import STREAM
from drystone.testing.streams import build_block, source_id, with_source, write_record
from drystone.tracker.kept import Kept

BLOCKS = 5000
UNDER_LOAD = 3000


def _bucket() -> MemoryBucket:
    return MemoryBucket(uuid4().hex)


def test_nothing_is_lost() -> None:
    """Eight appenders write as fast as they can while blocks are merged, marked and deleted: every row is read once."""
    bucket = _bucket()
    found = load.run(bucket, UNDER_LOAD, 8)
    assert found.twice > 0
    assert found.deleted >= UNDER_LOAD
    folders = {item.key.split("/")[1] for item in bucket.list(f"{load.STREAM}/0")}
    assert len(folders) < 100
    assert sum(found.lifecycle.values()) < 60 * UNDER_LOAD


def test_a_block_that_goes_too_early_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """If everything were marked for deletion, and nobody looked again, the load test would say which rows are lost."""
    everything = removal.Justification("planted")
    monkeypatch.setattr(
        removal, "justify", lambda snapshot, _timeline, _times: dict.fromkeys(snapshot.folders, everything)
    )
    with pytest.raises(load.LostError):
        load.run(_bucket(), 400, 8)


def _append(bucket: MemoryBucket, block: int, name: str) -> str:
    rows = with_source(load.rows_of(block), source_id(0, name))
    return build_block(bucket, load.STREAM, load.config(), rows, lambda: 1_700_000_000_000).ulid


def test_a_row_that_is_lost_or_read_twice_is_seen() -> None:
    """The check at the end of the load test sees one block that is missing, and one that is there under two names."""
    bucket = MemoryBucket(uuid4().hex, lambda: 1_700_000_000_000)
    write_record(bucket, load.STREAM, load.config())
    first, *_ = [_append(bucket, number, str(number)) for number in range(3)]
    load.check_rows(bucket, 3)
    other = _append(bucket, 0, "other")
    with pytest.raises(load.LostError, match="12 rows are read, 9 different"):
        load.check_rows(bucket, 3)
    for ulid in (first, other):
        bucket.delete([item.key for item in bucket.list(f"{load.STREAM}/{ulid}/")])
    with pytest.raises(load.LostError, match="6 rows are read, 6 different"):
        load.check_rows(bucket, 3)


def test_observing_again_asks_for_what_is_new() -> None:
    """When a few of thousands of blocks are new, a look is one listing of the blocks, and a GET for each new object."""
    seen = load.observe_twice(_bucket(), BLOCKS)
    assert seen.first_gets == BLOCKS
    assert sorted(seen.again_gets) == sorted(seen.new)
    assert seen.again_lists.count(blocks(STREAM)) == 1
    assert len(seen.again_lists) == len(set(seen.again_lists)) == 5


def test_asking_again_for_what_is_known_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracker that reads one object more than it has to would fail the test above."""
    usual = Kept.all

    def forgetful(self: Kept[object], wanted: Mapping[str, FileFacts]) -> dict[str, object]:
        self._kept.pop(next(iter(self._kept), ""), None)
        return usual(self, wanted)

    monkeypatch.setattr(Kept, "all", forgetful)
    seen = load.observe_twice(_bucket(), 50)
    assert len(seen.again_gets) == len(seen.new) + 1
