"""Exports: every message in exactly one file, whatever happens to runs and to blocks meanwhile."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from exports import DAY, NOW, PREFIX, STREAM, TODAY, Bench, Watched, check, config, messages_of

from drystone.block import keys
from drystone.block.edits import Expire, Retire
from drystone.block.predicates import Comparison
from drystone.block.receipt import Receipt
from drystone.engine.erasures import erasures, receipt_of
from drystone.ingest.export import files, reading
from drystone.ingest.formats.layout import parse
from drystone.ingest.kafka.plans import Slices
from drystone.jobs import EraseRequest
from drystone.testing.messages import Message
from drystone.verbs.requests import Desk


def test_every_message_is_in_one_file(bench: Bench) -> None:
    """Of several plans, partitions and topics; and a run again finds them, and changes nothing."""
    first, second, other = messages_of(200), messages_of(90, 1000, day=1), messages_of(50, 7)
    bench.kafka.ids["trains"] = "T2"
    bench.ingest(first)
    bench.ingest(second)
    bench.ingest(other, partition=3)
    bench.ingest(other, topic="trains")
    bench.ready()
    done = bench.export()
    assert not done.failures
    assert done.summary["messages"] == 390
    check(bench, [*first, *second])
    check(bench, other, partition=3)
    check(bench, other, topic="trains")
    before = bench.objects()
    again = bench.export()
    assert (again.summary["plans"], again.failures) == (0, [])
    assert bench.objects() == before


def test_blocks_that_are_not_ready_wait(bench: Bench) -> None:
    """What readers do not see is not exported; a dry run changes nothing."""
    bench.ingest(messages_of(20))
    assert bench.export().summary["plans_waiting"] == 1
    assert bench.objects() == {}
    bench.ready()
    names = {item.key for item in bench.plain.list("")}
    assert bench.export(dry_run=True).summary == {"plans": 1}
    assert {item.key for item in bench.plain.list("")} == names
    assert bench.export().summary["messages"] == 20


@pytest.mark.parametrize("after_compaction", [False, True])
def test_an_export_can_be_made_again_at_any_time(bench: Bench, *, after_compaction: bool) -> None:
    """Files that are missing come again with the same bytes, from compacted blocks, too; the others are left."""
    messages = [*messages_of(150), *messages_of(150, 1000)]
    bench.ingest(messages[:150])
    bench.ready()
    bench.export()
    bench.ingest(messages[150:])
    bench.ready()
    bench.export()
    before = bench.objects()
    check(bench, messages)
    if after_compaction:
        bench.compact()
    lost = [name for name in before if parse(PREFIX, name)][::2]
    bench.plain.delete(lost)
    assert bench.export().summary["plans"] == 0, "by itself it does not look again"
    again = bench.export(again=True)
    assert (again.summary["files_new"], again.failures) == (len(lost), [])
    assert bench.objects().items() >= before.items()
    check(bench, messages)


def test_messages_are_found_after_a_compaction(bench: Bench) -> None:
    """An export that begins late reads them from blocks that hold much else, and gives the same as an early one."""
    messages = messages_of(300)
    bench.ingest(messages[:100])
    bench.ingest(messages[100:])
    bench.ingest(messages_of(80), partition=1)
    bench.ready()
    bench.compact()
    assert bench.export().summary["plans"] == 3
    check(bench, messages)
    check(bench, messages_of(80), partition=1)


@pytest.mark.parametrize("split", ["hour", "offset", "none", "day"])
def test_splits(bench: Bench, split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way to split gives every message once, also where not all files can be open at the same time."""
    monkeypatch.setattr(files, "_OPEN", 4)
    bench.config = config(split=split, offsets_per_folder=100)
    messages = messages_of(300)
    bench.ingest(messages)
    bench.ready()
    bench.export()
    found = sorted(row for rows in bench.read().values() for row in rows)
    assert [offset for offset, *_ in found] == [each.offset for each in messages]
    folders = {key.rpartition("/")[0].removeprefix(f"{PREFIX}/flights").strip("/") for key in bench.read()}
    shapes = {"hour": "dt=2023-11-14/hr=00", "offset": "offset=800", "none": "", "day": "dt=2023-11-12"}
    assert shapes[split] in folders
    assert len(folders) == {"hour": 19, "offset": 9, "none": 1, "day": 4}[split]


class KilledError(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_is_killed_is_finished_by_the_next(bench: Bench, when: str) -> None:
    """Before or after any of its writes: the files are the same as those of a run that nobody killed."""
    bench.ingest(messages_of(60))
    bench.ingest(messages_of(60, 500))
    bench.ready()
    wanted = _whole_run(bench)
    for number in range(1000):
        _forget(bench)

        def die(write: int, number: int = number) -> None:
            if write == number:
                raise KilledError

        nothing: Callable[[int], None] = lambda _: None  # noqa: E731 - a callback that does nothing
        watched = Watched(bench, die, nothing) if when == "before" else Watched(bench, nothing, die)
        try:
            bench.export(watched)
        except KilledError:
            assert not bench.export().failures
            assert bench.objects() == wanted
        else:
            break
    assert number > 12, "there is a write for each file and record"


def test_two_runs_at_once(bench: Bench) -> None:
    """A whole run between any two writes of another one: both succeed, and give the same files."""
    bench.ingest(messages_of(60))
    bench.ready()
    wanted = _whole_run(bench)
    for number in range(1000):
        _forget(bench)
        watched = Watched(
            bench, lambda write, number=number: bench.export() if write == number else None, lambda _: None
        )
        done = bench.export(watched)
        assert not done.failures
        assert bench.objects() == wanted
        if watched.writes <= number:
            break
    assert number > 6


def _whole_run(bench: Bench) -> dict[str, bytes]:
    bench.export()
    wanted = bench.objects()
    assert len(wanted) >= 4
    return wanted


def _forget(bench: Bench) -> None:
    """Undo the export."""
    prefixes = (f"{PREFIX}/", keys.exports(STREAM))
    bench.plain.delete([item.key for prefix in prefixes for item in bench.plain.list(prefix)])


def test_a_newline_stops_its_plan_alone(bench: Bench) -> None:
    """The text format refuses the message by name; other plans go on, and another format takes it all."""
    bench.config = config(format="text", compression="gz")
    good = [Message(number, TODAY, b"k", b"line %d" % number) for number in range(10)]
    bad = [Message(20, TODAY, None, b"fine"), Message(21, TODAY, None, b"two\nlines")]
    later = [Message(30, TODAY, None, b"later")]
    for part in (good, bad, later):
        bench.ingest(part)
    bench.ready()
    done = bench.export()
    (failure,) = done.failures
    assert "flights-0 [10, 22): the message at offset 21 has a newline" in failure
    assert "sequence_file" in failure
    assert not done.retryable
    lines = b"".join(gzip.decompress(raw) for raw in bench.objects().values())
    assert lines.splitlines() == [each.value for each in [*good, *later]]
    bench.config = config(format="sequence_file")
    assert not bench.export().failures
    names = sorted(key.rpartition("/")[2] for key in bench.objects())
    assert [name[-8:] for name in names] == ["0.txt.gz", "0020.seq", "0.txt.gz"]


def erase(bench: Bench, key: str) -> None:
    """Erase the messages with this key."""
    desk = Desk(bench.plain, STREAM, bench.config, bench.clock)
    request = EraseRequest(predicate=Comparison(column="kafka_offset", op="=", value=int(key)), reason="r", author="a")
    desk.carry_out(desk.plan(request, desk.look()), "test", "a")


def test_what_was_erased_is_not_exported(bench: Bench) -> None:
    """Nor are rows that were retired or are expired; what was exported before stays, for nobody takes it back."""
    messages = [Message(number, TODAY + number, b"k", b"m%d" % number) for number in range(6)]
    bench.ingest(messages)
    retired = bench.ingest([Message(10, TODAY, None, b"retired")])
    bench.ingest([Message(20, TODAY - 9 * DAY, None, b"expired")])
    slices = Slices.model_validate_json(bench.plain.get(retired.slices_key))
    source = slices.slices[0].source
    for edit in (
        Retire(id="01HF7YAT00000000000000000A", reason="r", author="a", time=NOW, sources=(source,)),
        Expire(id="01HF7YAT00000000000000000B", reason="r", author="a", time=NOW, before=TODAY - DAY),
    ):
        bench.plain.create(keys.edit(STREAM, edit.id), edit.to_json())
    bench.ready()
    erase(bench, "0")
    erase(bench, "4")
    done = bench.export()
    assert not done.failures
    assert done.summary["plans"] == 3
    check(bench, [each for each in messages if each.offset not in {0, 4}])
    bench.compact("rewrite")
    _forget(bench)
    assert not bench.export().failures
    check(bench, [each for each in messages if each.offset not in {0, 4}])


def test_receipts_name_the_copies(bench: Bench) -> None:
    """Exported files, and streams of the same topics; whoever removes a file gets it anew without the row."""
    bench.ingest([Message(number, TODAY, b"k", b"m%d" % number) for number in range(3)])
    bench.ready()
    before = {each.what: each for each in _receipt(bench).elsewhere}
    assert before["exported files"].state == "none"
    assert before["backup streams"].note.startswith("none in this bucket")
    bench.export()
    (first,) = bench.objects()
    root = bench.plain.get(keys.kafka_root(STREAM, 0, "T1"))
    bench.plain.put(keys.kafka_root("parsed", 0, "T1"), root)
    bench.plain.put(keys.kafka_root("unrelated", 0, "T7"), root)
    after = {each.what: each for each in _receipt(bench).elsewhere}
    assert f"files below {PREFIX}/ that were written" in after["exported files"].note
    assert after["backup streams"].note.startswith("of the same topics in this bucket: parsed;")
    assert {after[what].state for what in ("exported files", "backup streams", "topics")} == {"unknown"}
    bench.plain.delete([first])
    assert not bench.export(again=True).failures
    assert [offset for offset, *_ in bench.read()[first]] == [0, 2], "the name stays"


def _receipt(bench: Bench) -> Receipt:
    """Erase a message, if it is not erased yet, and return the erasure's receipt."""
    erase(bench, "1")
    desk = Desk(bench.plain, STREAM, bench.config, bench.clock)
    seen = desk.look()
    (edit,) = erasures(seen.snapshot)
    return receipt_of(bench.plain, seen, edit, "test")


def test_an_erasure_between_two_attempts_moves_no_name(bench: Bench) -> None:
    """A killed run's files keep their names and bytes; those that were still to be written come without the row."""
    messages = [Message(number, TODAY - number % 2 * DAY, b"k", b"m%d" % number) for number in range(8)]
    bench.ingest(messages)
    bench.ready()

    def die(write: int) -> None:
        if len(bench.objects()) == 1:
            raise KilledError

    with pytest.raises(KilledError):
        bench.export(Watched(bench, lambda _: None, die))
    (first,) = bench.objects()
    erase(bench, "0")
    erase(bench, "1")
    bench.ready()
    before = bench.objects()[first]
    assert not bench.export().failures
    assert bench.objects()[first] == before, "it is outside of what an erasure reaches"
    names = sorted(int(key[-24:-4]) for key in bench.read())
    assert names == [0, 1]
    found = sorted(offset for rows in bench.read().values() for offset, *_ in rows)
    gone = 1 if "2023-11-14" in first else 0
    assert found == [each.offset for each in messages if each.offset != gone]


def test_a_lost_block_is_an_error(bench: Bench) -> None:
    """A source that should be readable and is not: the plan is not exported in part, and the run says so."""
    bench.ingest(messages_of(30))
    bench.ready()
    metas = [item.key for item in bench.plain.list(f"{STREAM}/0") if item.key.endswith("meta.json")]
    bench.plain.delete(metas[:1])
    (failure,) = bench.export().failures
    assert "is in no block that can be read" in failure
    assert bench.objects() == {}


def test_what_is_somebody_elses_is_not_written_over(bench: Bench) -> None:
    """A file of other content under a name that the export wants is left, and named."""
    bench.ingest([Message(5, TODAY, None, b"m")])
    bench.ready()
    key = f"{PREFIX}/flights/dt=2023-11-14/0_0_{5:020d}.seq"
    bench.plain.put(key, b"other")
    (failure,) = bench.export().failures
    assert f"{key} is there, and is not what this export writes" in failure
    assert bench.objects() == {key: b"other"}


def test_generations_export_under_their_own_numbers(bench: Bench) -> None:
    """Two releases side by side under one prefix: readers choose by the first number of the names."""
    messages = messages_of(40)
    bench.ingest(messages)
    bench.kafka.ends.clear()
    new = config(generation=1, success="_SUCCESS_1")
    old, bench.config = bench.config, new
    bench.ingest(messages[:10])
    bench.ready()
    for each in (old, new):
        bench.config = each
        assert not bench.export().failures
    found: dict[int, list[int]] = {0: [], 1: []}
    for key, rows in bench.read().items():
        place = parse(PREFIX, key)
        assert place is not None
        found[place.generation] += [offset for offset, *_ in rows]
    assert sorted(found[0]) == [each.offset for each in messages]
    assert sorted(found[1]) == [each.offset for each in messages[:10]]


def takes_everything_of_a_block(patch: pytest.MonkeyPatch) -> None:
    """The rows of other plans in the same block are read, too."""
    patch.setattr(reading.expressions, "in_sources", lambda _: pa.compute.scalar(True))  # noqa: FBT003


def names_files_by_plan(patch: pytest.MonkeyPatch) -> None:
    """Every file has the plan's first offset in its name."""
    real = files._key
    patch.setattr(files, "_key", lambda m, shape, number, extent: real(m, shape, number, _first(m, extent)))


def _first(messages: Any, extent: Any) -> Any:
    return files._Extent(extent.rows, messages.plan.start, extent.last)


def forgets_edits(patch: pytest.MonkeyPatch) -> None:
    """Erased rows are exported."""
    patch.setattr(reading.expressions, "dropped_by", lambda *_: pa.compute.scalar(False))  # noqa: FBT003


@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (takes_everything_of_a_block, test_messages_are_found_after_a_compaction),
        (names_files_by_plan, test_every_message_is_in_one_file),
        (forgets_edits, test_what_was_erased_is_not_exported),
    ],
)
def test_a_planted_bug_in_exports_is_found(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    test: Callable[[Bench], None],
) -> None:
    """With this bug in the code, the test above fails."""
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        test(bench)
