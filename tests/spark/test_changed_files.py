"""Files whose content changes, read by Spark: replaced as one, or appended."""

from __future__ import annotations

import pytest
from small_streams import HEADER, Small

from drystone.verbs import upload as verb

pytestmark = pytest.mark.spark

DAYS = "2013-01-01T09:00:00Z,Oslo,1,0.5\n2013-01-02T09:00:00Z,Lund,2,\n"
OTHERS = "2013-01-02T10:00:00Z,Lund,20,\n2013-01-03T09:00:00Z,Oslo,30,0.5\n2013-01-04T09:00:00Z,Oslo,40,0.5\n"


def counts(small: Small) -> list[int]:
    """Return what a reader sees of the column `count`."""
    return [row["count"] for row in sorted(small.rows(), key=lambda row: row["count"])]


def test_a_changed_file_is_read_in_place_of_the_old_one(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """New content takes the place of the old, also if the run died before its commit; and so does no content."""
    small.configure(ingest={"on_change": "replace"})
    path = small.put("a b.csv", HEADER + DAYS)
    small.put("b.csv", HEADER + "2013-01-02T09:00:00Z,Rome,7,\n")
    assert small.job("upload").ok
    assert counts(small) == [1, 2, 7]
    path.write_text(HEADER + OTHERS)
    with monkeypatch.context() as patch:
        patch.setattr(verb, "_commit", lambda *_: None)
        first = small.job("upload", "first")
    again = small.job("upload", "again")
    assert (first.ok, len(first.blocks), again.ok, again.blocks) == (True, 3, True, []), again.error
    assert "1 of these files had other content before" in first.report
    assert counts(small) == [7, 20, 30, 40]
    path.write_text(HEADER)
    assert small.job("upload", "empty").ok
    assert counts(small) == [7]
    path.write_text(HEADER + DAYS)
    assert small.job("upload", "back").ok
    assert counts(small) == [1, 2, 7]


def test_a_bad_file_that_is_put_right_in_its_place(small: Small) -> None:
    """A file that did not fit is known and was never ingested: its next content is, with nothing to be replaced."""
    small.configure(ingest={"on_change": "replace"})
    path = small.put("a.csv", HEADER + "2013-01-01T09:00:00Z,Oslo,many,0.5\n")
    assert not small.job("upload").ok
    path.write_text(HEADER + OTHERS)
    assert small.job("upload", "again").ok
    assert counts(small) == [20, 30, 40]


def test_a_changed_file_is_read_beside_the_old_one(small: Small) -> None:
    """Each content of a path is there once, whichever comes again."""
    small.configure(ingest={"on_change": "append"})
    path = small.put("a.csv", HEADER + DAYS)
    for run, content in enumerate([DAYS, OTHERS, DAYS, OTHERS]):
        path.write_text(HEADER + content)
        result = small.job("upload", f"run-{run}")
        assert result.ok, result.error
    assert counts(small) == [1, 2, 20, 30, 40]
