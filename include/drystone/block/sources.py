"""The file `sources`: a block's source set, where that is too big for meta.json. Source: the design, "Visibility"."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from drystone import ulids
from drystone.block.meta import SourcesFile
from drystone.errors import UnreadableBlockError


def to_json(sources: Iterable[str]) -> tuple[bytes, SourcesFile]:
    """Return the bytes of the file, and what meta.json says of it."""
    named = sorted(sources)
    raw = json.dumps(named).encode()
    return raw, SourcesFile(count=len(named), sha256=digest(raw))


def digest(raw: bytes) -> str:
    """Return the digest by which meta.json names the file."""
    return hashlib.sha256(raw).hexdigest()


def parse(raw: bytes, named: SourcesFile, ulid: str) -> frozenset[str]:
    """Return the source set in block `ulid`'s file; raise UnreadableBlockError if it is not the one that is named."""
    if digest(raw) != named.sha256:
        raise UnreadableBlockError(f"block {ulid}: its file of sources is not the one that meta.json names.")
    try:
        found = json.loads(raw)
    except ValueError as error:
        raise UnreadableBlockError(f"block {ulid}: its file of sources cannot be read: {error}.") from None
    if not isinstance(found, list) or not all(isinstance(each, str) and ulids.is_canonical(each) for each in found):
        raise UnreadableBlockError(f"block {ulid}: its file of sources is no list of ULIDs.")
    if not found or len(set(found)) != named.count:
        msg = f"block {ulid}: its file of sources has {len(set(found))} sources, not {named.count}."
        raise UnreadableBlockError(msg)
    return frozenset(found)
