"""A late view of an S3 server, for the fault proxy: what was written is seen late, what was deleted is seen longer.

Each write gets its own times, drawn from a seed, from which LIST and GET (and HEAD) show it: the two may differ.
Until then they show what was there before. Conditional writes are as strict as the server's: it decides on them.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree as ET

from drystone.bucket.s3_failures import CAUGHT, is_missing
from drystone.bucket.s3_store import Store
from drystone.testing.s3_proxy import Answer, Request

_SPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
_GOOD = 300


@dataclass(frozen=True, slots=True)
class _Old:
    """An object as it was before a write: None of it if there was none."""

    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Write:
    """A write that not everybody sees yet: from when GET and LIST do, and what they show until then."""

    get_from: float
    list_from: float
    old: _Old | None


@dataclass(slots=True)
class Lag:
    """A late view, see above. `longest`: seconds until everybody sees a write; `store`: the server, without a proxy.

    Without `late_gets` only listings are late, as they were in S3 before 2021, and are in some stores still.
    """

    store: Store
    longest: float
    seed: int = 0
    clock: Callable[[], float] = time.monotonic
    late_gets: bool = True
    fits: Callable[[str], bool] = lambda _: True
    """Which keys are seen late."""
    hidden: int = 0
    """How many objects a listing did not show yet, or a GET showed as missing or older than they are."""
    shown: int = 0
    """How many deleted objects a listing or a GET showed still."""
    _writes: dict[str, list[_Write]] = field(default_factory=dict)
    _pages: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Seed the dice."""
        self._random = random.Random(self.seed)  # noqa: S311 -- it must be possible to draw the same again

    def serve(self, request: Request, forward: Callable[[Request], Answer]) -> Answer:
        """Return what the client shall see of this request."""
        if request.is_write:
            return self._write(request, forward)
        if request.is_list:
            return self._list(request, forward(request))
        if request.key and request.method in {"GET", "HEAD"}:
            return self._stale(request) or forward(request)
        return forward(request)

    def _write(self, request: Request, forward: Callable[[Request], Answer]) -> Answer:
        keys = [key for key in _keys_of(request) if self.fits(key)]
        with self._lock:  # A write and the noting of it are one.
            before = {key: self._now(key) for key in keys}
            answer = forward(request)
            if answer.status < _GOOD:
                for key, old in before.items():
                    if old is not None or request.method == "PUT" or "uploadId" in request.query:
                        self._note(key, old)
        return answer

    def _note(self, key: str, old: _Old | None) -> None:
        now = self.clock()
        get_from, list_from = (now + self._random.uniform(0, self.longest) for _ in range(2))
        get_from = get_from if self.late_gets else now
        self._writes.setdefault(key, []).append(_Write(get_from, list_from, old))

    def _now(self, key: str) -> _Old | None:
        """Return the object as it is at the server."""
        try:
            answer: Any = self.store.client().get_object(Bucket=self.store.address.bucket, Key=key)
            return _Old(dict(answer["ResponseMetadata"]["HTTPHeaders"]), answer["Body"].read())
        except CAUGHT as error:
            if is_missing(error):
                return None
            raise

    def _unseen(self, key: str, by: Callable[[_Write], float]) -> _Write | None:
        """Return the first write to a key that is not seen yet: what it replaced is what is shown."""
        now = self.clock()
        return next((write for write in self._writes.get(key, ()) if by(write) > now), None)

    def _stale(self, request: Request) -> Answer | None:
        with self._lock:
            write = self._unseen(request.key, lambda each: each.get_from)
        if write is None:
            return None
        if write.old is None:
            self.hidden += 1
            body = b"" if request.method == "HEAD" else b"<Error><Code>NoSuchKey</Code></Error>"
            return Answer(404, "Not Found", (("Content-Length", str(len(body))),), body)
        self.shown += 1
        return _answer(request, write.old)

    def _list(self, request: Request, answer: Answer) -> Answer:
        if answer.status >= _GOOD:
            return answer
        page = ET.fromstring(answer.body)  # noqa: S314 -- our own server's
        found = {_text(each, "Key"): each for each in page.findall(f"{_SPACE}Contents")}
        token = request.query.get("continuation-token", "")
        after = self._pages.get(token, request.query.get("start-after", ""))
        last = max(map(unquote, found), default=after) if _text(page, "IsTruncated") == "true" else "\U0010ffff"
        if next_token := _text(page, "NextContinuationToken"):
            self._pages[next_token] = last
        with self._lock:
            late = {key: self._unseen(key, lambda each: each.list_from) for key in self._writes}
        for key, write in late.items():
            if write is None or not after < key <= last or not key.startswith(request.query.get("prefix", "")):
                continue
            there = found.pop(quote(key), None)
            there = found.pop(key, None) if there is None else there
            if there is not None:
                page.remove(there)
                self.hidden += 1
            if write.old is not None:
                self.shown += 1
                page.append(_listed(key, write.old, encoded=_text(page, "EncodingType") == "url"))
        _sort(page)
        body = ET.tostring(page, encoding="utf-8", xml_declaration=True)
        headers = [(name, value) for name, value in answer.headers if name.lower() != "content-length"]
        return Answer(answer.status, answer.reason, (*headers, ("Content-Length", str(len(body)))), body)


def _keys_of(request: Request) -> list[str]:
    if request.method == "POST" and "delete" in request.query:
        return [each.text or "" for each in ET.fromstring(request.body).iter() if each.tag.endswith("Key")]  # noqa: S314
    if request.method == "POST" and "uploadId" not in request.query:
        return []
    if request.method in {"PUT", "DELETE"} and "uploadId" in request.query:
        return []  # A part, or its upload is given up: nobody sees either.
    return [request.key] if request.key else []


def _answer(request: Request, old: _Old) -> Answer:
    body, status, extra = old.body, 200, []
    asked = _RANGE.fullmatch(request.headers.get("Range", ""))
    if asked:
        start, end = int(asked[1]), min(int(asked[2]), len(body) - 1)
        if start >= len(body):
            error = b"<Error><Code>InvalidRange</Code></Error>"
            return Answer(416, "Range Not Satisfiable", (("Content-Length", str(len(error))),), error)
        status, extra = 206, [("Content-Range", f"bytes {start}-{end}/{len(body)}")]
        body = body[start : end + 1]
    skipped = {"content-length", "content-range", "connection", "date"}
    skipped |= {name for name in old.headers if asked and name.startswith("x-amz-checksum")}
    kept = [(name, value) for name, value in old.headers.items() if name.lower() not in skipped]
    headers = (*kept, *extra, ("Content-Length", str(len(body))))
    return Answer(status, "OK", headers, b"" if request.method == "HEAD" else body)


def _listed(key: str, old: _Old, *, encoded: bool) -> ET.Element:
    element = ET.Element(f"{_SPACE}Contents")
    moment = parsedate_to_datetime(old.headers["last-modified"])
    values = {
        "Key": quote(key) if encoded else key,
        "LastModified": moment.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "ETag": old.headers["etag"],
        "Size": str(len(old.body)),
    }
    for name, value in values.items():
        ET.SubElement(element, f"{_SPACE}{name}").text = value
    return element


def _sort(page: ET.Element) -> None:
    """Put the objects of a page into the order of their keys."""
    objects = page.findall(f"{_SPACE}Contents")
    for each in objects:
        page.remove(each)
    page.extend(sorted(objects, key=lambda each: unquote(_text(each, "Key"))))


def _text(element: ET.Element, name: str) -> str:
    found = element.find(f"{_SPACE}{name}")
    return "" if found is None else found.text or ""
