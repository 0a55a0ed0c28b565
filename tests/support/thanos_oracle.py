"""The real Thanos, asked: a small program around its own packages, see tests/interop/thanos."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from go_programs import build

SOURCES = Path(__file__).parents[1] / "interop" / "thanos"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What Thanos makes of a folder of blocks. Blocks are named by their ULIDs, groups by Thanos' keys.

    `duplicates` are the blocks that another one covers; `groups` all blocks by compaction group; `overlapping` the
    groups in which blocks overlap in time, duplicates aside; `plans` the next compaction of each group; `unreadable`
    the blocks whose meta.json it refuses, with the reason.
    """

    duplicates: frozenset[str]
    groups: dict[str, frozenset[str]]
    overlapping: frozenset[str]
    plans: dict[str, tuple[str, ...]]
    unreadable: dict[str, str]


@dataclass(frozen=True, slots=True)
class Round:
    """What became of one iteration of `thanos compact`: its error; whether it waits for a person from now on.

    `planned`: for which groups it looked for a compaction, in that order.
    """

    error: str
    halted: bool
    planned: tuple[str, ...]


def judge(streams: Iterable[Path | Mapping[str, bytes]]) -> list[Verdict]:
    """Return what Thanos makes of each of these streams: a folder with a folder per block, or every meta.json by ULID.

    Nothing is changed.
    """
    return [
        Verdict(
            duplicates=frozenset(each["duplicates"]),
            groups={key: frozenset(group) for key, group in each["groups"].items()},
            overlapping=frozenset(each["overlapping"]),
            plans={key: tuple(plan) for key, plan in each["plans"].items()},
            unreadable=each["unreadable"],
        )
        for each in _ask(map(_question, streams))
    ]


def _question(stream: Path | Mapping[str, bytes]) -> dict[str, Any]:
    if isinstance(stream, Path):
        return {"do": "judge", "folder": str(stream)}
    return {"do": "judge", "metas": {ulid: raw.decode() for ulid, raw in stream.items()}}


def one_round(folder: Path, *, delete_delay: int, consistency_delay: int = 0, vertical: bool = False) -> Round:
    """Let Thanos do to a folder what an iteration of `thanos compact` does. Delays are in seconds."""
    question = {
        "do": "round",
        "folder": str(folder),
        "delete_delay": delete_delay,
        "consistency_delay": consistency_delay,
        "vertical": vertical,
    }
    (done,) = _ask([question])
    return Round(done["error"], done["halted"], tuple(done["planned"]))


def _ask(questions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask one process all of it."""
    lines = "".join(f"{json.dumps(each)}\n" for each in questions)
    done = subprocess.run([_program()], input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the oracle failed:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


@cache
def _program() -> Path:
    return build(SOURCES, "thanos-oracle")
