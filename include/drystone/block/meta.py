"""meta.json: what a block says of itself, in Thanos' own format, with Drystone's part under `extensions.drystone`.

Source: the design, "Blocks: format"; Thanos `pkg/block/metadata/meta.go`. Unknown fields of other tools are ignored.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from drystone import ulids
from drystone.block.chunks import Granularity
from drystone.errors import UnreadableBlockError

META_FILE = "meta.json"
INDEX_FILE = "index"
SOURCES_FILE = "sources"
FORMAT_VERSION = 1
MAX_META_BYTES = 1 << 20


def _canonical(text: str) -> str:
    if not ulids.is_canonical(text):
        msg = f"{text!r} is no canonical ULID"
        raise ValueError(msg)
    return text


def _mapping(value: Any) -> Any:
    """Read what other tools write instead of a mapping (null, or an extension of another kind) as an empty one."""
    return value if isinstance(value, dict) else {}


Ulid = Annotated[str, AfterValidator(_canonical)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="ignore")


class Stats(_Model):
    """Row counts under Thanos' names: a sample is a row, a chunk is a row group."""

    num_samples: int = Field(alias="numSamples", ge=0, default=0)
    num_series: int = Field(alias="numSeries", ge=0, default=1)
    num_chunks: int = Field(alias="numChunks", ge=0, default=0)


class Parent(_Model):
    """A direct input of the compaction that made the block."""

    ulid: Ulid
    min_time: int = Field(alias="minTime")
    max_time: int = Field(alias="maxTime")


class Compaction(_Model):
    """Where the rows came from. `sources` is the whole set of the block's group, never empty."""

    level: int = Field(ge=1)
    sources: tuple[Ulid, ...] = ()
    parents: tuple[Parent, ...] = ()


class Hash(_Model):
    """A file's digest."""

    hash_func: str = Field(alias="hashFunc")
    value: str


class File(_Model):
    """One file of the block, by its path inside the folder."""

    rel_path: str
    size_bytes: int | None = None
    hash: Hash | None = None


class Group(_Model):
    """The compaction's outputs that are visible together or not at all."""

    id: Ulid
    size: int = Field(ge=1)
    index: int = Field(ge=0)


class TimeChunk(_Model):
    """The time chunk that the block lies in."""

    start: int
    end: int
    granularity: Granularity


class Replacement(_Model):
    """The source `by` holds, from now on, the rows of the source `root`, which is read nowhere else.

    `by` was planned after `root`, and sorts after it: so nothing replaces itself, even through others.
    """

    root: Ulid
    by: Ulid

    @model_validator(mode="after")
    def _later(self) -> Self:
        if self.by <= self.root:
            msg = f"{self.by} cannot replace {self.root}, which is no older"
            raise ValueError(msg)
        return self


class SourcesFile(_Model):
    """Where the source set is, when it is too big for meta.json."""

    count: int = Field(ge=1)
    sha256: str


class Rewrite(_Model):
    """What a rewrite did with the rows of its inputs: `rows_in` = rows + erased + retired + deduplicated."""

    rows_in: int
    rows_erased: int = 0
    rows_retired: int = 0
    rows_deduplicated: int = 0


class Extension(_Model):
    """What Thanos has no field for. `unknown_times`: how many of the rows have no time, null in the time column."""

    format_version: int
    stream: str
    schema_fingerprint: str
    time_chunk: TimeChunk
    time_column: str
    unknown_times: int = Field(ge=0, default=0)
    sort_key: tuple[str, ...]
    group: Group | None = None
    generation: int = 0
    rewrite: int = 0
    checksum: str = ""
    edits: tuple[Ulid, ...] = ()
    retires: tuple[Replacement, ...] = ()
    sources_file: SourcesFile | None = None
    rewritten: Rewrite | None = None
    ignore_delay: bool = False
    operation: str = ""


class Downsample(_Model):
    """The resolution in ms: 0 for raw rows."""

    resolution: int = 0


class Thanos(_Model):
    """The part of meta.json that Thanos adds to Prometheus' own."""

    version: int = 1
    labels: Annotated[dict[str, str], BeforeValidator(_mapping)] = Field(default_factory=dict)
    downsample: Downsample = Downsample()
    source: str = ""
    upload_time: str | None = None
    segment_files: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    extensions: Annotated[dict[str, Any], BeforeValidator(_mapping)] = Field(default_factory=dict)


class Meta(_Model):
    """One meta.json. Times are milliseconds since the epoch, [min_time, max_time)."""

    version: int
    ulid: Ulid
    min_time: int = Field(alias="minTime")
    max_time: int = Field(alias="maxTime")
    stats: Stats
    compaction: Compaction
    thanos: Thanos = Thanos()

    @cached_property
    def drystone(self) -> Extension | None:
        """Drystone's part, or None for a block of another tool. Raises as `parse` does."""
        raw = self.thanos.extensions.get("drystone")
        return None if raw is None else Extension.model_validate(raw)

    def to_json(self) -> bytes:
        """Return the bytes of meta.json."""
        return json.dumps(self.model_dump(mode="json", by_alias=True, exclude_none=True), indent=1).encode()


def parse(raw: bytes, ulid: str) -> Meta:
    """Return the meta.json of block `ulid` from its bytes.

    Raises UnreadableBlockError, naming the block and the reason, for JSON that is cut off, another version, a ULID that
    is not the folder's, an empty or unparsable source list, or an extension of an unknown format.
    """
    where = f"block {ulid}: meta.json"
    try:
        meta = Meta.model_validate_json(raw)
        extension = meta.drystone
    except ValidationError as error:
        _check_versions(where, *_claimed_versions(raw))
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise UnreadableBlockError(f"{where} cannot be used: {path}: {first['msg']}".replace(": :", ":")) from None
    _check_versions(where, meta.version, meta.thanos.version, extension.format_version if extension else None)
    if meta.ulid != ulid:
        raise UnreadableBlockError(f"{where} names another block, {meta.ulid}.")
    if not meta.compaction.sources:
        raise UnreadableBlockError(f"{where} has an empty source list.")
    if meta.min_time > meta.max_time:
        raise UnreadableBlockError(f"{where} ends before it begins: {meta.min_time} > {meta.max_time}.")
    if extension is None and meta.thanos.source.startswith("drystone."):
        raise UnreadableBlockError(f"{where} lacks its Drystone part.")
    if extension is not None and extension.group is not None and extension.group.index >= extension.group.size:
        raise UnreadableBlockError(f"{where}: group index {extension.group.index} of {extension.group.size}.")
    return meta


def named_in(raw: bytes) -> str:
    """Return the ULID that a meta.json names, whatever folder it lies in; an empty text if it names none."""
    try:
        found = _mapping(json.loads(raw)).get("ulid")
    except (ValueError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def _check_versions(where: str, version: int | None, thanos: int | None, drystone: int | None) -> None:
    """Raise UnreadableBlockError for a version that is not known; None stands for one that is not given."""
    if version not in {None, 1} or thanos not in {None, 0, 1}:
        raise UnreadableBlockError(f"{where} has version {version}/{thanos}, known is 1/1.")
    if drystone not in {None, FORMAT_VERSION}:
        msg = f"{where} has Drystone format {drystone}, known is {FORMAT_VERSION}."
        raise UnreadableBlockError(msg, "A newer Drystone wrote it: upgrade this one.")


def _claimed_versions(raw: bytes) -> tuple[int | None, int | None, int | None]:
    """Return the versions that a meta.json says it has, however little else of it can be understood."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        document = None
    thanos = _mapping(_mapping(document).get("thanos"))
    drystone = _mapping(_mapping(thanos.get("extensions")).get("drystone"))
    return _number(_mapping(document), "version"), _number(thanos, "version"), _number(drystone, "format_version")


def _number(document: dict[str, Any], name: str) -> int | None:
    found = document.get(name)
    return found if isinstance(found, int) else None
