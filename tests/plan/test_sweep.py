"""A block is deleted when nobody has read it for deleteDelay, whatever its mark says."""

from __future__ import annotations

import pytest
from shelf import DAY, TIMES, Shelf

DELAY = TIMES.delete_delay
SYNC = TIMES.sync_delay


def swept(shelf: Shelf) -> set[str]:
    """Return the short names of what a sweep deletes."""
    return shelf.names(delete.ulid for delete in shelf.sweep().deletes)


@pytest.mark.parametrize(("ready_for", "gone"), [(0, False), (DELAY - 1, False), (DELAY, True), (DAY, True)])
def test_an_old_mark_of_another_tool_does_not_shorten_the_delay(ready_for: int, *, gone: bool) -> None:
    """A block that was marked long before it was covered stays until its cover has been ready for deleteDelay."""
    shelf = Shelf()
    shelf.add("a", age=9 * DAY)
    shelf.mark("a", age=8 * DAY)
    shelf.add("f", of="ab", age=SYNC + ready_for)
    plan = shelf.sweep()
    assert swept(shelf) == ({"a"} if gone else set())
    if not gone:
        assert (
            shelf.skips(plan)["a"]
            == "marked for deleteDelay, but superseded for less: somebody may still be reading it"
        )


@pytest.mark.parametrize(("ago", "gone"), [(0, False), (DELAY - 1, False), (DELAY, True)])
@pytest.mark.parametrize("kind", ["retire", "expire"])
def test_what_an_edit_took_out_was_read_until_then(kind: str, ago: int, *, gone: bool) -> None:
    """A block that was marked before its rows were retired or expired stays for deleteDelay after the edit."""
    shelf = Shelf()
    shelf.add("a", age=9 * DAY)
    shelf.mark("a", age=8 * DAY)
    shelf.now -= ago
    shelf.retire("a") if kind == "retire" else shelf.expire(1)
    shelf.now += ago
    assert swept(shelf) == ({"a"} if gone else set())


def test_a_cover_that_needs_no_delay_hurries_no_deletion() -> None:
    """An urgent repair is read at once; what it replaces is deleted as late as any other."""
    shelf = Shelf()
    shelf.add("a", age=9 * DAY)
    shelf.mark("a", age=8 * DAY)
    shelf.add("f", of="ab", age=DELAY - 1, ignore_delay=True)
    assert swept(shelf) == set()
    shelf.now += 1
    assert swept(shelf) == {"a"}
