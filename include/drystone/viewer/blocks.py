"""The block page and the endpoints behind it: streams, a stream's blocks, one block, the plan of the next run.

Every route is a GET, and none of them writes. Source: the design, "Airflow: the block page".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Path, Query
from fastapi.responses import Response
from pydantic import BaseModel

from drystone import ulids
from drystone.clock import Clock
from drystone.config.ingest import FilesIngest, KafkaIngest
from drystone.config.model import StreamConfig
from drystone.engine import audit
from drystone.plan.edits import Seen
from drystone.reader.details import block_details
from drystone.timeline.timeline import resolve
from drystone.verbs.next_plan import next_plan
from drystone.verbs.overview import Overview
from drystone.viewer.figures import kept_of, summary_of, table_of
from drystone.viewer.model import BlockPage, Fleet, Run, StreamEntry, Streams
from drystone.viewer.reports import STREAM
from drystone.viewer.shelf import Shelf

Stream = Annotated[str, Path(pattern=STREAM)]
Ulid = Annotated[str, Path(pattern=r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]
Anew = Annotated[bool, Query()]
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_ASSETS = files("drystone.viewer") / "assets"


def routes(
    shelf: Shelf, run_page: Callable[[str], str | None], kept: Callable[[], Iterable[Overview]], clock: Clock
) -> APIRouter:
    """Return the page at `/`, its own files, and `/api/…`.

    `kept`: returns what the fleet's overview last kept of every stream: the list of streams looks at none of them.

    `run_page`: returns the address of a run's page by the run's name in the audit log, seen from the root of the
    scheduler's own pages; None if it does not know.
    """
    router = APIRouter()
    router.add_api_route("/", lambda: _asset("page.html"), methods=["GET"])
    router.add_api_route("/assets/{name}", _asset, methods=["GET"])

    @router.get("/api/streams")
    def streams() -> Response:
        return _json(_streams(shelf))

    @router.get("/api/fleet")
    def fleet() -> Response:
        return _json(Fleet(streams=tuple(kept_of(each, clock()) for each in kept())))

    @router.get("/api/streams/{stream}")
    def stream(stream: Stream, *, anew: Anew = False) -> Response:
        seen = shelf.look(stream, anew=anew)
        return _json(summary_of(seen.view, seen.config))

    @router.get("/api/streams/{stream}/blocks")
    def blocks(stream: Stream) -> Response:
        return _json(table_of(shelf.look(stream).view))

    @router.get("/api/streams/{stream}/blocks/{ulid}")
    def block(stream: Stream, ulid: Ulid) -> Response:
        return _json(_block(shelf, stream, ulid, run_page))

    @router.get("/api/streams/{stream}/plan")
    def plan(stream: Stream, kind: Literal["minor", "major", "mark", "sweep"] = "minor") -> Response:
        seen = shelf.look(stream)
        snapshot, times = seen.view.snapshot, seen.config.times.times()
        planned = Seen(snapshot, resolve(snapshot, times), times, ulids.new(snapshot.taken_at))
        return _json(next_plan(seen.view.bucket, planned, kind, seen.config, seen.batches))

    return router


def _streams(shelf: Shelf) -> Streams:
    loaded = shelf.loaded()
    found = sorted(loaded.config.streams.items())
    entries = (StreamEntry(stream=name, bucket=loaded.bucket_url(name), kind=_kind(config)) for name, config in found)
    return Streams(config_file=str(loaded.path), streams=tuple(entries))


def _kind(config: StreamConfig) -> str:
    match config.ingest:
        case FilesIngest():
            return "files"
        case KafkaIngest():
            return "Kafka"
        case _:
            return "dead letters"


def _block(shelf: Shelf, stream: str, ulid: str, run_page: Callable[[str], str | None]) -> BlockPage:
    view = shelf.look(stream).view
    details = block_details(view, ulid)
    entry = audit.upload_of(view.bucket, stream, ulid)
    run = None
    if entry is not None:
        run = Run(name=entry.run, why=entry.why, when=entry.when, href=run_page(entry.run))
    return BlockPage(details=details, run=run)


def _asset(name: str) -> Response:
    """Return one of the page's own files; 404 for what is none of them."""
    found = next((file for file in _ASSETS.iterdir() if file.name == name), None)
    if found is None:
        raise HTTPException(404, f"There is no {name}.")
    kind = _KINDS["." + name.rpartition(".")[2]]
    return Response(found.read_bytes(), media_type=kind, headers=_HEADERS | {"Content-Security-Policy": _POLICY})


def _json(model: BaseModel) -> Response:
    # The model itself makes the text: FastAPI would go over ten thousand blocks a second time.
    return Response(model.model_dump_json(), media_type="application/json", headers=_HEADERS)
