"""The conformance probe: it passes what keeps its word, and finds each way in which a store may not."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spoilt import (
    Closed,
    CutUploads,
    DeletesByPrefix,
    DeletesOnePage,
    DoublesAtThePage,
    Failing,
    FoldersOnly,
    Forgetful,
    LastWriterWins,
    Late,
    LooksFirst,
    LosesAtThePage,
    NeverFree,
    NeverSure,
    NeverThere,
    NoConditions,
    OneForm,
    OneTooMany,
    Planted,
    SignedOnce,
    SortsByFolder,
    SortsLikeUtf16,
    StartsAt,
    Time,
    Unsigned,
    UploadReplaces,
    WholeObjects,
)
from typer.testing import CliRunner

from drystone import ulids
from drystone.block import keys
from drystone.bucket import Bucket, MemoryBucket, open_bucket
from drystone.bucket.conformance import CAPABILITIES, KEYS, keep, probe
from drystone.bucket.probed import ProbeReport, last_probe, refuse_unfit
from drystone.cli.app import app
from drystone.config.load import load
from drystone.engine.record import apply_config
from drystone.errors import ConfigError
from drystone.testing.s3_server import S3Server

CONFIG = """
version: 1
bucket: file:bucket
streams:
  events:
    labels: {dataset: events}
    time_column: at
    sort_key: [at]
    ingest: {path: "in/*.csv", format: csv}
"""


PLANTS: dict[type[Planted], str] = {
    NoConditions: "create-only",
    LooksFirst: "create-only",
    LastWriterWins: "create-only",
    NeverFree: "create-only",
    UploadReplaces: "upload",
    CutUploads: "upload",
    SortsByFolder: "order",
    FoldersOnly: "order",
    StartsAt: "start-after",
    LosesAtThePage: "paging",
    DoublesAtThePage: "paging",
    DeletesOnePage: "batch-delete",
    DeletesByPrefix: "batch-delete",
    WholeObjects: "ranges",
    OneTooMany: "ranges",
    Forgetful: "lag",
    Unsigned: "write-id",
    SignedOnce: "write-id",
}


def bad(report: ProbeReport) -> set[str]:
    """Return the names of the capabilities that are not ok."""
    return {each.capability for each in report.findings if each.result != "ok"}


def keys_of(bucket: Bucket) -> list[str]:
    """Return the keys of all objects."""
    return [info.key for info in bucket.list("")]


def planted(kind: type[Planted], **attributes: object) -> Planted:
    """Return a new bucket of a kind, whose copies have the same attributes."""
    made = type(kind.__name__, (kind,), attributes)
    return made(secrets.token_hex(8))


def test_a_bucket_that_keeps_its_word_passes_and_stays_as_it_was(bucket: Bucket) -> None:
    """Every capability is ok, nothing is refused, and nothing of the probe stays in the bucket."""
    bucket.put("events/.stream.json", b"{}")
    report = probe(bucket, number_of_keys=1_001 if isinstance(bucket, MemoryBucket) else 100)
    assert bad(report) == set()
    assert [each.capability for each in report.findings] == [each.name for each in CAPABILITIES]
    assert (report.lag, report.skew, report.refusals) == (0, 0, ())
    assert keys_of(bucket) == ["events/.stream.json"]


@pytest.mark.parametrize(("kind", "capability"), PLANTS.items(), ids=[kind.__name__ for kind in PLANTS])
def test_a_store_that_breaks_its_word_is_found_out(kind: type[Planted], capability: str) -> None:
    """Each planted fault fails its capability, with what was seen and what Drystone does, and the bucket is refused."""
    bucket = planted(kind, seen=set())
    report = probe(bucket, number_of_keys=120, window=200, only={capability})
    found = {each.capability: each for each in report.findings}[capability]
    assert (found.result, found.refused) == ("fails", True), report
    assert found.found
    assert found.without.startswith("Refused: ")
    keep(bucket, report)
    with pytest.raises(ConfigError, match=rf"memory://.* is refused: its probe of .* failed: .*{capability}: .*"):
        refuse_unfit(bucket, 0)


@pytest.mark.parametrize("kind", [SortsLikeUtf16, OneForm])
def test_letters_beyond_ascii_are_worth_a_word(kind: type[Planted]) -> None:
    """A store that gets other alphabets wrong is told of and not refused: all of Drystone's own keys are ASCII."""
    report = probe(planted(kind), number_of_keys=2)
    assert bad(report) == {"unicode-order"}
    assert report.refusals == ()


def test_what_s3_lists_by_pages_takes_more_than_one() -> None:
    """By default more objects are listed than S3 has on a page."""
    assert KEYS > 1_000


@pytest.mark.parametrize("late", [120, 3_000])
def test_a_store_that_lags_is_slow_and_says_how_much(late: int) -> None:
    """The lag is measured within a bound; everything else is tried with patience, and passes."""
    clock = Time()
    bucket = planted(Late, time=clock, late=late, past={})
    report = probe(bucket, number_of_keys=30, now=clock.now, pause=clock.pause)
    assert bad(report) == {"lag"}
    assert late - 100 < report.lag <= late + 100
    lag = report.findings[0]
    assert (lag.result, lag.refused) == ("slow", False)
    wanted = {120: "1s", 3_000: "6s"}[late]
    assert lag.without == f"Drystone goes on if times.max_lag of the streams is {wanted} at least."
    clock.pause(10)
    assert keys_of(bucket) == []


def test_a_store_that_lags_beyond_the_window_fails() -> None:
    """What is not seen within the window has no bound that Drystone could wait for."""
    clock = Time()
    bucket = planted(Late, time=clock, late=3_000, past={})
    report = probe(bucket, number_of_keys=5, now=clock.now, pause=clock.pause, window=1_000)
    assert report.refusals[0].capability == "lag"
    assert report.findings[0].found == "an object that was written was not read as it is within 1s"


@pytest.mark.parametrize(("off", "result"), [(30_000, "ok"), (90_000, "slow"), (-90_000, "slow")])
def test_a_clock_that_is_off_is_told(off: int, result: str) -> None:
    """The store's clock is compared with this machine's: more than a minute is worth a word, and not refused."""
    clock = Time()
    bucket = MemoryBucket(secrets.token_hex(8), lambda: clock.now() + off)
    report = probe(bucket, number_of_keys=2, now=clock.now, only={"clock"})
    assert [(each.result, each.refused) for each in report.findings] == [(result, False)]
    assert abs(report.skew - off) < 1_000


def test_what_a_failing_store_does_is_not_known() -> None:
    """A store that fails during a check is neither right nor refused: that one is unknown, and the others are tried."""
    report = probe(planted(Failing), number_of_keys=2)
    assert {each.capability: each.result for each in report.findings if each.result != "ok"} == {"ranges": "unknown"}
    assert [each.found for each in report.findings if each.capability == "ranges"] == [
        "the store failed: the store answered 503"
    ]
    assert report.refusals == ()


@pytest.mark.parametrize(("kind", "result"), [(NeverSure, "ok"), (NeverThere, "unknown")])
def test_who_is_told_nothing_has_not_won(kind: type[Planted], result: str) -> None:
    """A loser whose request fails does not spoil a race that has one winner; a race without any shows nothing."""
    report = probe(planted(kind), only={"create-only"})
    assert [each.result for each in report.findings] == [result]


def test_a_store_that_cannot_be_written_is_an_error() -> None:
    """Where not even a plain write succeeds, the store's own error says why, and there is no report."""
    with pytest.raises(ConfigError, match="access denied"):
        probe(planted(Closed))


def test_what_a_killed_probe_left_is_removed_by_a_later_one() -> None:
    """Folders of probes that began a day ago go; a younger one, which may still be at work, stays."""
    bucket = MemoryBucket(secrets.token_hex(8))
    now = 1_700_000_000_000
    old, young = (f"{keys.PROBING}{ulids.new(now - age)}/x" for age in (25 * 3_600_000, 3_600_000))
    for key in (old, young):
        bucket.put(key, b"")
    probe(bucket, number_of_keys=2, now=lambda: now, only={"ranges"})
    assert keys_of(bucket) == [young]


def test_a_refused_bucket_takes_no_job(tmp_path: Path) -> None:
    """After a failed probe nothing is written for a stream, and a later probe that succeeds lifts that."""
    tmp_path.joinpath("drystone.yaml").write_text(CONFIG)
    config = load(tmp_path / "drystone.yaml").stream("events")
    bucket = planted(NoConditions)
    assert last_probe(bucket) is None
    apply_config(bucket, "events", config)
    keep(bucket, probe(bucket, number_of_keys=2, only={"create-only"}))
    with pytest.raises(ConfigError, match=r"create-only: .* Probe it again: drystone bucket probe 'memory:"):
        apply_config(bucket, "events", config)
    keep(bucket, probe(bucket, number_of_keys=2, only={"ranges"}))
    apply_config(bucket, "events", config)


def test_a_lag_above_max_lag_is_refused() -> None:
    """A stream whose max_lag is shorter than the lag that was seen is refused, with the value that would do."""
    bucket = MemoryBucket(secrets.token_hex(8))
    keep(bucket, ProbeReport(bucket=bucket.url, time=0, lag=2_900, findings=()))
    with pytest.raises(ConfigError, match=r"saw changes 2900ms late, and max_lag is 0s\. Set times\.max_lag .* to 6s"):
        refuse_unfit(bucket, 0)
    refuse_unfit(bucket, 2_900)


def test_a_report_that_cannot_be_read_is_refused() -> None:
    """A broken report might have been a refusal: it is not passed over."""
    bucket = MemoryBucket(secrets.token_hex(8))
    bucket.put(keys.PROBE, b"{}")
    with pytest.raises(ConfigError, match=re.escape(".drystone/probe.json cannot be read")):
        refuse_unfit(bucket, 0)


def run(*arguments: str) -> tuple[int, str, str]:
    """Run the terminal; return exit code, stdout and stderr."""
    done = CliRunner().invoke(app, ["bucket", "probe", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_the_terminal_probes_and_remembers(tmp_path: Path) -> None:
    """`drystone bucket probe` prints a line for each capability, or JSON, and leaves only its report in the bucket."""
    url = f"file://{tmp_path}/bucket"
    code, out, _ = run(url, "--keys", "10")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:-2]] == [each.name for each in CAPABILITIES]
    assert out.splitlines()[-1] == "Drystone can work on this bucket."
    code, out, _ = run(url, "--keys", "10", "--json")
    document: dict[str, Any] = json.loads(out)
    stored = last_probe(MemoryBucket("nobody")), ProbeReport.model_validate(document)
    assert (code, stored[0], document["bucket"]) == (0, None, url)
    assert [path.name for path in tmp_path.rglob("*.json")] == ["probe.json"]


@pytest.mark.parametrize(("kind", "expected"), [(NoConditions, 1), (Failing, 3)])
def test_the_exit_code_says_how_it_went(kind: type[Planted], expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1: the bucket is refused, and `drystone` says for what; 3: the store failed meanwhile."""
    opened: Callable[[str], Bucket] = lambda _: planted(kind)  # noqa: E731
    monkeypatch.setattr("drystone.cli.where.open_bucket", opened)
    code, out, _ = run("memory://x", "--keys", "2")
    assert code == expected
    assert ("Drystone refuses this bucket: create-only" in out) is (expected == 1)


def test_config_check_says_what_nobody_has_probed(s3_account: S3Server, tmp_path: Path) -> None:
    """For a bucket in S3 that nobody has probed, `config check` says how to; after a probe it says when that was."""
    url = s3_account.url(prefix=f"probe/{secrets.token_hex(4)}")
    file = tmp_path / "drystone.yaml"
    file.write_text(CONFIG.replace("file:bucket", url))
    command = ["config", "check", "--config", str(file)]
    assert f"drystone bucket probe '{url}'" in CliRunner().invoke(app, command).stdout
    bucket = open_bucket(url)
    keep(bucket, ProbeReport(bucket=url, time=1_700_000_000_000, findings=()))
    done = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(done.stdout)["streams"][0]["probed"] == 1_700_000_000_000
    assert "drystone bucket probe" not in CliRunner().invoke(app, command).stdout


def test_config_check_refuses_what_the_probe_refused(tmp_path: Path) -> None:
    """`drystone config check` ends with exit code 2 and says which capability is missing."""
    file = tmp_path / "drystone.yaml"
    file.write_text(CONFIG)
    bucket = planted(NoConditions)
    report = probe(bucket, number_of_keys=2, only={"create-only"})
    tmp_path.joinpath("bucket/.drystone").mkdir(parents=True)
    tmp_path.joinpath("bucket", keys.PROBE).write_bytes(report.to_json())
    done = CliRunner().invoke(app, ["config", "check", "--config", str(file)])
    assert done.exit_code == 2
    assert "create-only: " in done.stderr
    assert "is refused" in done.stderr
