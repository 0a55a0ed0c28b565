"""One wrong value in the configuration is one line: the file, the path in it, and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from drystone.config import load as loading
from drystone.config.load import load
from drystone.errors import ConfigError, UsageError

PLAIN: dict[str, Any] = {
    "version": 1,
    "bucket": "file:bucket",
    "streams": {
        "events": {
            "labels": {"dataset": "events"},
            "time_column": "time",
            "sort_key": ["city", "time"],
            "schema": {"time": "timestamp", "city": "string", "price": "decimal(10, 2)"},
            "ingest": {"path": "in/*.csv", "format": "csv"},
        }
    },
}
EVENTS = "streams.events"


def write(folder: Path, path: str = "", value: object = None) -> Path:
    """Write the plain configuration with one value changed, or taken away if it is the string `-`."""
    document = yaml.safe_load(yaml.safe_dump(PLAIN, sort_keys=False))
    *above, last = path.split(".") if path else [""]
    place = document
    for part in above:
        place = place.setdefault(part, {})
    if value == "-":
        del place[last]
    elif last:
        place[last] = value
    file = folder / "drystone.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return file


WRONG: list[tuple[str, object, str, str]] = [
    ("version", 2, "version", "Input should be 1"),
    ("version", "-", "version", "is missing"),
    ("bucket", "s3://b", "bucket", "must be file:FOLDER, relative to this file or absolute, or s3://bucket/prefix"),
    ("bucket", "s3://user:pass@lake", "bucket", "must be file:FOLDER"),
    ("bucket", "s3://lake?path_style", "bucket", "must be file:FOLDER"),
    ("bucket", "file:", "bucket", "must be file:FOLDER"),
    ("bucket", "file:///", "bucket", "must be file:FOLDER"),
    ("bucket", "bucket", "bucket", "must be file:FOLDER"),
    ("bucket", None, "bucket", "valid string (given: None)"),
    ("strems", {}, "strems", "unknown key; known here: version, bucket, streams, bucket_connection, spark"),
    ("streams", {}, "streams", "at least 1 item"),
    ("streams", None, "streams", "must be a block of keys and values (given: None)"),
    ("streams.Events", PLAIN["streams"]["events"], "streams.Events", "Allowed: lower-case letters"),
    ("streams.events", "x", EVENTS, "must be a block of keys and values (given: 'x')"),
    (f"{EVENTS}.bucket", "hdfs://x", f"{EVENTS}.bucket", "must be file:FOLDER"),
    (f"{EVENTS}.labels", {}, f"{EVENTS}.labels", "at least 1 item"),
    (f"{EVENTS}.labels", {"a": 1}, f"{EVENTS}.labels.a", "must be text: put it into quotes (given: 1)"),
    (f"{EVENTS}.time_column", "-", f"{EVENTS}.time_column", "is missing"),
    (f"{EVENTS}.time_column", "city", EVENTS, "time_column city must be a timestamp or a date, not string"),
    (f"{EVENTS}.sort_key", [], f"{EVENTS}.sort_key", "at least 1 item"),
    (f"{EVENTS}.sort_key", ["time", "time"], EVENTS, "sort_key: time stands twice"),
    (f"{EVENTS}.sort_key", ["town"], EVENTS, "schema lacks town; it has time, city, price"),
    (f"{EVENTS}.sort_key", ["price"], EVENTS, "sort_key: price is decimal(10, 2), which cannot be sorted by"),
    (f"{EVENTS}.schema", "guess", f"{EVENTS}.schema", "must be `infer`, or the columns with their types"),
    (f"{EVENTS}.schema", ["time"], f"{EVENTS}.schema", "must be `infer`, or the columns with their types"),
    (f"{EVENTS}.schema", {}, f"{EVENTS}.schema", "at least 1 item"),
    (f"{EVENTS}.schema.city", "text", f"{EVENTS}.schema.city", "no such type; known: bool, int8"),
    (f"{EVENTS}.schema.city", 8, f"{EVENTS}.schema.city", "must be text"),
    (f"{EVENTS}.schema.price", "decimal(50, 2)", f"{EVENTS}.schema.price", "scale <= precision <= 38"),
    (f"{EVENTS}.schema.price", "decimal(2, 3)", f"{EVENTS}.schema.price", "scale <= precision <= 38"),
    (f"{EVENTS}.schema.__source", "binary", f"{EVENTS}.schema.__source", "two underscores in front"),
    (f"{EVENTS}.schema.CITY", "string", f"{EVENTS}.schema", "column city stands twice"),
    (f"{EVENTS}.granularity", {"ingest": "week"}, f"{EVENTS}.granularity.ingest", "'hour', 'day', 'month' or 'year'"),
    (f"{EVENTS}.granularity", {"major": "hour"}, f"{EVENTS}.granularity", "major (hour) must not be finer than"),
    (f"{EVENTS}.generation", -1, f"{EVENTS}.generation", "greater than or equal to 0 (given: -1)"),
    (f"{EVENTS}.tracker", "file", f"{EVENTS}.tracker", "Input should be 'listing'"),
    (f"{EVENTS}.coordination", "locks", f"{EVENTS}.coordination", "Input should be 'none'"),
    (f"{EVENTS}.ingest", "-", f"{EVENTS}.ingest", "is missing"),
    (f"{EVENTS}.ingest.kind", "ftp", f"{EVENTS}.ingest", "kind 'ftp' is unknown; known: files, kafka, dead_letters"),
    (f"{EVENTS}.ingest.format", "orc", f"{EVENTS}.ingest.format", "'csv', 'json' or 'parquet'"),
    (f"{EVENTS}.ingest.path", "", f"{EVENTS}.ingest.path", "at least 1 character"),
    (f"{EVENTS}.ingest.options", {"header": True}, f"{EVENTS}.ingest.options.header", "put it into quotes"),
    (f"{EVENTS}.ingest.derive", {"x": "1"}, EVENTS, "schema lacks x"),
    (f"{EVENTS}.ingest.start_date", "soon", f"{EVENTS}.ingest.start_date", "must be a date, such as 2024-01-01"),
    (f"{EVENTS}.ingest.pth", "x", f"{EVENTS}.ingest.pth", "unknown key; known here: kind, path, format"),
    (f"{EVENTS}.times.sync_delay", 900, f"{EVENTS}.times.sync_delay", "such as 15min; known units: ms, s"),
    (f"{EVENTS}.times.sync_delay", "15 years", f"{EVENTS}.times.sync_delay", "(given: '15 years')"),
    (f"{EVENTS}.times.sync_delay", "-5min", f"{EVENTS}.times.sync_delay", "must be a number with a unit"),
    (f"{EVENTS}.times.sync_delay", "4min", f"{EVENTS}.times", "sync_delay is below its minimum of 5min"),
    (f"{EVENTS}.times.delete_delay", "4min", f"{EVENTS}.times", "delete_delay is below its minimum of 5min"),
    (f"{EVENTS}.times.upload_timeout", "15min", f"{EVENTS}.times", "must not exceed sync_delay"),
    (f"{EVENTS}.times.max_lag", "4min1s", f"{EVENTS}.times.max_lag", "must be a number with a unit"),
    (f"{EVENTS}.times.read_timeout", "14min", f"{EVENTS}.times", "must be less than delete_delay"),
    (f"{EVENTS}.compaction.target_block_bytes", "0B", f"{EVENTS}.compaction.target_block_bytes", "or equal to 1"),
    (f"{EVENTS}.compaction.memory_per_task", 512, f"{EVENTS}.compaction.memory_per_task", "such as 128MiB"),
    (f"{EVENTS}.compaction.min_inputs", 1, f"{EVENTS}.compaction.min_inputs", "or equal to 2 (given: 1)"),
    (f"{EVENTS}.compaction.size_ratio", "much", f"{EVENTS}.compaction.size_ratio", "valid number"),
    (f"{EVENTS}.compaction.order", "random", f"{EVENTS}.compaction.order", "'newest' or 'oldest'"),
    ("spark.conf", {"spark.ui.enabled": False}, "spark.conf.spark.ui.enabled", "put it into quotes (given: False)"),
    ("spark.max_parallel_jobs", 0, "spark.max_parallel_jobs", "or equal to 1 (given: 0)"),
]


@pytest.mark.parametrize(("path", "value", "place", "allowed"), WRONG, ids=[f"{w[0]}={w[1]}"[:60] for w in WRONG])
def test_one_wrong_value_is_one_line(tmp_path: Path, path: str, value: object, place: str, allowed: str) -> None:
    """It begins with the file and the path in it, says what is allowed, and has no line beside it."""
    file = write(tmp_path, path, value)
    with pytest.raises(ConfigError) as caught:
        load(file)
    text = str(caught.value)
    assert text.startswith(f"{file}: {place}: "), text
    assert allowed in text
    assert "\n" not in text


def test_each_wrong_value_has_its_line(tmp_path: Path) -> None:
    """Two mistakes are two lines, so that one does not have to run into the second after the first."""
    file = write(tmp_path, f"{EVENTS}.tracker", "file")
    file.write_text(file.read_text().replace("version: 1", "version: 3"))
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == ["version", f"{EVENTS}.tracker"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the document: must be a block of keys and values"),
        (b"- 1", "the document: must be a block of keys and values"),
        (b"a: [", "not YAML"),
        (b"a: \xff", "not UTF-8"),
        (b"version: 1\nbucket: file:a\nbucket: file:b\n", "the key 'bucket' stands twice (line 3, column 1)"),
        (b"a: !!python/object/apply:os.system ['true']", "not YAML"),
    ],
)
def test_what_is_no_configuration_at_all(tmp_path: Path, content: bytes, said: str) -> None:
    """Nothing, a list, broken YAML, other encodings, keys that stand twice, and YAML that runs code: one line each."""
    file = tmp_path / "drystone.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


ADDRESSES = [
    "s3://AKIA:hush/hush@lake/x",
    "s3:AKIA:hush@lake",
    "S3://lake?aws_secret_access_key=hush",
    "s3://la ke/x?endpoint=https://AKIA:hush@store&token=hush",
]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("place", ["bucket", f"{EVENTS}.bucket"])
def test_no_complaint_repeats_a_secret(tmp_path: Path, place: str, address: str) -> None:
    """An address that is refused is shown without who somebody is, and without the values of its settings."""
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, place, address))
    assert f"{place}: must be file:FOLDER" in str(caught.value)
    assert "(given: 's3:" in str(caught.value).lower()
    assert "hush" not in str(caught.value)
    assert "AKIA" not in str(caught.value)


def test_a_broken_line_is_named_and_not_repeated(tmp_path: Path) -> None:
    """In a line that is no YAML a secret may stand."""
    file = tmp_path / "drystone.yaml"
    file.write_text("version: 1\nbucket: s3://lake?secret=hush: [\n")
    with pytest.raises(ConfigError, match=r"not YAML: .* \(line 2, column") as caught:
        load(file)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("value", ["*hush-hush", "!hush-hush x", "@hush-hush", "{a: hush-hush"])
def test_a_password_that_is_no_text_to_yaml_is_not_repeated(tmp_path: Path, value: str) -> None:
    """Unquoted passwords with such beginnings are aliases, tags and the like, whose names YAML complains of."""
    file = tmp_path / "drystone.yaml"
    file.write_text(f"version: 1\npassword: {value}\n")
    with pytest.raises(ConfigError, match=r"not YAML: .* \(line ") as caught:
        load(file)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [
        f"{EVENTS}.password",
        f"{EVENTS}.ingest.options.sasl_token",
        f"{EVENTS}.ingest.options.key",
        "spark.conf.fs_s3a_access_key",
    ],
)
def test_what_is_called_a_secret_is_not_shown(tmp_path: Path, kind: str) -> None:
    """A value whose key says that it is one is not repeated, whatever is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, kind, 123456))
    assert kind in str(caught.value)
    assert "123456" not in str(caught.value)


def test_a_missing_file_tells_how_to_name_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file and the two ways to give another one, which are followed."""
    with pytest.raises(
        ConfigError, match=r"nothing\.yaml: No such file or directory\. Give --config, or set DRYSTONE_"
    ):
        load(tmp_path / "nothing.yaml")
    monkeypatch.setenv(loading.ENVIRONMENT, str(write(tmp_path)))
    assert load().path == tmp_path / "drystone.yaml"
    monkeypatch.delenv(loading.ENVIRONMENT)
    monkeypatch.chdir(tmp_path)
    assert load().path == tmp_path / "drystone.yaml"


@pytest.mark.parametrize(
    ("times", "fits"),
    [
        ({"upload_timeout": "13min", "max_lag": "1min"}, True),
        ({"upload_timeout": "13min", "max_lag": "61s"}, False),
        ({"read_timeout": "13min", "clock_skew": "119s"}, True),
        ({"read_timeout": "13min", "clock_skew": "2min"}, False),
        ({"sync_delay": "10s", "upload_timeout": "8s", "clock_skew": "2s"}, False),
        ({"sync_delay": "10s", "upload_timeout": "8s", "clock_skew": "2s", "allow_short_delays": True}, True),
        ({"sync_delay": "5min", "upload_timeout": "4min"}, True),
    ],
)
def test_times_must_fit_each_other(tmp_path: Path, times: dict[str, Any], *, fits: bool) -> None:
    """U + L + skew <= S and R + L + skew < D, to the millisecond; delays of less than 5min only if that is allowed."""
    file = write(tmp_path, f"{EVENTS}.times", times)
    if fits:
        assert load(file).stream("events").times.times().delete_delay == 15 * 60_000
    else:
        with pytest.raises(ConfigError, match=f"{EVENTS}.times: "):
            load(file)


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever folder one is in; a stream's own bucket goes before the file's; absolute ones and `~` hold."""
    folder = tmp_path / "conf"
    folder.mkdir()
    file = write(folder)
    monkeypatch.chdir(tmp_path)
    assert load(Path("conf/drystone.yaml")).bucket_url("events") == f"file://{folder}/bucket"
    monkeypatch.chdir("/")
    monkeypatch.setenv("HOME", "/home/ann")
    for written, meant in {
        "file:../b": f"file://{tmp_path}/b",
        "file:/data/b": "file:///data/b",
        "file:///data/b": "file:///data/b",
        "file:~/b": "file:///home/ann/b",
        "memory://b": "memory://b",
        "s3://lake/p?endpoint=http://h:1&region=r": "s3://lake/p?endpoint=http://h:1&region=r",
    }.items():
        write(folder, f"{EVENTS}.bucket", written)
        assert load(file).bucket_url("events") == meant
    with pytest.raises(UsageError, match=r"no stream 'others'\. Known: events"):
        load(file).bucket_url("others")


def test_what_people_write_is_taken(tmp_path: Path) -> None:
    """Dates without quotes, merges with overrides, inferred schemas, sizes and durations with and without a blank."""
    file = write(tmp_path, f"{EVENTS}.schema", "infer")
    text = file.read_text().replace("  events:", "  events: &events")
    text = text.replace("      format: csv", "      format: csv\n      start_date: 2024-02-03")
    text += "  more:\n    <<: *events\n    times: {sync_delay: 1.5 h}\n"
    text += "    compaction: {target_block_bytes: 1MiB}\n    owner: ann\n"
    file.write_text(text)
    loaded = load(file)
    more = loaded.stream("more")
    assert (more.times.sync_delay, more.compaction.target_block_bytes, more.owner) == (5_400_000, 1 << 20, "ann")
    assert (more.columns, more.files.start_date) == ("infer", "2024-02-03")
    assert loaded.stream("events").owner == "drystone"
