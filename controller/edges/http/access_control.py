# SPDX-License-Identifier: Apache-2.0
"""The admission of requests, before every route, so that no route can forget the check.

Every request needs a bearer token, the API's or one that may only read; or the session of a browser.
A browser's request also needs a loopback name in Host, since another site's name may resolve to us (DNS rebinding).
With TLS the browser compares the name with the certificate instead. Its Origin must be ours, since other sites' pages
can send requests too.
"""

from __future__ import annotations

import logging
import pwd
import time
from collections.abc import Callable, Iterator, Mapping
from hmac import compare_digest
from urllib.parse import urlsplit

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.edges.http import peer
from controller.edges.http.problems import problem
from controller.edges.http.records import Records, action
from controller.edges.http.sessions import KEY, Access, Caller
from controller.edges.http.token import is_loopback

log = logging.getLogger(__name__)

LARGEST_BODY_BYTES = 16 << 10
SAFE = ("GET", "HEAD")  # methods that change nothing and have no body
SESSION = "/api/v1/page/session"  # a browser signs in and out there
Public = Callable[[str, str], bool]  # whether a method and path need no authentication
REFUSALS_EACH_S = 20  # with 401; later ones in that second get 429
QUIET_S = 60.0  # between log lines


class CannotServe(Exception):
    """The API cannot start. The sentence names the remedy."""


class TokenRefusals(Collector):
    """The count of refused requests. Written in the API's thread, read from any."""

    def __init__(self) -> None:
        self.count = 0
        self._logged_at = -QUIET_S
        self._logged = 0
        self._second, self._of_this_second = 0, 0

    def note(self, peer: str, now: float) -> bool:
        """Return whether this refusal exceeds the limit of this second."""
        self.count += 1
        if now - self._logged_at >= QUIET_S:
            more = self.count - self._logged - 1
            since = f", and {more} more since the last such message" if more else ""
            log.warning(
                "API: a request from %s without the token, or with a wrong one, was refused%s; the next message "
                "follows in %g s at the earliest",
                *(peer, since, QUIET_S),
            )
            self._logged_at, self._logged = now, self.count
        if int(now) != self._second:
            self._second, self._of_this_second = int(now), 0
        self._of_this_second += 1
        return self._of_this_second > REFUSALS_EACH_S

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(
            "bicast_api_refusals", "Requests without the API's token, or with a wrong one", value=self.count
        )


class Gate:
    """ASGI middleware for tokens, body sizes and types."""

    def __init__(
        self, app: ASGIApp, tokens: Mapping[str, Access], refusals: TokenRefusals, records: Records, is_public: Public
    ) -> None:
        self.app = app
        self.tokens = tokens
        self.refusals = refusals
        self.records = records
        self.is_public = is_public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        admitted = self._admit(scope, headers)
        if isinstance(admitted, Response):
            return await admitted(scope, receive, send)
        scope.setdefault("state", {})["caller"] = admitted
        body = await _read(headers, receive)
        if body is None:
            detail = f"the body is larger than {LARGEST_BODY_BYTES} bytes; no request of this API needs more"
            return await problem(scope, 413, detail, headers={"Connection": "close"})(scope, receive, send)
        if refusal := self._wrong_type(scope, headers, body):
            return await refusal(scope, receive, send)
        if scope["method"] == "HEAD":  # answered like GET; the server omits the body (RFC 9110, 9.3.2)
            scope = {**scope, "method": "GET"}
        if admitted is None or scope["method"] in SAFE:
            return await self.app(scope, _replay(body, receive), send)
        return await self._audited(scope, _replay(body, receive), send, admitted.name, body)

    async def _audited(self, scope: Scope, receive: Receive, send: Send, who: str, body: bytes) -> None:
        """Answer once the request is in the audit list."""
        answer: list[Message] = []

        async def keep(message: Message) -> None:
            answer.append(message)

        await self.app(scope, receive, keep)
        entry = action(who, scope["method"], scope["path"], body, answer)
        await run_in_threadpool(self.records.audit.add, time.time(), entry, True)
        for message in answer:
            await send(message)

    def _admit(self, scope: Scope, headers: Headers) -> Caller | Response | None:
        """Return the caller, None for a public path, or the refusal."""
        access = self._access(headers)
        if access is not None:
            caller = Caller(_sender(scope) if scope["method"] not in SAFE else "token", access)
            return _may_not(scope, caller) or caller
        public = self.is_public(scope["method"], scope["path"])
        if not public and KEY not in headers:
            return self._stranger(scope)
        if refusal := _from_elsewhere(scope, headers):
            return refusal
        if public:
            return None
        session = self.records.sessions.find(headers, time.time())
        if session is None:
            return self._stranger(scope)
        caller = Caller(f"page {session.number} of {session.opened_by}", session.access, session)
        return _may_not(scope, caller) or caller

    def _access(self, headers: Headers) -> Access | None:
        """Return what the request's token allows. Every token is compared, so the time taken says nothing."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        sent = given.strip().encode("latin-1")
        found = [access for token, access in self.tokens.items() if compare_digest(sent, token.encode())]
        return found[0] if found and scheme.lower() == "bearer" else None

    def _stranger(self, scope: Scope) -> Response:
        client = scope.get("client")
        if self.refusals.note(str(client[0]) if client else "somebody", time.monotonic()):
            detail = (
                f"more than {REFUSALS_EACH_S} requests per second arrive without the token; wait, then send the token"
            )
            return problem(scope, 429, detail, headers={"Retry-After": "1", "Connection": "close"})
        return problem(
            scope,
            401,
            "send `Authorization: Bearer TOKEN`, with the word in /run/bicast-controller/api-PORT.token on the "
            "controller's machine, or in the file that controller.api.token_file names",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _wrong_type(self, scope: Scope, headers: Headers, body: bytes) -> Response | None:
        if not body or scope["method"] in SAFE:
            return None
        sent = headers.get("content-type", "")
        if sent.partition(";")[0].strip().lower() == "application/json":
            return None
        return problem(scope, 415, f"the body is of type {sent!r}; send application/json")


def _may_not(scope: Scope, caller: Caller) -> Response | None:
    """Return the refusal of a reader's request, unless it changes nothing or signs the reader out."""
    if caller.access is Access.OPERATE or scope["method"] in SAFE or scope["path"] == SESSION:
        return None
    kind = "token" if caller.session is None else "session"
    return problem(scope, 403, f"this {kind} may only read; `./bicast page` and controller.api.token_file allow more")


def _from_elsewhere(scope: Scope, headers: Headers) -> Response | None:
    """Return the refusal of a browser's request unless it comes from our own page."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if scope["scheme"] != "https" and not _is_own(host):
        detail = (
            f"this page is not at {host!r}: open it at localhost, through `ssh -L` from another machine, or set "
            "controller.api.tls"
        )
        return problem(scope, 421, detail, headers={"Connection": "close"})
    if origin is None and scope["method"] in SAFE:  # browsers send it with every other method
        return None
    if origin == f"{scope['scheme']}://{host}":
        return None
    return problem(scope, 403, f"only the page at {host} may send this request, not one from {origin or 'nowhere'!r}")


def _is_own(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _sender(scope: Scope) -> str:
    """Return the user at the other end of a loopback connection, or the other machine's address."""
    client, server = scope.get("client"), scope.get("server")
    if client is None or server is None:
        return "somebody"
    if not is_loopback(client[0]):
        return str(client[0])
    names = sorted(_user_name(each) for each in peer.owners(client, server))
    return " or ".join(names) or "a local user"


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


async def _read(headers: Headers, receive: Receive) -> bytes | None:
    """Return the body. None: it is too large, or the client has disconnected."""
    announced = headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > LARGEST_BODY_BYTES:
        return None
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        body += event.get("body", b"")
        if len(body) > LARGEST_BODY_BYTES:
            return None
        if not event.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
