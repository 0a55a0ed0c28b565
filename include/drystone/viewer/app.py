"""The one FastAPI app of all pages: who may look is asked first, and what goes wrong is one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from drystone.errors import BucketError, DrystoneError, UsageError


def application(guard: Callable[..., Any], *routers: APIRouter) -> FastAPI:
    """Return the app with these routes. `guard`: a FastAPI dependency that raises for whoever may not look.

    It is asked before anything is read. An error that Drystone raises on purpose is answered with its message and its
    next step: 404 for what does not exist, 503 where the store failed, else 500.
    """
    app = FastAPI(title="Drystone", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[Depends(guard)])
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(DrystoneError, _told)
    return app


def _told(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DrystoneError)  # noqa: S101 - the handler is registered for nothing else
    status = 404 if isinstance(error, UsageError) else 503 if isinstance(error, BucketError) else 500
    said = {"message": error.message, "next_step": error.next_step, "detail": str(error)}
    return JSONResponse(said, status, headers={"Cache-Control": "no-store"})
