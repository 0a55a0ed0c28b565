"""Write the reference pages that follow from the code: `make docs`. A test compares them with the code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from pydantic import BaseModel

from drystone.airflow.run_report import RunReport
from drystone.block.edits import Erase, Expire, Retire
from drystone.block.guards import Hold, Lease, Pin
from drystone.block.journal import Attempt
from drystone.block.marks import DeletionMark, NoCompactMark
from drystone.block.meta import Extension, Meta
from drystone.block.receipt import Receipt
from drystone.block.record import StreamRecord
from drystone.block.schema import Schema
from drystone.bucket.probed import ProbeReport
from drystone.cli.app import app
from drystone.config.schema import json_schema
from drystone.ingest.export.records import ExportDone, ExportHead, ExportPlan, ExportRecord
from drystone.ingest.files import FileDone, FilePlan, FileSources
from drystone.ingest.kafka.plans import Done, Head, Root, Slices
from drystone.ingest.kafka.plans import Plan as KafkaPlan
from drystone.jobs import JobResult
from drystone.plan.model import Plan
from drystone.verbs import metrics
from drystone.verbs.overview import Overview

HERE = Path(__file__).parent
INTRODUCTION = """# The configuration file

<!-- Written by `make docs` from the model in include/drystone/config/model.py. -->

One YAML file describes all streams. It is found by `--config`, else by the environment variable `DRYSTONE_CONFIG`, else
as `drystone.yaml` in the current folder. Relative paths in it are relative to the file. Durations and sizes carry their
unit: `15min`, `36h`, `128MiB`. A wrong value is refused with the file, the path in it and what is allowed.

Editors complete and check it with [config.schema.json](config.schema.json): put
`# yaml-language-server: $schema=…/config.schema.json` on its first line.
"""
FORMATS: dict[str, type[BaseModel]] = {
    "meta": Meta,
    "meta-extension": Extension,
    "deletion-mark": DeletionMark,
    "no-compact-mark": NoCompactMark,
    "stream-record": StreamRecord,
    "schema": Schema,
    "edit-erase": Erase,
    "edit-retire": Retire,
    "edit-expire": Expire,
    "receipt": Receipt,
    "file-plan": FilePlan,
    "file-sources": FileSources,
    "file-done": FileDone,
    "kafka-root": Root,
    "kafka-plan": KafkaPlan,
    "kafka-slices": Slices,
    "kafka-done": Done,
    "kafka-head": Head,
    "export": ExportRecord,
    "export-plan": ExportPlan,
    "export-done": ExportDone,
    "export-head": ExportHead,
    "journal": Attempt,
    "hold": Hold,
    "lease": Lease,
    "pin": Pin,
    "plan": Plan,
    "job-result": JobResult,
    "run-report": RunReport,
    "overview": Overview,
    "probe": ProbeReport,
}
"""Every JSON object in a bucket, by the name of its schema; docs/reference/layout.md says where it lies."""
TERMINAL = """# The terminal

<!-- Written by `make docs` from include/drystone/cli; the beginning is in docs/generate.py. -->

Tables for people, `--json` for programs: one document, whose times are ms since the epoch and whose sizes are bytes.
Verbs that only look take `--bucket URL` instead of a configuration file: a stream's own record in the bucket says all
that reading needs. Verbs that change a stream (`retain`, `retire`, `erase`, `hold`, `unmark`) write an edit or a hold,
or delete a mark, and no row: with `--dry-run` they show the plan that they would carry out. The same request again
changes nothing. What a job would do is shown by `plan`.

| exit code | meaning |
|---|---|
| 0 | done, and for `verify`: nothing is wrong |
| 1 | something is wrong with the data: findings, or rows that cannot be read |
| 2 | wrong use or configuration |
| 3 | the store failed, or something else that another attempt may survive |

An error is one line on stderr that says what is wrong, where, and what to do; a wrong configuration has one line for
each wrong value.

## Examples

The streams, the blocks of one, and those in one state:

```bash
drystone ls
drystone ls flights --state Fresh --state Healthy
```

Every stream in one row: how late it is, what waits to be merged or deleted, and what is wrong with it:

```bash
drystone fleet
```

What a stream lives by, and all that is wrong with it; then everything about its oldest block:

```bash
drystone inspect flights
BLOCK=$(drystone ls flights --json | python -c 'import json, sys; print(json.load(sys.stdin)["blocks"][0]["ulid"])')
drystone inspect flights "$BLOCK"
```

What the next runs would merge (`--kind minor`, `major`), mark (`mark`) and delete (`sweep`), and why not more:

```bash
drystone plan flights
drystone plan flights --kind mark --json
```

Whether everything is there, by metadata in seconds, or by reading every row:

```bash
drystone verify flights
drystone verify flights "$BLOCK" --deep
```

Rows, their number and content checksum, and files in other formats:

```bash
drystone read flights --start 2013-01-01 --end 2013-01-02 --columns carrier,flight,dest --limit 5
drystone read flights --count
drystone read flights --format parquet --output flights.parquet
drystone read flights --json --columns carrier,event_time | head -n 3
```

The files that hold these rows at this moment, each with its filter; here without a configuration file:

```bash
drystone files flights --bucket file:build/demo/bucket --start 2013-01-01T12:00:00Z --json
```

What a stream's parser makes of messages is shown in [how to parse messages](../how-to/parse-messages.md).
Whether a store does what Drystone relies on; see [the probe](probe.md):

```bash
drystone bucket probe file:build/demo/bucket --keys 50
```

What retention, a retirement or an erasure would take away; a hold, and everything that was ever done:

```bash
drystone retain flights --dry-run
drystone erase rows flights --where tailnum=N14228 --reason "request 17" --dry-run
drystone erase status flights
drystone hold create flights repair --block "$BLOCK" --for 2h --reason "looking into it"
drystone hold list flights
drystone audit flights
```

The configuration:

```bash
drystone config check
drystone config schema > drystone.schema.json
```

## JSON documents

| command | keys of the document |
|---|---|
| `ls` | `streams`: of each `stream`, `bucket`, `visible`, `blocks`, `rows`, `problems`, `damage`, `error`, … |
| `ls STREAM` | `stream`, `at`, `blocks`: of each `ulid`, `state`, `why`, `level`, `chunk`, `rows`, `group`, … |
| `fleet` | `at`, `streams`: of each the keys of [its overview](formats/overview.schema.json) |
| `inspect STREAM` | `stream`, `at`, `record`, `stats`, `states`, `edits`, `holds`, `pins`, `damage`, `problems`, … |
| `inspect STREAM ULID` | `ulid`, `state`, `why`, `meta`, `sources`, `parents`, `covered_by`, `covers`, `files`, … |
| `plan` | those of [the plan](formats/plan.schema.json) that a job would execute |
| `verify` | `stream`, `at`, `deep`, `rows`, …, `findings`: `severity`, `kind`, `block`, `file`, `what`, `to_do` |
| `read` | an object for each row, one a line; with `--count` `rows` and `checksum` |
| `files` | `stream`, `files`: of each `uri`, `size`, `block`, `filter` |
| `parse` | `stream`, `parser`: its digest, `messages`: of each `message`, and `row`, `split` or `error` |
| `bucket probe` | those of [the report](formats/probe.schema.json) that is kept in the bucket |
| verbs that change a stream | `dry_run`, `plan`: [the plan](formats/plan.schema.json), `done`: what was done, `notes` |
| `hold list` | `stream`, `at`, `holds`: of each `name`, `state`, `effective`, `expires`, `owner`, `reason`, `blocks` |
| `erase status` | `stream`, `at`, `erasures`: of each `state`, `edit`, `receipt`, `key` |
| `audit` | `stream`, `actions`: of each `what`, `block`, `outcome`, `why`, `run`, `by`, `when`, `note`, `needs` |
| `config check` | `file`, `streams`: of each `stream`, `bucket`, `exists`, … |
| `airflow setup` | `done`: what was done, in words |
"""
SECTIONS = {
    "Config": "The file",
    "StreamConfig": "`streams.<name>`",
    "Granularities": "`streams.<name>.granularity`",
    "TimesConfig": "`streams.<name>.times`",
    "FilesIngest": "`streams.<name>.ingest` of files",
    "KafkaIngest": "`streams.<name>.ingest` of Kafka",
    "JsonParser": "`streams.<name>.ingest.parser` of JSON",
    "AvroParser": "`streams.<name>.ingest.parser` of Avro",
    "ProtobufParser": "`streams.<name>.ingest.parser` of Protocol Buffers",
    "MessagePackParser": "`streams.<name>.ingest.parser` of MessagePack",
    "DelimitedParser": "`streams.<name>.ingest.parser` of delimited text",
    "RegexParser": "`streams.<name>.ingest.parser` of other text",
    "OwnParser": "`streams.<name>.ingest.parser` of an own format",
    "FieldAt": "`streams.<name>.ingest.parser.fields.<column>`",
    "TimeAt": "`streams.<name>.ingest.parser.time`",
    "SplitBy": "`streams.<name>.ingest.parser.split`",
    "ExportConfig": "`streams.<name>.ingest.export`",
    "DeadLetters": "`streams.<name>.ingest` of dead letters",
    "Compaction": "`streams.<name>.compaction`",
    "Retention": "`streams.<name>.retention`",
    "Lifecycle": "`streams.<name>.lifecycle`",
    "SparkConfig": "`spark`",
}


def pages() -> dict[str, str]:
    """Return the text of every generated file, by its path under docs/."""
    config = json_schema()
    found = {"reference/config.schema.json": _dump(config)}
    for name, model in FORMATS.items():
        found[f"reference/formats/{name}.schema.json"] = _dump(model.model_json_schema(by_alias=True))
    found["reference/metrics.md"] = metrics.page()
    found["reference/config.md"] = "\n".join([INTRODUCTION, *_sections(config)])
    root = typer.main.get_command(app)
    context = root.make_context("drystone", [], resilient_parsing=True)
    found["reference/cli.md"] = "\n".join([TERMINAL, *_commands(root, context)])
    return found


def _commands(command: Any, context: Any) -> Iterator[str]:
    """Yield the sections of a command's own commands, or of itself if it has none."""
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            _, found, _ = command.resolve_command(context, [name])
            yield from _commands(found, found.make_context(name, [], parent=context, resilient_parsing=True))
        return
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"## {context.command_path}\n"
    yield f"```text\n{usage}\n```\n"
    yield f"{' '.join((command.help or '').split())}\n"
    records = [each.get_help_record(context) for each in command.get_params(context)]
    rows = [record for record in records if record is not None and not record[0].startswith("--help")]
    if rows:
        yield "| option | meaning |\n|---|---|"
        yield from (f"| `{option.replace('|', ' or ')}` | {meaning.replace('|', ' or ')} |" for option, meaning in rows)
        yield ""


def _dump(schema: dict[str, Any]) -> str:
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _sections(schema: dict[str, Any]) -> Iterator[str]:
    models = {"Config": schema, **schema["$defs"]}
    for name, title in SECTIONS.items():
        model = models[name]
        yield f"## {title}\n"
        yield f"{model['description']}\n"
        yield "| key | value | default | meaning |\n|---|---|---|---|"
        for key, field in model["properties"].items():
            yield f"| `{key}` | {_values(field)} | {_default(key, field, model)} | {_meaning(field)} |"
        yield ""


def _values(field: dict[str, Any]) -> str:
    if "$ref" in field:
        title = SECTIONS[field["$ref"].rpartition("/")[2]]
        anchor = re.sub(r"[`.<>]", "", title).lower().replace(" ", "-")
        return f"[{title.partition('` ')[2] or 'section'}](#{anchor})"
    if "anyOf" in field:
        return " or ".join(_values(choice) for choice in field["anyOf"])
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if "pattern" in field:
        return {"B": "size", "d": "duration"}.get(field["pattern"].rstrip(")$")[-1], "text")
    kind = {"string": "text", "object": "map", "array": "list", "boolean": "`true`, `false`"}
    return kind.get(field["type"], field["type"])


def _default(key: str, field: dict[str, Any], model: dict[str, Any]) -> str:
    if key in model.get("required", ()):
        return "needed"
    if "default" not in field or isinstance(field["default"], dict):
        return ""
    default = field["default"]
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _meaning(field: dict[str, Any]) -> str:
    return " ".join(field["description"].split()).replace("|", "\\|")


if __name__ == "__main__":
    for path, text in pages().items():
        (HERE / path).write_text(text, encoding="utf-8")
