"""`drystone config`: check the configuration file, or export its JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from drystone.bucket import open_bucket
from drystone.bucket.probed import refuse_unfit
from drystone.cli import exits, options, output
from drystone.config.changes import check_change, record_of
from drystone.config.durations import format_duration
from drystone.config.load import Loaded, load
from drystone.config.schema import json_schema
from drystone.engine.record import find_record

app = typer.Typer(
    add_completion=False, rich_markup_mode="markdown", help="Check the configuration file, or export its JSON Schema."
)


@dataclass(frozen=True, slots=True)
class CheckedStream:
    """A stream whose configuration is right. `exists`: it has data, which the configuration fits.

    `probed`: when its bucket passed the last probe (ms since the epoch); None if nobody has probed it.
    """

    stream: str
    bucket: str
    exists: bool
    ingest_granularity: str
    major_granularity: str
    sync_delay: int
    delete_delay: int
    probed: int | None


@app.command(epilog=exits.MEANING)
def check(*, config: options.Config = None, as_json: options.AsJson = False) -> None:
    """Check the configuration, also against the streams that have data: some changes a live stream cannot take."""
    loaded = load(config)
    found = [_check(loaded, name) for name in sorted(loaded.config.streams)]
    if as_json:
        output.write_json({"file": str(loaded.path), "streams": found})
        return
    columns = ("stream", "bucket", "probed", "data", "chunks", "sync_delay", "delete_delay")
    output.write_table(columns, (_cells(each) for each in found))
    output.write_line(f"{loaded.path} is right.")
    for url in sorted({each.bucket for each in found if each.probed is None and each.bucket.startswith("s3:")}):
        output.write_line(
            f"Nobody has tried whether this store does what Drystone needs: drystone bucket probe '{url}'"
        )


@app.command(epilog=exits.MEANING)
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors that complete and check it."""
    output.write_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **json_schema()})


def _check(loaded: Loaded, name: str) -> CheckedStream:
    rules = loaded.stream(name)
    url = loaded.bucket_url(name)
    bucket = open_bucket(url)
    report = refuse_unfit(bucket, rules.times.max_lag)
    record = find_record(bucket, name)
    if record is not None:
        check_change(record, record_of(name, rules))
    return CheckedStream(
        stream=name,
        bucket=url,
        exists=record is not None,
        ingest_granularity=rules.granularity.ingest,
        major_granularity=rules.granularity.major,
        sync_delay=rules.times.sync_delay,
        delete_delay=rules.times.delete_delay,
        probed=None if report is None else report.time,
    )


def _cells(each: CheckedStream) -> tuple[object, ...]:
    delays = (format_duration(each.sync_delay), format_duration(each.delete_delay))
    chunks = f"{each.ingest_granularity} → {each.major_granularity}"
    probed = "never" if each.probed is None else output.moment(each.probed)
    return (each.stream, each.bucket, probed, "yes" if each.exists else "none yet", chunks, *delays)
