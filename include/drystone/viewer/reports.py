"""The page of one run's report."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path
from fastapi.responses import HTMLResponse

from drystone.errors import BucketError

RUN = r"^[A-Za-z0-9_+:-]+\.[A-Za-z0-9_+:-]+$"
STREAM = r"^[a-z0-9][a-z0-9_-]{0,99}$"
_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Cache-Control": "no-store"}
_PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; }} pre {{ white-space: pre-wrap; }}</style>
<pre>{text}</pre>
"""


def routes(read: Callable[[str, str], str | None]) -> APIRouter:
    """Return `GET /reports/<stream>/<run>`: it shows what `read(stream, run)` returns as text, or 404 for None.

    Where the bucket cannot be read, 503 says why.
    """
    router = APIRouter()

    @router.get("/reports/{stream}/{run}", response_class=HTMLResponse)
    def report(stream: Annotated[str, Path(pattern=STREAM)], run: Annotated[str, Path(pattern=RUN)]) -> HTMLResponse:
        try:
            text = read(stream, run)
        except BucketError as error:
            raise HTTPException(503, f"The report cannot be read from here. {error}") from None
        if text is None:
            raise HTTPException(404, f"There is no report of run {run} of stream {stream}.")
        return HTMLResponse(_PAGE.format(title=escape(f"{stream}: {run}"), text=escape(text)), headers=_HEADERS)

    return router
