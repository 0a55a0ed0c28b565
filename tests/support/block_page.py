"""The block page over a stream, without Airflow, and who asks it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi import APIRouter, FastAPI, Header, HTTPException
from fastapi.testclient import TestClient
from lakes import Lake

from drystone import clock
from drystone.bucket import Bucket, open_bucket
from drystone.config.load import Loaded, load
from drystone.verbs.overview import Overview
from drystone.viewer import blocks
from drystone.viewer.app import application
from drystone.viewer.shelf import Shelf

LOGIN = {"X-Login": "yes"}


def guard(x_login: str = Header("")) -> None:
    """Let in who says so."""
    if not x_login:
        raise HTTPException(401)


@dataclass
class Page:
    """The app, and who asks it. `opened`: the buckets that it opened; `kept`: what it is told of all streams."""

    lake: Lake
    opened: list[Bucket] = field(default_factory=list)
    kept: list[Overview] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the app."""
        self.shelf = Shelf(lambda: load(self.lake.config_file), self.enter, clock.system)
        self.app: FastAPI = application(guard, self.routes())
        self.browser = TestClient(self.app, headers=LOGIN)
        self.stranger = TestClient(self.app)

    def routes(self) -> APIRouter:
        """Return the routes of the page."""
        return blocks.routes(self.shelf, lambda name: f"dags/x/runs/{name}", lambda: self.kept, clock.system)

    def enter(self, loaded: Loaded, stream: str) -> Bucket:
        """Open the bucket of a stream."""
        self.opened.append(open_bucket(loaded.bucket_url(stream)))
        return self.opened[-1]
