"""Which data a job reads and writes, as OpenLineage names it: a stream is the dataset `<path in the bucket>/<stream>`.

Namespaces and names are those of OpenLineage's naming rules: `s3://bucket` and a key, `file` and a path,
`kafka://host:port` and a topic. Source: the design, "Airflow: how people use it".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from drystone.config.ingest import FilesIngest, KafkaIngest
from drystone.config.load import Loaded
from drystone.jobs import JobResult, Verb

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

_PATTERN = re.compile(r"[%*?\[{]")
_REWRITES: frozenset[Verb] = frozenset({"compact", "repair"})
_INGESTS: frozenset[Verb] = frozenset({"upload", "backfill"})


class Name(NamedTuple):
    """A dataset's name."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Flow:
    """What a job reads and writes; `stream`: the one of `outputs` that is its own stream, if it writes to that."""

    inputs: tuple[Name, ...] = ()
    outputs: tuple[Name, ...] = ()
    stream: Name | None = None


def flow(loaded: Loaded, stream: str, verb: Verb, request: Mapping[str, Any]) -> Flow:
    """Return what a job of this verb reads and writes; nothing for those that only look, mark or delete."""
    own = stream_name(loaded, stream)
    if verb in _REWRITES:
        return Flow((own,), (own,), own)
    if verb in _INGESTS:
        ingest = loaded.stream(stream).ingest
        dead = ingest.dead_letters if isinstance(ingest, KafkaIngest) else None
        others = () if dead is None else (stream_name(loaded, dead),)
        return Flow(_sources(loaded, stream, request), (own, *others), own)
    if verb == "export":
        return Flow((own,), _exported(loaded, stream))
    return Flow((own,)) if verb == "verify" else Flow()


def stream_name(loaded: Loaded, stream: str) -> Name:
    """Return the name of a stream, wherever its bucket is."""
    return _below(loaded.bucket_url(stream), stream)


def openlineage(loaded: Loaded, verb: Verb, request: Mapping[str, Any], result: JobResult) -> OperatorLineage[Any, Any]:
    """Return the lineage of a job that has ended: what it read and wrote, its columns, and how much it wrote."""
    from airflow.providers.common.compat.openlineage import facet  # noqa: PLC0415 -- only where lineage is asked for
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415

    moved = Flow() if result.dry_run else flow(loaded, result.stream, verb, request)
    inputs = [facet.InputDataset(*each) for each in moved.inputs]
    outputs = [facet.OutputDataset(*each) for each in moved.outputs]
    columns = loaded.stream(result.stream).columns
    for dataset in (*inputs, *outputs):
        if Name(dataset.namespace, dataset.name) == stream_name(loaded, result.stream) and columns != "infer":
            fields = [facet.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in columns.items()]
            dataset.facets = {"schema": facet.SchemaDatasetFacet(fields=fields)}
    for dataset in outputs:
        if Name(dataset.namespace, dataset.name) == moved.stream:
            rows, size = (result.summary.get(name) for name in ("rows", "bytes"))
            written = facet.OutputStatisticsOutputDatasetFacet(rowCount=_whole(rows), size=_whole(size))
            dataset.outputFacets = {"outputStatistics": written}
    return OperatorLineage(inputs=inputs, outputs=outputs)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _sources(loaded: Loaded, stream: str, request: Mapping[str, Any]) -> tuple[Name, ...]:
    match loaded.stream(stream).ingest:
        case FilesIngest(path=path):
            return (_files(loaded, request.get("path") or path),)
        case KafkaIngest(bootstrap_servers=servers, topics=topics):
            return (Name(f"kafka://{servers.partition(',')[0].strip()}", topics),)
    return ()


def _files(loaded: Loaded, path: str) -> Name:
    """Return the file that a path names, or the folder that all files lie below which it may name."""
    if "://" in path:
        parts = urlsplit(path)
        return Name(f"{parts.scheme}://{parts.netloc}", _fixed(parts.path.lstrip("/")))
    return Name("file", _fixed(str((loaded.path.parent / Path(path).expanduser()).absolute())))


def _fixed(path: str) -> str:
    found = _PATTERN.search(path)
    return path if found is None else path[: found.start()].rpartition("/")[0] or "/"


def _exported(loaded: Loaded, stream: str) -> tuple[Name, ...]:
    ingest = loaded.stream(stream).ingest
    export = ingest.export if isinstance(ingest, KafkaIngest) else None
    return () if export is None else (_below(loaded.bucket_url(stream), export.prefix),)


def _below(url: str, path: str) -> Name:
    """Return the name of what lies at `path` in the bucket with this address, whose settings are no part of it."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Name("file", f"{parts.path.rstrip('/')}/{path}")
    inside = parts.path.strip("/")
    return Name(f"{parts.scheme}://{parts.netloc}", f"{inside}/{path}" if inside else path)
