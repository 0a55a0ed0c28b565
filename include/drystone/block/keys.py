"""The names of everything that Drystone keeps in a bucket, in one place.

A stream owns `<stream>/`. Blocks are folders named by a ULID; all else of Drystone's own begins with a dot.
"""

from __future__ import annotations

import hashlib
import re

from drystone import ulids
from drystone.errors import UsageError

_HOLD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_STREAM = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")

PROBE = ".drystone/probe.json"
"""What the last probe of the bucket found: of no stream, but of the whole bucket."""
PROBING = ".drystone/probe-"
"""How the folders of probes that are going on begin; a ULID follows."""

FIRST_BLOCK = "0"
"""Block folders sort from here on, after everything that begins with a dot."""


def check_stream(stream: str) -> str:
    """Return `stream`; raise UsageError if it cannot name one (it is a folder, a DAG id and a pool at once)."""
    if _STREAM.fullmatch(stream) is None:
        msg = f"{stream!r} cannot name a stream."
        raise UsageError(msg, "Allowed: lower-case letters, digits, '-' and '_', at most 100, first a letter or digit.")
    return stream


def blocks(stream: str) -> str:
    """The prefix of the stream's blocks and of everything else it has."""
    return f"{stream}/"


def block(stream: str, ulid: str, name: str = "") -> str:
    """The key of a file in a block's folder; without a name, the folder's prefix."""
    return f"{stream}/{ulid}/{name}"


def record(stream: str) -> str:
    """The stream's own record: what readers must know of it without its configuration."""
    return f"{stream}/.stream.json"


def schema(stream: str, fingerprint: str) -> str:
    """The schema with this fingerprint."""
    return f"{stream}/.schemas/{fingerprint}.json"


def edits(stream: str) -> str:
    """The prefix of the stream's edits."""
    return f"{stream}/.edits/"


def edit(stream: str, ulid: str) -> str:
    """One edit."""
    return f"{edits(stream)}{ulid}.json"


def pins(stream: str) -> str:
    """The prefix of the pins of long reads."""
    return f"{stream}/.pins/"


def holds(stream: str) -> str:
    """The prefix of the stream's holds."""
    return f"{stream}/.holds/"


def hold(stream: str, name: str) -> str:
    """One hold; raise UsageError if `name` cannot name one."""
    if _HOLD.fullmatch(name) is None:
        msg = f"{name!r} cannot name a hold."
        raise UsageError(msg, "Allowed: letters, digits, '-' and '_', at most 100, first a letter or digit.")
    return f"{holds(stream)}{name}.json"


def receipts(stream: str, edit: str = "") -> str:
    """The prefix of the receipts of erasures, or of those of one edit."""
    return f"{stream}/.receipts/{edit}/" if edit else f"{stream}/.receipts/"


def leases(stream: str) -> str:
    """The prefix of the remover's lease."""
    return f"{stream}/.lease/"


def journal(stream: str) -> str:
    """The prefix of the compactors' journal."""
    return f"{stream}/.journal/"


def audit(stream: str) -> str:
    """The prefix of the audit log."""
    return f"{stream}/.audit/"


def plans(stream: str) -> str:
    """The prefix of the plans that jobs execute."""
    return f"{stream}/.plans/"


def reports(stream: str) -> str:
    """The prefix of job results and run reports."""
    return f"{stream}/.reports/"


def file_plans(stream: str, generation: int) -> str:
    """The prefix of the ingest plans of files."""
    return f"{stream}/.ingest/{generation}/files/"


def ingests(stream: str) -> str:
    """The prefix of the ingest plans of all generations."""
    return f"{stream}/.ingest/"


def kafka_topics(stream: str, generation: int) -> str:
    """The prefix of what is known of all topics of Kafka."""
    return f"{stream}/.ingest/{generation}/"


def kafka_topic(stream: str, generation: int, topic_id: str) -> str:
    """The prefix of what is known of a topic of Kafka, by its UUID: a topic that is made again is another one."""
    return f"{kafka_topics(stream, generation)}{topic_id}/"


def kafka_root(stream: str, generation: int, topic_id: str) -> str:
    """Where the chains of a topic's partitions begin."""
    return f"{kafka_topic(stream, generation, topic_id)}root.json"


def kafka_head(stream: str, generation: int, topic_id: str, partition: int) -> str:
    """How far a partition's chain is known to be committed."""
    return f"{kafka_topic(stream, generation, topic_id)}{partition}/head.json"


def kafka_plan(stream: str, generation: int, topic_id: str, partition: int, start: int, attempt: int = 0) -> str:
    """The ingest plan of a partition's offsets from `start` on, without a suffix; they sort by offset."""
    again = f".{attempt}" if attempt else ""
    return f"{kafka_topic(stream, generation, topic_id)}{partition}/{start:020d}{again}"


def exports(stream: str, generation: int | None = None) -> str:
    """The prefix of what is known of a stream's exports, or of those of one generation."""
    return f"{stream}/.exports/" if generation is None else f"{stream}/.exports/{generation}/"


def export(stream: str, generation: int, prefix: str) -> str:
    """The prefix of what is known of an export to `prefix`."""
    return f"{exports(stream, generation)}{hashlib.sha256(prefix.encode()).hexdigest()[:16]}/"


def parse_block(key: str, stream: str) -> tuple[str, str] | None:
    """Return (ULID, file name) of a key in a block's folder, or None for what belongs to no block."""
    folder, slash, name = key[len(stream) + 1 :].partition("/")
    return (folder, name) if slash and ulids.is_canonical(folder) else None
