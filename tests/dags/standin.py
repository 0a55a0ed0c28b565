"""A job that does only what $STANDIN tells it: the arguments, result object and exit code of a real one.

$STANDIN is a JSON object of task name → what to do: `sleep` (s), `result` (fields of the result), `exit` (a code),
`silent` (no result), `batches` (of a plan). The name is the last part of the run's name, with its map index.
"""

import json
import os
import sys
import time
from argparse import ArgumentParser
from pathlib import Path

from drystone import jobs
from drystone.bucket import open_bucket
from drystone.config.load import load

parser = ArgumentParser()
for name in ("--config", "--stream", "--run", "--request"):
    parser.add_argument(name, required=True)
parser.add_argument("--dry-run", action="store_true")
given = parser.parse_args()

verb = Path(sys.argv[0]).stem.removeprefix("drystone_")
task = given.run.split(".", 2)[2]
todo = json.loads(os.environ["STANDIN"]).get(task, {})
time.sleep(todo.get("sleep", 0))
if not todo.get("silent"):
    batches = [
        {"number": n, "label": f"batch {n}", "actions": 1, "bytes": 1, "rows": 1} for n in range(todo.get("batches", 0))
    ]
    fields = {
        "ok": not todo.get("exit"),
        "started": 1,
        "ended": 2,
        "spark_start_ms": 3,
        "work_ms": 4,
        "batches": batches,
    }
    planned = verb == "detect" or "batches" in todo
    fields |= {"plan_key": "the-plan" if planned else None, "summary": {"rows": 5, "request": given.request}}
    fields |= todo.get("result", {})
    result = jobs.JobResult(verb=verb, stream=given.stream, run=given.run, dry_run=given.dry_run, **fields)
    bucket = open_bucket(load(Path(given.config)).bucket_url(given.stream))
    bucket.put(jobs.result_key(given.stream, given.run), result.to_json())
sys.exit(todo.get("exit", 0))
