"""An HTTP proxy before an S3 server that harms what passes, when it is told to; signatures stay valid.

What is asked is handed on byte for byte, the `Host` that the client signed included. A `Judge` decides for each request
which fault befalls it: an error of the store's, a reset, a delay, an answer that is cut off, or one that is lost after
the server has done the work. `s3_lag` adds a view that is late.

Source: the design, "Real components without Docker".
"""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

WRITES = frozenset({"PUT", "POST", "DELETE"})
_HOP = frozenset({"connection", "expect", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"})
_TIMEOUT = 60
_NO_BODY = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks: the verb, the full key ("" for the bucket), the query, and which request it is (from 0)."""

    method: str
    bucket: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = field(repr=False)
    target: str
    number: int

    @property
    def is_list(self) -> bool:
        """Tell whether it lists objects."""
        return self.method == "GET" and not self.key and "list-type" in self.query

    @property
    def is_write(self) -> bool:
        """Tell whether it may change something."""
        return self.method in WRITES


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server says. The body of an answer to HEAD is empty, whatever its Content-Length."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)

    def raw(self) -> tuple[bytes, bytes, bytes]:
        """Return its bytes: the status line, the headers with the line that ends them, and the body."""
        names = "".join(f"{name}: {value}\r\n" for name, value in self.headers)
        return f"HTTP/1.1 {self.status} {self.reason}\r\n".encode(), f"{names}\r\n".encode("latin-1"), self.body


@dataclass(frozen=True, slots=True)
class Refuse:
    """The store answers with an error and does nothing."""

    status: int = 503
    code: str = "SlowDown"


@dataclass(frozen=True, slots=True)
class Say:
    """The proxy answers itself, with success, this body and these headers; the server does not hear of the request."""

    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset before the server hears of the request."""


@dataclass(frozen=True, slots=True)
class Lose:
    """The server does what was asked, and the connection is reset instead of the answer."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The server does what was asked; the answer ends after its status line, amid its headers, or amid its body."""

    within: str = "status"


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is handed on after so many seconds."""

    seconds: float


Fault: TypeAlias = Refuse | Say | Reset | Lose | Cut | Delay
Judge: TypeAlias = Callable[[Request], Fault | None]
"""Decides what befalls a request; called by one thread at a time, in the order in which requests come in."""


class Late(Protocol):
    """A view of the store that is late, see `s3_lag.Lag`."""

    def serve(self, request: Request, forward: Callable[[Request], Answer]) -> Answer:
        """Return what the client shall see."""
        ...


@dataclass(frozen=True, slots=True)
class Passed:
    """A request that came by, what befell it, and the status that the server gave (0 if it never heard of it)."""

    request: Request
    fault: Fault | None
    status: int


class S3Proxy:
    """A running proxy. `judge` and `late` may be exchanged at any time; `passed` has all requests, as they ended."""

    def __init__(self, upstream: str) -> None:
        """`upstream`: the server's endpoint, `http://host:port`."""
        place = urlsplit(upstream)
        self._upstream = (place.hostname or "", place.port or 80)
        self.judge: Judge = lambda _: None
        self.late: Late | None = None
        self.passed: list[Passed] = []
        self._lock = threading.Lock()
        self._count = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def count(self, fits: Callable[[Request], bool]) -> int:
        """Return how many requests of a kind have come by."""
        return sum(fits(each.request) for each in self.passed)

    def faults(self, kind: type[Fault]) -> int:
        """Return how many requests a kind of fault has befallen."""
        return sum(isinstance(each.fault, kind) for each in self.passed)

    def take(self, handler: BaseHTTPRequestHandler) -> tuple[Request, Fault | None]:
        """Read a request, and decide on it."""
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        parts = urlsplit(handler.path)
        bucket, _, key = parts.path.removeprefix("/").partition("/")
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        headers = dict(handler.headers.items())
        with self._lock:
            request = Request(handler.command, bucket, unquote(key), query, headers, body, handler.path, self._count)
            self._count += 1
            return request, self.judge(request)

    def forward(self, request: Request) -> Answer:
        """Ask the server, and return its whole answer."""
        connection = http.client.HTTPConnection(*self._upstream, timeout=_TIMEOUT)
        with contextlib.closing(connection):
            connection.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name.lower() not in _HOP:
                    connection.putheader(name, value)
            connection.endheaders(request.body)
            answer = connection.getresponse()
            body = answer.read()
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP]
        if request.method != "HEAD" and answer.status not in _NO_BODY:
            headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
            headers.append(("Content-Length", str(len(body))))
        return Answer(answer.status, answer.reason, tuple(headers), body)

    def ask(self, request: Request) -> Answer:
        """Return what the client shall see, as late as the view is."""
        return self.late.serve(request, self.forward) if self.late else self.forward(request)

    def run(self) -> None:
        """Serve until `close`."""
        self._server.serve_forever(poll_interval=0.02)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def s3_proxy(upstream: str) -> Iterator[S3Proxy]:
    """Run a proxy before a server, without faults at first, until the block is left."""
    proxy = S3Proxy(upstream)
    thread = threading.Thread(target=proxy.run, name="s3-proxy", daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()


@dataclass(slots=True)
class Nth:
    """A judge that lets a fault befall the requests of these numbers (from 0) among those that fit, and no other."""

    fault: Fault
    fits: Callable[[Request], bool]
    numbers: frozenset[int] = frozenset({0})
    seen: int = 0

    def __call__(self, request: Request) -> Fault | None:
        """Decide."""
        if not self.fits(request):
            return None
        self.seen += 1
        return self.fault if self.seen - 1 in self.numbers else None


class Weather:
    """A judge that draws faults from a seed: the share of requests that each kind befalls."""

    def __init__(self, seed: int, shares: dict[Fault, float]) -> None:
        """`shares`: they sum up to less than 1."""
        self._random = random.Random(seed)  # noqa: S311 -- it must be possible to draw the same again
        self._shares = shares

    def __call__(self, _: Request) -> Fault | None:
        """Decide."""
        drawn = self._random.random()
        for fault, share in self._shares.items():
            if drawn < share:
                return fault
            drawn -= share
        return None


class _Handler(BaseHTTPRequestHandler):
    """Serves one connection of `proxy`, which a subclass has."""

    proxy: S3Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def serve(self) -> None:
        """Serve a request of any verb."""
        request, fault = self.proxy.take(self)
        if isinstance(fault, Delay):
            time.sleep(fault.seconds)
        if isinstance(fault, Refuse | Say | Reset):
            self.proxy.passed.append(Passed(request, fault, 0))
            self._reset() if isinstance(fault, Reset) else self._send(_own_answer(request, fault))
            return
        try:
            answer = self.proxy.ask(request)
        except OSError:
            self._reset()
            return
        self.proxy.passed.append(Passed(request, fault, answer.status))
        if isinstance(fault, Lose):
            self._reset()
        else:
            self._send(answer, fault.within if isinstance(fault, Cut) else "")

    def _send(self, answer: Answer, cut_within: str = "") -> None:
        status, headers, body = answer.raw()
        whole = {
            "": status + headers + body,
            "status": status,
            "headers": status + headers[: len(headers) // 2],
            "body": status + headers + body[: len(body) // 2],
        }[cut_within]
        self.close_connection = self.close_connection or bool(cut_within)
        with contextlib.suppress(OSError):  # The client may be gone.
            self.wfile.write(whole)

    def _reset(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RD)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base's name
        """Say nothing."""


def _handler(proxy: S3Proxy) -> type[BaseHTTPRequestHandler]:
    verbs = {f"do_{verb}": _Handler.serve for verb in ("GET", "HEAD", "PUT", "POST", "DELETE")}
    return type("Handler", (_Handler,), {"proxy": proxy, **verbs})


def _own_answer(request: Request, fault: Refuse | Say) -> Answer:
    status, reason = 200, "OK"
    extra: tuple[tuple[str, str], ...] = ()
    if isinstance(fault, Refuse):
        status, reason = fault.status, fault.code
        body = f"<Error><Code>{fault.code}</Code><Message>{fault.code}</Message></Error>".encode()
    else:
        body, extra = fault.body, fault.headers
    headers = (("Content-Type", "application/xml"), ("Content-Length", str(len(body))), *extra)
    return Answer(status, reason, headers, b"" if request.method == "HEAD" else body)
