"""Exports: what a section may say, and that two of them never write the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from drystone.config.load import load
from drystone.errors import ConfigError


def backup(prefix: str, **more: Any) -> dict[str, Any]:
    """Return a backup stream that exports to this prefix."""
    export = {"prefix": prefix, **{name: more.pop(name) for name in [*more] if name in {"format", "compression"}}}
    kafka = {"kind": "kafka", "bootstrap_servers": "127.0.0.1:9092", "topics": "a", "group": "backup"}
    return {"labels": {"a": "b"}, "ingest": {**kafka, "export": export | more.pop("export", {})}, **more}


def read(folder: Path, **streams: dict[str, Any]) -> None:
    """Load a configuration with these streams."""
    file = folder / "drystone.yaml"
    file.write_text(yaml.safe_dump({"version": 1, "bucket": "file:bucket", "streams": streams}))
    load(file)


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        ({"raw": backup("/logs")}, "prefix: must be a path such as logs/raw"),
        ({"raw": backup("logs/../raw")}, "prefix: must be a path such as logs/raw"),
        ({"raw": backup("logs/.hidden")}, "prefix: must be a path such as logs/raw"),
        ({"raw": backup("raw/logs")}, "begins with the name of a stream"),
        ({"raw": backup("logs"), "more": backup("logs")}, "is the one of stream more: messages would be there twice"),
        ({"raw": backup("logs", compression="gz")}, "compression is for format text"),
        ({"raw": backup("logs", export={"success": "DONE"})}, "must begin with an underscore"),
    ],
)
def test_what_would_not_work_is_refused(tmp_path: Path, streams: dict[str, Any], said: str) -> None:
    """With the place in the file."""
    with pytest.raises(ConfigError, match=r"ingest\.export") as caught:
        read(tmp_path, **streams)
    assert said in str(caught.value)


def test_a_parsed_stream_has_no_export(tmp_path: Path) -> None:
    """Its messages are in the backup."""
    stream = backup("logs")
    stream["ingest"] |= {"group": "partition", "parser": {"format": "json"}, "dead_letters": "dead"}
    stream |= {"schema": {"time": "timestamp"}, "time_column": "time", "sort_key": ["time"]}
    with pytest.raises(ConfigError, match="it is for group backup"):
        read(tmp_path, raw=stream, dead={"labels": {"a": "b"}, "ingest": {"kind": "dead_letters"}})


def test_generations_may_share_a_prefix(tmp_path: Path) -> None:
    """Their number is in the files' names. So may streams of different buckets."""
    read(tmp_path, old=backup("logs"), new=backup("logs", generation=1))
    read(tmp_path, old=backup("logs"), new=backup("logs", bucket="file:other"))
    read(tmp_path, text=backup("logs/text", format="text", compression="zst"))
