"""Read by every Python of a job that has this folder on its path: it stands still, or fails, at one of its writes.

DRYSTONE_FREEZE: JSON of `key` (a regular expression), `when` (`before` or `after` the object gets its name, or `lost`:
there, but told that it failed), `number` (the how many-th such object) and `folder`, where `frozen` appears, and
`go` is waited for; `overwrites`: whether to plant a commit that is not create-only; `ahead`: by how many ms its
clock is.
"""

import json
import os
import re
import time
from pathlib import Path

_ASKED = os.environ.get("DRYSTONE_FREEZE")


def _install(asked: dict[str, object]) -> None:
    from drystone import clock  # noqa: PLC0415
    from drystone.bucket import local  # noqa: PLC0415 -- every Python of the job reads this file, also those without
    from drystone.errors import BucketError  # noqa: PLC0415

    folder = Path(str(asked["folder"]))
    real = local.LocalBucket._publish

    def freeze() -> None:
        (folder / "frozen").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)

    def mine(target: Path) -> bool:
        if not re.search(str(asked["key"]), str(target)) or (folder / "frozen").exists():
            return False
        # One file for each, by whatever process: the number is counted over all of them.
        with (folder / "count").open("a") as file:
            file.write(".")
        return (folder / "count").stat().st_size == asked["number"]

    def publish(self, move, file, source, target):  # noqa: ANN001, ANN202
        found = mine(target)
        if found and asked["when"] == "before":
            freeze()
        real(self, move, file, source, target)
        if found and asked["when"] == "after":
            freeze()
        if found and asked["when"] == "lost":
            (folder / "frozen").touch()
            raise BucketError("the connection was reset before the answer came.")

    local.LocalBucket._publish = publish
    clock.system = lambda: time.time_ns() // 1_000_000 + asked["ahead"]
    if asked["overwrites"]:
        from drystone.ingest.kafka.chain import Chain  # noqa: PLC0415

        Chain.commit = lambda self, plan, done: self.bucket.put(plan.done_key, done.to_json()) or done


if _ASKED:
    _install(json.loads(_ASKED))
